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
//! The provider's limit is unknown: it may count requests per minute or requests at once. Three numbers follow it:
//!
//! - the requests without an answer: 1 after a pause, and one more with each answer;
//! - the requests at once, if one was refused while as many were under way as were ever accepted: that many, and one
//!   more from time to time;
//! - the time between two requests, which the [`Schedule`] measures. Processes of one data directory share it: each
//!   takes the next place in the schedule of the provider's file before it sends.

mod schedule;
mod shared;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use crate::agent::LimitsSeen;
use crate::base::clock::{Clock, Moment};
use crate::base::id::AgentId;
use schedule::{Schedule, Step, micros, moment};
use shared::{Shared, Unchanged};

/// Providers refuse at once, so a request that is neither answered nor refused for this long was accepted: some servers
/// send no headers before the model has read the whole conversation.
const ACCEPTED_AFTER: Duration = Duration::from_secs(10);
/// A provider that accepted a request this recently limits requests and will accept others.
const LATELY: Duration = Duration::from_secs(90);
/// One more request at once is tried after this many answers.
const TRIED_AFTER: usize = 10;
/// The time between two requests of all processes that share a limit, before it was measured.
const FIRST_INTERVAL: Duration = Duration::from_secs(1);
/// Why a process waits that was not refused itself.
const REFUSED_ELSEWHERE: &str = "rate limit, met by another process";

/// Why no request can be sent to a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// No request is sent before this moment.
    Paused { until: Moment, reason: Rc<str> },
    /// The provider seems to allow no more requests at once. One of them counts as accepted at this moment.
    Full { until: Moment },
    /// The reply to another fork has to begin first, at this moment at the latest.
    Fork { until: Moment },
}

impl Gate {
    pub const fn until(&self) -> Moment {
        match self {
            Self::Paused { until, .. } | Self::Full { until } | Self::Fork { until } => *until,
        }
    }
}

/// A refusal for a provider's limit.
#[derive(Debug, Clone, Copy)]
pub struct Refusal {
    pub at: Moment,
    /// The provider gets no request before.
    pub until: Moment,
    /// How much longer this process waits, so that processes do not act in step.
    pub spread: Duration,
}

/// The requests to one provider.
#[derive(Default)]
pub struct Pace {
    /// The requests whose end is unknown, with the time when an unanswered one counts as accepted.
    under_way: BTreeMap<AgentId, Option<Moment>>,
    accepted_at: Option<Moment>,
    limit: Option<Limit>,
    /// The file with the schedule of all processes.
    shared: Option<Shared>,
}

/// The state of a provider that has refused a request recently.
struct Limit {
    schedule: Schedule,
    reason: Rc<str>,
    /// How much longer than the schedule says this process waits before its next request.
    spread: Duration,
    /// How many requests may be unanswered.
    unanswered: usize,
    /// The most requests that were seen to be accepted at once.
    seen: usize,
    /// How many are sent at once, if the provider has refused more than that.
    at_once: Option<usize>,
    /// Answers since one more than that was tried.
    answers: usize,
}

impl Limit {
    fn new(schedule: Schedule, reason: &str) -> Self {
        let spread = Duration::ZERO;
        Self { schedule, reason: reason.into(), spread, unanswered: 1, seen: 1, at_once: None, answers: 0 }
    }

    fn opens_at(&self) -> Moment {
        moment(self.schedule.opens_at()) + self.spread
    }

    fn is_paused(&self, now: Moment) -> bool {
        self.schedule.paused_until > micros(now)
    }

    /// A request was refused, not during a pause, while `others` were running. Returns whether the rate was too high.
    fn on_refused(&mut self, others: usize) -> bool {
        let is_rate = others < self.seen;
        if !is_rate {
            self.at_once = Some(self.seen);
        }
        (self.unanswered, self.answers) = (1, 0);
        is_rate
    }

    fn on_accepted(&mut self) {
        self.unanswered += 1;
        self.answers += 1;
        if self.answers >= TRIED_AFTER {
            self.at_once = self.at_once.map(|_| self.seen + 1);
        }
    }

