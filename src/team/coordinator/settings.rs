//! The settings of a task: defaults, bounds, and the names of strategies and aggregations. The command line, files and
//! `/team` fill them in.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::base::error::{Error, Result};
use crate::base::text;
use crate::domain::config::{RetryPolicy, TeamSettings};

/// The most members of one task: each is an agent with its own connection.
pub const MAX_MEMBERS: usize = 100;
/// The largest share of a retry delay that is added at random.
pub const MAX_JITTER: f64 = 0.25;

/// The order in which the members work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// One after another; a failure does not stop the rest.
    #[default]
    Sequential,
    /// All at once.
    Parallel,
    /// One after another, each on the answer of the previous one.
    Pipeline,
    /// Parallel for more than two members and a short task, otherwise sequential.
    Adaptive,
}

/// How several answers become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aggregation {
    /// All answers in member order.
    #[default]
    Concatenate,
    /// The most frequent answer.
    Vote,
    /// The answer with the highest score, or the one that a judge chooses.
    SelectBest,
    /// The sections of all answers without duplicates.
    Merge,
    /// The first answer; the other members are stopped.
    FirstSuccess,
    /// The answer of the last member that has one: the result of a pipeline.
    Last,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 4] = [Self::Sequential, Self::Parallel, Self::Pipeline, Self::Adaptive];

    /// The name in commands and files.
    pub const fn name(self) -> &'static str {
        TeamSettings::STRATEGIES[self as usize]
    }

    /// How the answers are combined by default.
    pub const fn usual_aggregation(self) -> Aggregation {
        match self {
            Self::Pipeline => Aggregation::Last,
            Self::Sequential | Self::Parallel | Self::Adaptive => Aggregation::Concatenate,
        }
    }
}

impl Aggregation {
    /// All aggregations.
    pub const ALL: [Self; 6] =
        [Self::Concatenate, Self::Vote, Self::SelectBest, Self::Merge, Self::FirstSuccess, Self::Last];

    /// The configured aggregation, or that of the strategy.
    pub fn of_settings(settings: &TeamSettings, strategy: Strategy) -> Self {
        settings.aggregation.parse().unwrap_or(strategy.usual_aggregation())
    }

    /// The name in commands and files; a hyphen is accepted for the underscore.
    pub const fn name(self) -> &'static str {
        TeamSettings::AGGREGATIONS[self as usize]
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Strategy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        position("strategy", text, &TeamSettings::STRATEGIES).map(|at| Self::ALL[at])
    }
}

impl FromStr for Aggregation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        position("aggregation", text, &TeamSettings::AGGREGATIONS).map(|at| Self::ALL[at])
    }
}

fn position(what: &str, text: &str, names: &[&str]) -> Result<usize> {
    let normal = text.replace('-', "_");
    names.iter().position(|name| *name == normal).ok_or_else(|| unknown(what, text, &normal, names.iter().copied()))
}

/// The error for an unknown name, with the nearest known one and all others. `normal` is `text` in the form of `names`.
pub fn unknown<'a>(what: &str, text: &str, normal: &str, names: impl Iterator<Item = &'a str> + Clone) -> Error {
    let shown: String = text::sanitise(text).chars().take(40).collect();
    // Longer texts are no misspelt names, and the distance is expensive.
    let nearest = Some(normal).filter(|name| name.len() <= 40).and_then(|name| text::nearest(name, names.clone()));
    let hint = nearest.map_or_else(String::new, |name| format!(": did you mean {name}?"));
    let known: Vec<&str> = names.collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Error::usage(format!("unknown {what} {shown:?}{hint} (known: {known})"))
}

/// When a member that keeps failing is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// The breaker opens after this many failed tasks in a row; 0: never.
    pub threshold: u32,
    /// How long it stays open before a probe.
    pub cool_down: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self { threshold: 5, cool_down: Duration::from_secs(60) }
    }
}

