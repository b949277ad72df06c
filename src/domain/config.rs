//! The configuration with its defaults.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::agent_host::AgentHost;
use crate::domain::approval::Policy;
use crate::domain::custom::{CustomCommand, TeamFile};
use crate::domain::definition::AgentDefinition;
use crate::domain::display::DisplaySettings;
use crate::domain::endpoint::{Catalog, Endpoint};
use crate::domain::environment::EnvironmentEntry;
use crate::domain::file_change::WorktreeExtras;
use crate::domain::hook::Hook;
use crate::domain::instructions::InstructionFile;
use crate::domain::keymap::KeyMap;
use crate::domain::limits::TreeLimits;
use crate::domain::mcp::McpServer;
use crate::domain::rule::Rules;
use crate::domain::sandbox::SandboxSettings;
use crate::domain::skill::SkillList;
use crate::domain::thinking::Thinking;
use crate::domain::tool::ScriptedTools;
use crate::domain::user_tool::UserToolEntry;

/// The default limit of agents that work at once.
pub const WORKING_LIMIT: usize = 10;

/// The ways to edit the input.
pub const EDITING: [&str; 2] = ["emacs", VI];
/// The one that has modes.
pub const VI: &str = "vi";

/// The configuration, read from files, the environment and the command line.
#[derive(Debug, Clone)]
pub struct Config {
    /// The directory of the store; `None` for a store in memory.
    pub data_directory: Option<PathBuf>,
    /// Where processes share the pace of requests to a provider that limits them, and logins at MCP servers; `None`: they
    /// share nothing. No file is created before a provider has refused a request or a person has logged in.
    pub shared_directory: Option<PathBuf>,
    /// Files and directories that tools of models never open, besides the data directory and the fixed list: the
    /// configuration.
    pub private_paths: Vec<PathBuf>,
    /// The configured providers.
    pub catalog: Catalog,
    /// The endpoint of agent 0, and of agents whose stored endpoint is not configured any more.
    pub endpoint: Endpoint,
    /// How to set up a model, if none is configured.
    pub hint: Option<String>,
    /// Notes about the configuration, one line each.
    pub notes: Vec<String>,
    /// The model that makes the titles of conversations, as `provider/model`; without one they are the first words.
    pub title_model: Option<String>,
    /// The thinking level of new agents.
    pub thinking: Thinking,
    /// The working directory of tools.
    pub working_directory: PathBuf,
    /// Where `ssh`, `podman` and `docker` are looked for, instead of in `PATH`.
    pub program_path: Option<OsString>,
    /// The binary of the program, which is run again to supervise commands.
    pub supervisor: PathBuf,
    /// The sandbox of tool commands.
    pub sandbox: SandboxSettings,
    /// The limits of each agent.
    pub settings: Settings,
    /// The limits of each tree of agents: one that a person made, with those that models made below it.
    pub tree_limits: TreeLimits,
    /// Whether the limit of dollars counts from the start of the program.
    pub counts_usd_from_start: bool,
    /// The defaults of tasks for several agents.
    pub team: TeamSettings,
    /// Environments beside the built-in ones.
    pub environments: Vec<EnvironmentEntry>,
    /// The `AGENTS.md` files for the working directory, if they were read with the configuration.
    pub instructions: Option<Vec<InstructionFile>>,
    /// What is added to the system prompts of all agents of this process.
    pub added_instructions: Option<String>,
    /// SHA-256, in hexadecimal, of the `AGENTS.md` files that become part of the instructions; others are ignored.
    pub trusted_instructions: BTreeSet<String>,
    /// Definitions of agents: the user's, then those of a trusted project.
    pub definitions: Arc<[AgentDefinition]>,
    /// Hooks: the user's, then those of a trusted project.
    pub hooks: Arc<[Hook]>,
    /// The directories of the user's skills, those that count first first.
    pub skill_directories: Vec<PathBuf>,
    /// The skills for the working directory.
    pub skills: Arc<SkillList>,
    /// When the skills were read, in milliseconds since 1970.
    pub skills_read_at: Option<i64>,
    /// MCP servers: the user's, then those of a trusted project.
    pub mcp: Vec<McpServer>,
    /// Other agent programs as models: those of the user, then those of the built-in table.
    pub hosts: Vec<AgentHost>,
    /// Programs that are tools: the user's, then those of a trusted project.
    pub user_tools: Vec<UserToolEntry>,
    /// Custom slash commands.
    pub commands: Vec<CustomCommand>,
    /// Templates and workflows: the user's, then those of a trusted project, which replace others of the same name.
    pub team_files: Vec<TeamFile>,
    /// What new agents may do without a question.
    pub policy: Policy,
    /// The most that any agent may do without a question at the start; a person can set more for one agent.
    pub policy_ceiling: Policy,
    /// Rules that allow, ask for or deny what agents do.
    pub rules: Rules,
    /// More rules for agents whose workspace is this directory, which is canonical.
    pub project_rules: Vec<(PathBuf, Rules)>,
    /// The user's configuration file, to which rules are added on a person's request; it need not exist.
    pub user_file: Option<PathBuf>,
    /// Agents that were not used for this many days are deleted; 0: never.
    pub keep_days: u32,
    /// The command that says whether an agent is done.
    pub done: DoneSettings,
    /// The worktrees that are made for agents.
    pub worktree: WorktreeSettings,
    /// The project whose file has set the command for finished work or the one for new worktrees.
    pub commands_of: Option<ProjectCommands>,
    /// Whether a server is asked for its models when the context of a model is unknown.
    pub looks_up_models: bool,
    /// How many agents may work at once; 0 is no limit. Others wait in order.
    pub working_limit: usize,
    /// How long the sockets of replies that stream quickly are left until all are read in one turn; zero: each is read at once.
    pub read_interval: Duration,
    /// Whether `/fork` switches to the child.
    pub follows_forks: bool,
    /// The keys of all actions.
    pub keymap: KeyMap,
    /// How the input is edited: one of `emacs` or `vi`.
    pub editing: &'static str,
    /// The screen around the conversation.
    pub display: DisplaySettings,
    /// The file to which each turn of the loop is traced.
    pub trace: Option<PathBuf>,
    /// Whether the trace is written so that two runs can be compared byte for byte.
    pub trace_stable: bool,
    /// The file in which the session is recorded as a scenario.
    pub record: Option<PathBuf>,
    /// Whether the record has the texts of the session.
    pub records_texts: bool,
    /// Set for a replay, which reaches nothing outside of it.
    pub replay: Option<Replay>,
}

