//! How many requests a provider that has refused one gets, and how fast.
//!
//! ```text
//!             refused                    T has passed
//!   no limit ------------> paused until T ------------> 1 request without an answer
//!      ^                     ^                            |  each answer: one more
//!      |                     |         refused            |
//!      |                     +----------------------------+
//!      +------ no agent waits, not refused for a minute --+
//! ```
//! The provider's limit is not known, whether it counts requests in a minute or requests at once. Three numbers follow it:
//!
//! - the requests without an answer: 1 after a pause, and one more with each answer;
//! - the requests at once, if one was refused while as many were under way as were ever accepted: that many, and one
//!   more from time to time;
//! - the time between two requests: measured if a request is refused although more were accepted at once before, a little
//!   less after each answer, and half of it after a minute without a refusal.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use crate::agent::LimitsSeen;
use crate::base::clock::Moment;
use crate::base::id::AgentId;

/// Providers refuse at once, so a request that is neither answered nor refused for this long was accepted: some servers
/// send no headers before the model has read the whole conversation.
const ACCEPTED_AFTER: Duration = Duration::from_secs(10);
/// Limits are counted per minute, mostly.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// A provider that accepted a request this recently limits requests and will accept others.
const LATELY: Duration = Duration::from_secs(90);
/// One more request at once is tried after this many answers for each of those that are known to be accepted.
const TRIED_AFTER: usize = 4;
/// What each answer takes off the time between two requests: a request is refused after some twenty others, which
/// corrects the measurement.
const FASTER: f64 = 0.995;

/// What holds requests to a provider back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// No request is sent before this moment.
    Paused { until: Moment, reason: Rc<str> },
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

/// The requests to one provider.
#[derive(Debug, Default)]
pub struct Pace {
    /// Those that were not seen to end, and when those count as accepted that are not answered.
    under_way: BTreeMap<AgentId, Option<Moment>>,
    accepted_at: Option<Moment>,
    limit: Option<Limit>,
}

/// What is known of a provider that has refused a request lately.
#[derive(Debug)]
struct Limit {
    paused_until: Moment,
    reason: Rc<str>,
    /// Requests without an answer that may be under way.
    unanswered: usize,
    /// The most requests that were seen to be accepted at once.
    seen: usize,
    /// How many are sent at once, if the provider has refused more than that.
    at_once: Option<usize>,
    /// Answers since one more than that was tried.
    answers: usize,
    /// The time between two requests, and when the next one may be sent.
    interval: Duration,
    next_at: Moment,
    /// Accepted requests since the first refusal after which one was accepted.
    accepted: u32,
    counted_from: Moment,
    refusals: u32,
    forgotten_at: Moment,
}

impl Limit {
    fn new(now: Moment, until: Moment, reason: &str) -> Self {
        Self {
            paused_until: until,
            reason: reason.into(),
            unanswered: 1,
            seen: 1,
            at_once: None,
            answers: 0,
            interval: Duration::ZERO,
            next_at: now,
            accepted: 0,
            counted_from: now,
            refusals: 1,
            forgotten_at: until + FORGOTTEN_AFTER,
        }
    }

    /// A minute has passed without a refusal, and agents wait: they are not sent all at once.
    fn relax(&mut self, now: Moment) {
        (self.unanswered, self.at_once, self.interval) = (1, None, self.interval / 2);
        (self.accepted, self.counted_from) = (0, now);
        self.forgotten_at = now + FORGOTTEN_AFTER;
    }

    fn pause_until(&mut self, until: Moment, reason: &str) {
        self.paused_until = until;
        self.reason = reason.into();
        self.forgotten_at = self.forgotten_at.max(until + FORGOTTEN_AFTER);
    }

    /// A request was refused while `others` were under way.
    fn on_refused(&mut self, others: usize, now: Moment, until: Moment, reason: &str) {
        if self.paused_until > now {
            // One refusal for all that were sent before.
            return self.pause_until(self.paused_until.max(until), reason);
        }
        if others >= self.seen {
            self.at_once = Some(self.seen);
        } else if self.accepted > 0 {
            self.interval = ((now - self.counted_from) / self.accepted).min(FORGOTTEN_AFTER);
        }
        if self.accepted > 0 {
            (self.accepted, self.counted_from) = (0, now);
        }
        (self.unanswered, self.answers) = (1, 0);
        self.refusals += 1;
        self.pause_until(until, reason);
    }

    fn on_accepted(&mut self) {
        self.refusals = 0;
        self.unanswered += 1;
        self.accepted += 1;
        self.answers += 1;
        self.interval = self.interval.mul_f64(FASTER);
        if self.answers >= self.seen * TRIED_AFTER {
            self.at_once = self.at_once.map(|_| self.seen + 1);
        }
    }
}

