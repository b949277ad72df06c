//! Counts the agents of a tree and their usage, and compares both with the limits of the tree.
//!
//! ```text
//!   root (a person's)                    a tree of its own
//!    └─ build (a person's: the top)      agents 3, depth 2
//!        ├─ scout (a model's)            agents 1     what it uses counts at scout, at build, and not at root
//!        │   └─ reader (a model's)
//!        └─ tester (a model's)
//! ```
//! A limit applies to the agent for which it was set and to everything below it. The top of a tree has the limits of
//! the nearest ancestor that has one, or else those of the configuration.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use crate::agent::Role;
use crate::base::id::AgentId;
use crate::domain::limits::{LimitName, MadeBy, SetLimit, Spent, TreeLimits};
use crate::domain::stream::Usage;
use crate::store::{StoredLimits, StoredSpent};
use crate::team::{Reached, Roster};

/// The time that `creations` looks back, in milliseconds.
pub const MINUTE: i64 = 60_000;

const OF_CREATIONS: [LimitName; 3] = [LimitName::Agents, LimitName::Depth, LimitName::Creations];
const OF_REQUESTS: [LimitName; 4] = [LimitName::Requests, LimitName::Tokens, LimitName::Usd, LimitName::Seconds];

/// Dollars of an agent, in billionths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Money {
    /// The spent amount of the agent and its tree, as far as prices are known.
    pub spent: u64,
    /// The rest of the budget; `None`: no limit.
    pub left: Option<u64>,
}

#[derive(Debug, Default)]
struct Node {
    /// Living agents of the tree below it that models made.
    agents: u64,
    own: Spent,
    /// Of itself and all below it in its tree.
    total: Spent,
    /// How long it or an agent below it worked, without the current work.
    millis: u64,
    /// How many of them work now, and since when one of them does.
    busy: u64,
    busy_since: i64,
    /// When models made the newest agents below it, the oldest first.
    creations: VecDeque<i64>,
    set: BTreeMap<LimitName, SetLimit>,
}

impl Node {
    fn forget_old_creations(&mut self, now: i64) {
        self.creations.retain(|at| is_recent(*at, now));
    }

    fn used(&self, name: LimitName, now: i64) -> u64 {
        let current = if self.busy > 0 { u64::try_from(now - self.busy_since).unwrap_or_default() } else { 0 };
        match name {
            LimitName::Agents => self.agents,
            LimitName::Depth => 0,
            LimitName::Creations => self.creations.iter().filter(|at| is_recent(**at, now)).count() as u64,
            LimitName::Requests => self.total.requests,
            LimitName::Tokens => self.total.tokens,
            LimitName::Usd => self.total.cost,
            LimitName::Seconds => self.millis.saturating_add(current),
        }
    }
}

/// A clock that was set back does not make a creation recent for ever.
fn is_recent(at: i64, now: i64) -> bool {
    (0..MINUTE).contains(&(now - at))
}

/// The limits of all trees, with what counts against them.
#[derive(Debug, Default)]
pub struct Trees {
    usual: TreeLimits,
    /// Dollars that were spent before this run of the program, where the limit counts from its start.
    usd_before: HashMap<AgentId, u64>,
    nodes: HashMap<AgentId, Node>,
    working: HashSet<AgentId>,
    /// Agents with something to store.
    changed: BTreeSet<AgentId>,
    /// The limits about which the person was asked and that were not raised since, and whether the question is open.
    asked: BTreeMap<(AgentId, LimitName), bool>,
    /// Agents whose next request is held back by a limit.
    held: BTreeMap<AgentId, Reached>,
    /// Agents whose question was refused because no person can answer.
    unattended: BTreeSet<AgentId>,
    /// A limit that ended an unattended turn.
    refused: Option<(AgentId, Reached)>,
}

