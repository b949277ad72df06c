//! The success record of each member over many tasks, and its circuit breaker. Tasks ask before they start a member and
//! report how it ended. The time is passed in: nothing here reads a clock.
//!
//! ```text
//!           threshold failed tasks in a row             cool-down over, a task asks
//!   closed ---------------------------------> open until T ----------------------> half-open: one probe
//!     ^                                        ^   ^                                  |       |      |
//!     |                                        |   +--- open until now: cancelled ----+       |      |
//!     |                                        +------- open until T': failed ----------------+      |
//!     +------------------------------------- answered ------------------------------------------------+
//! ```
//! A skipped or cancelled task is neither success nor failure and changes no count.

use std::collections::BTreeMap;

use super::settings::BreakerPolicy;
use crate::base::clock::Moment;

/// The state of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Breaker {
    /// The member may be given tasks.
    #[default]
    Closed,
    /// The member is skipped until this moment; then one probe is allowed.
    Open {
        /// The end of the cool-down.
        until: Moment,
    },
    /// A probe is under way; all other tasks skip the member until it ends.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberHealth {
    /// Failed tasks since the last success.
    pub failures_in_row: u32,
    pub successes: u64,
    pub failures: u64,
    pub breaker: Breaker,
}

impl MemberHealth {
    /// The share of tasks that it answered; 1 before the first task.
    pub fn success_rate(&self) -> f64 {
        match self.successes + self.failures {
            0 => 1.0,
            tasks => self.successes as f64 / tasks as f64,
        }
    }
}

/// Whether a member may be given a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    Allowed,
    /// Yes, as the probe of a half-open breaker: the caller must report how it ended.
    Probe,
    /// No: skip it.
    Refused,
}

/// The records of all members, by name and model: another model is another member, whatever its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health(BTreeMap<String, MemberHealth>);

/// The name of a record.
pub fn key(name: &str, model: &str) -> String {
    if model.is_empty() { name.to_owned() } else { format!("{name} ({model})") }
}

impl Health {
    /// Asks whether a member may be given a task.
    pub fn admit(&mut self, key: &str, policy: BreakerPolicy, now: Moment) -> Admission {
        let Some(health) = self.0.get_mut(key).filter(|_| policy.threshold > 0) else { return Admission::Allowed };
        match health.breaker {
            Breaker::Closed => Admission::Allowed,
            Breaker::Open { until } if until <= now => {
                health.breaker = Breaker::HalfOpen;
                Admission::Probe
            }
            Breaker::Open { .. } | Breaker::HalfOpen => Admission::Refused,
        }
    }

    /// The member answered a task.
    pub fn on_success(&mut self, key: &str) {
        let health = self.0.entry(key.to_owned()).or_default();
        health.successes += 1;
        health.failures_in_row = 0;
        health.breaker = Breaker::Closed;
    }

    /// The member failed a task; the number of attempts does not matter.
    pub fn on_failure(&mut self, key: &str, policy: BreakerPolicy, now: Moment) {
        let health = self.0.entry(key.to_owned()).or_default();
        health.failures += 1;
        health.failures_in_row = health.failures_in_row.saturating_add(1);
        let opens = match health.breaker {
            Breaker::Closed => health.failures_in_row >= policy.threshold,
            Breaker::HalfOpen => true,
            // This task was started before the breaker opened: the cool-down is not extended.
            Breaker::Open { .. } => false,
        };
        if policy.threshold > 0 && opens {
            health.breaker = Breaker::Open { until: now + policy.cool_down };
        }
    }

    /// The probe was cancelled without a result: the next task becomes the probe.
    pub fn on_probe_cancelled(&mut self, key: &str, now: Moment) {
        if let Some(health) = self.0.get_mut(key).filter(|health| health.breaker == Breaker::HalfOpen) {
            health.breaker = Breaker::Open { until: now };
        }
    }

