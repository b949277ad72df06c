//! All agents in memory, with indexes for the questions of every turn: which agents are due, have a running tool
//! thread, have work left over, are working. The cost of a turn depends on what is ready, not on the number of agents,
//! so every change to an agent goes through [`Roster::with`], which updates the indexes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;

use crate::agent::{Agent, PendingQuestion, State};
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::domain::called::{Found, Known, find_called};
use crate::domain::title;
use crate::store::Store;

#[derive(Default)]
pub struct Roster {
    agents: BTreeMap<AgentId, Box<Agent>>,
    by_ordinal: BTreeMap<i64, AgentId>,
    by_number: BTreeMap<i64, AgentId>,
    /// The nearest living ancestor of each agent.
    parents: HashMap<AgentId, AgentId>,
    children: HashMap<AgentId, BTreeSet<(i64, AgentId)>>,
    due: BTreeSet<(Moment, AgentId)>,
    /// The deadline of each agent that has one, and its reason: the inverse of `due`.
    deadlines: HashMap<AgentId, (Moment, &'static str)>,
    live_tools: BTreeSet<AgentId>,
    /// When tools were last looked at.
    tools_polled_at: Option<Moment>,
    background: BTreeSet<AgentId>,
    leftover: BTreeSet<AgentId>,
    at_work: BTreeSet<AgentId>,
    busy: BTreeSet<AgentId>,
    asking: BTreeSet<AgentId>,
    /// The agents that wait for a slot to start a tool, the longest wait first.
    tool_queue: BTreeSet<(Moment, AgentId)>,
    /// Since when each of them waits: the inverse of `tool_queue`.
    tool_waits: HashMap<AgentId, Moment>,
    /// The agent of `leftover` that was served last.
    served_last: Option<AgentId>,
}

impl Roster {
    /// Adds an agent below its nearest living ancestor.
    pub fn add(&mut self, agent: Agent, parent: Option<AgentId>) {
        let (id, ordinal) = (agent.id(), agent.identity.ordinal);
        self.by_ordinal.insert(ordinal, id);
        self.by_number.extend(agent.identity.number().map(|number| (number, id)));
        if let Some(parent) = parent {
            self.parents.insert(id, parent);
            self.children.entry(parent).or_default().insert((ordinal, id));
        }
        self.agents.insert(id, Box::new(agent));
        self.reindex(id);
    }

    /// Adds an internal agent: the loop serves it like any other, but it cannot be listed, named or viewed.
    pub fn add_unlisted(&mut self, agent: Agent) {
        let id = agent.id();
        self.agents.insert(id, Box::new(agent));
        self.reindex(id);
    }

    /// Removes an agent. Its children are adopted by its nearest living ancestor.
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
        if self.by_ordinal.get(&ordinal) == Some(&id) {
            self.by_ordinal.remove(&ordinal);
        }
        agent.identity.number().map(|number| self.by_number.remove(&number));
        self.unindex(id);
        Some(*agent)
    }

    /// The nearest living ancestor: the parent, or the agent that adopted this one.
    pub fn parent(&self, id: AgentId) -> Option<AgentId> {
        self.parents.get(&id).copied()
    }

    /// The agent below which an agent is shown; `None` for a conversation that was begun.
    pub fn shown_parent(&self, id: AgentId) -> Option<AgentId> {
        self.parent(id).filter(|_| self.get(id).is_some_and(|agent| agent.identity.has_parent()))
    }

    /// Whether `ancestor` is above `id` in the tree of living agents.
    pub fn is_ancestor(&self, ancestor: AgentId, id: AgentId) -> bool {
        std::iter::successors(self.parent(id), |id| self.parent(*id)).any(|id| id == ancestor)
    }

