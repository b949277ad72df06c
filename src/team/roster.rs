//! All agents in memory, with indexes for the questions of every turn: which agents are due, have a running tool
//! thread, have work left over, are working. The cost of a turn depends on what is ready, not on the number of agents,
//! so every change to an agent goes through [`Roster::with`], which updates the indexes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use crate::agent::{Agent, PendingQuestion, State};
use crate::base::clock::Moment;
use crate::base::id::{AgentId, AgentMap};
use crate::domain::called::{Found, Known, find_called, number_in, unquoted};
use crate::domain::title;
use crate::store::Store;

#[derive(Default)]
pub struct Roster {
    agents: AgentMap<Member>,
    by_ordinal: BTreeMap<i64, AgentId>,
    by_number: BTreeMap<i64, AgentId>,
    /// The nearest living ancestor of each agent.
    parents: AgentMap<AgentId>,
    /// Without conversations that were begun, and what was forked from those that are gone.
    children: AgentMap<BTreeSet<(i64, AgentId)>>,
    /// Agents that were forked from a begun conversation that is gone.
    tops: BTreeSet<AgentId>,
    due: BTreeSet<(Moment, AgentId)>,
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
    /// The agents in git worktrees of ours.
    in_worktrees: BTreeSet<AgentId>,
    named: BTreeSet<AgentId>,
    /// The agent of `leftover` that was served last.
    served_last: Option<AgentId>,
}

struct Member {
    agent: Box<Agent>,
    indexed: Indexed,
}

impl Member {
    fn new(agent: Agent) -> Self {
        Self { agent: Box::new(agent), indexed: Indexed::default() }
    }
}

/// What the indexes say of an agent: they are changed only where this changes, because every chunk of a reply asks.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Indexed {
    deadline: Option<(Moment, &'static str)>,
    tool_wait: Option<Moment>,
    /// Membership in each of [`Roster::sets`].
    sets: [bool; 8],
}

impl Indexed {
    fn of(agent: &Agent) -> Self {
        let state = agent.state();
        Self {
            deadline: agent.deadline(),
            tool_wait: agent.waits_for_tool_slot_since(),
            sets: [
                agent.has_live_tool(),
                agent.background_commands() > 0,
                agent.has_leftover(),
                agent.holds_slot(),
                state != State::Idle,
                state == State::AwaitingApproval,
                agent.inputs.environment.worktree.is_some(),
                agent.identity.name.is_some(),
            ],
        }
    }
}

impl Roster {
    /// Adds an agent below its nearest living ancestor.
    pub fn add(&mut self, agent: Agent, parent: Option<AgentId>) {
        self.add_at(agent, parent, false);
    }

    /// The same. `is_top`: it was forked from a begun conversation that is gone.
    pub fn add_at(&mut self, agent: Agent, parent: Option<AgentId>, is_top: bool) {
        let (id, ordinal) = (agent.id(), agent.identity.ordinal);
        self.by_ordinal.insert(ordinal, id);
        self.by_number.extend(agent.identity.number().map(|number| (number, id)));
        if let Some(parent) = parent {
            self.parents.insert(id, parent);
            if is_top {
                self.tops.insert(id);
            } else if !agent.identity.is_begun {
                self.children.entry(parent).or_default().insert((ordinal, id));
            }
        }
        self.insert(id, agent);
    }

    /// Adds an internal agent: the loop serves it like any other, but it cannot be listed, named or viewed.
    pub fn add_unlisted(&mut self, agent: Agent) {
        let id = agent.id();
        self.insert(id, agent);
    }

    /// Removes an agent. Its children are adopted by its nearest living ancestor.
    pub fn remove(&mut self, id: AgentId) -> Option<Agent> {
        let Member { agent, indexed } = self.agents.remove(&id)?;
        let ordinal = agent.identity.ordinal;
        let parent = self.parents.remove(&id);
        if let Some(siblings) = parent.and_then(|parent| self.children.get_mut(&parent)) {
            siblings.remove(&(ordinal, id));
        }
        let is_top = self.tops.remove(&id) || agent.identity.is_begun;
        let orphans = self.children.remove(&id).unwrap_or_default();
        self.tops.extend(orphans.iter().filter(|_| is_top).map(|(_, orphan)| *orphan));
        for (_, orphan) in &orphans {
            self.parents.remove(orphan);
            self.parents.extend(parent.map(|parent| (*orphan, parent)));
        }
        if let Some(parent) = parent.filter(|_| !is_top) {
            self.children.entry(parent).or_default().extend(orphans);
        }
        if self.by_ordinal.get(&ordinal) == Some(&id) {
            self.by_ordinal.remove(&ordinal);
        }
        agent.identity.number().map(|number| self.by_number.remove(&number));
        self.index(id, indexed, Indexed::default());
        Some(*agent)
    }

    /// The nearest living ancestor: the parent, or the agent that adopted this one.
    pub fn parent(&self, id: AgentId) -> Option<AgentId> {
        self.parents.get(&id).copied()
    }

    /// The agent below which an agent is; `None` for a conversation that was begun, which is only stored below the root.
    pub fn shown_parent(&self, id: AgentId) -> Option<AgentId> {
        let is_child = |agent: &Agent| agent.identity.has_parent() && !self.tops.contains(&id);
        self.parent(id).filter(|_| self.get(id).is_some_and(is_child))
    }

    /// Whether `ancestor` is above `id` in the tree of living agents. A conversation that was begun is below none.
    pub fn is_ancestor(&self, ancestor: AgentId, id: AgentId) -> bool {
        std::iter::successors(self.shown_parent(id), |id| self.shown_parent(*id)).any(|id| id == ancestor)
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
        self.agents.get(&id).map(|member| &*member.agent)
    }

