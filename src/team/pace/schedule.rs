//! When a provider that limits requests gets the next one: the numbers that follow the limit, without what sends.
//!
//! All times are in microseconds since any moment, so that processes can compare them.

use std::time::Duration;

use crate::base::clock::Moment;

/// Limits are counted per minute, mostly.
const FORGOTTEN_AFTER: i64 = 60 * SECOND;
const SECOND: i64 = 1_000_000;
/// Shorter intervals count as zero.
const SHORTEST: i64 = 10_000;
/// A provider that refuses requests several times after fewer accepted ones than this has a limit that is exceeded; other
/// refusals may be a matter of chance.
const FEW: i64 = 4;
const SEVERAL: i64 = 3;
/// The first answers after a refusal reduce the time between two requests: the first by 1/250, the second by 2/250 and
/// so on. A refusal adds 15/100. So it neither grows nor shrinks if one of nine or ten requests is refused, which keeps
/// nine tenths of a true limit in use, and shrinks if fewer are.
const FASTER: i64 = 250;
const MOST_STEPS: i64 = 25;
const SLOWER: i64 = 15;

/// How many numbers a schedule is.
const NUMBERS: usize = 10;
/// Encodes a missing time.
const NEVER: i64 = -1;

/// The number of a moment.
pub fn micros(at: Moment) -> i64 {
    i64::try_from(at.since(Moment::default()).as_micros()).unwrap_or(i64::MAX)
}

/// The moment of a number; one before the start of this process is its start.
pub fn moment(number: i64) -> Moment {
    Moment::default() + Duration::from_micros(u64::try_from(number).unwrap_or(0))
}

/// The changes of a schedule.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// `is_rate`: the rate was too high, not the number of requests at once.
    Refused {
        at: i64,
        until: i64,
        is_rate: bool,
    },
    /// The provider says that it would refuse requests before a time.
    Held {
        at: i64,
        until: i64,
    },
    Accepted(i64),
    /// A person has ended the pause.
    PauseEnded(i64),
    /// A minute has passed without a refusal, and agents wait.
    Relaxed(i64),
}

impl Step {
    pub fn apply(self, schedule: &mut Schedule) {
        match self {
            Self::Refused { at, until, is_rate } => schedule.on_refused(at, until, is_rate),
            Self::Held { until, .. } => schedule.pause_until(until),
            Self::Accepted(at) => schedule.on_accepted(at),
            Self::PauseEnded(at) => schedule.end_pause(at),
            // Another process may have relaxed it in the meantime.
            Self::Relaxed(at) if schedule.forgotten_at <= at => schedule.relax(at),
            Self::Relaxed(_) => {}
        }
    }