/// What replaces the provider and the tools in a replay.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The Unix socket to which all requests go.
    pub provider: PathBuf,
    /// Gives the results of tool calls.
    pub tools: Arc<dyn ScriptedTools>,
}

/// How several agents work on one task; strategy and aggregation by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TeamSettings {
    /// In which order the members work.
    pub strategy: &'static str,
    /// How their answers become one; [`TeamSettings::AUTO`] is as usual for the strategy.
    pub aggregation: &'static str,
    /// The time limit of each member, including retries and waits.
    pub agent_timeout: Duration,
    /// Retries after a failed attempt.
    pub retries: u32,
}

impl TeamSettings {
    /// The names of all strategies.
    pub const STRATEGIES: [&str; 4] = ["sequential", "parallel", "pipeline", "adaptive"];
    /// The names of all aggregations.
    pub const AGGREGATIONS: [&str; 6] = ["concatenate", "vote", "select_best", "merge", "first_success", "last"];
    /// The aggregation that the strategy usually has: `last` for `pipeline`, otherwise `concatenate`.
    pub const AUTO: &str = "auto";
}

impl Default for TeamSettings {
    fn default() -> Self {
        Self { strategy: "sequential", aggregation: Self::AUTO, agent_timeout: Duration::from_secs(30), retries: 3 }
    }
}

/// How it is found out whether an agent that has changed files is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneSettings {
    /// The command with its arguments; empty for none.
    pub command: Vec<String>,
    /// How often its failure goes back to the agent.
    pub attempts: u32,
}

