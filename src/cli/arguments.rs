//! The command line as clap reads it: options, subcommands and their help texts. The value names decide what shells
//! complete (see `completions`).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

use super::chat_command::ChatCommand;
use super::config::claude;
use crate::base::id::AgentId;
use crate::domain::chunk::Position;
use crate::replay::Fault;

/// Chat with many language-model agents in one terminal
///
/// `polylogue setup` chooses a provider, its key and a model, as the first start
/// does. Or set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY
/// (or OPENAI_BASE_URL for any compatible server, such as llama.cpp, Ollama or
/// vLLM) and select it with --model: openai/NAME, anthropic/NAME or google/NAME,
/// or NAME alone. The model `echo` is built in and repeats its input.
/// `polylogue doctor` checks the setup, `polylogue config edit` opens the
/// configuration, `polylogue help` lists the topics of the reference.
///
/// While `polylogue serve --background` runs, agents outlive the terminal:
/// `polylogue` attaches to the server with a new conversation, and `ps`, `logs`,
/// `tell`, `wait` and other subcommands reach the same agents from scripts.
///
/// To send a prompt that begins with the name of a subcommand, put -- before it:
/// polylogue -- doctor my text
#[derive(Debug, Clone, Default, Parser)]
#[command(version, verbatim_doc_comment, disable_help_subcommand = true)]
pub struct Arguments {
    /// Send this prompt first
    pub prompt: Vec<String>,
    /// Continue the last conversation of this directory
    ///
    /// Options given with it hold from then on.
    #[arg(short = 'c', long = "continue", conflicts_with_all = ["resume", "ephemeral"])]
    pub continue_last: bool,
    /// Continue with this agent, or choose one
    ///
    /// It is given by name, number or id.
    #[arg(short, long, value_name = "AGENT", conflicts_with = "ephemeral")]
    pub resume: Option<Option<String>>,
    /// Print the answer to standard output and exit
    ///
    /// Input from a pipe is added to the prompt.
    #[arg(short, long, conflicts_with = "read_only")]
    pub print: bool,
    /// Output of --print: text, json or stream-json
    ///
    /// text is the answer as it arrives, json one object at the end, stream-json one object per line for each event,
    /// claude-stream-json the lines that programs made for Claude Code read.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, requires = "print")]
    pub output_format: OutputFormat,
    /// Format of standard input for --print: text or stream-json
    ///
    /// text is added to the prompt, stream-json has one object per line, each a turn.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, requires = "print")]
    pub input_format: InputFormat,
    /// Id of the new agent of --print
    ///
    /// --resume UUID continues it.
    #[arg(long, value_name = "UUID", value_parser = agent_id, requires = "print", conflicts_with_all = ["continue_last", "resume"])]
    pub session_id: Option<AgentId>,
    /// Attach a file to the prompt of --print
    ///
    /// An image, a PDF file or a text file of the workspace; can be repeated.
    #[arg(long, value_name = "FILE", requires = "print")]
    pub attach: Vec<PathBuf>,
    /// Answer with JSON of the schema in FILE
    ///
    /// The answer of --print is checked.
    #[arg(long, value_name = "FILE", requires = "print")]
    pub schema: Option<PathBuf>,
    /// Write the conversation of --print to FILE (ATIF)
    ///
    /// In the Agent Trajectory Interchange Format, with the conversations of the agents that it forked. An existing file is
    /// replaced.
    #[arg(long, value_name = "FILE", requires = "print", value_hint = ValueHint::FilePath)]
    pub trajectory: Option<PathBuf>,
    /// Maximum number of model requests of --print
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "print")]
    pub max_turns: Option<u32>,
    /// Maximum duration of --print
    #[arg(long, value_name = "SECONDS", requires = "print")]
    pub timeout: Option<f64>,
    /// Let the background commands of --print run on; a process serves them until they have ended
    #[arg(long, requires = "print", conflicts_with = "ephemeral")]
    pub keep_background: bool,
    /// Model of new agents
    ///
    /// [env: POLYLOGUE_MODEL]
    #[arg(short, long, global = true, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// What runs unasked: ask, auto, plan, never, yolo
    ///
    /// What new agents may do without a question; see polylogue help approval.
    /// [env: POLYLOGUE_APPROVAL] [default: ask, with --print and multi-agent never]
    #[arg(long, global = true, value_name = "POLICY")]
    pub approval: Option<String>,
    /// Run what RULE matches, such as 'bash(make:*)'
    ///
    /// It runs without a question; can be repeated.
    #[arg(long, global = true, value_name = "RULE")]
    pub allow: Vec<String>,
    /// Refuse what RULE matches; can be repeated
    #[arg(long, global = true, value_name = "RULE")]
    pub deny: Vec<String>,
    /// Allow these tools, called as in Claude Code: 'Bash(git log:*),Edit'
    ///
    /// One value with commas or spaces; can be repeated.
    #[arg(long, alias = "allowedTools", global = true, value_name = "LIST", value_parser = ToolList::allowed)]
    pub allowed_tools: Vec<ToolList>,
    /// Refuse these tools, called as in Claude Code
    #[arg(long, alias = "disallowedTools", global = true, value_name = "LIST", value_parser = ToolList::refused)]
    pub disallowed_tools: Vec<ToolList>,
    /// Add TEXT to the instructions of agents in this run
    #[arg(long, global = true, value_name = "TEXT")]
    pub append_system_prompt: Option<String>,
    /// Set a parameter of requests for this run, such as temperature=0; can be repeated; see polylogue help parameters
    #[arg(long, global = true, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Offer no tools to models, for models and servers that refuse them [env: POLYLOGUE_TOOLS_ENABLED=false]
    #[arg(long, global = true)]
    pub no_tools: bool,
    /// Work in this directory
    ///
    /// Paths on the command line are relative to it.
    #[arg(short = 'C', long, alias = "cd", overrides_with = "cwd", global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
    /// Add the MCP servers of FILE
    ///
    /// A file like .mcp.json, or its text. Can be repeated; see polylogue help mcp.
    #[arg(long, global = true, value_name = "FILE")]
    pub mcp_config: Vec<String>,
    /// Configuration file
    ///
    /// [env: POLYLOGUE_CONFIG] [default: $XDG_CONFIG_HOME/polylogue/config.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Run this command on another machine, over ssh
    ///
    /// With the polylogue there: ssh://USER@HOST:PORT; user and port may be omitted. [env: POLYLOGUE_HOST]
    #[arg(long, global = true, value_name = "HOST")]
    pub host: Option<String>,
    /// Directory of the stored conversations
    ///
    /// [env: POLYLOGUE_DATA_DIR] [default: $XDG_DATA_HOME/polylogue]
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
    /// View the stored conversations without changing them
    ///
    /// Even while another process uses them.
    #[arg(long, conflicts_with_all = ["ephemeral", "prompt"])]
    pub read_only: bool,
    /// Store nothing
    ///
    /// [env: POLYLOGUE_EPHEMERAL]
    #[arg(long)]
    pub ephemeral: bool,
    /// Maximum number of agents that work at the same time; 0 for no limit [env: POLYLOGUE_WORKING_LIMIT] [default: 10]
    #[arg(long, value_name = "N")]
    pub working_limit: Option<String>,
    /// Maximum number of living agents that models make below one of yours [env: POLYLOGUE_MAX_AGENTS] [default: 64]
    #[arg(long, global = true, value_name = "N")]
    pub max_agents: Option<String>,
    /// Most US dollars of an agent and those below it
    ///
    /// The price of its model must be configured. [env: POLYLOGUE_MAX_USD]
    #[arg(long, alias = "max-budget-usd", global = true, value_name = "USD")]
    pub max_usd: Option<String>,
    /// Summarise the older messages when the context is this full, in percent; 0: never [env: POLYLOGUE_COMPACT_AT] [default: 80]
    #[arg(long, global = true, value_name = "PERCENT")]
    pub compact_at: Option<String>,
    /// Do not switch to a child when it is forked [env: POLYLOGUE_FOLLOW_FORKS=false]
    #[arg(long)]
    pub stay: bool,
    /// Write a line of JSON to FILE for everything that happens in the event loop; see polylogue help trace [env: POLYLOGUE_TRACE]
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// With --trace: leave out everything that differs between runs [env: POLYLOGUE_TRACE_STABLE]
    #[arg(long)]
    pub trace_stable: bool,
    /// Record the session in FILE as a scenario for polylogue replay, with filler in place of all texts
    #[arg(long, value_name = "FILE", conflicts_with = "print")]
    pub record: Option<PathBuf>,
    /// With --record: keep what was typed, answered and returned by tools
    #[arg(long, requires = "record")]
    pub record_texts: bool,
    /// Line mode, for screen readers and dumb terminals
    ///
    /// Each line is printed once, without control sequences. Lines of a pipe or a file are entered as if they were typed;
    /// at their end it leaves when all agents are idle. [env: POLYLOGUE_DISPLAY_PLAIN]
    #[arg(long, global = true)]
    pub plain: bool,
    /// Use the terminal's own scrollback
    ///
    /// Finished lines are printed there, without the alternate screen. [env: POLYLOGUE_DISPLAY_INLINE]
    #[arg(long)]
    pub inline: bool,
    /// Run commands of tools without a sandbox: an approved command can then do whatever you can
    #[arg(long, global = true)]
    pub dangerously_no_sandbox: bool,
    /// For unattended runs: no sandbox and no questions in this run, also for protected files; never stored
    #[arg(long, global = true)]
    pub dangerously_allow_everything: bool,
    /// The chat begins with the panel that sets up a model.
    #[arg(skip)]
    pub sets_up: bool,
    /// Added by [`command`].
    #[arg(skip)]
    pub command: Option<Command>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum OutputFormat {
    /// The text of the answer, as it arrives
    #[default]
    Text,
    /// One JSON object at the end
    Json,
    /// One JSON object per line for each event
    StreamJson,
    /// The same in the form of Claude Code
    ClaudeStreamJson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum InputFormat {
    /// Text that is added to the prompt
    #[default]
    Text,
    /// One JSON object per line, each a turn
    StreamJson,
}

#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Command {
    /// Choose a provider, its key and a model in a panel, and begin a chat
    Setup,
    /// Show or change the configuration
    #[command(subcommand, disable_help_subcommand = true)]
    Config(ConfigCommand),
    /// Check the configuration, providers, store, terminal and system
    Doctor {
        /// Do not contact the providers
        #[arg(long)]
        offline: bool,
    },
    /// List, test or add MCP servers, whose tools agents may call
    #[command(subcommand, disable_help_subcommand = true)]
    Mcp(McpCommand),
    /// Send one prompt to several models and print their answers
    Compare(Compare),
    /// Run a task with several agents and print one answer
    #[command(subcommand, disable_help_subcommand = true)]
    MultiAgent(MultiAgentCommand),
    /// Print help about a topic or a subcommand; without one, list the topics
    Help {
        /// A topic, or the name of a subcommand
        topic: Vec<String>,
    },
    /// Print the manual page; to read it: polylogue man | man -l -
    Man,
    /// Run the agents in a server that outlives the terminal
    Serve(Serve),
    /// Serve an editor over the Agent Client Protocol on standard input and output; see polylogue help editors
    Acp {
        /// What a client runs in a terminal to sign in: it appends this to the command of the agent.
        #[arg(value_parser = ["setup"], hide = true)]
        step: Option<String>,
    },
    /// Let another program start agents and exchange mail with them, over MCP on standard input and output
    #[cfg(feature = "hosts")]
    McpServer,
    /// Attach this terminal to the server
    Attach {
        /// Agent to show [default: the one shown last]
        ///
        /// A name, a number or the beginning of an id.
        agent: Option<String>,
        /// View only
        #[arg(long)]
        read_only: bool,
    },
    /// Show tokens and cost of all requests, killed agents included
    Usage {
        /// What to sum by
        #[arg(long, value_enum, default_value_t = UsageBy::Day)]
        by: UsageBy,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Search the messages of all agents, living and killed
    Search {
        /// Words that a message contains; filters: who:AGENT is:reply tool:bash since:2h
        #[arg(required = true)]
        words: Vec<String>,
        /// Maximum number of messages, the newest first
        #[arg(long, default_value_t = 50)]
        most: usize,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Print the conversation of an agent; without a server, the stored one
    Logs(Logs),
    /// List the tool calls of all agents that wait for approval, each with its full text
    Approvals {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Wait until an agent is idle, and print its status; its questions go to standard error
    Wait {
        /// Agent to wait for: a name, a number or the beginning of an id
        agent: String,
        /// Give up after this time, with exit code 4
        #[arg(long, value_name = "SECONDS", value_parser = seconds)]
        timeout: Option<f64>,
    },
    /// Stop the server; conversations stay stored
    Stop {
        /// Stop the work of all agents instead; queued messages stay queued
        #[arg(long)]
        agents: bool,
    },
    #[command(flatten)]
    Chat(ChatCommand),
    /// Read the traces that --trace writes
    #[command(subcommand, disable_help_subcommand = true)]
    Trace(TraceCommand),
    /// Play a scenario with a scripted provider on the event loop, and check what comes of it
    Replay(ReplayOptions),
    /// Print the completion script of a shell
    Completions {
        /// Shell to print the script for
        shell: Shell,
    },
}

/// Options of `polylogue compare`.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct Compare {
    /// Prompt; input from a pipe is added to it
    pub prompt: Vec<String>,
    /// Models to ask, separated by commas
    #[arg(long, value_name = "PROVIDER/MODEL", value_delimiter = ',', required = true)]
    pub models: Vec<String>,
    /// Stop all after this time, with exit code 4
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// Print one JSON object per answer; see polylogue help json
    #[arg(long)]
    pub json: bool,
    /// Store nothing
    #[arg(long)]
    pub ephemeral: bool,
}

/// Options of `polylogue serve`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Serve {
    /// Run in the background
    ///
    /// Prints the process id once the server accepts connections.
    #[arg(long)]
    pub background: bool,
    /// Set by --background for the process that it starts.
    #[arg(long, hide = true)]
    pub detached: bool,
    /// Maximum number of agents that work at once; 0: all
    #[arg(long, value_name = "N")]
    pub working_limit: Option<String>,
    /// Write what happens in the event loop to FILE
    ///
    /// A line of JSON for each event; see polylogue help trace.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum TraceCommand {
    /// Draw a trace: a line for each turn, a lane for each agent
    Show(TraceShow),
}

/// Options of `polylogue trace show`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct TraceShow {
    /// Trace to draw
    pub file: PathBuf,
    /// Show only turns that took at least this many milliseconds
    #[arg(long, value_name = "MS")]
    pub slow: Option<u64>,
    /// Show only this agent, given by name or by the beginning of its id
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Show above each turn what it waited for: the descriptors, and all time limits
    #[arg(long)]
    pub waits: bool,
}