impl Trees {
    /// `counts_usd_from_start`: the usual limit of dollars is one of this run of the program.
    pub fn new(
        usual: TreeLimits,
        counts_usd_from_start: bool,
        stored: StoredLimits,
        roster: &Roster,
        now: i64,
    ) -> Self {
        let mut trees = Self { usual, ..Self::default() };
        for (agent, name, limit) in stored.set {
            trees.node(agent).set.insert(name, limit);
        }
        for StoredSpent { agent, spent, millis } in stored.spent {
            let node = trees.node(agent);
            (node.own, node.total, node.millis) = (spent, spent, millis);
        }
        trees.sum(roster);
        for (agent, at) in stored.creations.into_iter().rev().filter(|(_, at)| is_recent(*at, now)) {
            path(roster, agent).into_iter().for_each(|id| trees.node(id).creations.push_back(at));
        }
        if counts_usd_from_start {
            trees.usd_before = trees.nodes.iter().map(|(id, node)| (*id, node.total.cost)).collect();
        }
        trees
    }

    /// Adds every agent to its ancestors. Children are younger than their parents.
    fn sum(&mut self, roster: &Roster) {
        for agent in roster.iter().rev().filter(|agent| !agent.identity.made_by.is_top()) {
            let (agents, total) =
                self.nodes.get(&agent.id()).map_or_else(Default::default, |node| (node.agents, node.total));
            let Some(parent) = roster.parent(agent.id()) else { continue };
            let parent = self.node(parent);
            parent.agents += agents + u64::from(agent.identity.made_by == MadeBy::Model);
            parent.total.add(total);
        }
    }

    fn node(&mut self, agent: AgentId) -> &mut Node {
        self.nodes.entry(agent).or_default()
    }

    /// The limit that applies to an agent, and from when it counts.
    pub fn limit(&self, roster: &Roster, agent: AgentId, name: LimitName) -> SetLimit {
        let set = |id: AgentId| self.nodes.get(&id)?.set.get(&name).copied();
        if let Some(own) = set(agent) {
            return own;
        }
        let mut above = std::iter::successors(roster.parent(agent), |id| roster.parent(*id));
        let usual = || {
            let before = if name == LimitName::Usd { self.usd_before.get(&agent) } else { None };
            SetLimit { most: self.usual[name], base: before.copied().unwrap_or_default() }
        };
        above.find_map(set).map_or_else(usual, |limit| SetLimit { base: 0, ..limit })
    }

    /// What counts against a limit of an agent since it was set.
    pub fn used(&self, roster: &Roster, agent: AgentId, name: LimitName, now: i64) -> u64 {
        if name == LimitName::Depth {
            return self.depth_below(roster, agent);
        }
        let used = self.nodes.get(&agent).map_or(0, |node| node.used(name, now));
        used.saturating_sub(self.limit(roster, agent, name).base)
    }

    /// For lists only: walks over the whole tree.
    fn depth_below(&self, roster: &Roster, agent: AgentId) -> u64 {
        let mut deepest = 0;
        let mut next = vec![(agent, 0)];
        while let Some((id, depth)) = next.pop() {
            deepest = deepest.max(depth);
            let made_by = |child: AgentId| roster.get(child).map_or(MadeBy::Person, |agent| agent.identity.made_by);
            let of_tree = roster.children(id).map(|child| (child, made_by(child))).filter(|(_, made)| !made.is_top());
            next.extend(of_tree.map(|(child, made)| (child, depth + u64::from(made == MadeBy::Model))));
        }
        deepest
    }

    /// The limits at this place of a path: all at the top of the tree, below it those that were set there.
    fn limit_at(&self, roster: &Roster, id: AgentId, is_top: bool, name: LimitName) -> Option<(u64, u64)> {
        let set = self.nodes.get(&id).and_then(|node| node.set.get(&name).copied());
        let limit = set.or_else(|| is_top.then(|| self.limit(roster, id, name)))?;
        limit.most.map(|most| (most, limit.base))
    }

