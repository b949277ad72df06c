//! The command line, as a table.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::domain::wire::Place;

use super::print::{InputFormat, OutputFormat};

/// One person, many agents: a terminal chat with language models.
///
/// Without a configured provider the built-in `echo` answers. For a real model set OPENAI_API_KEY, ANTHROPIC_API_KEY or
/// GEMINI_API_KEY, or OPENAI_BASE_URL for any compatible server (llama.cpp, Ollama, vLLM, ...), and choose with --model
/// openai/NAME, anthropic/NAME or google/NAME; or write a configuration (`polylogue config edit`). `polylogue doctor`
/// looks whether everything works, `polylogue man` tells the rest. Words that are the name of a subcommand are sent with
/// `polylogue -- doctor`.
///
/// Agents outlive the terminal where `polylogue serve --background` runs: then `polylogue` alone attaches to it, and `ps`,
/// `logs`, `send`, `wait` and the others reach the same agents from scripts.
#[derive(Debug, Clone, Default, Parser)]
#[command(version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    /// Start the chat and send this
    pub prompt: Vec<String>,
    /// Answer on standard output and end: for scripts; `-` or piped input is joined to the prompt
    #[arg(short, long, conflicts_with = "read_only")]
    pub print: bool,
    /// Go on with the agent that was spoken to last
    #[arg(short = 'c', long = "continue", conflicts_with_all = ["resume", "ephemeral"])]
    pub goes_on: bool,
    /// Go on with this agent: its name, number or id
    #[arg(short, long, value_name = "WHO", conflicts_with = "ephemeral")]
    pub resume: Option<Option<String>>,
    /// With --print: what is written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, requires = "print")]
    pub output_format: OutputFormat,
    /// With --print: what is read from standard input
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, requires = "print")]
    pub input_format: InputFormat,
    /// With --print: the most requests to models
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "print")]
    pub max_turns: Option<u32>,
    /// With --print: the longest that all of it may take
    #[arg(long, value_name = "SECONDS", requires = "print")]
    pub timeout: Option<f64>,
    /// Which model new agents talk to [env: POLYLOGUE_MODEL]
    #[arg(short, long, global = true, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// The configuration [env: POLYLOGUE_CONFIG] [default: $XDG_CONFIG_HOME/polylogue/config.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where conversations are kept [env: POLYLOGUE_DATA_DIR] [default: $XDG_DATA_HOME/polylogue]
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Look at what is kept there, even while another polylogue holds it; send and change nothing
    #[arg(long, conflicts_with_all = ["ephemeral", "prompt"])]
    pub read_only: bool,
    /// Keep nothing [env: POLYLOGUE_EPHEMERAL]
    #[arg(long)]
    pub ephemeral: bool,
    /// How many agents may work at once; 0 is no limit [env: POLYLOGUE_WORKING_LIMIT] [default: 10]
    #[arg(long, value_name = "N")]
    pub working_limit: Option<String>,
    /// Stay with the parent when a child is forked [env: POLYLOGUE_FOLLOW_FORKS=false]
    #[arg(long)]
    pub stay: bool,
    /// Write down every turn of the loop, one JSON line each [env: POLYLOGUE_TRACE]
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// With --trace: write a line for each effect and change that is the same in every run of the same script
    /// [env: POLYLOGUE_TRACE_STABLE]
    #[arg(long)]
    pub trace_stable: bool,
    /// What else than to chat
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What else than to chat.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Command {
    /// Look at the configuration, or change it
    #[command(subcommand, disable_help_subcommand = true)]
    Config(ConfigCommand),
    /// Look whether everything is there and works
    Doctor {
        /// Reach for no provider
        #[arg(long)]
        offline: bool,
    },
    /// Set several agents on one task, and get one answer
    #[command(subcommand, disable_help_subcommand = true)]
    MultiAgent(MultiAgentCommand),
    /// Print the manual page: polylogue man | man -l -
    Man,
    /// Let agents run without a terminal, which they outlive
    Serve(Serve),
    /// Bring this terminal to the server
    Attach {
        /// At whom to look: a name, a number or the beginning of an id [default: where the last terminal looked]
        agent: Option<String>,
        /// Watch, and change nothing
        #[arg(long)]
        read_only: bool,
    },
    /// List the agents; without a server those that are kept
    Ps {
        /// One object of JSON a line
        #[arg(long)]
        json: bool,
    },
    /// Print what an agent was told and said; without a server what is kept of it
    Logs(Logs),
    /// Send text to an agent, which it takes up when it is free
    Send {
        /// To whom
        agent: String,
        /// What; - reads it from the standard input
        #[arg(required = true)]
        text: Vec<String>,
    },
    /// End an agent for good
    Kill {
        /// Whom
        agent: String,
        /// With all its descendants
        #[arg(long)]
        cascade: bool,
    },
    /// Stop what an agent does
    Interrupt {
        /// Whom
        agent: String,
    },
    /// Wait until an agent is at rest, and print its status
    Wait {
        /// For whom
        agent: String,
        /// Not longer than this; then the exit status is 4
        #[arg(long, value_name = "SECONDS", value_parser = seconds)]
        timeout: Option<f64>,
    },
    /// List the terminals that are attached to the server
    Sessions {
        /// One object of JSON a line
        #[arg(long)]
        json: bool,
    },
    /// End the server; everything is kept
    Stop,
    /// Print what makes a shell complete the words of polylogue
    Completions {
        /// For which one
        shell: Shell,
    },
}