    /// An agent's descendants, the deepest first, then itself.
    pub fn subtree(&self, id: AgentId) -> Vec<AgentId> {
        let mut found = vec![id];
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            found.extend(self.children(parent));
            next += 1;
        }
        found.reverse();
        found
    }

    /// The same agents, oldest first: the order of their rows in the store, where neighbours are changed fastest.
    pub fn by_creation(&self, agents: &[AgentId]) -> Vec<AgentId> {
        let mut agents = agents.to_vec();
        agents.sort_by_key(|id| self.get(*id).map(|agent| agent.identity.ordinal));
        agents
    }

    pub fn get(&self, id: AgentId) -> Option<&Agent> {
        self.agents.get(&id).map(Box::as_ref)
    }

    /// Calls `act` with this agent, then updates the indexes.
    pub fn with<T>(&mut self, id: AgentId, act: impl FnOnce(&mut Agent) -> T) -> Option<T> {
        let outcome = act(self.agents.get_mut(&id)?);
        self.reindex(id);
        Some(outcome)
    }

    /// The label of an agent; its id if it is not in memory.
    pub fn label_of(&self, id: AgentId) -> String {
        self.get(id).map_or_else(|| id.to_string(), |agent| agent.identity.label())
    }

    /// What an agent, which may have been killed, is about: for a commit of its work.
    pub fn commit_subject(&self, store: &Store, id: AgentId) -> String {
        let subject = store.conversation(id).map(|(said, _)| title::subject(&said)).unwrap_or_default();
        if subject.is_empty() { self.label_of(id) } else { subject }
    }

    /// The agents that work in a git worktree of ours.
    pub fn in_worktree(&self, root: &Path) -> impl Iterator<Item = &Agent> {
        self.iter().filter(move |agent| agent.inputs.environment.worktree.as_deref() == Some(root))
    }

    /// The number of agents, without internal ones.
    pub fn len(&self) -> usize {
        self.by_ordinal.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_ordinal.is_empty()
    }

    /// All agents without internal ones, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Agent> + Clone {
        self.by_ordinal.values().filter_map(|id| self.get(*id))
    }

    pub fn ids(&self) -> Vec<AgentId> {
        self.by_ordinal.values().copied().collect()
    }

    /// The `n`th oldest agent, from 0.
    pub fn nth(&self, n: usize) -> Option<AgentId> {
        self.by_ordinal.values().nth(n).copied()
    }

    pub fn agent_with_number(&self, number: i64) -> Option<AgentId> {
        let id = self.by_number.get(&number)?;
        self.get(*id).filter(|agent| agent.identity.number() == Some(number)).map(Agent::id)
    }

    /// The children of an agent, oldest first.
    pub fn children(&self, id: AgentId) -> impl DoubleEndedIterator<Item = AgentId> {
        self.children.get(&id).into_iter().flatten().map(|(_, child)| *child)
    }

    /// The agents that are shown below this one, or at the top, oldest first.
    pub fn shown_below(&self, parent: Option<AgentId>) -> Vec<AgentId> {
        let is_below = |id: &AgentId| self.shown_parent(*id) == parent;
        match parent {
            Some(parent) => self.children(parent).filter(is_below).collect(),
            None => self.ids().into_iter().filter(is_below).collect(),
        }
    }

    /// The neighbour of an agent among its siblings, `step` to the right, around the ends.
    pub fn sibling(&self, id: AgentId, step: isize) -> Option<AgentId> {
        let siblings = self.shown_below(self.shown_parent(id));
        let at = siblings.iter().position(|sibling| *sibling == id)?;
        let count = isize::try_from(siblings.len()).ok()?;
        let next = (isize::try_from(at).ok()? + step).rem_euclid(count);
        siblings.get(usize::try_from(next).ok()?).copied()
    }

    /// Finds an agent by name, number or id.
    pub fn find(&self, text: &str) -> Found {
        let known = self.iter().map(|Agent { identity, .. }| Known {
            id: identity.id,
            number: identity.number(),
            name: identity.name.as_deref(),
        });
        find_called(&known.collect::<Vec<_>>(), text)
    }

    /// The earliest deadline of any agent, and its reason.
    pub fn next_deadline(&self) -> Option<(Moment, AgentId, &'static str)> {
        let (at, id) = self.due.first()?;
        let why = self.deadlines.get(id)?.1;
        Some((*at, *id, why))
    }

    /// All deadlines of all agents, with their reasons.
    pub fn deadlines(&self) -> impl Iterator<Item = (Moment, AgentId, &'static str)> {
        let agents = self.due.iter().filter_map(|(_, id)| self.agents.get(id));
        agents.flat_map(|agent| agent.deadlines().map(|(at, why)| (at, agent.id(), why)))
    }

    /// At most `most` agents whose deadline has passed, the longest overdue first.
    pub fn due(&self, now: Moment, most: usize) -> Vec<AgentId> {
        self.due.iter().take_while(|(at, _)| *at <= now).take(most).map(|(_, id)| *id).collect()
    }

    /// The agents with a running tool thread.
    pub fn with_live_tools(&self) -> &BTreeSet<AgentId> {
        &self.live_tools
    }

    /// The agents with a command in the background.
    pub fn with_background(&self) -> &BTreeSet<AgentId> {
        &self.background
    }

    /// The agents with a tool thread or a command in the background, if it is time to look at them: a tool has woken the loop,
    /// or the last look was `span` ago, because a wake can be lost.
    pub fn take_tools_due(&mut self, is_woken: bool, now: Moment, span: Duration) -> Vec<AgentId> {
        if !is_woken && self.tools_polled_at.is_some_and(|at| now - at < span) {
            return Vec::new();
        }
        self.tools_polled_at = Some(now);
        self.live_tools.union(&self.background).copied().collect()
    }

    /// The agents with work left from the last turn.
    pub fn with_leftover(&self) -> &BTreeSet<AgentId> {
        &self.leftover
    }

    /// At most `most` of these agents, round-robin.
    pub fn take_leftover(&mut self, most: usize) -> Vec<AgentId> {
        use std::ops::Bound::{Excluded, Unbounded};
        let after = self.served_last.map_or(Unbounded, Excluded);
        let following = self.leftover.range((after, Unbounded));
        let taken: Vec<AgentId> =
            following.chain(&self.leftover).take(most.min(self.leftover.len())).copied().collect();
        self.served_last = taken.last().copied();
        taken
    }

    /// By what agents are served in a turn: their order in the roster, unlisted ones last.
    pub fn place(&self, id: AgentId) -> (bool, i64, AgentId) {
        let ordinal = self.agents.get(&id).map_or(i64::MAX, |agent| agent.identity.ordinal);
        (self.by_ordinal.get(&ordinal) != Some(&id), ordinal, id)
    }

    /// These agents in that order.
    pub fn in_order(&self, agents: impl IntoIterator<Item = AgentId>) -> Vec<AgentId> {
        let mut agents: Vec<AgentId> = agents.into_iter().collect();
        agents.sort_by_cached_key(|id| self.place(*id));
        agents
    }

    /// The agents that hold a slot.
    pub fn at_work(&self) -> &BTreeSet<AgentId> {
        &self.at_work
    }

    pub fn busy(&self) -> &BTreeSet<AgentId> {
        &self.busy
    }

    /// The agents that wait for an approval.
    pub fn asking(&self) -> &BTreeSet<AgentId> {
        &self.asking
    }

    /// The open questions, each with its agent.
    pub fn questions(&self) -> impl Iterator<Item = (&Agent, &PendingQuestion)> {
        self.asking.iter().filter_map(|id| self.get(*id)).filter_map(|agent| Some((agent, agent.question()?)))
    }

    /// The agent that starts a tool next, if fewer than `limit` hold a slot.
    pub fn next_to_start_tool(&self, limit: usize) -> Option<AgentId> {
        let (_, id) = self.tool_queue.first().filter(|_| self.at_work.len() < limit)?;
        Some(*id)
    }

    fn unindex(&mut self, id: AgentId) {
        self.index_tool_wait(id, None);
        if let Some((at, _)) = self.deadlines.remove(&id) {
            self.due.remove(&(at, id));
        }
        let Self { live_tools, background, leftover, at_work, busy, asking, .. } = self;
        for set in [live_tools, background, leftover, at_work, busy, asking] {
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
        let tool_wait = agent.waits_for_tool_slot_since();
        set_member(&mut self.live_tools, id, agent.has_live_tool());
        set_member(&mut self.background, id, agent.background_commands() > 0);
        set_member(&mut self.leftover, id, agent.has_leftover());
        set_member(&mut self.at_work, id, agent.holds_slot());
        set_member(&mut self.busy, id, agent.state() != State::Idle);
        set_member(&mut self.asking, id, agent.state() == State::AwaitingApproval);
        self.index_tool_wait(id, tool_wait);
    }

    fn index_tool_wait(&mut self, id: AgentId, since: Option<Moment>) {
        if let Some(before) = self.tool_waits.remove(&id) {
            self.tool_queue.remove(&(before, id));
        }
        if let Some(since) = since {
            self.tool_queue.insert((since, id));
            self.tool_waits.insert(id, since);
        }
    }
}

fn set_member(set: &mut BTreeSet<AgentId>, id: AgentId, is_member: bool) {
    if is_member {
        set.insert(id);
    } else {
        set.remove(&id);
    }
}