    /// The limit that does not allow a model to make one more child of this agent.
    pub fn check_creation(&self, roster: &Roster, parent: AgentId, now: i64) -> Option<Reached> {
        let path = path(roster, parent);
        let mut generations = 0;
        for (at, id) in path.iter().enumerate() {
            let used = |name| match name {
                LimitName::Depth => generations,
                name => self.nodes.get(id).map_or(0, |node| node.used(name, now)),
            };
            let allows = |name: &LimitName| {
                let limit = self.limit_at(roster, *id, at + 1 == path.len(), *name);
                limit.is_none_or(|(most, _)| used(*name) < most)
            };
            if let Some(name) = OF_CREATIONS.into_iter().find(|name| !allows(name)) {
                let most = self.limit(roster, *id, name).most.unwrap_or_default();
                return Some(Reached { agent: *id, name, most });
            }
            generations += u64::from(made_by_model(roster, *id));
        }
        None
    }

    /// The limit that does not allow this agent one more request.
    pub fn check_request(&self, roster: &Roster, agent: AgentId, now: i64) -> Option<Reached> {
        let path = path(roster, agent);
        for (at, id) in path.iter().enumerate() {
            for name in OF_REQUESTS {
                let Some((most, base)) = self.limit_at(roster, *id, at + 1 == path.len(), name) else { continue };
                let used = self.nodes.get(id).map_or(0, |node| node.used(name, now));
                if used.saturating_sub(base) >= most {
                    return Some(Reached { agent: *id, name, most });
                }
            }
        }
        None
    }

    /// What this agent and its tree have spent, and the smallest rest of the dollar limits that apply to it.
    pub fn money(&self, roster: &Roster, agent: AgentId) -> Money {
        let path = path(roster, agent);
        let cost = |id: &AgentId| self.nodes.get(id).map_or(0, |node| node.total.cost);
        let left = |(at, id): (usize, &AgentId)| {
            let (most, base) = self.limit_at(roster, *id, at + 1 == path.len(), LimitName::Usd)?;
            Some(most.saturating_sub(cost(id).saturating_sub(base)))
        };
        Money { spent: cost(&agent), left: path.iter().enumerate().filter_map(left).min() }
    }

    /// Whether what this agent spends is limited.
    pub fn limits_money(&self, roster: &Roster, agent: AgentId) -> bool {
        let path = path(roster, agent);
        let is_limited = |(at, id): (usize, &AgentId)| self.limit_at(roster, *id, at + 1 == path.len(), LimitName::Usd);
        path.iter().enumerate().any(|place| is_limited(place).is_some())
    }

    /// A model made a child of this agent.
    pub fn on_created(&mut self, roster: &Roster, parent: AgentId, now: i64) {
        for id in path(roster, parent) {
            let node = self.node(id);
            node.agents += 1;
            node.forget_old_creations(now);
            node.creations.push_back(now);
            // Below the limit again. A place in the tree stays as deep as it is.
            for name in [LimitName::Agents, LimitName::Creations] {
                if self.asked.get(&(id, name)) == Some(&false) {
                    self.asked.remove(&(id, name));
                }
            }
        }
    }

    /// Counts a request that is not a retry.
    pub fn count_request(&mut self, roster: &Roster, agent: AgentId) {
        self.count(roster, agent, Spent { requests: 1, ..Spent::default() });
    }

    /// Counts the tokens of a request and of its reply, and their cost if it is known.
    pub fn count_usage(&mut self, roster: &Roster, agent: AgentId, usage: &Usage) {
        let tokens = usage.tokens();
        self.count(roster, agent, Spent { requests: 0, tokens, cost: usage.cost.unwrap_or_default() });
    }

    fn count(&mut self, roster: &Roster, agent: AgentId, spent: Spent) {
        let path = path(roster, agent);
        let Some(own) = path.first().copied() else { return };
        self.node(own).own.add(spent);
        self.changed.insert(own);
        path.into_iter().for_each(|id| self.node(id).total.add(spent));
    }

    pub fn on_busy(&mut self, roster: &Roster, agent: AgentId, now: i64) {
        self.refused = self.refused.filter(|(refused, _)| *refused != agent);
        self.unattended.remove(&agent);
        if self.working.insert(agent) {
            self.add_busy(&path(roster, agent), 1, now);
        }
    }

    pub fn on_idle(&mut self, roster: &Roster, agent: AgentId, now: i64) {
        self.held.remove(&agent);
        if self.working.remove(&agent) {
            self.remove_busy(&path(roster, agent), now);
        }
    }

