//! What can be set, with its defaults.

use std::path::PathBuf;
use std::time::Duration;

use crate::domain::custom::CustomCommand;
use crate::domain::endpoint::{Catalog, Endpoint};
use crate::domain::environment::EnvironmentEntry;
use crate::domain::thinking::Thinking;

/// How many agents may work at once if nobody says.
pub const WORKING_LIMIT: usize = 10;

/// Everything the program was told at its start.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the store lives; `None` keeps nothing.
    pub data_directory: Option<PathBuf>,
    /// Every provider that is configured.
    pub catalog: Catalog,
    /// What agent 0 runs on, and agents whose stored endpoint is not configured any more.
    pub endpoint: Endpoint,
    /// One line that says how to set up a real model, where none is configured.
    pub hint: Option<String>,
    /// What else a person should be told about the configuration, a line each.
    pub notes: Vec<String>,
    /// How much the models of new agents think.
    pub thinking: Thinking,
    /// Where tools work.
    pub working_directory: PathBuf,
    /// Our own binary, which supervises commands.
    pub supervisor: PathBuf,
    /// The limits within which agents work.
    pub settings: Settings,
    /// How tasks are run that several agents are given, where nobody says otherwise.
    pub team: TeamSettings,
    /// Environments that the person defined, beside the built-in ones.
    pub environments: Vec<EnvironmentEntry>,
    /// Commands that the person wrote.
    pub commands: Vec<CustomCommand>,
    /// How many agents may work at once; 0 is no limit. The others wait their turn, in order.
    pub working_limit: usize,
    /// Whether `/fork` brings the child to the screen.
    pub follows_forks: bool,
    /// Where each turn of the loop is written down.
    pub trace: Option<PathBuf>,
    /// Whether the trace is written so that two runs can be compared byte for byte.
    pub trace_stable: bool,
}

/// How several agents work on one task; strategy and aggregation by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TeamSettings {
    /// In which order the members work.
    pub strategy: &'static str,
    /// How their answers become one.
    pub aggregation: &'static str,
    /// How long each may take, over all its attempts and waits.
    pub agent_timeout: Duration,
    /// How often a failed attempt is made again.
    pub retries: u32,
}

impl TeamSettings {
    /// The names of all strategies.
    pub const STRATEGIES: [&str; 4] = ["sequential", "parallel", "pipeline", "adaptive"];
    /// The names of all aggregations.
    pub const AGGREGATIONS: [&str; 5] = ["concatenate", "vote", "select_best", "merge", "first_success"];
}

impl Default for TeamSettings {
    fn default() -> Self {
        Self { strategy: "sequential", aggregation: "concatenate", agent_timeout: Duration::from_secs(30), retries: 3 }
    }
}

/// The limits within which every agent works.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How failed requests are sent again.
    pub retry: RetryPolicy,
    /// A reply of which no byte came for this long has stalled.
    pub stall_timeout: Duration,
    /// Requests with tools per user message; one more is sent without tools, so that the agent can answer.
    pub tool_iterations: u32,
    /// The most often that a streaming reply is written to the store.
    pub checkpoint_every: Duration,
    /// Bytes that one agent may decode in one turn, so that none starves the keyboard.
    pub bytes_per_turn: usize,
    /// How long a command may run, if the model does not say.
    pub bash_timeout: Duration,
    /// How long a command that prints a key may run.
    pub key_timeout: Duration,
    /// Bytes of a tool's output that the model is shown.
    pub output_cap: usize,
    /// How long tool threads may take to end when the program is left.
    pub exit_patience: Duration,
}

/// How a failed request is sent again: after `base`, then twice as long each time, up to `cap`, plus jitter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// How often, after the first attempt.
    pub retries: u32,
    /// The first wait.
    pub base: Duration,
    /// The longest wait.
    pub cap: Duration,
    /// The largest share of the wait that is added at random.
    pub jitter: f64,
}

impl Default for Config {
    /// Keeps nothing, talks to echo, works where the program was started.
    fn default() -> Self {
        Self {
            data_directory: None,
            catalog: Catalog::default(),
            endpoint: Endpoint::echo(),
            hint: None,
            notes: Vec::new(),
            thinking: Thinking::default(),
            working_directory: PathBuf::from("."),
            supervisor: PathBuf::from("/proc/self/exe"),
            settings: Settings::default(),
            team: TeamSettings::default(),
            environments: Vec::new(),
            commands: Vec::new(),
            working_limit: WORKING_LIMIT,
            follows_forks: true,
            trace: None,
            trace_stable: false,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            stall_timeout: Duration::from_secs(120),
            tool_iterations: 50,
            checkpoint_every: Duration::from_millis(250),
            bytes_per_turn: 64 * 1024,
            bash_timeout: Duration::from_secs(120),
            key_timeout: Duration::from_secs(30),
            output_cap: 32 * 1024,
            exit_patience: Duration::from_secs(4),
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { retries: 5, base: Duration::from_secs(1), cap: Duration::from_secs(60), jitter: 0.25 }
    }
}

impl RetryPolicy {
    /// The wait before retry number `retry` (from 0); `chance` is between 0 and 1. Never above the cap.
    pub fn wait(&self, retry: u32, chance: f64) -> Duration {
        let wait = self.base.saturating_mul(2_u32.saturating_pow(retry)).min(self.cap);
        wait.mul_f64(1.0 + self.jitter * chance.clamp(0.0, 1.0)).min(self.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_jitter_never_passes_it() {
        let policy = RetryPolicy::default();
        let waits: Vec<u64> = (0..8).map(|retry| policy.wait(retry, 0.0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(policy.wait(0, 1.0), Duration::from_millis(1250));
        assert_eq!(policy.wait(200, 1.0), policy.cap);
    }
}