    /// The schedule with which a limit begins, if it does with this. `interval` is the time between two requests that is
    /// tried first.
    pub fn first(self, interval: Duration) -> Option<Schedule> {
        let interval = i64::try_from(interval.as_micros()).unwrap_or(FORGOTTEN_AFTER);
        match self {
            Self::Refused { at, until, .. } | Self::Held { at, until } => Some(Schedule::new(at, until, interval)),
            Self::Accepted(_) | Self::PauseEnded(_) | Self::Relaxed(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// No request is sent before.
    pub paused_until: i64,
    /// The time between two requests, and when the next one may be sent.
    interval: i64,
    next_at: i64,
    /// The time between two requests is not measured yet: it is halved by each answer.
    is_trying: bool,
    /// Accepted requests since the last refusal that followed one, and when that was.
    accepted: i64,
    counted_from: i64,
    /// How often in a row few were accepted between two refusals.
    exceeded: i64,
    /// Refusals since a request was accepted; those during one pause count once.
    refusals: i64,
    /// When a request was accepted last.
    pub accepted_at: Option<i64>,
    pub forgotten_at: i64,
}

impl Schedule {
    /// A provider has refused a request. `interval` is the time between two requests to begin with.
    fn new(now: i64, until: i64, interval: i64) -> Self {
        Self {
            paused_until: until,
            interval,
            next_at: now,
            is_trying: interval > 0,
            accepted: 0,
            counted_from: now,
            exceeded: SEVERAL - 1,
            refusals: 1,
            accepted_at: None,
            forgotten_at: until + FORGOTTEN_AFTER,
        }
    }

    /// When the next request may be sent.
    pub fn opens_at(&self) -> i64 {
        self.paused_until.max(self.next_at)
    }

    fn pause_until(&mut self, until: i64) {
        self.paused_until = self.paused_until.max(until);
        self.forgotten_at = self.forgotten_at.max(until + FORGOTTEN_AFTER);
    }

    /// A request was refused; `is_rate`: the rate was too high, not the number of requests at once.
    fn on_refused(&mut self, now: i64, until: i64, is_rate: bool) {
        // One refusal for all that were sent before.
        if self.paused_until <= now {
            self.refusals += 1;
            if self.accepted > 0 {
                if is_rate {
                    self.slow_down(now);
                }
                (self.accepted, self.counted_from) = (0, now);
            }
        }
        self.pause_until(until);
    }

    fn slow_down(&mut self, now: i64) {
        let measured = ((now - self.counted_from) / self.accepted).min(FORGOTTEN_AFTER);
        let slower = self.interval + self.interval * SLOWER / 100;
        let is_few = self.accepted < FEW;
        self.exceeded = if is_few { (self.exceeded + 1).min(SEVERAL) } else { 0 };
        self.interval = match self.interval {
            _ if self.is_trying => measured,
            ..SHORTEST if self.exceeded == SEVERAL => measured,
            ..SHORTEST => 0,
            interval if is_few => measured.min(2 * interval).max(slower),
            _ => slower,
        };
        self.is_trying = false;
    }

    fn on_accepted(&mut self, now: i64) {
        self.refusals = 0;
        self.accepted += 1;
        self.accepted_at = Some(now);
        self.interval -= match self.is_trying {
            true => self.interval / 2,
            false => self.interval * self.accepted.min(MOST_STEPS) / FASTER,
        };
        if self.is_trying {
            self.next_at = self.next_at.min(now + self.interval);
        }
    }

    /// A request is being sent. One that is sent a little late does not delay the next.
    pub fn on_sent(&mut self, now: i64) {
        let is_punctual = now - self.opens_at() <= self.interval / 4;
        self.next_at = if is_punctual { self.opens_at() } else { now } + self.interval;
    }

    fn end_pause(&mut self, now: i64) {
        self.paused_until = self.paused_until.min(now);
        self.next_at = self.next_at.min(now);
    }

    pub fn refusals(&self) -> u32 {
        u32::try_from(self.refusals).unwrap_or(u32::MAX)
    }

    /// A small random part of the time between two requests: processes that wait for the same place do not try at the
    /// same moment.
    pub fn slack(&self) -> Duration {
        Duration::from_micros(fastrand::u64(0..=self.interval.unsigned_abs() / 16))
    }

    /// A minute has passed without a refusal, and agents wait: they are not sent all at once.
    fn relax(&mut self, now: i64) {
        self.interval /= 2;
        (self.accepted, self.counted_from) = (0, now);
        self.forgotten_at = now + FORGOTTEN_AFTER;
    }

    /// The same schedule, later by this time.
    pub fn shift_by(self, by: i64) -> Self {
        Self {
            paused_until: self.paused_until + by,
            next_at: self.next_at + by,
            counted_from: self.counted_from + by,
            accepted_at: self.accepted_at.map(|at| at + by),
            forgotten_at: self.forgotten_at + by,
            ..self
        }
    }

    pub fn numbers(&self) -> [i64; NUMBERS] {
        [
            self.paused_until,
            self.next_at,
            self.counted_from,
            self.accepted_at.unwrap_or(NEVER),
            self.forgotten_at,
            self.interval,
            self.accepted,
            self.refusals,
            self.exceeded,
            i64::from(self.is_trying),
        ]
    }

    /// The schedule of these numbers, if they were written at this time: no time in it is further away than `longest`.
    pub fn of_numbers(numbers: &[i64], written_at: i64, longest: i64) -> Option<Self> {
        let numbers: [i64; NUMBERS] = numbers.try_into().ok()?;
        let [
            paused_until,
            next_at,
            counted_from,
            accepted_at,
            forgotten_at,
            interval,
            accepted,
            refusals,
            exceeded,
            is_trying,
        ] = numbers;
        let accepted_at = Some(accepted_at).filter(|at| *at != NEVER);
        let times = [paused_until, next_at, counted_from, forgotten_at, accepted_at.unwrap_or(written_at)];
        let are_times = times.iter().all(|at| at.abs_diff(written_at) <= longest.unsigned_abs());
        let are_counts = [accepted, refusals, exceeded].iter().all(|count| (0..=i64::from(u32::MAX)).contains(count));
        let is_valid = are_times && are_counts && (0..=FORGOTTEN_AFTER).contains(&interval);
        is_valid.then_some(Self {
            paused_until,
            interval,
            next_at,
            is_trying: is_trying == 1,
            accepted,
            counted_from,
            exceeded,
            refusals,
            accepted_at,
            forgotten_at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bucket of this many requests, which gets one more after each `every`.
    struct Bucket {
        size: f64,
        every: i64,
        left: f64,
        at: i64,
    }

    impl Bucket {
        fn takes(&mut self, now: i64) -> bool {
            self.left = (self.left + (now - self.at) as f64 / self.every as f64).min(self.size);
            self.at = now;
            let is_accepted = self.left >= 1.0;
            self.left -= f64::from(u8::from(is_accepted));
            is_accepted
        }
    }

    /// Sends requests as the schedule allows for this many seconds. Returns how many were accepted and refused.
    fn send(schedule: &mut Schedule, seconds: i64, pause: i64, mut takes: impl FnMut(i64) -> bool) -> (i64, i64) {
        let start = schedule.opens_at();
        let (mut accepted, mut refused) = (0, 0);
        // An answer takes 5 ms.
        let mut now = start;
        while now < start + seconds * SECOND {
            now = schedule.opens_at().max(now + 5_000);
            schedule.on_sent(now);
            if takes(now) {
                schedule.on_accepted(now);
                accepted += 1;
            } else {
                schedule.on_refused(now, now + pause, true);
                refused += 1;
            }
        }
        (accepted, refused)
    }

    #[test]
    fn nine_tenths_of_a_true_limit_are_used_with_few_refusals() {
        for (per_minute, size) in [(20, 3.0), (20, 20.0), (60, 5.0), (300, 10.0)] {
            let mut bucket = Bucket { size, every: 60 * SECOND / per_minute, left: 0.0, at: 0 };
            let mut schedule = Schedule::new(0, SECOND, SECOND);
            let (accepted, refused) = send(&mut schedule, 300, SECOND, |now| bucket.takes(now));
            let most = per_minute * 5;
            assert!(accepted * 10 >= most * 9, "{accepted} of {most} at {per_minute} a minute, {refused} refused");
            assert!(refused * 5 <= accepted, "{refused} refused, {accepted} accepted at {per_minute} a minute");
        }
    }

    #[test]
    fn the_time_between_two_requests_is_forgotten_although_one_of_twenty_is_refused_by_chance() {
        let mut random = fastrand::Rng::with_seed(1);
        for interval in [0, SECOND] {
            let mut schedule = Schedule::new(0, SECOND, interval);
            (schedule.is_trying, schedule.exceeded) = (false, 0);
            send(&mut schedule, 60, SECOND, |_| random.u8(0..20) > 0);
            let (accepted, refused) = send(&mut schedule, 60, SECOND, |_| random.u8(0..20) > 0);
            // Each refusal pauses for a second, in which nothing is sent.
            assert!(refused > 20 && accepted > refused * 10, "{accepted} accepted, {refused} refused");
            send(&mut schedule, 30, SECOND, |_| true);
            assert!(schedule.interval < SHORTEST, "{}", schedule.interval);
        }
    }

    #[test]
    fn the_numbers_of_a_schedule_give_the_same_schedule() {
        let mut schedule = Schedule::new(7, 9, 5);
        for _ in 0..2 {
            assert_eq!(Schedule::of_numbers(&schedule.numbers(), 100, 1000 * SECOND), Some(schedule));
            assert_eq!(schedule.shift_by(50).shift_by(-50), schedule);
            schedule.on_accepted(11);
        }
        assert_eq!(Schedule::of_numbers(&schedule.numbers(), 100, 10), None, "no time is so far away");
        assert_eq!(Schedule::of_numbers(&schedule.numbers()[1..], 100, 1000 * SECOND), None);
    }
}
