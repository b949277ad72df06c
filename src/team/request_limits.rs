//! Limits the requests to models: of all agents together, and of one agent in a turn. Retries are not counted.

use std::collections::BTreeMap;

use crate::base::id::AgentId;

#[derive(Debug, Default)]
pub struct RequestLimits {
    requests: u32,
    requests_left: Option<u32>,
    turns: BTreeMap<AgentId, TurnLimit>,
}

#[derive(Debug)]
struct TurnLimit {
    most: Option<u32>,
    requests: u32,
}

impl RequestLimits {
    /// Allows all agents together at most `most` requests from now on.
    pub fn limit_requests(&mut self, most: u32) {
        self.requests_left = Some(most);
    }

    /// Requests made so far by all agents.
    pub fn requests(&self) -> u32 {
        self.requests
    }

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

    pub fn may_request(&self, agent: AgentId, is_first_try: bool) -> bool {
        !is_first_try || self.requests_left != Some(0) && !self.is_turn_exhausted(agent)
    }

    /// Counts a request that is not a retry.
    pub fn count_request(&mut self, agent: AgentId) {
        self.requests += 1;
        self.requests_left = self.requests_left.map(|left| left.saturating_sub(1));
        if let Some(turn) = self.turns.get_mut(&agent) {
            turn.requests += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_a_limit_are_refused_but_never_retries() {
        let (limited, free) = (AgentId::from_bytes([1; 16]), AgentId::from_bytes([2; 16]));
        let mut limits = RequestLimits::default();
        limits.begin_turn(limited, Some(1));
        limits.count_request(limited);
        assert!(!limits.may_request(limited, true) && limits.may_request(limited, false));
        assert!(limits.may_request(free, true));
        limits.limit_requests(1);
        limits.count_request(free);
        assert!(!limits.may_request(free, true) && limits.may_request(free, false));
        assert_eq!((limits.requests(), limits.end_turn(limited), limits.end_turn(free)), (2, 1, 0));
    }
}