/// Options of `polylogue replay`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ReplayOptions {
    /// Scenarios to play; see polylogue help scenarios
    #[arg(value_name = "SCENARIO", required = true)]
    pub scenarios: Vec<PathBuf>,
    /// Write the trace to FILE; two runs write the same
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Have --trace write turns, ready descriptors and frames too, which differ between runs
    #[arg(long, requires = "trace")]
    pub turns: bool,
    /// Print what happens, moment by moment; at a terminal, Enter goes on
    #[arg(long)]
    pub step: bool,
    /// Print the screen at the end, with --step after each moment
    #[arg(long)]
    pub screen: bool,
    /// Draw beside it what the C program, as it was first written, makes of it
    #[arg(long)]
    pub beside: bool,
    /// Give the C program only this fault, such as frozen-tools [default: all]
    #[arg(long, value_name = "NAME", requires = "beside")]
    pub fault: Option<Fault>,
}

/// Options of `polylogue logs`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Logs {
    /// Agent to print: a name, a number or the beginning of an id
    pub agent: String,
    /// Keep printing new output until the agent ends
    #[arg(short, long)]
    pub follow: bool,
    /// Print only the newest N messages: prompts, replies, tool calls and results, notes
    #[arg(long, value_name = "N")]
    pub last: Option<u64>,
    /// Print one JSON object per line; see polylogue help json
    #[arg(long)]
    pub json: bool,
    /// Resume an earlier --json output: its `epoch`, and the `n` to start at
    #[arg(long, value_name = "EPOCH:N", value_parser = position, allow_hyphen_values = true, conflicts_with = "last")]
    pub from: Option<Position>,
}

