//! All agents in memory, with indexes for what the loop asks every turn: which agents are due, have a running tool
//! thread, have work left over, are working. The cost of a turn depends on what is ready, not on the number of agents; so
//! every change to an agent goes through [`Roster::with`], which updates the indexes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::agent::{Agent, State};
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::team::send_queue::SendQueue;

#[derive(Default)]
pub struct Roster {
    agents: BTreeMap<AgentId, Box<Agent>>,
    births: BTreeMap<i64, AgentId>,
    /// The nearest living ancestor of each: the parent, or who adopted the orphan.
    parents: HashMap<AgentId, AgentId>,
    children: HashMap<AgentId, BTreeSet<(i64, AgentId)>>,
    due: BTreeSet<(Moment, AgentId)>,
    /// The deadline of each that has one, and why: the other way round than `due`.
    deadlines: HashMap<AgentId, (Moment, &'static str)>,
    live_tools: BTreeSet<AgentId>,
    leftover: BTreeSet<AgentId>,
    at_work: BTreeSet<AgentId>,
    busy: BTreeSet<AgentId>,
    asking: BTreeSet<AgentId>,
    send_queue: SendQueue,
    /// Who of those with work left over was served last.
    served_last: Option<AgentId>,
}

/// Why a name does not lead to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoSuchAgent {
    Unknown,
    Ambiguous(Vec<AgentId>),
}

impl Roster {
    /// Adds an agent below its nearest living ancestor.
    pub fn add(&mut self, agent: Agent, parent: Option<AgentId>) {
        let (id, ordinal) = (agent.id(), agent.identity.ordinal);
        self.births.insert(ordinal, id);
        if let Some(parent) = parent {
            self.parents.insert(id, parent);
            self.children.entry(parent).or_default().insert((ordinal, id));
        }
        self.agents.insert(id, Box::new(agent));
        self.reindex(id);
    }

    /// Adds an agent that works for the house: it takes part in the loop like any other, but nobody can list it, name it
    /// or look at it.
    pub fn add_unlisted(&mut self, agent: Agent) {
        let id = agent.id();
        self.agents.insert(id, Box::new(agent));
        self.reindex(id);
    }

    /// Takes an agent out, for good. Its children are adopted by its nearest living ancestor.
    pub fn remove(&mut self, id: AgentId) -> Option<Agent> {
        let agent = self.agents.remove(&id)?;
        let ordinal = agent.identity.ordinal;
        let parent = self.parents.remove(&id);
        if let Some(siblings) = parent.and_then(|parent| self.children.get_mut(&parent)) {
            siblings.remove(&(ordinal, id));
        }
        let orphans = self.children.remove(&id).unwrap_or_default();
        for (_, orphan) in &orphans {
            self.parents.remove(orphan);
            self.parents.extend(parent.map(|parent| (*orphan, parent)));
        }
        if let Some(parent) = parent {
            self.children.entry(parent).or_default().extend(orphans);
        }
        if self.births.get(&ordinal) == Some(&id) {
            self.births.remove(&ordinal);
        }
        self.send_queue.leave(id);
        self.unindex(id);
        Some(*agent)
    }

    /// The nearest living ancestor: the parent, or who adopted the orphan.
    pub fn parent(&self, id: AgentId) -> Option<AgentId> {
        self.parents.get(&id).copied()
    }

    /// Whether `ancestor` is above `id` in the tree of the living.
    pub fn is_ancestor(&self, ancestor: AgentId, id: AgentId) -> bool {
        std::iter::successors(self.parent(id), |id| self.parent(*id)).any(|one| one == ancestor)
    }

    /// An agent's descendants, the deepest first, then itself.
    pub fn subtree(&self, id: AgentId) -> Vec<AgentId> {
        let mut found = vec![id];
        let mut next = 0;
        while let Some(one) = found.get(next).copied() {
            found.extend(self.children(one));
            next += 1;
        }
        found.reverse();
        found
    }