    /// Agents wait, and the schedule was relaxed: they are not sent all at once.
    fn relax(&mut self) {
        (self.unanswered, self.at_once) = (1, None);
    }
}

impl Pace {
    /// Shares the schedule with the processes that use this file, and reads their results.
    pub fn share(&mut self, path: PathBuf, clock: Clock) {
        self.shared = Some(Shared::new(path, clock));
    }

    /// Reads the file, if there is one, unless a limit is known.
    pub fn look(&mut self) {
        if let (None, Some(shared)) = (&self.limit, &self.shared) {
            self.limit = shared.look().map(|schedule| Limit::new(schedule, REFUSED_ELSEWHERE));
        }
    }

    pub const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Why the next request has to wait, if it does.
    pub fn gate(&self, now: Moment) -> Option<Gate> {
        let limit = self.limit.as_ref()?;
        let paused = |until| Some(Gate::Paused { until, reason: Rc::clone(&limit.reason) });
        let is_taken = self.shared.as_ref().is_some_and(|shared| shared.is_taken(now));
        if limit.opens_at() > now && !is_taken {
            return paused(limit.opens_at());
        }
        if !self.has_room(limit) {
            let accepted_at = self.under_way.values().flatten().copied().filter(|at| *at > now).min();
            let forgotten_at = moment(limit.schedule.forgotten_at);
            return Some(Gate::Full { until: accepted_at.unwrap_or(forgotten_at).min(forgotten_at) });
        }
        self.shared.as_ref().filter(|_| !is_taken).and_then(|shared| paused(shared.busy_until.max(now)))
    }

    fn has_room(&self, limit: &Limit) -> bool {
        let unanswered = self.under_way.values().filter(|at| at.is_some()).count();
        unanswered < limit.unanswered && limit.at_once.is_none_or(|most| self.under_way.len() < most.max(limit.seen))
    }

    /// The provider has refused a request. During a pause, the longest pause counts, and one refusal for all.
    pub fn on_refused(&mut self, agent: AgentId, refusal: Refusal, reason: &str) {
        let Refusal { at, until, spread } = refusal;
        self.under_way.remove(&agent);
        let others = self.under_way.len();
        let is_rate = match self.limit.as_mut().filter(|limit| !limit.is_paused(at)) {
            Some(limit) => limit.on_refused(others),
            None => true,
        };
        let is_longest = self.limit.as_ref().is_none_or(|limit| limit.schedule.paused_until <= micros(until));
        self.step(Step::Refused { at: micros(at), until: micros(until), is_rate }, at, reason);
        if let Some(limit) = &mut self.limit {
            limit.reason = reason.into();
            limit.spread = if is_longest { spread } else { limit.spread };
        }
    }

    /// The provider says that it would refuse requests before this moment.
    pub fn hold_until(&mut self, now: Moment, until: Moment, reason: &str) {
        let is_longest = self.limit.as_ref().is_none_or(|limit| limit.schedule.paused_until < micros(until));
        if is_longest {
            self.step(Step::Held { at: micros(now), until: micros(until) }, now, reason);
            if let Some(limit) = &mut self.limit {
                limit.reason = reason.into();
            }
        }
    }

    pub fn end_pause(&mut self, now: Moment) {
        if let Some(limit) = &mut self.limit {
            limit.spread = Duration::ZERO;
            self.step(Step::PauseEnded(micros(now)), now, "");
        }
    }

    /// Changes the schedule, here and in the file.
    fn step(&mut self, step: Step, now: Moment, reason: &str) {
        match &mut self.limit {
            Some(limit) => step.apply(&mut limit.schedule),
            None => {
                let interval = if self.shared.is_some() { FIRST_INTERVAL } else { Duration::ZERO };
                self.limit = step.first(interval).map(|schedule| Limit::new(schedule, reason));
            }
        }
        if let (Some(shared), Some(_)) = (&mut self.shared, &self.limit) {
            shared.steps.push(step);
        }
        self.write(now);
    }

    /// Writes the changes into the file, unless another process is writing.
    fn write(&mut self, now: Moment) {
        if let (Some(shared), Some(limit)) = (&mut self.shared, &mut self.limit)
            && shared.is_due(now)
            && shared.change(now, &mut limit.schedule, |_| ()) == Err(Unchanged::Unusable)
        {
            self.shared = None;
        }
    }

