//! How a task is run: the table of settings with its defaults and bounds, and the names that people write for them.
//!
//! Where the values come from (command line, file, `/team`) is no business of this file.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::text;
use crate::domain::config::{RetryPolicy, TeamSettings};

/// Members of one task: each is an agent with a connection of its own.
pub const MOST_MEMBERS: usize = 100;
/// The largest share of a wait that may be added at random.
pub const MOST_JITTER: f64 = 0.25;

/// In which order the members work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// One after the other, going on after a failure.
    #[default]
    Sequential,
    /// All at once.
    Parallel,
    /// One after the other, each on the answer of the one before.
    Pipeline,
    /// All at once if there are several and the task is short, else one after the other.
    Adaptive,
}

/// How several answers become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aggregation {
    /// All of them, in the order of the members.
    #[default]
    Concatenate,
    /// The one that most members gave.
    Vote,
    /// The one with the highest score, or the one that a judge picks.
    SelectBest,
    /// All sections, each once.
    Merge,
    /// The first one; the other members are stopped.
    FirstSuccess,
}

impl Strategy {
    /// All of them, as help lists them.
    pub const ALL: [Self; 4] = [Self::Sequential, Self::Parallel, Self::Pipeline, Self::Adaptive];

    /// What people write for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Parallel => "parallel",
            Self::Pipeline => "pipeline",
            Self::Adaptive => "adaptive",
        }
    }
}

impl Aggregation {
    /// All of them, as help lists them.
    pub const ALL: [Self; 5] = [Self::Concatenate, Self::Vote, Self::SelectBest, Self::Merge, Self::FirstSuccess];

    /// What people write for it; a hyphen does for the underscore.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Concatenate => "concatenate",
            Self::Vote => "vote",
            Self::SelectBest => "select_best",
            Self::Merge => "merge",
            Self::FirstSuccess => "first_success",
        }
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

    fn from_str(typed: &str) -> Result<Self> {
        named("strategy", typed, &Self::ALL.map(Self::name)).map(|at| Self::ALL[at])
    }
}

impl FromStr for Aggregation {
    type Err = Error;

    fn from_str(typed: &str) -> Result<Self> {
        named("aggregation", typed, &Self::ALL.map(Self::name)).map(|at| Self::ALL[at])
    }
}

/// Which of the names was typed; an error with the nearest one and all others.
fn named(what: &str, typed: &str, names: &[&str]) -> Result<usize> {
    let plain = typed.replace('-', "_");
    names.iter().position(|name| *name == plain).ok_or_else(|| unknown(what, typed, &plain, names.iter().copied()))
}

/// Words for a name that nobody has, with the nearest one and those that there are.
pub fn unknown<'a>(what: &str, typed: &str, meant: &str, names: impl Iterator<Item = &'a str> + Clone) -> Error {
    let shown: String = text::sanitise(typed).chars().take(40).collect();
    // The distance is only worth its time for what could be a name.
    let nearest = Some(meant).filter(|meant| meant.len() <= 40).and_then(|meant| text::nearest(meant, names.clone()));
    let hint = nearest.map_or_else(String::new, |name| format!(" - did you mean {name}?"));
    let known: Vec<&str> = names.collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Error::new(ErrorKind::Usage, format!("there is no {what} {shown:?}{hint} (there are: {known})"))
}

/// When a member that keeps failing is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// Failed tasks in a row after which it opens; 0: never.
    pub threshold: u32,
    /// How long it stays open before one task is tried.
    pub cool_down: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self { threshold: 5, cool_down: Duration::from_secs(60) }
    }
}

/// How one task is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// In which order the members work.
    pub strategy: Strategy,
    /// How their answers become one.
    pub aggregation: Aggregation,
    /// How long a member may take, over all its attempts and waits, from when it is given a place to work.
    pub agent_timeout: Duration,
    /// How a failed attempt is made again.
    pub retry: RetryPolicy,
    /// When a member is skipped.
    pub breaker: BreakerPolicy,
    /// `provider/model` of the judge that picks for [`Aggregation::SelectBest`]; `None`: the formula does.
    pub judge: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(&TeamSettings::default())
    }
}