    pub fn get(&self, id: AgentId) -> Option<&Agent> {
        self.agents.get(&id).map(Box::as_ref)
    }

    /// Hands one agent to `act`, and sees to it that the index knows what came of it.
    pub fn with<T>(&mut self, id: AgentId, act: impl FnOnce(&mut Agent) -> T) -> Option<T> {
        let outcome = act(self.agents.get_mut(&id)?);
        self.reindex(id);
        Some(outcome)
    }

    /// How many there are; who works for the house is not counted.
    pub fn len(&self) -> usize {
        self.births.len()
    }

    pub fn is_empty(&self) -> bool {
        self.births.is_empty()
    }

    /// All, by order of birth.
    pub fn iter(&self) -> impl Iterator<Item = &Agent> {
        self.births.values().filter_map(|id| self.get(*id))
    }

    /// All ids, by order of birth.
    pub fn ids(&self) -> Vec<AgentId> {
        self.births.values().copied().collect()
    }

    /// The `n`th by order of birth, from 0.
    pub fn nth(&self, n: usize) -> Option<AgentId> {
        self.births.values().nth(n).copied()
    }

    /// The children of an agent, oldest first.
    pub fn children(&self, id: AgentId) -> impl DoubleEndedIterator<Item = AgentId> {
        self.children.get(&id).into_iter().flatten().map(|(_, child)| *child)
    }

    /// The neighbour of an agent among its siblings, `step` to the right, around the ends.
    pub fn sibling(&self, id: AgentId, step: isize) -> Option<AgentId> {
        let parent = self.parent(id)?;
        let siblings: Vec<AgentId> = self.children(parent).collect();
        let at = siblings.iter().position(|one| *one == id)?;
        let count = isize::try_from(siblings.len()).ok()?;
        let next = (isize::try_from(at).ok()? + step).rem_euclid(count);
        siblings.get(usize::try_from(next).ok()?).copied()
    }

    /// Finds by name, whole id, or the beginning of an id (4 or more characters).
    ///
    /// # Errors
    /// When nobody or more than one is meant.
    pub fn find(&self, text: &str) -> Result<AgentId, NoSuchAgent> {
        if let Some(agent) = self.iter().find(|agent| agent.identity.name.as_deref() == Some(text)) {
            return Ok(agent.id());
        }
        if let Some(id) = text.parse().ok().filter(|id| self.agents.contains_key(id)) {
            return Ok(id);
        }
        let number = text.strip_prefix("agent ").unwrap_or(text);
        if let Some(id) = number.parse().ok().and_then(|n| self.births.get(&n)) {
            return Ok(*id);
        }
        let found: Vec<AgentId> = if text.len() < 4 {
            Vec::new()
        } else {
            self.births.values().filter(|id| id.to_string().starts_with(text)).copied().collect()
        };
        match found.as_slice() {
            [] => Err(NoSuchAgent::Unknown),
            [one] => Ok(*one),
            _ => Err(NoSuchAgent::Ambiguous(found)),
        }
    }

    /// The soonest deadline of any agent, and why.
    pub fn next_deadline(&self) -> Option<(Moment, AgentId, &'static str)> {
        let (at, id) = self.due.first()?;
        let why = self.deadlines.get(id)?.1;
        Some((*at, *id, why))
    }

    /// Those whose deadline has come, the longest overdue first, at most so many.
    pub fn due(&self, now: Moment, most: usize) -> Vec<AgentId> {
        self.due.iter().take_while(|(at, _)| *at <= now).take(most).map(|(_, id)| *id).collect()
    }

    /// Those with a living tool thread.
    pub fn with_live_tools(&self) -> &BTreeSet<AgentId> {
        &self.live_tools
    }

    /// Those with work left over from the last turn.
    pub fn with_leftover(&self) -> &BTreeSet<AgentId> {
        &self.leftover
    }