impl Pace {
    /// What holds the next request back.
    pub fn gate(&self, now: Moment) -> Option<Gate> {
        let limit = self.limit.as_ref()?;
        let until = limit.paused_until.max(limit.next_at);
        if until > now {
            return Some(Gate::Paused { until, reason: Rc::clone(&limit.reason) });
        }
        if self.has_room(limit) {
            return None;
        }
        let accepted_at = self.under_way.values().flatten().copied().filter(|at| *at > now).min();
        Some(Gate::Full { until: accepted_at.unwrap_or(limit.forgotten_at).min(limit.forgotten_at) })
    }

    fn has_room(&self, limit: &Limit) -> bool {
        let unanswered = self.under_way.values().filter(|at| at.is_some()).count();
        unanswered < limit.unanswered && limit.at_once.is_none_or(|most| self.under_way.len() < most.max(limit.seen))
    }

    /// The provider has refused a request. During a pause, the longest pause counts, and one refusal for all.
    pub fn on_refused(&mut self, agent: AgentId, now: Moment, until: Moment, reason: &str) {
        self.under_way.remove(&agent);
        match &mut self.limit {
            Some(limit) => limit.on_refused(self.under_way.len(), now, until, reason),
            None => self.limit = Some(Limit::new(now, until, reason)),
        }
    }

    /// The provider says that it would refuse requests before this moment.
    pub fn hold_until(&mut self, now: Moment, until: Moment, reason: &str) {
        let limit = self.limit.get_or_insert_with(|| Limit::new(now, until, reason));
        if until > limit.paused_until {
            limit.pause_until(until, reason);
        }
    }

    pub fn end_pause(&mut self, now: Moment) {
        if let Some(limit) = &mut self.limit {
            limit.paused_until = limit.paused_until.min(now);
            limit.next_at = limit.next_at.min(now);
        }
    }

    pub fn on_sent(&mut self, agent: AgentId, now: Moment) -> LimitsSeen {
        let is_alone = self.under_way.is_empty();
        self.under_way.insert(agent, Some(now + ACCEPTED_AFTER));
        let refusals = self.limit.as_mut().map_or(0, |limit| {
            limit.next_at = limit.next_at.max(now) + limit.interval;
            limit.refusals
        });
        let is_accepted_lately = self.accepted_at.is_some_and(|at| now < at + LATELY);
        LimitsSeen { refusals, is_alone, is_accepted_lately }
    }

    /// The provider has accepted a request.
    pub fn on_accepted(&mut self, agent: AgentId, now: Moment) {
        let is_counted = self.under_way.get_mut(&agent).and_then(Option::take).is_some();
        self.accepted_at = Some(now);
        if let Some(limit) = self.limit.as_mut().filter(|_| is_counted) {
            limit.on_accepted();
        }
    }

    /// Forgets requests that have ended, and counts those as accepted that were not refused for long. Forgets the limit
    /// when it is of no more use, unless agents wait.
    pub fn settle(&mut self, now: Moment, has_waiting: bool, is_under_way: impl Fn(AgentId) -> bool) {
        match &mut self.limit {
            Some(limit) if limit.forgotten_at <= now && has_waiting => limit.relax(now),
            Some(limit) if limit.forgotten_at <= now => self.limit = None,
            _ => {}
        }
        if self.limit.is_none() {
            return;
        }
        self.under_way.retain(|agent, _| is_under_way(*agent));
        let accepted = self.under_way.iter().filter(|(_, at)| at.is_some_and(|at| at <= now));
        let accepted: Vec<AgentId> = accepted.map(|(agent, _)| *agent).collect();
        accepted.into_iter().for_each(|agent| self.on_accepted(agent, now));
        let at_once = self.under_way.values().filter(|at| at.is_none()).count();
        if let Some(limit) = &mut self.limit {
            limit.seen = limit.seen.max(at_once);
        }
    }