fn agent_id(text: &str) -> Result<AgentId, String> {
    text.parse().map_err(|_| "expected a UUID such as 123e4567-e89b-42d3-a456-426614174000".into())
}

/// Our rules for a list of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolList(Vec<String>);

impl ToolList {
    fn allowed(text: &str) -> Result<Self, String> {
        claude::tool_rules(text, true).map(Self)
    }

    fn refused(text: &str) -> Result<Self, String> {
        claude::tool_rules(text, false).map(Self)
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
    seconds.ok_or_else(|| "expected a number of seconds".into())
}

fn position(text: &str) -> Result<Position, String> {
    let parts = text.rsplit_once(':').and_then(|(epoch, number)| Some((epoch, number.parse().ok()?)));
    match parts {
        Some((epoch, number)) if !epoch.is_empty() => Ok(Position { epoch: epoch.to_owned(), number }),
        _ => Err("expected EPOCH:N, with values from an earlier --json output".into()),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum MultiAgentCommand {
    /// Run a task with several agents; the answer goes to standard output
    Run(TeamRun),
    /// Run the steps of a workflow; the answer goes to standard output
    RunWorkflow(WorkflowRun),
    /// List templates and workflows
    List,
    /// Print a template or workflow as a file
    Show {
        /// Name, or path of a file (with a / or an extension)
        name: String,
    },
    /// List recent runs
    Status {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
}

/// Options of `polylogue multi-agent run`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct TeamRun {
    #[command(flatten)]
    pub task: TaskText,
    /// Order of work: sequential, parallel, pipeline or adaptive [default: sequential]
    #[arg(long)]
    pub strategy: Option<String>,
    /// Use the agents of this template
    #[arg(long, conflicts_with_all = ["agents", "count"])]
    pub template: Option<String>,
    /// Use these agents, separated by commas: NAME[:PROVIDER/MODEL]
    #[arg(long, value_name = "LIST", conflicts_with = "count")]
    pub agents: Option<String>,
    /// Use this many agents [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub count: Option<usize>,
    #[command(flatten)]
    pub options: RunOptions,
}

/// Options of `polylogue multi-agent run-workflow`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct WorkflowRun {
    /// Name of a workflow, or path of a file (with a / or an extension)
    #[arg(value_name = "WORKFLOW")]
    pub name: String,
    #[command(flatten)]
    pub task: TaskText,
    #[command(flatten)]
    pub options: RunOptions,
}

/// A task, as arguments or as an option.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct TaskText {
    /// Text of the task; - reads it from standard input
    #[arg(value_name = "TASK")]
    pub text: Vec<String>,
    /// Text of the task
    #[arg(long, value_name = "TEXT", conflicts_with = "text")]
    pub task: Option<String>,
}

/// Options of every run with several agents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct RunOptions {
    /// How to combine the answers: concatenate, vote, select_best, merge, first_success or last [default: last for a pipeline, else concatenate]
    #[arg(long)]
    pub aggregation: Option<String>,
    /// Maximum duration of each agent, retries included [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = positive_duration, allow_negative_numbers = true)]
    pub timeout: Option<Duration>,
    /// Number of retries after a failed attempt [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub retries: Option<u32>,
    /// Model that selects the answer, for select_best
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub judge: Option<String>,
    /// Print events as one JSON object per line; the last one is the result
    #[arg(long)]
    pub json: bool,
    /// Store nothing
    #[arg(long)]
    pub ephemeral: bool,
    /// Maximum number of agents that work at the same time; 0 for no limit [default: 100]
    #[arg(long, value_name = "N")]
    pub working_limit: Option<String>,
}

