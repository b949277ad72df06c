//! How the members have fared over many tasks, and the breaker that leaves alone whoever keeps failing. Kept by the
//! coordinator, by name; tasks only ask and tell. Time is given: nothing here looks at a clock.
//!
//! ```text
//!            so many failed tasks in a row              the time is over, a task asks
//!   closed -------------------------------> open until T -----------------------------> half-open: one task is tried
//!     ^                                      ^   ^                                        |       |        |
//!     |                                      |   +------- open until now: was cancelled --+       |        |
//!     |                                      +----------------- failed: open until T' ------------+        |
//!     +---------------------------------------- answered --------------------------------------------------+
//! ```
//! A task that is skipped or cancelled is neither success nor failure: it changes nothing that is counted.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::settings::BreakerPolicy;
use crate::base::clock::Moment;

/// Whether a member may be given a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Breaker {
    /// It may.
    #[default]
    Closed,
    /// Not before this moment; then one task is tried.
    Open {
        /// That moment.
        until: Moment,
    },
    /// One task is being tried; all others are skipped until it ends.
    HalfOpen,
}

impl Breaker {
    /// A short stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

/// How one member has fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberHealth {
    /// Failed tasks since the last one that succeeded.
    pub failures_in_row: u32,
    /// Tasks that it answered.
    pub successes: u64,
    /// Tasks that it failed.
    pub failures: u64,
    /// Whether it may be given a task.
    pub breaker: Breaker,
}

impl MemberHealth {
    /// The share of tasks that it answered; 1 before any.
    pub fn success_rate(&self) -> f64 {
        match self.successes + self.failures {
            0 => 1.0,
            tasks => self.successes as f64 / tasks as f64,
        }
    }

    /// As scripts read it.
    pub fn json(&self) -> Value {
        json!({
            "failures_in_row": self.failures_in_row,
            "tasks": self.successes + self.failures,
            "successes": self.successes,
            "failures": self.failures,
            "success_rate": self.success_rate(),
            "breaker": self.breaker.name(),
        })
    }
}

/// The answer to whether a member may be given a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Usual,
    /// It may, and what becomes of this task decides about the others.
    Probe,
    /// It is to be skipped.
    Refused,
}

/// How all members have fared, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health(BTreeMap<String, MemberHealth>);

impl Health {
    /// Asks for a member. Whoever is told [`Admission::Probe`] must say how it ended.
    pub fn admit(&mut self, name: &str, policy: BreakerPolicy, now: Moment) -> Admission {
        let Some(health) = self.0.get_mut(name).filter(|_| policy.threshold > 0) else { return Admission::Usual };
        match health.breaker {
            Breaker::Closed => Admission::Usual,
            Breaker::Open { until } if until <= now => {
                health.breaker = Breaker::HalfOpen;
                Admission::Probe
            }
            Breaker::Open { .. } | Breaker::HalfOpen => Admission::Refused,
        }
    }

    /// The member answered a task.
    pub fn on_success(&mut self, name: &str) {
        let health = self.0.entry(name.to_owned()).or_default();
        health.successes += 1;
        health.failures_in_row = 0;
        health.breaker = Breaker::Closed;
    }

    /// The member failed a task, whatever the number of attempts.
    pub fn on_failure(&mut self, name: &str, policy: BreakerPolicy, now: Moment) {
        let health = self.0.entry(name.to_owned()).or_default();
        health.failures += 1;
        health.failures_in_row = health.failures_in_row.saturating_add(1);
        let is_enough = match health.breaker {
            Breaker::Closed => health.failures_in_row >= policy.threshold,
            Breaker::HalfOpen => true,
            // A task that was given before it opened says nothing new.
            Breaker::Open { .. } => false,
        };
        if policy.threshold > 0 && is_enough {
            health.breaker = Breaker::Open { until: now + policy.cool_down };
        }
    }

    /// A probe was cancelled before it told anything: the next task is tried instead.
    pub fn on_probe_cancelled(&mut self, name: &str, now: Moment) {
        if let Some(health) = self.0.get_mut(name).filter(|health| health.breaker == Breaker::HalfOpen) {
            health.breaker = Breaker::Open { until: now };
        }
    }