    /// Takes the next place in the schedule of all processes, if it is time.
    fn take_place(&mut self, now: Moment) {
        let (Some(shared), Some(limit)) = (&mut self.shared, &mut self.limit) else { return };
        if shared.is_taken(now) || shared.busy_until > now {
            return;
        }
        let (at, mut is_open) = (micros(now), false);
        let changed = shared.change(now, &mut limit.schedule, |schedule| {
            is_open = schedule.opens_at() <= at;
            if is_open {
                schedule.on_sent(at);
            }
        });
        match changed {
            Ok(()) if is_open => shared.take(now),
            Ok(()) => limit.spread = limit.schedule.slack(),
            Err(Unchanged::Busy) => {}
            Err(Unchanged::Unusable) => self.shared = None,
        }
    }

    pub fn on_sent(&mut self, agent: AgentId, now: Moment) -> LimitsSeen {
        let is_alone = self.under_way.is_empty();
        self.under_way.insert(agent, Some(now + ACCEPTED_AFTER));
        let mut refusals = 0;
        if let Some(limit) = &mut self.limit {
            match &mut self.shared {
                Some(shared) => shared.taken_until = None,
                None => limit.schedule.on_sent(micros(now)),
            }
            limit.spread = Duration::ZERO;
            refusals = limit.schedule.refusals();
            self.accepted_at = self.accepted_at.max(limit.schedule.accepted_at.map(moment));
        }
        let is_accepted_lately = self.accepted_at.is_some_and(|at| now < at + LATELY);
        LimitsSeen { refusals, is_alone, is_accepted_lately }
    }

    /// The provider has accepted a request.
    pub fn on_accepted(&mut self, agent: AgentId, now: Moment) {
        let is_counted = self.under_way.get_mut(&agent).and_then(Option::take).is_some();
        self.accepted_at = Some(now);
        if let Some(limit) = self.limit.as_mut().filter(|_| is_counted) {
            limit.on_accepted();
            self.step(Step::Accepted(micros(now)), now, "");
        }
    }

    /// Forgets requests that have ended, and counts as accepted those that were not refused for long. Forgets the limit
    /// when it is no longer useful, unless agents wait; then takes a place for the next request.
    pub fn advance(&mut self, now: Moment, has_waiting: bool, is_under_way: impl Fn(AgentId) -> bool) {
        match &mut self.limit {
            Some(limit) if limit.schedule.forgotten_at <= micros(now) && has_waiting => {
                limit.relax();
                self.step(Step::Relaxed(micros(now)), now, "");
            }
            Some(limit) if limit.schedule.forgotten_at <= micros(now) => {
                self.limit = None;
                self.shared.as_mut().into_iter().for_each(|shared| shared.steps.clear());
            }
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
        self.write(now);
        let is_open = |limit: &Limit| limit.opens_at() <= now && self.has_room(limit);
        if has_waiting && self.limit.as_ref().is_some_and(is_open) {
            self.take_place(now);
        }
    }

    /// Whether the provider has refused a request recently.
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

    fn refusal(seconds: u64, until: u64) -> Refusal {
        Refusal { at: at(seconds), until: at(until), spread: Duration::ZERO }
    }

    /// The provider has refused a request at 1 s and asked for a pause.
    fn refused(until: u64) -> Pace {
        let mut pace = Pace::default();
        pace.on_refused(AgentId::random(), refusal(1, until), "slow down");
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
        pace.advance(at(18), true, |_| true);
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
        pace.on_refused(d, refusal(1, 2), "slow down");
        pace.advance(at(2), true, |_| true);
        assert!(allows(&pace, 2), "whether four are too many is not known");
        pace.on_sent(d, at(2));
        pace.on_refused(d, refusal(2, 3), "slow down");
        assert!(!allows(&pace, 3), "three are under way");
        for _ in 0..3 * TRIED_AFTER {
            pace.advance(at(3), true, |agent| agent != a);
            assert!(allows(&pace, 3));
            pace.on_sent(a, at(3));
            pace.on_accepted(a, at(3));
        }
        assert!(allows(&pace, 3), "a fourth is tried");
        pace.on_sent(d, at(3));
        pace.on_refused(d, refusal(3, 4), "slow down");
        assert!(!allows(&pace, 4), "three are under way");
        pace.advance(at(4), true, |agent| agent != a);
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
            pace.advance(at(second), true, |_| false);
        }
        pace.on_sent(b, at(6));
        pace.on_refused(b, refusal(7, 8), "slow down");
        // Three in 6 s.
        pace.on_sent(b, at(8));
        pace.on_accepted(b, at(8));
        pace.advance(at(8), true, |_| false);
        assert_eq!(pace.gate(at(9)).map(|gate| gate.until()), Some(at(10)));
        pace.end_pause(at(9));
        assert!(allows(&pace, 9), "at the request of the user");
    }