fn positive_duration(text: &str) -> Result<Duration, &'static str> {
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero()).ok_or("expected a number of seconds greater than 0")
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ConfigCommand {
    /// Print the paths of the configuration files and whether they are read
    Path,
    /// Print every setting and its source
    Show,
    /// Open your configuration file in $VISUAL, $EDITOR or vi
    Edit,
    /// Show a project's .polylogue directory, .mcp.json and AGENTS.md or CLAUDE.md files, and ask whether to trust them
    Trust {
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
        /// Any directory of the project, or ssh:HOST:DIR for its instructions and skills there [default: the working
        /// directory]
        #[arg(value_hint = ValueHint::DirPath)]
        directory: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum McpCommand {
    /// Print the declared servers and where they are declared
    List,
    /// Start servers and print their tools [default: all]
    Test {
        /// Names of servers
        #[arg(value_name = "SERVER")]
        names: Vec<String>,
    },
    /// Add a server to your configuration file
    Add(McpAdd),
    /// Log in at a server over HTTP, in a browser (OAuth)
    Login(McpLogin),
    /// Forget the login at a server
    Logout {
        /// Name of the server
        #[arg(value_name = "SERVER")]
        name: String,
    },
}

/// Options of `polylogue mcp login`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct McpLogin {
    /// Name of the server
    #[arg(value_name = "SERVER")]
    pub name: String,
    /// Ask for this besides what the present login may do
    ///
    /// Words separated by spaces. By default the server says what is needed.
    #[arg(long)]
    pub scope: Option<String>,
    /// Client that you have registered, instead of a new one
    #[arg(long, value_name = "ID")]
    pub client_id: Option<String>,
    /// Variable with the secret of that client
    #[arg(long, value_name = "NAME", requires = "client_id")]
    pub client_secret_env: Option<String>,
    /// Who grants access, if its metadata name another one
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub issuer: Option<String>,
    /// Log in with a code, in a browser on any machine
    #[arg(long, conflicts_with = "port")]
    pub device: bool,
    /// Port of this machine that the browser is sent to [default: any]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub port: u16,
}

/// Options of `polylogue mcp add`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct McpAdd {
    /// Name of the server: letters, digits, - and _
    #[arg(value_name = "SERVER")]
    pub name: String,
    /// Host that its process may reach; can be given several times
    #[arg(long, value_name = "HOST")]
    pub net: Vec<String>,
    /// Environment variable for its process; can be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// URL of a server over HTTP, instead of a command
    #[arg(long, value_hint = ValueHint::Url, conflicts_with_all = ["command", "net", "env"])]
    pub url: Option<String>,
    /// HTTP header; can be given several times
    #[arg(long, value_name = "NAME=VALUE", requires = "url")]
    pub header: Vec<String>,
    /// Program and its arguments, after --
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "url")]
    pub command: Vec<String>,
}