    /// How a member has fared.
    pub fn of(&self, name: &str) -> MemberHealth {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// All members that were ever told of, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &MemberHealth)> {
        self.0.iter().map(|(name, health)| (name.as_str(), health))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::team::coordinator::dice::Dice;

    const POLICY: BreakerPolicy = BreakerPolicy { threshold: 3, cool_down: Duration::from_secs(60) };

    fn at(seconds: u64) -> Moment {
        Moment::default() + Duration::from_secs(seconds)
    }

    fn failed(times: u32, policy: BreakerPolicy) -> Health {
        let mut health = Health::default();
        (0..times).for_each(|_| health.on_failure("m", policy, at(0)));
        health
    }

    #[test]
    fn it_opens_at_exactly_the_threshold_for_that_member_alone() {
        for threshold in 1..=7 {
            let policy = BreakerPolicy { threshold, ..POLICY };
            assert_eq!(failed(threshold - 1, policy).admit("m", policy, at(0)), Admission::Usual);
            let mut health = failed(threshold, policy);
            assert_eq!(health.admit("m", policy, at(0)), Admission::Refused);
            assert_eq!(health.admit("other", policy, at(0)), Admission::Usual);
        }
    }

    #[test]
    fn zero_switches_it_off_even_if_it_was_open() {
        let off = BreakerPolicy { threshold: 0, ..POLICY };
        assert_eq!(failed(1000, off).of("m").breaker, Breaker::Closed);
        assert_eq!(failed(3, POLICY).admit("m", off, at(0)), Admission::Usual);
    }

    #[test]
    fn a_success_between_failures_starts_the_count_anew() {
        let mut health = failed(2, POLICY);
        health.on_success("m");
        (0..2).for_each(|_| health.on_failure("m", POLICY, at(0)));
        assert_eq!(health.admit("m", POLICY, at(0)), Admission::Usual);
    }

    #[test]
    fn to_be_skipped_changes_nothing() {
        let mut health = failed(3, POLICY);
        let before = health.clone();
        for second in 0..60 {
            assert_eq!(health.admit("m", POLICY, at(second)), Admission::Refused);
        }
        assert_eq!(health, before);
    }

    #[test]
    fn after_the_cool_down_one_task_is_tried_and_its_success_closes() {
        let mut health = failed(3, POLICY);
        assert_eq!(health.admit("m", POLICY, at(60)), Admission::Probe);
        assert_eq!(health.admit("m", POLICY, at(60)), Admission::Refused);
        assert_eq!(health.admit("m", POLICY, at(9999)), Admission::Refused);
        health.on_success("m");
        assert_eq!(health.of("m").breaker, Breaker::Closed);
        health.on_failure("m", POLICY, at(10_000));
        assert_eq!(health.admit("m", POLICY, at(10_000)), Admission::Usual, "the count began anew");
    }

    #[test]
    fn the_failure_of_what_is_tried_opens_for_another_whole_cool_down() {
        let mut health = failed(3, POLICY);
        health.admit("m", POLICY, at(70));
        health.on_failure("m", POLICY, at(80));
        assert_eq!(health.of("m").breaker, Breaker::Open { until: at(140) });
        assert_eq!(health.admit("m", POLICY, at(139)), Admission::Refused);
        assert_eq!(health.admit("m", POLICY, at(140)), Admission::Probe);
    }

    #[test]
    fn what_is_tried_and_cancelled_leaves_the_trial_to_the_next() {
        let mut health = failed(3, POLICY);
        health.admit("m", POLICY, at(60));
        health.on_probe_cancelled("m", at(61));
        assert_eq!(health.of("m").failures, 3);
        assert_eq!(health.admit("m", POLICY, at(61)), Admission::Probe);
    }

    #[test]
    fn a_failure_of_before_it_opened_does_not_keep_it_open_longer() {
        let mut health = failed(3, POLICY);
        health.on_failure("m", POLICY, at(50));
        assert_eq!(health.of("m").breaker, Breaker::Open { until: at(60) });
    }

    #[test]
    fn the_rate_is_one_before_any_task() {
        let mut health = Health::default();
        assert!((health.of("m").success_rate() - 1.0).abs() < f64::EPSILON);
        health.on_success("m");
        (0..3).for_each(|_| health.on_failure("m", POLICY, at(0)));
        assert!((health.of("m").success_rate() - 0.25).abs() < f64::EPSILON);
        assert_eq!(health.of("m").json()["breaker"], "open");
    }

    #[test]
    fn whatever_happens_it_is_open_only_after_enough_failures_and_one_at_most_is_tried() {
        for seed in 1..300 {
            let (mut dice, mut health, mut now) = (Dice(seed), Health::default(), 0);
            let (mut row, mut trying) = (0, false);
            for _ in 0..200 {
                now += dice.below(40) as u64;
                let admission = health.admit("m", POLICY, at(now));
                assert_eq!(admission == Admission::Usual, row < POLICY.threshold, "seed {seed}");
                assert!(!(trying && admission == Admission::Probe), "seed {seed}");
                trying |= admission == Admission::Probe;
                if admission == Admission::Refused && !trying {
                    continue;
                }
                match dice.below(3) {
                    0 => {
                        (row, trying) = (0, {
                            health.on_success("m");
                            false
                        })
                    }
                    1 => {
                        (row, trying) = (row + 1, {
                            health.on_failure("m", POLICY, at(now));
                            false
                        })
                    }
                    _ => {}
                }
            }
        }
    }
}