impl Settings {
    /// What the configuration says, and the defaults for the rest. A name that there is not is the default, too: whoever
    /// reads a configuration has refused it.
    pub fn of(configured: &TeamSettings) -> Self {
        Self {
            strategy: configured.strategy.parse().unwrap_or_default(),
            aggregation: configured.aggregation.parse().unwrap_or_default(),
            agent_timeout: configured.agent_timeout,
            retry: RetryPolicy {
                retries: configured.retries,
                base: Duration::from_millis(100),
                cap: Duration::from_secs(30),
                jitter: MOST_JITTER,
            },
            breaker: BreakerPolicy::default(),
            judge: None,
        }
    }

    /// Whether a task can be run like this.
    ///
    /// # Errors
    /// A value is out of its bounds, or a judge was named for an aggregation that asks none.
    pub fn check(&self) -> Result<()> {
        let refuse = |words: String| Err(Error::new(ErrorKind::Usage, words));
        if self.agent_timeout.is_zero() {
            return refuse("a member needs more than 0 s".into());
        }
        if !(0.0..=MOST_JITTER).contains(&self.retry.jitter) {
            return refuse(format!("jitter is a share from 0 to {MOST_JITTER}"));
        }
        if self.judge.is_some() && self.aggregation != Aggregation::SelectBest {
            return refuse(format!("a judge picks for select_best, not for {}", self.aggregation));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_table() {
        let settings = Settings::default();
        assert_eq!((settings.strategy.name(), settings.aggregation.name()), ("sequential", "concatenate"));
        assert_eq!(settings.agent_timeout, Duration::from_secs(30));
        assert_eq!((settings.retry.retries, settings.retry.jitter), (3, 0.25));
        assert_eq!(settings.breaker, BreakerPolicy { threshold: 5, cool_down: Duration::from_secs(60) });
        assert!(settings.check().is_ok());
    }

    #[test]
    fn waits_double_from_100_ms_up_to_30_s_and_jitter_never_passes_the_cap() {
        let retry = Settings::default().retry;
        let waits = |chance| -> Vec<u128> { (0..10).map(|n| retry.wait(n, chance).as_millis()).collect() };
        assert_eq!(waits(0.0), [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000]);
        assert_eq!(waits(1.0), [125, 250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
    }

    #[test]
    fn every_name_reads_back_and_a_hyphen_does_for_an_underscore() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
        for aggregation in Aggregation::ALL {
            assert_eq!(aggregation.to_string().parse(), Ok(aggregation));
            assert_eq!(aggregation.to_string().replace('_', "-").parse(), Ok(aggregation));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest_and_all_others() {
        let words = "paralel".parse::<Strategy>().unwrap_err().message;
        assert_eq!(
            words,
            "there is no strategy \"paralel\" - did you mean parallel? (there are: sequential, parallel, pipeline, adaptive)"
        );
        let words = "first-succes".parse::<Aggregation>().unwrap_err().message;
        assert!(words.contains("did you mean first_success?"), "{words}");
        for typed in ["", " ", "x", "\u{1b}[2J", &"vote".repeat(10_000)] {
            let words = typed.parse::<Aggregation>().unwrap_err().message;
            assert!(!words.contains("did you mean") && !words.contains('\u{1b}') && words.len() < 200, "{words}");
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let usual = Settings::default;
        let no_time = Settings { agent_timeout: Duration::ZERO, ..usual() };
        let wild = |jitter| Settings { retry: RetryPolicy { jitter, ..usual().retry }, ..usual() };
        let judged = Settings { judge: Some("echo".into()), ..usual() };
        for settings in [no_time, wild(0.26), wild(-0.1), wild(f64::NAN), judged.clone()] {
            assert_eq!(settings.check().unwrap_err().kind, ErrorKind::Usage, "{settings:?}");
        }
        assert!(Settings { aggregation: Aggregation::SelectBest, ..judged }.check().is_ok());
    }
}