/// The option of an unrestricted run that asks nothing.
pub const ALLOW_EVERYTHING: &str = "--dangerously-allow-everything";
/// The warning about it.
pub const EVERYTHING_ALLOWED: &str = "everything is allowed: no sandbox and no questions, also for protected files";

/// The whole command line: the options and the subcommands.
pub fn command() -> clap::Command {
    Command::augment_subcommands(Arguments::command())
}

impl Arguments {
    /// Reads the words of a command line, of which the first is the name of the program.
    ///
    /// # Errors
    /// The words are no command line of this program, or ask for help or the version.
    pub fn read<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Result<Self, clap::Error> {
        let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
        let names_subcommand = |word: &OsString| word.to_str().is_some_and(Command::has_subcommand);
        // Each subcommand gets a copy of each option, which takes longer than the rest of a short run.
        if !words.iter().skip(1).any(names_subcommand) {
            let read = Self::command()
                .try_get_matches_from(&words)
                .and_then(|mut given| Self::from_arg_matches_mut(&mut given).map(Self::with_rules_of_lists));
            match read {
                Err(error) if error.kind() != ErrorKind::DisplayVersion => {}
                read => return read,
            }
        }
        let mut given = command().try_get_matches_from(words)?;
        let mut arguments = Self::from_arg_matches_mut(&mut given)?.with_rules_of_lists();
        if given.subcommand_name().is_some() {
            arguments.command = Some(Command::from_arg_matches_mut(&mut given)?);
        }
        Ok(arguments)
    }