    /// At most so many of them, in turn: who was handed out comes again after all others.
    pub fn take_leftover(&mut self, most: usize) -> Vec<AgentId> {
        use std::ops::Bound::{Excluded, Unbounded};
        let after = self.served_last.map_or(Unbounded, Excluded);
        let behind = self.leftover.range((after, Unbounded));
        let taken: Vec<AgentId> = behind.chain(&self.leftover).take(most.min(self.leftover.len())).copied().collect();
        self.served_last = taken.last().copied();
        taken
    }

    /// Those that hold one of the places for agents at work.
    pub fn at_work(&self) -> &BTreeSet<AgentId> {
        &self.at_work
    }

    /// Those that are not idle.
    pub fn busy(&self) -> &BTreeSet<AgentId> {
        &self.busy
    }

    /// Those that wait for a person's decision.
    pub fn asking(&self) -> &BTreeSet<AgentId> {
        &self.asking
    }

    /// Puts an agent into the line of those who want to send, where it belongs by how long it has wanted to.
    pub fn queue_for_slot(&mut self, id: AgentId) {
        if let Some(agent) = self.agents.get(&id) {
            self.send_queue.join(id, &agent.talk.endpoint.provider, agent.wants_reply_since());
        }
    }

    /// Takes an agent out of the line: it wants to send no more.
    pub fn leave_send_queue(&mut self, id: AgentId) {
        self.send_queue.leave(id);
    }

    /// How many stand before this agent in the line.
    pub fn place_in_send_queue(&self, id: AgentId) -> Option<usize> {
        self.send_queue.place_of(id)
    }

    /// The provider for which an agent stands in line.
    pub fn stands_for(&self, id: AgentId) -> Option<&str> {
        self.send_queue.provider_queue_of(id)
    }

    /// Whether somebody stands in line for this provider.
    pub fn is_awaited(&self, provider: &str) -> bool {
        self.send_queue.has_provider_queue(provider)
    }

    /// Who is to send next, if fewer than `limit` are at work: of those whose provider is open, who has waited longest.
    pub fn next_in_line(&self, limit: usize, is_open: impl Fn(&str) -> bool) -> Option<AgentId> {
        if self.at_work.len() < limit { self.send_queue.next(is_open) } else { None }
    }

    fn unindex(&mut self, id: AgentId) {
        if let Some((at, _)) = self.deadlines.remove(&id) {
            self.due.remove(&(at, id));
        }
        for set in [&mut self.live_tools, &mut self.leftover, &mut self.at_work, &mut self.busy, &mut self.asking] {
            set.remove(&id);
        }
    }

    fn reindex(&mut self, id: AgentId) {
        let Some(agent) = self.agents.get(&id) else { return };
        let deadline = agent.deadline();
        if self.deadlines.get(&id).copied() != deadline {
            if let Some((at, _)) = self.deadlines.remove(&id) {
                self.due.remove(&(at, id));
            }
            if let Some(due) = deadline {
                self.due.insert((due.0, id));
                self.deadlines.insert(id, due);
            }
        }
        // Who talks to another provider now waits for that one.
        if self
            .send_queue
            .provider_queue_of(id)
            .is_some_and(|provider_queue| provider_queue != agent.talk.endpoint.provider)
        {
            self.send_queue.join(id, &agent.talk.endpoint.provider, agent.wants_reply_since());
        }
        keep(&mut self.live_tools, id, agent.has_live_tool());
        keep(&mut self.leftover, id, agent.has_leftover());
        keep(&mut self.at_work, id, agent.holds_slot());
        keep(&mut self.busy, id, agent.state() != State::Idle);
        keep(&mut self.asking, id, agent.state() == State::AwaitingApproval);
    }
}

fn keep(set: &mut BTreeSet<AgentId>, id: AgentId, belongs: bool) {
    if belongs {
        set.insert(id);
    } else {
        set.remove(&id);
    }
}