    /// Calls `act` with this agent, then updates the indexes.
    pub fn with<T>(&mut self, id: AgentId, act: impl FnOnce(&mut Agent) -> T) -> Option<T> {
        let outcome = act(&mut self.agents.get_mut(&id)?.agent);
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

    /// Agents that are made from now on have higher ordinals.
    pub fn newest_ordinal(&self) -> i64 {
        self.by_ordinal.last_key_value().map_or(0, |(ordinal, _)| *ordinal)
    }

    /// The `n`th oldest agent, from 0.
    pub fn nth(&self, n: usize) -> Option<AgentId> {
        self.by_ordinal.values().nth(n).copied()
    }

    pub fn agent_with_number(&self, number: i64) -> Option<AgentId> {
        let id = self.by_number.get(&number)?;
        self.get(*id).filter(|agent| agent.identity.number() == Some(number)).map(Agent::id)
    }

    /// The children of an agent, oldest first. A conversation that was begun is the child of none.
    pub fn children(&self, id: AgentId) -> impl DoubleEndedIterator<Item = AgentId> {
        self.children.get(&id).into_iter().flatten().map(|(_, child)| *child)
    }

    /// The agents that are shown below this one, or at the top, oldest first.
    pub fn shown_below(&self, parent: Option<AgentId>) -> Vec<AgentId> {
        match parent {
            Some(parent) => self.children(parent).collect(),
            None => self.ids().into_iter().filter(|id| self.shown_parent(*id).is_none()).collect(),
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
        let meant = self.called_exactly(unquoted(text));
        // It may be the beginning of an id.
        let among = if meant.is_empty() { self.iter().collect() } else { meant };
        let known = among.into_iter().map(|Agent { identity, .. }| Known {
            id: identity.id,
            number: identity.number(),
            name: identity.name.as_deref(),
        });
        find_called(&known.collect::<Vec<_>>(), text)
    }

    /// The agents with this name, id or number, oldest first.
    fn called_exactly(&self, text: &str) -> Vec<&Agent> {
        let is_named = |id: &AgentId| self.get(*id).is_some_and(|agent| agent.identity.name.as_deref() == Some(text));
        let by_name = self.named.iter().copied().filter(is_named);
        let by_number = number_in(text).and_then(|number| self.agent_with_number(number));
        self.listed(by_name.chain(text.parse()).chain(by_number))
    }

    /// The agents with a name, oldest first.
    pub fn named(&self) -> Vec<&Agent> {
        self.listed(self.named.iter().copied())
    }

    /// Those of these agents that are not internal, each once, oldest first.
    fn listed(&self, ids: impl Iterator<Item = AgentId>) -> Vec<&Agent> {
        let mut agents: Vec<&Agent> = ids.filter_map(|id| self.get(id)).collect();
        agents.retain(|agent| self.by_ordinal.get(&agent.identity.ordinal) == Some(&agent.id()));
        agents.sort_by_key(|agent| agent.identity.ordinal);
        agents.dedup_by_key(|agent| agent.id());
        agents
    }

    /// The earliest deadline of any agent, and its reason.
    pub fn next_deadline(&self) -> Option<(Moment, AgentId, &'static str)> {
        let (at, id) = self.due.first()?;
        let (_, why) = self.agents.get(id)?.indexed.deadline?;
        Some((*at, *id, why))
    }

    /// All deadlines of all agents, with their reasons.
    pub fn deadlines(&self) -> impl Iterator<Item = (Moment, AgentId, &'static str)> {
        let agents = self.due.iter().filter_map(|(_, id)| self.get(*id));
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

    /// The agents in git worktrees of ours.
    pub fn in_worktrees(&self) -> &BTreeSet<AgentId> {
        &self.in_worktrees
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
        let ordinal = self.get(id).map_or(i64::MAX, |agent| agent.identity.ordinal);
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

    fn insert(&mut self, id: AgentId, agent: Agent) {
        if let Some(replaced) = self.agents.insert(id, Member::new(agent)) {
            self.index(id, replaced.indexed, Indexed::default());
        }
        self.reindex(id);
    }

    fn reindex(&mut self, id: AgentId) {
        let Some(member) = self.agents.get_mut(&id) else { return };
        let now = Indexed::of(&member.agent);
        let before = std::mem::replace(&mut member.indexed, now);
        if before != now {
            self.index(id, before, now);
        }
    }

    fn index(&mut self, id: AgentId, before: Indexed, now: Indexed) {
        move_in(&mut self.due, id, before.deadline.map(|(at, _)| at), now.deadline.map(|(at, _)| at));
        move_in(&mut self.tool_queue, id, before.tool_wait, now.tool_wait);
        for (at, set) in self.sets().into_iter().enumerate() {
            match (before.sets[at], now.sets[at]) {
                (false, true) => drop(set.insert(id)),
                (true, false) => drop(set.remove(&id)),
                _ => {}
            }
        }
    }

    /// In the order of [`Indexed::sets`].
    fn sets(&mut self) -> [&mut BTreeSet<AgentId>; 8] {
        let Self { live_tools, background, leftover, at_work, busy, asking, in_worktrees, named, .. } = self;
        [live_tools, background, leftover, at_work, busy, asking, in_worktrees, named]
    }
}

fn move_in(queue: &mut BTreeSet<(Moment, AgentId)>, id: AgentId, before: Option<Moment>, now: Option<Moment>) {
    if before != now {
        before.map(|at| queue.remove(&(at, id)));
        queue.extend(now.map(|at| (at, id)));
    }
}