/// The settings of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The order in which the members work.
    pub strategy: Strategy,
    /// How their answers become one.
    pub aggregation: Aggregation,
    /// The time limit of each member over all attempts and delays, from its first slot.
    pub agent_timeout: Duration,
    /// How failed attempts are retried.
    pub retry: RetryPolicy,
    /// When a member is skipped.
    pub breaker: BreakerPolicy,
    /// `provider/model` of the judge for [`Aggregation::SelectBest`]; `None`: the score decides.
    pub judge: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(&TeamSettings::default())
    }
}

impl Settings {
    /// The settings of a configuration, with defaults for the rest. Names were checked when the configuration was read.
    pub fn of(configured: &TeamSettings) -> Self {
        let strategy = configured.strategy.parse().unwrap_or_default();
        Self {
            strategy,
            aggregation: Aggregation::of_settings(configured, strategy),
            agent_timeout: configured.agent_timeout,
            retry: RetryPolicy {
                retries: Some(configured.retries),
                base: Duration::from_millis(100),
                cap: Duration::from_secs(30),
                jitter: MAX_JITTER,
            },
            breaker: BreakerPolicy::default(),
            judge: None,
        }
    }

    /// Checks that a task can be run with these settings.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::usage(message));
        if self.agent_timeout.is_zero() {
            return refuse("the timeout of a member must be more than 0 s".into());
        }
        if !(0.0..=MAX_JITTER).contains(&self.retry.jitter) {
            return refuse(format!("jitter must be from 0 to {MAX_JITTER}"));
        }
        if self.judge.is_some() && self.aggregation != Aggregation::SelectBest {
            return refuse(format!("a judge needs the aggregation select_best (got {})", self.aggregation));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

    #[test]
    fn defaults() {
        let settings = Settings::default();
        assert_eq!((settings.strategy.name(), settings.aggregation.name()), ("sequential", "concatenate"));
        assert_eq!(settings.agent_timeout, Duration::from_secs(30));
        assert_eq!((settings.retry.number(), settings.retry.jitter), (3, 0.25));
        assert_eq!(settings.breaker, BreakerPolicy { threshold: 5, cool_down: Duration::from_secs(60) });
        assert!(settings.check().is_ok());
    }

    #[test]
    fn retry_delays_double_from_100_ms_to_30_s_and_jitter_stays_below_the_cap() {
        let retry = Settings::default().retry;
        let waits = |chance| -> Vec<u128> { (0..10).map(|n| retry.wait(n, chance).as_millis()).collect() };
        assert_eq!(waits(0.0), [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000]);
        assert_eq!(waits(1.0), [125, 250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
    }

    #[test]
    fn every_name_parses_also_with_hyphens() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
        for aggregation in Aggregation::ALL {
            assert_eq!(aggregation.to_string().parse(), Ok(aggregation));
            assert_eq!(aggregation.to_string().replace('_', "-").parse(), Ok(aggregation));
        }
    }

    #[test]
    fn an_unknown_name_is_an_error_with_the_nearest_and_all_names() {
        let text = "paralel".parse::<Strategy>().unwrap_err().message;
        assert_eq!(
            text,
            "unknown strategy \"paralel\": did you mean parallel? (known: sequential, parallel, pipeline, adaptive)"
        );
        let text = "first-succes".parse::<Aggregation>().unwrap_err().message;
        assert!(text.contains("did you mean first_success?"), "{text}");
        for name in ["", " ", "x", "\u{1b}[2J", &"vote".repeat(10_000)] {
            let text = name.parse::<Aggregation>().unwrap_err().message;
            assert!(!text.contains("did you mean") && !text.contains('\u{1b}') && text.len() < 200, "{text}");
        }
    }

    #[test]
    fn values_out_of_bounds_are_refused() {
        let default = Settings::default;
        let no_time = Settings { agent_timeout: Duration::ZERO, ..default() };
        let with_jitter = |jitter| Settings { retry: RetryPolicy { jitter, ..default().retry }, ..default() };
        let judged = Settings { judge: Some("echo".into()), ..default() };
        for settings in [no_time, with_jitter(0.26), with_jitter(-0.1), with_jitter(f64::NAN), judged.clone()] {
            assert_eq!(settings.check().unwrap_err().kind, ErrorKind::Usage, "{settings:?}");
        }
        assert!(Settings { aggregation: Aggregation::SelectBest, ..judged }.check().is_ok());
    }
}
