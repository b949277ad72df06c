//! Limits the requests to models in a turn: those of its agent and of all below it. Retries are not counted.

use std::collections::BTreeMap;

use crate::base::id::AgentId;
use crate::team::Roster;
use crate::team::trees::path;

#[derive(Debug, Default)]
pub struct RequestLimits {
    turns: BTreeMap<AgentId, TurnLimit>,
}

#[derive(Debug)]
struct TurnLimit {
    most: Option<u32>,
    requests: u32,
}

impl RequestLimits {
    /// Counts the requests of this agent's turn; `most` limits them, with those that were counted since the turn before it.
    pub fn begin_turn(&mut self, agent: AgentId, most: Option<u32>) {
        self.turns.entry(agent).or_insert(TurnLimit { most, requests: 0 }).most = most;
    }

    /// Ends the count for a turn and returns it.
    pub fn end_turn(&mut self, agent: AgentId) -> u32 {
        self.turns.remove(&agent).map_or(0, |turn| turn.requests)
    }

    /// Returns the count for a turn, and goes on from 0 with what is left of its limit.
    pub fn next_turn(&mut self, agent: AgentId) -> u32 {
        let Some(turn) = self.turns.get_mut(&agent) else { return 0 };
        turn.most = turn.most.map(|most| most.saturating_sub(turn.requests));
        std::mem::take(&mut turn.requests)
    }

    /// The agents whose turns have reached their limit.
    pub fn exhausted(&self) -> impl Iterator<Item = AgentId> {
        self.turns.keys().copied().filter(|agent| self.is_turn_exhausted(*agent))
    }

    /// Whether the turn of this agent has reached its limit.
    pub fn is_turn_exhausted(&self, agent: AgentId) -> bool {
        self.turns.get(&agent).is_some_and(|turn| turn.most.is_some_and(|most| turn.requests >= most))
    }

    /// Whether the turns allow the next request of this agent.
    pub fn may_request(&self, roster: &Roster, agent: AgentId) -> bool {
        self.turns.is_empty() || !path(roster, agent).into_iter().any(|above| self.is_turn_exhausted(above))
    }

    /// Counts a request that is not a retry.
    pub fn count_request(&mut self, roster: &Roster, agent: AgentId) {
        if self.turns.is_empty() {
            return;
        }
        for above in path(roster, agent) {
            if let Some(turn) = self.turns.get_mut(&above) {
                turn.requests += 1;
            }
        }
    }
}
