//! How many requests a provider that has refused one may get at once.
//!
//! ```text
//!             refused                    T has passed
//!   no pace ------------> paused until T ------------> window of 1 request under way
//!      ^                    ^                            |  each answer: one more
//!      |                    |  refused: half of those    |
//!      |                    +----------------------------+
//!      +---------------- not refused for a minute -------+
//! ```
//! This is additive increase and multiplicative decrease, as in TCP (RFC 5681): the provider's limit is not known, whether
//! it counts requests in a minute or requests at once.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::agent::LimitsSeen;
use crate::base::clock::Moment;
use crate::base::id::AgentId;

/// Providers refuse at once, so a request that is neither answered nor refused for this long was accepted: some servers
/// send no headers before the model has read the whole conversation.
const ACCEPTED_AFTER: Duration = Duration::from_secs(10);
/// Limits are counted per minute, mostly.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// What holds requests to a provider back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// No request is sent before this moment.
    Paused { until: Moment, reason: String },
    /// As many requests are under way as the provider seems to allow. One of them counts as accepted at this moment.
    Full { until: Moment },
}

impl Gate {
    pub const fn until(&self) -> Moment {
        match self {
            Self::Paused { until, .. } | Self::Full { until } => *until,
        }
    }
}

#[derive(Debug)]
pub struct Pace {
    paused_until: Moment,
    reason: String,
    window: usize,
    /// Requests since the pause that are not ended, and when those count as accepted that are not answered.
    under_way: BTreeMap<AgentId, Option<Moment>>,
    refusals: u32,
    forgotten_at: Moment,
}

impl Pace {
    /// After the first refusal, or before the next request would be refused.
    pub fn new(until: Moment, reason: &str) -> Self {
        Self {
            paused_until: until,
            reason: reason.to_owned(),
            window: 1,
            under_way: BTreeMap::new(),
            refusals: 1,
            forgotten_at: until + FORGOTTEN_AFTER,
        }
    }

    /// What holds the next request back.
    pub fn gate(&self, now: Moment) -> Option<Gate> {
        if self.paused_until > now {
            return Some(Gate::Paused { until: self.paused_until, reason: self.reason.clone() });
        }
        let is_full = self.under_way.len() >= self.window && self.forgotten_at > now;
        let accepted_at = self.under_way.values().flatten().copied().filter(|at| *at > now).min();
        is_full.then(|| Gate::Full { until: accepted_at.unwrap_or(self.forgotten_at).min(self.forgotten_at) })
    }

    pub fn allows(&self, now: Moment) -> bool {
        self.paused_until <= now && (self.under_way.len() < self.window || self.forgotten_at <= now)
    }

    /// The provider has refused a request. During a pause, the longest pause counts, and one refusal for all.
    pub fn on_refused(&mut self, agent: AgentId, now: Moment, until: Moment, reason: &str) {
        self.under_way.remove(&agent);
        if self.paused_until > now {
            self.paused_until = self.paused_until.max(until);
        } else {
            self.window = (self.under_way.len() / 2).max(1);
            self.refusals += 1;
            self.paused_until = until;
        }
        reason.clone_into(&mut self.reason);
        self.forgotten_at = self.paused_until + FORGOTTEN_AFTER;
    }

    /// The provider says that it would refuse requests before this moment.
    pub fn hold_until(&mut self, until: Moment, reason: &str) {
        if until > self.paused_until {
            self.paused_until = until;
            reason.clone_into(&mut self.reason);
            self.forgotten_at = until + FORGOTTEN_AFTER;
        }
    }

    pub fn end_pause(&mut self, now: Moment) {
        self.paused_until = self.paused_until.min(now);
    }

    pub fn on_sent(&mut self, agent: AgentId, now: Moment) -> LimitsSeen {
        let is_alone = self.under_way.is_empty();
        self.under_way.insert(agent, Some(now + ACCEPTED_AFTER));
        LimitsSeen { refusals: self.refusals, is_alone }
    }

    /// The provider has accepted a request: one more may be under way.
    pub fn on_accepted(&mut self, agent: AgentId) {
        if self.under_way.get_mut(&agent).and_then(Option::take).is_some() {
            self.window += 1;
            self.refusals = 0;
        }
    }

    /// Forgets requests that have ended, and counts those as accepted that were not refused for long. Returns whether the
    /// pace is still of use.
    pub fn settle(&mut self, now: Moment, is_under_way: impl Fn(AgentId) -> bool) -> bool {
        self.under_way.retain(|agent, _| is_under_way(*agent));
        let accepted = self.under_way.iter().filter(|(_, at)| at.is_some_and(|at| at <= now));
        let accepted: Vec<AgentId> = accepted.map(|(agent, _)| *agent).collect();
        accepted.into_iter().for_each(|agent| self.on_accepted(agent));
        self.forgotten_at > now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::default() + Duration::from_secs(seconds)
    }

    fn agents<const N: usize>() -> [AgentId; N] {
        std::array::from_fn(|_| AgentId::random())
    }

    #[test]
    fn after_a_pause_one_request_is_sent_and_each_answer_allows_one_more() {
        let [a, b, c, d] = agents();
        let mut pace = Pace::new(at(7), "slow down");
        assert!(!pace.allows(at(6)) && pace.allows(at(7)));
        assert_eq!(pace.on_sent(a, at(7)), LimitsSeen { refusals: 1, is_alone: true });
        assert_eq!(pace.gate(at(7)), Some(Gate::Full { until: at(17) }));
        pace.on_accepted(b);
        assert!(!pace.allows(at(8)), "a request from before the pause");
        pace.on_accepted(a);
        assert!(pace.allows(at(8)));
        assert_eq!(pace.on_sent(b, at(8)), LimitsSeen { refusals: 0, is_alone: false });
        assert!(!pace.allows(at(8)), "both are under way");
        pace.settle(at(8), |agent| agent != a);
        assert!(pace.allows(at(8)), "one has ended");
        pace.on_sent(c, at(8));
        pace.settle(at(18), |agent| agent != a);
        pace.on_sent(d, at(18));
        assert!(pace.allows(at(18)), "two were not refused for long");
    }

    #[test]
    fn a_refusal_pauses_again_and_halves_the_window_once() {
        let [a, b, c, d, e] = agents();
        let mut pace = Pace::new(at(1), "slow down");
        for agent in [a, b, c, d, e] {
            pace.on_sent(agent, at(1));
            pace.on_accepted(agent);
        }
        pace.on_refused(e, at(2), at(5), "still");
        pace.on_refused(d, at(2), at(4), "still");
        assert_eq!(pace.gate(at(4)), Some(Gate::Paused { until: at(5), reason: "still".into() }));
        assert!(matches!(pace.gate(at(5)), Some(Gate::Full { .. })), "three are under way, two may be");
        pace.settle(at(5), |agent| agent == a);
        assert_eq!(pace.on_sent(b, at(5)).refusals, 1);
        assert!(!pace.allows(at(5)));
    }

    #[test]
    fn it_is_forgotten_a_minute_after_the_last_pause() {
        let mut pace = Pace::new(at(7), "slow down");
        assert!(pace.settle(at(66), |_| false));
        pace.on_sent(AgentId::random(), at(66));
        assert!(pace.allows(at(67)) && !pace.settle(at(67), |_| true));
    }
}
