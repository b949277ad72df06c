//! Everybody who is alive, with an index for each question that the loop asks once per turn: who is due, who has a
//! living tool thread, who has work left over, who is at work. A turn costs what is ready, not what exists; so every
//! change to an agent goes through [`Roster::with`], which brings the index up to date.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::agent::{Agent, State};
use crate::base::clock::Moment;
use crate::base::id::AgentId;

/// The living agents.
#[derive(Default)]
pub struct Roster {
    agents: BTreeMap<AgentId, Box<Agent>>,
    /// By order of birth.
    births: BTreeMap<i64, AgentId>,
    children: HashMap<AgentId, BTreeSet<(i64, AgentId)>>,
    due: BTreeSet<(Moment, AgentId)>,
    index: HashMap<AgentId, Entry>,
    live_tools: BTreeSet<AgentId>,
    leftover: BTreeSet<AgentId>,
    at_work: BTreeSet<AgentId>,
    busy: BTreeSet<AgentId>,
    asking: BTreeSet<AgentId>,
    line: VecDeque<AgentId>,
}

/// What the index holds of one agent.
#[derive(Default, Clone, Copy, PartialEq)]
struct Entry {
    deadline: Option<(Moment, &'static str)>,
}

/// Why a name does not lead to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoSuchAgent {
    /// Nobody is called that.
    Unknown,
    /// Several are: these.
    Ambiguous(Vec<AgentId>),
}

impl Roster {
    /// Adds an agent.
    pub fn add(&mut self, agent: Agent) {
        let identity = &agent.identity;
        let id = identity.id;
        self.births.insert(identity.ordinal, id);
        if let Some(parent) = identity.parent {
            self.children.entry(parent).or_default().insert((identity.ordinal, id));
        }
        self.agents.insert(id, Box::new(agent));
        self.reindex(id);
    }

    /// An agent to look at.
    pub fn get(&self, id: AgentId) -> Option<&Agent> {
        self.agents.get(&id).map(Box::as_ref)
    }

    /// Hands one agent to `act`, and sees to it that the index knows what came of it.
    pub fn with<T>(&mut self, id: AgentId, act: impl FnOnce(&mut Agent) -> T) -> Option<T> {
        let outcome = act(self.agents.get_mut(&id)?);
        self.reindex(id);
        Some(outcome)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.agents.len()
    }

    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
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
        let parent = self.get(id)?.identity.parent?;
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
        if let Some(agent) = self.agents.values().find(|agent| agent.identity.name.as_deref() == Some(text)) {
            return Ok(agent.id());
        }
        if let Some(id) = text.parse().ok().filter(|id| self.agents.contains_key(id)) {
            return Ok(id);
        }
        if let Some(id) = text.parse().ok().and_then(|n| self.births.get(&n)) {
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
        let why = self.index.get(id)?.deadline?.1;
        Some((*at, *id, why))
    }

    /// Those whose deadline has come.
    pub fn due(&self, now: Moment) -> Vec<AgentId> {
        self.due.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect()
    }

    /// Those with a living tool thread.
    pub fn with_live_tools(&self) -> &BTreeSet<AgentId> {
        &self.live_tools
    }

    /// Those with work left over from the last turn.
    pub fn with_leftover(&self) -> &BTreeSet<AgentId> {
        &self.leftover
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

    /// Puts an agent at the end of the line for a place.
    pub fn queue_for_place(&mut self, id: AgentId) {
        if !self.line.contains(&id) {
            self.line.push_back(id);
        }
    }

    /// Takes an agent out of the line: it wants no place any more.
    pub fn leave_line(&mut self, id: AgentId) {
        self.line.retain(|one| *one != id);
    }

    /// How many stand before this agent in the line for a place.
    pub fn place_in_line(&self, id: AgentId) -> Option<usize> {
        self.line.iter().position(|one| *one == id)
    }

    /// The next in line, if fewer than `limit` (0: no limit) are at work.
    pub fn take_next_in_line(&mut self, limit: usize) -> Option<AgentId> {
        if limit != 0 && self.at_work.len() >= limit {
            return None;
        }
        self.line.pop_front()
    }

    fn reindex(&mut self, id: AgentId) {
        let Some(agent) = self.agents.get(&id) else { return };
        let deadline = agent.deadline();
        let entry = self.index.entry(id).or_default();
        if entry.deadline != deadline {
            if let Some((at, _)) = entry.deadline {
                self.due.remove(&(at, id));
            }
            if let Some((at, _)) = deadline {
                self.due.insert((at, id));
            }
            entry.deadline = deadline;
        }
        keep(&mut self.live_tools, id, agent.has_live_tool());
        keep(&mut self.leftover, id, agent.has_leftover());
        keep(&mut self.at_work, id, agent.holds_place());
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