    #[test]
    fn refusals_during_a_pause_count_once_and_the_longest_pause_counts() {
        let [a, b] = agents();
        let mut pace = refused(5);
        pace.on_refused(a, refusal(2, 4), "still");
        assert_eq!(pace.gate(at(4)), Some(Gate::Paused { until: at(5), reason: "still".into() }));
        assert_eq!(pace.on_sent(a, at(5)).refusals, 1);
        pace.on_refused(a, refusal(5, 9), "still");
        assert_eq!(pace.on_sent(b, at(9)).refusals, 2);
    }

    #[test]
    fn a_limit_is_forgotten_a_minute_after_the_last_pause() {
        let mut pace = refused(7);
        pace.on_sent(AgentId::random(), at(66));
        pace.advance(at(66), false, |_| true);
        assert!(pace.is_limited() && !allows(&pace, 66));
        pace.advance(at(67), false, |_| true);
        assert!(!pace.is_limited() && allows(&pace, 67));
    }

    #[test]
    fn a_limit_is_not_forgotten_while_agents_wait_but_the_time_between_two_requests_is_halved() {
        let [a] = agents();
        let mut pace = refused(2);
        for second in [2, 10, 18] {
            pace.on_sent(a, at(second));
            pace.on_accepted(a, at(second));
            pace.advance(at(second), true, |_| false);
        }
        pace.on_refused(a, refusal(25, 26), "slow down");
        pace.advance(at(86), true, |_| false);
        assert!(pace.is_limited() && allows(&pace, 86));
        pace.on_sent(a, at(86));
        pace.advance(at(86), true, |_| false);
        // Three in 24 s were one in 8 s.
        assert_eq!(pace.gate(at(86)).map(|gate| gate.until()), Some(at(90)));
    }

    #[test]
    fn processes_share_a_pause_and_take_turns_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::manual();
        clock.advance(Duration::from_secs(100));
        let mut paces = [0, 1, 2].map(|_| Pace::default());
        paces.iter_mut().for_each(|pace| pace.share(dir.path().join("pace"), clock.clone()));
        let agents: [AgentId; 3] = agents();
        let refusal = Refusal { at: clock.now(), until: clock.now() + Duration::from_secs(2), spread: Duration::ZERO };
        paces[0].on_refused(agents[0], refusal, "slow down");
        paces.iter_mut().for_each(Pace::look);
        let reason: Rc<str> = REFUSED_ELSEWHERE.into();
        assert_eq!(paces[1].gate(clock.now()), Some(Gate::Paused { until: refusal.until, reason }));
        let mut sent = Vec::new();
        clock.advance(Duration::from_millis(1990));
        for _ in 0..200 {
            clock.advance(Duration::from_millis(10));
            let now = clock.now();
            for ((number, pace), agent) in paces.iter_mut().enumerate().zip(agents) {
                pace.advance(now, true, |_| false);
                if pace.gate(now).is_none() {
                    pace.on_sent(agent, now);
                    sent.push((now.since(refusal.until).as_millis(), number));
                }
            }
        }
        let times: Vec<u128> = sent.iter().map(|(at, _)| *at / 100).collect();
        assert_eq!(times, [0, 10], "one a second, whoever comes first: {sent:?}");
    }
}