    /// The record of one member.
    pub fn of(&self, key: &str) -> MemberHealth {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// The records of all members that were given a task, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &MemberHealth)> {
        self.0.iter().map(|(key, health)| (key.as_str(), health))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
    fn the_breaker_opens_at_exactly_the_threshold_and_for_one_member() {
        for threshold in 1..=7 {
            let policy = BreakerPolicy { threshold, ..POLICY };
            assert_eq!(failed(threshold - 1, policy).admit("m", policy, at(0)), Admission::Allowed);
            let mut health = failed(threshold, policy);
            assert_eq!(health.admit("m", policy, at(0)), Admission::Refused);
            assert_eq!(health.admit("other", policy, at(0)), Admission::Allowed);
        }
    }

    #[test]
    fn threshold_zero_disables_an_open_breaker() {
        let off = BreakerPolicy { threshold: 0, ..POLICY };
        assert_eq!(failed(1000, off).of("m").breaker, Breaker::Closed);
        assert_eq!(failed(3, POLICY).admit("m", off, at(0)), Admission::Allowed);
    }

    #[test]
    fn a_success_resets_the_count() {
        let mut health = failed(2, POLICY);
        health.on_success("m");
        (0..2).for_each(|_| health.on_failure("m", POLICY, at(0)));
        assert_eq!(health.admit("m", POLICY, at(0)), Admission::Allowed);
    }

    #[test]
    fn skipping_changes_nothing() {
        let mut health = failed(3, POLICY);
        let before = health.clone();
        for second in 0..60 {
            assert_eq!(health.admit("m", POLICY, at(second)), Admission::Refused);
        }
        assert_eq!(health, before);
    }

    #[test]
    fn a_successful_probe_after_the_cool_down_closes_the_breaker() {
        let mut health = failed(3, POLICY);
        assert_eq!(health.admit("m", POLICY, at(60)), Admission::Probe);
        assert_eq!(health.admit("m", POLICY, at(60)), Admission::Refused);
        assert_eq!(health.admit("m", POLICY, at(9999)), Admission::Refused);
        health.on_success("m");
        assert_eq!(health.of("m").breaker, Breaker::Closed);
        health.on_failure("m", POLICY, at(10_000));
        assert_eq!(health.admit("m", POLICY, at(10_000)), Admission::Allowed, "the count was reset");
    }

    #[test]
    fn a_failed_probe_starts_another_cool_down() {
        let mut health = failed(3, POLICY);
        health.admit("m", POLICY, at(70));
        health.on_failure("m", POLICY, at(80));
        assert_eq!(health.of("m").breaker, Breaker::Open { until: at(140) });
        assert_eq!(health.admit("m", POLICY, at(139)), Admission::Refused);
        assert_eq!(health.admit("m", POLICY, at(140)), Admission::Probe);
    }

    #[test]
    fn after_a_cancelled_probe_the_next_task_is_the_probe() {
        let mut health = failed(3, POLICY);
        health.admit("m", POLICY, at(60));
        health.on_probe_cancelled("m", at(61));
        assert_eq!(health.of("m").failures, 3);
        assert_eq!(health.admit("m", POLICY, at(61)), Admission::Probe);
    }

    #[test]
    fn a_failure_while_open_does_not_extend_the_cool_down() {
        let mut health = failed(3, POLICY);
        health.on_failure("m", POLICY, at(50));
        assert_eq!(health.of("m").breaker, Breaker::Open { until: at(60) });
    }

    #[test]
    fn the_success_rate_is_one_before_the_first_task() {
        let mut health = Health::default();
        assert!((health.of("m").success_rate() - 1.0).abs() < f64::EPSILON);
        health.on_success("m");
        (0..3).for_each(|_| health.on_failure("m", POLICY, at(0)));
        assert!((health.of("m").success_rate() - 0.25).abs() < f64::EPSILON);
        assert_eq!(health.of("m").breaker.name(), "open");
    }

    #[test]
    fn random_sequences_open_only_at_the_threshold_and_allow_one_probe_at_a_time() {
        for seed in 1..300 {
            let (mut rng, mut health, mut now) = (fastrand::Rng::with_seed(seed), Health::default(), 0);
            let (mut failures, mut probing) = (0, false);
            for _ in 0..200 {
                now += rng.usize(..40) as u64;
                let admission = health.admit("m", POLICY, at(now));
                assert_eq!(admission == Admission::Allowed, failures < POLICY.threshold, "seed {seed}");
                assert!(!(probing && admission == Admission::Probe), "seed {seed}");
                probing |= admission == Admission::Probe;
                if admission == Admission::Refused && !probing {
                    continue;
                }
                match rng.usize(..3) {
                    0 => {
                        health.on_success("m");
                        (failures, probing) = (0, false);
                    }
                    1 => {
                        health.on_failure("m", POLICY, at(now));
                        (failures, probing) = (failures + 1, false);
                    }
                    _ => {}
                }
            }
        }
    }
}