/// A trusted project whose file has set commands, which hold for the agents that work in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectCommands {
    pub root: PathBuf,
    /// Those of agents elsewhere, as the user's own file has them: for finished work, and for new worktrees.
    pub done_elsewhere: Vec<String>,
    pub setup_elsewhere: Vec<String>,
}

impl Config {
    /// What every system prompt ends with.
    pub(crate) fn added_prompt(&self) -> String {
        self.added_instructions.as_ref().map(|text| format!("\n\n{text}")).unwrap_or_default()
    }

    /// The command that says whether an agent is done. `own` is what a person has set for it: empty for none, `None` for what
    /// is configured. `is_in` tells whether it works in a project.
    pub(crate) fn done_command(&self, own: Option<&str>, is_in: impl FnOnce(&PathBuf) -> bool) -> Vec<String> {
        match (own, &self.commands_of) {
            (Some(""), _) => Vec::new(),
            (Some(script), _) => ["sh", "-c", script].map(str::to_owned).to_vec(),
            (None, Some(project)) if !is_in(&project.root) => project.done_elsewhere.clone(),
            (None, _) => self.done.command.clone(),
        }
    }

    /// What a new worktree gets.
    pub(crate) fn worktree_extras(&self, is_in: impl FnOnce(&PathBuf) -> bool) -> WorktreeExtras {
        let extras = self.worktree.extras.clone();
        match &self.commands_of {
            Some(project) if !is_in(&project.root) => {
                WorktreeExtras { setup: project.setup_elsewhere.clone(), ..extras }
            }
            _ => extras,
        }
    }
}

impl Default for DoneSettings {
    fn default() -> Self {
        Self { command: Vec::new(), attempts: 2 }
    }
}

/// The worktrees that are made for agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorktreeSettings {
    /// What a new one gets.
    pub extras: WorktreeExtras,
    /// The last lines of the messages of commits that are made when they land; `{agent}` and `{model}` are filled in.
    pub trailers: Vec<String>,
    /// Whether models are told with what their worktree conflicts.
    pub tells_conflicts: bool,
}

/// The limits of each agent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How failed requests are retried.
    pub retry: RetryPolicy,
    /// How long the failed requests of an agent that no person watches are retried, from the first failure on.
    pub retry_time: Duration,
    /// Abort a reply after this long without data.
    pub stall_timeout: Duration,
    /// Abort a reply that is not complete after this long.
    pub reply_timeout: Duration,
    /// Whether models are offered tools.
    pub has_tools: bool,
    /// Requests with tools per user message; one more is sent without tools, so that the model can answer.
    pub tool_iterations: u32,
    /// The share of the context, in percent, from which on the older part of the conversation is summarised; 0 is never.
    pub compact_at: u32,
    /// The shortest time between checkpoints of a streaming reply.
    pub checkpoint_every: Duration,
    /// Bytes that one agent may decode per turn of the loop, so that input stays responsive.
    pub bytes_per_turn: usize,
    /// The default time limit of a command.
    pub bash_timeout: Duration,
    /// The time limit of a key command.
    pub key_timeout: Duration,
    /// The most bytes of a tool's output that are sent to the model.
    pub output_cap: usize,
    /// Whether a person reads errors and can type commands after them.
    pub is_interactive: bool,
    /// How long tool threads may take to end when the program exits.
    pub exit_patience: Duration,
}

/// Exponential backoff: waits `base`, then twice as long each time up to `cap`, plus jitter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// Retries after the first attempt. `None`: [`RetryPolicy::RETRIES`] where a person watches, otherwise as many as fit into
    /// [`Settings::retry_time`].
    pub retries: Option<u32>,
    /// The first wait.
    pub base: Duration,
    /// The longest wait.
    pub cap: Duration,
    /// The largest fraction of the wait that is added at random.
    pub jitter: f64,
}