    /// Whether the provider has refused a request lately.
    pub const fn is_limited(&self) -> bool {
        self.limit.is_some()
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

    /// The provider has refused a request at 1 s and asked for a pause.
    fn refused(until: u64) -> Pace {
        let mut pace = Pace::default();
        pace.on_refused(AgentId::random(), at(1), at(until), "slow down");
        pace
    }

    fn allows(pace: &Pace, seconds: u64) -> bool {
        pace.gate(at(seconds)).is_none()
    }

    #[test]
    fn after_a_pause_one_request_is_sent_and_each_answer_allows_one_more() {
        let [a, b, c] = agents();
        let mut pace = refused(7);
        assert_eq!(pace.gate(at(6)), Some(Gate::Paused { until: at(7), reason: "slow down".into() }));
        let seen = pace.on_sent(a, at(7));
        assert_eq!(seen, LimitsSeen { refusals: 1, is_alone: true, is_accepted_lately: false });
        assert_eq!(pace.gate(at(7)), Some(Gate::Full { until: at(17) }));
        pace.on_accepted(b, at(8));
        assert!(!allows(&pace, 8), "a request from before the pause");
        pace.on_accepted(a, at(8));
        for agent in [b, c] {
            assert!(allows(&pace, 8), "two may be without an answer");
            let seen = pace.on_sent(agent, at(8));
            assert_eq!(seen, LimitsSeen { refusals: 0, is_alone: false, is_accepted_lately: true });
        }
        assert!(!allows(&pace, 8));
        pace.settle(at(18), true, |_| true);
        assert!(allows(&pace, 18), "both count as accepted");
    }

    #[test]
    fn as_many_requests_are_sent_at_once_as_were_accepted_and_one_more_from_time_to_time() {
        let [a, b, c, d] = agents();
        let mut pace = Pace::default();
        for agent in [a, b, c] {
            pace.on_sent(agent, at(0));
            pace.on_accepted(agent, at(0));
        }
        pace.on_refused(d, at(1), at(2), "slow down");
        pace.settle(at(2), true, |_| true);
        assert!(allows(&pace, 2), "whether four are too many is not known");
        pace.on_sent(d, at(2));
        pace.on_refused(d, at(2), at(3), "slow down");
        assert!(!allows(&pace, 3), "three are under way");
        for _ in 0..3 * TRIED_AFTER {
            pace.settle(at(3), true, |agent| agent != a);
            assert!(allows(&pace, 3));
            pace.on_sent(a, at(3));
            pace.on_accepted(a, at(3));
        }
        assert!(allows(&pace, 3), "a fourth is tried");
        pace.on_sent(d, at(3));
        pace.on_refused(d, at(3), at(4), "slow down");
        assert!(!allows(&pace, 4), "three are under way");
        pace.settle(at(4), true, |agent| agent != a);
        assert!(allows(&pace, 4));
    }

    #[test]
    fn a_request_that_is_refused_although_others_were_accepted_at_once_sets_the_time_between_two() {
        let [a, b] = agents();
        let mut pace = refused(2);
        for second in [2, 4, 6] {
            assert!(allows(&pace, second));
            pace.on_sent(a, at(second));
            pace.on_accepted(a, at(second));
            pace.settle(at(second), true, |_| false);
        }
        pace.on_sent(b, at(6));
        pace.on_refused(b, at(7), at(8), "slow down");
        // Three in 6 s.
        pace.on_sent(b, at(8));
        pace.on_accepted(b, at(8));
        pace.settle(at(8), true, |_| false);
        assert_eq!(pace.gate(at(9)).map(|gate| gate.until()), Some(at(10)));
        pace.end_pause(at(9));
        assert!(allows(&pace, 9), "at the request of the user");
    }

    #[test]
    fn refusals_during_a_pause_count_once_and_the_longest_pause_counts() {
        let [a, b] = agents();
        let mut pace = refused(5);
        pace.on_refused(a, at(2), at(4), "still");
        assert_eq!(pace.gate(at(4)), Some(Gate::Paused { until: at(5), reason: "still".into() }));
        assert_eq!(pace.on_sent(a, at(5)).refusals, 1);
        pace.on_refused(a, at(5), at(9), "still");
        assert_eq!(pace.on_sent(b, at(9)).refusals, 2);
    }

    #[test]
    fn a_limit_is_forgotten_a_minute_after_the_last_pause() {
        let mut pace = refused(7);
        pace.on_sent(AgentId::random(), at(66));
        pace.settle(at(66), false, |_| true);
        assert!(pace.is_limited() && !allows(&pace, 66));
        pace.settle(at(67), false, |_| true);
        assert!(!pace.is_limited() && allows(&pace, 67));
    }

    #[test]
    fn a_limit_is_not_forgotten_while_agents_wait_but_the_time_between_two_requests_is_halved() {
        let [a] = agents();
        let mut pace = refused(2);
        for second in [2, 10, 18] {
            pace.on_sent(a, at(second));
            pace.on_accepted(a, at(second));
            pace.settle(at(second), true, |_| false);
        }
        pace.on_refused(a, at(25), at(26), "slow down");
        pace.settle(at(86), true, |_| false);
        assert!(pace.is_limited() && allows(&pace, 86));
        pace.on_sent(a, at(86));
        pace.settle(at(86), true, |_| false);
        // Three in 24 s were one in 8 s.
        assert_eq!(pace.gate(at(86)).map(|gate| gate.until()), Some(at(90)));
    }
}
