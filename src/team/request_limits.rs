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
    /// Starts to count the requests of this agent's turn; `most` limits them.
    pub fn begin_turn(&mut self, agent: AgentId, most: Option<u32>) {
        self.turns.insert(agent, TurnLimit { most, requests: 0 });
    }

    /// Ends the count for a turn and returns it.
    pub fn end_turn(&mut self, agent: AgentId) -> u32 {
        self.turns.remove(&agent).map_or(0, |turn| turn.requests)
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
