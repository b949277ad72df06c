//! How many requests to models agents may still make: in all, and one agent in its turn. A request that is repeated after
//! a failure is not counted again.

use std::collections::BTreeMap;

use crate::base::id::AgentId;

/// The limits, and what was counted so far.
#[derive(Debug, Default)]
pub struct Limits {
    requests: u32,
    requests_left: Option<u32>,
    turns: BTreeMap<AgentId, TurnLimit>,
}

#[derive(Debug)]
struct TurnLimit {
    most: Option<u32>,
    requests: u32,
}

impl Limits {
    /// From now on all agents together make at most so many requests.
    pub fn limit_requests(&mut self, most: u32) {
        self.requests_left = Some(most);
    }

    /// Requests made so far by all agents.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Counts the requests of this agent's turn, and allows at most so many.
    pub fn begin_turn(&mut self, agent: AgentId, most: Option<u32>) {
        self.turns.insert(agent, TurnLimit { most, requests: 0 });
    }

    /// The turn has ended, or is not limited any more. Returns how many requests it has made.
    pub fn end_turn(&mut self, agent: AgentId) -> u32 {
        self.turns.remove(&agent).map_or(0, |turn| turn.requests)
    }

    /// Whether the turn of this agent has made all the requests that it may make.
    pub fn is_turn_spent(&self, agent: AgentId) -> bool {
        self.turns.get(&agent).is_some_and(|turn| turn.most.is_some_and(|most| turn.requests >= most))
    }

    pub fn may_request(&self, agent: AgentId, is_first_try: bool) -> bool {
        !is_first_try || self.requests_left != Some(0) && !self.is_turn_spent(agent)
    }

    /// This agent makes a request for the first time.
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
    fn a_request_is_refused_when_the_turn_or_all_agents_have_made_theirs_and_a_repeated_one_never() {
        let (limited, free) = (AgentId::from_bytes([1; 16]), AgentId::from_bytes([2; 16]));
        let mut limits = Limits::default();
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