/// How a server runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Serve {
    /// Go on in the background, and print the number of the process when it can be reached
    #[arg(long)]
    pub background: bool,
    /// We are the process in the background.
    #[arg(long, hide = true)]
    pub detached: bool,
    /// How many agents may work at once; 0 is no limit
    #[arg(long, value_name = "N")]
    pub working_limit: Option<String>,
    /// Write down every turn of the loop, one JSON line each
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// Which part of what an agent was told and said.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Logs {
    /// Whose
    pub agent: String,
    /// Go on with what comes, until the agent dies
    #[arg(short, long)]
    pub follow: bool,
    /// Only the newest N pieces
    #[arg(long, value_name = "N")]
    pub last: Option<u64>,
    /// One object of JSON a line: the schema is in the manual page
    #[arg(long)]
    pub json: bool,
    /// Go on where an earlier look ended: the `epoch` and the next `n` of its last line
    #[arg(long, value_name = "EPOCH:N", value_parser = place, conflicts_with = "last")]
    pub from: Option<Place>,
}

/// A shell that can complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU bash.
    Bash,
    /// Z shell.
    Zsh,
    /// Friendly interactive shell.
    Fish,
}

fn seconds(words: &str) -> Result<f64, String> {
    let read = words.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
    read.ok_or_else(|| "a number of seconds is expected".into())
}

fn place(words: &str) -> Result<Place, String> {
    let read = words.rsplit_once(':').and_then(|(epoch, number)| Some((epoch, number.parse().ok()?)));
    match read {
        Some((epoch, number)) if !epoch.is_empty() => Ok(Place { epoch: epoch.to_owned(), number }),
        _ => Err("EPOCH:N is expected, as in the JSON lines of an earlier look".into()),
    }
}

/// What can be done with several agents.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum MultiAgentCommand {
    /// Give a task to several agents; the answer goes to standard output
    Run(TeamRun),
    /// Give a task to the steps of a workflow; the answer goes to standard output
    RunWorkflow(WorkflowRun),
    /// List templates and workflows
    List,
    /// Print a template or a workflow, so that it can be made another
    Show {
        /// Its name, or a file (with a / or an end)
        name: String,
    },
    /// List the newest runs that are kept
    Status {
        /// As lines of JSON
        #[arg(long)]
        json: bool,
    },
}

/// A task for several agents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct TeamRun {
    /// The task
    #[command(flatten)]
    pub task: TaskWords,
    /// In which order they work: sequential, parallel, pipeline, adaptive [default: sequential]
    #[arg(long, value_name = "HOW")]
    pub strategy: Option<String>,
    /// Agents that belong together: `polylogue multi-agent list` names them
    #[arg(long, value_name = "NAME", conflicts_with_all = ["agents", "count"])]
    pub template: Option<String>,
    /// Agents by name, with commas between: NAME[:PROVIDER/MODEL]
    #[arg(long, value_name = "LIST", conflicts_with = "count")]
    pub agents: Option<String>,
    /// So many agents [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub count: Option<usize>,
    /// How the work is done
    #[command(flatten)]
    pub manner: Manner,
}

/// A task for the steps of a workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct WorkflowRun {
    /// The name of a workflow, or a file (with a / or an end)
    pub name: String,
    /// The task; where there is none, it is the description of the workflow
    #[command(flatten)]
    pub task: TaskWords,
    /// How the work is done
    #[command(flatten)]
    pub manner: Manner,
}

/// What a task is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct TaskWords {
    /// The task; `-` is what standard input says
    pub words: Vec<String>,
    /// The task
    #[arg(long, value_name = "TEXT", conflicts_with = "words")]
    pub task: Option<String>,
}

/// How the work of several agents is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Manner {
    /// How their answers become one: concatenate, vote, select_best, merge, first_success [default: concatenate]
    #[arg(long, value_name = "HOW")]
    pub aggregation: Option<String>,
    /// The longest that each agent may take, with all its attempts [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = some_time, allow_negative_numbers = true)]
    pub timeout: Option<Duration>,
    /// How often a failed attempt is made again [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub retries: Option<u32>,
    /// A model that picks the answer, for select_best
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub judge: Option<String>,
    /// Write what happens to standard output, as lines of JSON; the last one is the result
    #[arg(long)]
    pub json: bool,
    /// Keep nothing
    #[arg(long)]
    pub ephemeral: bool,
    /// How many agents may work at once; 0 is no limit [default: 100]
    #[arg(long, value_name = "N")]
    pub working_limit: Option<String>,
}

/// A time that passes.
fn some_time(typed: &str) -> Result<Duration, &'static str> {
    let time = typed.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero()).ok_or("expected a number of seconds above 0")
}

/// What can be done with the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ConfigCommand {
    /// Where the files are, and which of them are read
    Path,
    /// Every setting, and where it came from
    Show,
    /// Write your own file in $VISUAL, $EDITOR or vi
    Edit,
    /// Trust what the project of this directory brings along, as it is now
    Trust {
        /// Any directory of the project [default: the working directory]
        directory: Option<PathBuf>,
    },
}

impl Arguments {
    /// The words behind the options, if there are any.
    pub fn prompt(&self) -> Option<String> {
        (!self.prompt.is_empty()).then(|| self.prompt.join(" "))
    }
}