    fn with_rules_of_lists(mut self) -> Self {
        let rules = |lists: &[ToolList]| lists.iter().flat_map(|list| list.0.clone()).collect::<Vec<_>>();
        self.allow.extend(rules(&self.allowed_tools));
        self.deny.extend(rules(&self.disallowed_tools));
        self
    }

    /// The first word of the prompt, if it may be meant as one more tool of a list.
    pub fn tool_in_prompt(&self) -> Option<&str> {
        let has_list = !(self.allowed_tools.is_empty() && self.disallowed_tools.is_empty());
        self.prompt.first().map(String::as_str).filter(|word| has_list && claude::tool_rules(word, false).is_ok())
    }

    /// The first given option that changes what agents may do.
    pub fn permission_option(&self) -> Option<&'static str> {
        let options = [
            (self.approval.is_some(), "--approval"),
            (!self.allow.is_empty(), "--allow"),
            (!self.deny.is_empty(), "--deny"),
        ];
        options.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }

    /// Whether nothing new is stored: a chat that only shows, or a subcommand that runs no agents.
    pub fn only_reads(&self) -> bool {
        let runs_agents = match self.command {
            None | Some(Command::Acp { .. } | Command::Serve(_) | Command::Compare(_) | Command::MultiAgent(_)) => true,
            #[cfg(feature = "hosts")]
            Some(Command::McpServer) => true,
            Some(_) => false,
        };
        self.read_only || !runs_agents
    }

    /// The prompt as one text; `None` if there is none.
    pub fn prompt(&self) -> Option<String> {
        (!self.prompt.is_empty()).then(|| self.prompt.join(" "))
    }
}

/// What `usage` sums by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum UsageBy {
    /// Days of the local calendar
    Day,
    /// Agents, each also with its descendants
    Agent,
    /// Models, as PROVIDER/MODEL
    Model,
}