impl Default for Config {
    /// A store in memory, the provider echo, the current directory. The user is never asked: a program that shows questions and
    /// answers them with [`Change::Answer`](crate::Change::Answer) sets another policy.
    fn default() -> Self {
        Self {
            title_model: None,
            data_directory: None,
            shared_directory: None,
            private_paths: Vec::new(),
            catalog: Catalog::default(),
            endpoint: Endpoint::echo(),
            hint: None,
            notes: Vec::new(),
            thinking: Thinking::default(),
            working_directory: PathBuf::from("."),
            program_path: None,
            supervisor: PathBuf::from("/proc/self/exe"),
            sandbox: SandboxSettings::default(),
            settings: Settings::default(),
            tree_limits: TreeLimits::default(),
            counts_usd_from_start: false,
            team: TeamSettings::default(),
            environments: Vec::new(),
            instructions: None,
            added_instructions: None,
            trusted_instructions: BTreeSet::new(),
            definitions: Arc::new([]),
            hooks: Arc::new([]),
            skill_directories: Vec::new(),
            skills: Arc::default(),
            skills_read_at: None,
            mcp: Vec::new(),
            hosts: Vec::new(),
            user_tools: Vec::new(),
            commands: Vec::new(),
            team_files: Vec::new(),
            policy: Policy::Never,
            policy_ceiling: Policy::Yolo,
            rules: Rules::default(),
            project_rules: Vec::new(),
            user_file: None,
            keep_days: 0,
            done: DoneSettings::default(),
            worktree: WorktreeSettings::default(),
            commands_of: None,
            looks_up_models: false,
            working_limit: WORKING_LIMIT,
            read_interval: Duration::ZERO,
            follows_forks: true,
            keymap: KeyMap::default(),
            editing: EDITING[0],
            display: DisplaySettings::default(),
            trace: None,
            trace_stable: false,
            record: None,
            records_texts: false,
            replay: None,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            retry_time: Duration::from_secs(10 * 60),
            stall_timeout: Duration::from_secs(120),
            reply_timeout: Duration::from_secs(60 * 60),
            has_tools: true,
            tool_iterations: 50,
            compact_at: 80,
            checkpoint_every: Duration::from_millis(250),
            bytes_per_turn: 64 * 1024,
            bash_timeout: Duration::from_secs(120),
            key_timeout: Duration::from_secs(30),
            output_cap: 32 * 1024,
            is_interactive: true,
            exit_patience: Duration::from_secs(4),
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { retries: None, base: Duration::from_secs(1), cap: Duration::from_secs(60), jitter: 0.25 }
    }
}

/// Caps [`RetryPolicy::spread`].
const LONGEST_SPREAD: Duration = Duration::from_secs(5);

impl RetryPolicy {
    /// The usual number of retries.
    pub const RETRIES: u32 = 5;

    /// A random addition to a wait for which others wait too, so that they do not all act at its end; `random` is
    /// between 0 and 1. Never negative: the wait may be one that a provider asks for.
    pub fn spread(&self, wait: Duration, random: f64) -> Duration {
        wait.mul_f64(self.jitter * random.clamp(0.0, 1.0)).min(LONGEST_SPREAD)
    }

    /// The number of retries, where they are counted.
    pub fn number(&self) -> u32 {
        self.retries.unwrap_or(Self::RETRIES)
    }

    /// The wait before retry number `retry` (from 0), at most `cap`; `random` is between 0 and 1.
    pub fn wait(&self, retry: u32, random: f64) -> Duration {
        let wait = self.base.saturating_mul(2_u32.saturating_pow(retry)).min(self.cap);
        wait.mul_f64(1.0 + self.jitter * random.clamp(0.0, 1.0)).min(self.cap)
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

    #[test]
    fn a_wait_that_others_share_is_spread_by_a_quarter_and_never_by_more_than_five_seconds() {
        let spread = |seconds, random| RetryPolicy::default().spread(Duration::from_secs(seconds), random).as_millis();
        assert_eq!([spread(4, 0.0), spread(4, 0.5), spread(4, 1.0), spread(3600, 1.0)], [0, 500, 1000, 5000]);
    }
}