    fn add_busy(&mut self, path: &[AgentId], count: u64, now: i64) {
        for id in path {
            let node = self.node(*id);
            if node.busy == 0 {
                node.busy_since = now;
            }
            node.busy += count;
        }
    }

    fn remove_busy(&mut self, path: &[AgentId], now: i64) {
        for id in path {
            let node = self.node(*id);
            node.busy = node.busy.saturating_sub(1);
            if node.busy == 0 {
                node.millis += u64::try_from(now - node.busy_since).unwrap_or_default();
                self.changed.insert(*id);
            }
        }
    }

    /// An agent is about to be removed; its parent adopts its children. Its usage stays with the tree.
    pub fn on_removed(&mut self, roster: &Roster, agent: AgentId, now: i64) {
        self.on_idle(roster, agent, now);
        let made_by = roster.get(agent).map_or(MadeBy::Person, |agent| agent.identity.made_by);
        let node = self.forget(agent);
        let Some(parent) = roster.parent(agent) else { return };
        if made_by.is_top() {
            let Some(node) = node else { return };
            let path = path(roster, parent);
            for id in &path {
                let above = self.node(*id);
                above.agents += node.agents;
                above.total.add(node.total.without(node.own));
            }
            if node.busy > 0 {
                self.add_busy(&path, node.busy, now);
            }
            return;
        }
        if made_by == MadeBy::Model {
            path(roster, parent).into_iter().for_each(|id| {
                let above = self.node(id);
                above.agents = above.agents.saturating_sub(1);
            });
        }
        if let Some(node) = node {
            self.node(parent).own.add(node.own);
            self.changed.insert(parent);
        }
    }

    /// A removed agent is below its parent again, with these limits. Its usage has stayed with the tree.
    pub fn on_restored(&mut self, roster: &Roster, agent: AgentId, set: Vec<(LimitName, SetLimit)>) {
        // A budget begins again.
        let set = set.into_iter().map(|(name, limit)| (name, SetLimit { base: 0, ..limit }));
        self.node(agent).set.extend(set);
        if let Some(parent) = roster.parent(agent).filter(|_| made_by_model(roster, agent)) {
            path(roster, parent).into_iter().for_each(|id| self.node(id).agents += 1);
        }
    }

    fn forget(&mut self, agent: AgentId) -> Option<Node> {
        self.working.remove(&agent);
        self.changed.remove(&agent);
        self.held.remove(&agent);
        self.unattended.remove(&agent);
        let of_agent = (agent, LimitName::ALL[0])..=(agent, LimitName::ALL[LimitName::ALL.len() - 1]);
        self.asked.extract_if(of_agent, |_, _| true).for_each(drop);
        self.nodes.remove(&agent)
    }

    /// Sets or removes a limit of an agent. The person is asked again when it is reached.
    pub fn set(&mut self, agent: AgentId, name: LimitName, limit: Option<SetLimit>) {
        self.asked.retain(|(_, asked), _| *asked != name);
        let node = self.node(agent);
        match limit {
            Some(limit) => drop(node.set.insert(name, limit)),
            None => drop(node.set.remove(&name)),
        }
    }

    /// The limit that a person sets by typing this value: dollars count from the beginning, another budget from now on.
    pub fn typed(&self, agent: AgentId, name: LimitName, most: Option<u64>, now: i64) -> SetLimit {
        let used = self.nodes.get(&agent).map_or(0, |node| node.used(name, now));
        SetLimit { most, base: if name.is_budget() && name != LimitName::Usd { used } else { 0 } }
    }

    /// Twice the limit that was reached.
    pub fn raised_limit(&self, roster: &Roster, reached: &Reached) -> SetLimit {
        let limit = self.limit(roster, reached.agent, reached.name);
        SetLimit { most: limit.most.map(|most| most.saturating_mul(2).max(1)), ..limit }
    }

    /// Whether the person has to be asked about this limit now; later calls for the same limit return false.
    pub fn begin_to_ask(&mut self, reached: &Reached) -> bool {
        let is_new = !self.asked.contains_key(&(reached.agent, reached.name));
        if is_new {
            self.asked.insert((reached.agent, reached.name), true);
        }
        is_new
    }

    /// The person has answered.
    pub fn close_question(&mut self, reached: &Reached) {
        if let Some(is_open) = self.asked.get_mut(&(reached.agent, reached.name)) {
            *is_open = false;
        }
    }

    /// The question was withdrawn: the person is asked again when the limit is reached again.
    pub fn forget_question(&mut self, reached: &Reached) {
        self.asked.remove(&(reached.agent, reached.name));
    }

    /// Holds the next request of this agent back.
    pub fn hold(&mut self, agent: AgentId, reached: Reached) {
        self.held.insert(agent, reached);
    }

    /// The limit that holds an agent back.
    pub fn held(&self, agent: AgentId) -> Option<Reached> {
        self.held.get(&agent).copied()
    }

    /// The agents that are held back, with their limits.
    pub fn all_held(&self) -> impl Iterator<Item = (AgentId, Reached)> {
        self.held.iter().map(|(agent, reached)| (*agent, *reached))
    }

    /// Takes the agents that are no longer held back.
    pub fn take_released(&mut self, roster: &Roster, now: i64) -> Vec<AgentId> {
        let is_free = |id: &AgentId| self.check_request(roster, *id, now).is_none();
        let free: Vec<AgentId> = self.held.keys().copied().filter(is_free).collect();
        self.held.retain(|id, _| !free.contains(id));
        free
    }

    /// The question of this agent is refused because no person can answer.
    pub fn note_unattended(&mut self, agent: AgentId) {
        self.unattended.insert(agent);
    }

    /// The question of an agent about this limit was refused.
    pub fn on_refused(&mut self, agent: AgentId, reached: Reached) {
        if self.unattended.remove(&agent) {
            self.refused = Some((agent, reached));
        }
    }

    /// A limit that ended an unattended turn, or that holds an agent back, among the agents that `concerns` selects.
    pub fn reached(&self, concerns: impl Fn(AgentId) -> bool) -> Option<Reached> {
        let all = self.refused.into_iter().chain(self.held.iter().map(|(agent, reached)| (*agent, *reached)));
        all.filter(|(agent, _)| concerns(*agent)).map(|(_, reached)| reached).next()
    }

    /// Takes the values to store.
    pub fn take_changed(&mut self) -> Vec<StoredSpent> {
        let changed = std::mem::take(&mut self.changed);
        let stored = |agent: AgentId| {
            let node = self.nodes.get(&agent)?;
            Some(StoredSpent { agent, spent: node.own, millis: node.millis })
        };
        changed.into_iter().filter_map(stored).collect()
    }
}

fn made_by_model(roster: &Roster, id: AgentId) -> bool {
    roster.get(id).is_some_and(|agent| agent.identity.made_by == MadeBy::Model)
}

/// An agent and those above it up to the top of its tree. A summary agent counts as the agent for which it writes.
pub fn path(roster: &Roster, agent: AgentId) -> Vec<AgentId> {
    let first = match roster.get(agent) {
        Some(writer) if writer.role == Role::Summary => writer.identity.parent,
        _ => Some(agent),
    };
    let above = |id: &AgentId| roster.parent(*id).filter(|_| !is_top(roster, *id));
    std::iter::successors(first, above).collect()
}

/// Whether an agent is another one, or was made below that by models. Conversations below the root are not part of its tree.
pub fn is_in_tree(roster: &Roster, top: AgentId, agent: AgentId) -> bool {
    path(roster, agent).contains(&top)
}

/// The agents at work in the tree of an agent.
pub fn busy_in_tree(roster: &Roster, top: AgentId) -> Vec<AgentId> {
    roster.busy().iter().copied().filter(|agent| is_in_tree(roster, top, *agent)).collect()
}

fn is_top(roster: &Roster, id: AgentId) -> bool {
    roster.get(id).is_none_or(|agent| agent.identity.made_by.is_top())
}
