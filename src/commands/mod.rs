//! Commands of the chat, some of them also subcommands of the shell. One file per command: a const for the table, from which
//! parser, help, completion and manual are made, and a function that reads the state and returns the [`Change`] to make.
//! Commands change nothing themselves.

mod agents;
mod approval;
mod approve;
mod archive;
pub mod arguments;
mod ask;
#[cfg(feature = "hosts")]
mod call_tool;
mod columns;
mod complete;
mod copy;
mod custom;
mod delete;
mod detach;
mod done;
mod env;
mod exit;
mod export;
mod fork;
mod help;
mod hooks;
mod host_command;
mod init;
mod interrupt;
mod kill;
mod limit;
mod mail;
mod model;
mod name;
mod new;
mod queue;
mod raw;
mod retry;
#[cfg(feature = "coordinator")]
mod review;
mod rewind;
mod rules;
mod server_prompt;
mod sessions;
mod set;
mod setup;
mod skills;
mod slice;
mod status;
mod stop;
mod switch;
mod system;
#[cfg(feature = "coordinator")]
mod team;
mod tell;
mod tools;
mod undo;
mod usage;
mod views;

use clap::{Arg, ArgAction, ArgMatches};

use crate::agent::Agent;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::attachment::is_attachable;
use crate::domain::called::{Found, Known, find_called};
use crate::domain::change::Change;
use crate::domain::config::Config;
use crate::domain::flow::InputResult;
use crate::domain::history::History;
use crate::domain::skill::{Author, Skill};
use crate::features::FEATURES;
use crate::store::{AgentRow, Store};
use crate::team::{Branches, Roster};
pub use agents::{activity_of, agent_as_json, agent_tree};
pub use approve::question_id;
pub use arguments::{AGENT, argv_of};
use arguments::{parse_line, parse_words, value_of};
pub use columns::TwoColumns;
pub use complete::{Completion, complete, models};
pub use custom::{message_of, takes_arguments};
pub use export::{Log as ExportLog, Subject as ExportSubject};
pub use help::{HelpRow, KeyRow, help_rows, help_text, key_rows};
pub use mail::sent_note;
pub use model::{model_list, names_model};
#[cfg(feature = "coordinator")]
pub use team::parse_team_line;

/// What commands may read.
pub struct CommandContext<'a> {
    /// The agents in memory.
    pub roster: &'a Roster,
    pub store: &'a Store,
    /// The configuration of this process.
    pub config: &'a Config,
    /// The git branches of directories.
    pub branches: &'a Branches,
    /// The agent at which the command was entered.
    pub current: AgentId,
    /// Now, in milliseconds since 1970.
    pub unix_ms: i64,
    /// The attached terminals, oldest first; empty if the command comes neither from one nor from a client.
    pub terminal_infos: Vec<TerminalInfo>,
    /// How many clients are connected, if the command comes from one of them.
    pub clients: Option<usize>,
    /// What a working agent does or waits for, for lists.
    pub activity: Box<dyn Fn(AgentId) -> String + 'a>,
}

/// An attached terminal, for `/sessions`.
pub struct TerminalInfo {
    /// Counts the terminals of this process.
    pub number: u64,
    /// When it attached, in milliseconds since 1970.
    pub since: i64,
    /// Columns and rows.
    pub size: (u16, u16),
    /// The agent that it shows.
    pub focus: AgentId,
    /// It is that of another process.
    pub is_attached: bool,
    /// Nothing can be changed there.
    pub is_read_only: bool,
    /// The command was typed at this terminal.
    pub is_origin: bool,
    /// The columns for text of the conversation.
    pub text_columns: usize,
}

impl CommandContext<'_> {
    /// The agent that the command is typed to.
    pub fn agent(&self) -> Result<&Agent> {
        self.roster.get(self.current).ok_or_else(|| usage_error("this agent was killed: /agents lists the others"))
    }

    /// The agent that the argument [`AGENT`] names, or else the one that the command is typed to.
    fn target(&self, given: &ArgMatches) -> Result<AgentId> {
        value_of(given, AGENT).map_or(Ok(self.current), |name| agent_called(self.roster, name))
    }

    /// Calls `f` with the conversation, from memory or else from the store.
    pub fn with_history<T>(&self, f: impl FnOnce(&History) -> T) -> Result<T> {
        match &self.agent()?.inputs.history {
            Some(history) => Ok(f(history)),
            None => Ok(f(&History::from_messages(self.store.replay(self.current)?.0))),
        }
    }

    /// The name of an agent, or else its number, also of a killed one.
    pub fn name_of(&self, id: AgentId) -> String {
        match self.roster.get(id) {
            Some(agent) => agent.identity.label(),
            None => {
                let row = self.store.agent(id).ok().flatten();
                let state = if row.as_ref().is_some_and(|row| row.is_running) { "archived" } else { "dead" };
                let label = row.map(|row| row.label());
                format!("{} ({state})", label.unwrap_or_else(|| id.to_string()))
            }
        }
    }
}

/// A command of the chat, the shell or clients.
pub struct CommandSpec {
    /// Without the slash.
    pub name: &'static str,
    /// Other names in the chat.
    pub aliases: &'static [&'static str],
    /// Its arguments as the help of the chat shows them.
    pub arguments: &'static str,
    /// One line for that help.
    pub about: &'static str,
    /// What happens while the agent is busy.
    pub busy: WhenBusy,
    /// How it is a subcommand, if it is one. Clients may run it too.
    pub shell: Option<ShellSpec>,
    /// Clients may run it although it is no subcommand.
    pub is_for_clients: bool,
    /// From a client, and without an agent, it runs at one that was sent a message last.
    pub runs_at_last: Option<Last>,
    /// Adds the options and arguments.
    pub define: fn(clap::Command) -> clap::Command,
    /// The argument that takes the rest of a line of the chat.
    pub rest: Option<Rest>,
    /// Returns what is to be done.
    pub run: fn(&CommandContext, &ArgMatches) -> Result<InputResult>,
    /// The completions of the arguments typed so far, where their definition does not say them.
    pub complete: Option<fn(&CommandContext, typed: &str) -> Vec<String>>,
}

/// Among which agents the one is that was sent a message last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Last {
    OfAll,
    /// Only those that work in the directory of the client.
    Here,
}

/// An argument that takes the rest of a line, given by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    AsTyped(&'static str),
    /// Quotes around it are removed.
    Unquoted(&'static str),
}

impl Rest {
    /// The id of the argument.
    fn id(self) -> &'static str {
        let (Self::AsTyped(id) | Self::Unquoted(id)) = self;
        id
    }
}

/// How the command is offered as a subcommand of the shell.
#[derive(Debug, PartialEq, Eq)]
pub struct ShellSpec {
    /// The name of the subcommand, where it is not that of the command.
    pub name: Option<&'static str>,
    /// A former name, which still works.
    pub former_name: Option<&'static str>,
    /// One line for `polylogue help`.
    pub about: &'static str,
    /// The arguments that must be given.
    pub required: &'static [&'static str],
    /// The agent is a listed one, and the command runs as if it were typed there.
    pub runs_at_agent: bool,
    pub without_server: WithoutServer,
    /// The client waits for as long as it takes.
    pub has_no_time_limit: bool,
    /// The argument whose value `-` is read from standard input.
    pub input: Option<&'static str>,
    /// It prints the data of the response: as a table, with `--json` as JSON.
    pub prints_data: bool,
    /// The columns of the table; empty if the command line has its own table.
    pub columns: &'static [&'static str],
}

/// How a subcommand runs if no process serves the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutServer {
    /// It fails.
    Fails,
    /// A loop of this process runs it and holds the data directory.
    Runs,
    /// A loop of this process runs it. Without an option of the group [`ACT`] it only reads, also while another process
    /// holds the directory.
    Reads,
}

/// The group of the options of a command that make it change something.
pub const ACT: &str = "act";
/// The option of a subcommand to print JSON.
pub const JSON: &str = "json";

impl ShellSpec {
    /// Needs an agent and a server, which answers at once.
    pub const fn new(about: &'static str) -> Self {
        Self {
            name: None,
            former_name: None,
            about,
            required: &[AGENT],
            runs_at_agent: false,
            without_server: WithoutServer::Fails,
            has_no_time_limit: false,
            input: None,
            prints_data: false,
            columns: &[],
        }
    }

    /// Needs no agent, and prints what a server returns.
    pub const fn list(about: &'static str, columns: &'static [&'static str]) -> Self {
        Self { required: &[], prints_data: true, columns, ..Self::new(about) }
    }
}

impl CommandSpec {
    /// A command without arguments that runs at once, also while the agent is busy.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        run: fn(&CommandContext, &ArgMatches) -> Result<InputResult>,
    ) -> Self {
        Self {
            name,
            aliases: &[],
            arguments: "",
            about,
            busy: WhenBusy::Runs,
            shell: None,
            is_for_clients: false,
            runs_at_last: None,
            define: |command| command,
            rest: None,
            run,
            complete: None,
        }
    }

    /// The parser of its arguments in the chat and from clients.
    fn chat_parser(&self) -> clap::Command {
        let command = clap::Command::new(self.name).no_binary_name(true).disable_help_flag(true);
        (self.define)(command).args_override_self(true)
    }

    /// The name of the subcommand.
    pub fn shell_name(&self) -> &'static str {
        self.shell.as_ref().and_then(|shell| shell.name).unwrap_or(self.name)
    }

    /// The parser of the subcommand.
    pub fn shell_parser(&self, shell: &ShellSpec) -> clap::Command {
        let mut command = (self.define)(clap::Command::new(self.shell_name()).about(shell.about));
        for id in shell.required {
            command = command.mut_arg(id, |arg| arg.required(true));
        }
        if let Some(id) = shell.input {
            command = command.mut_arg(id, |arg| {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                arg.help(format!("{help}; - reads it from standard input"))
            });
        }
        if let Some(name) = shell.former_name {
            command = command.alias(name);
        }
        if shell.prints_data {
            let help = "Print one JSON object per line";
            command = command.arg(Arg::new(JSON).long(JSON).action(ArgAction::SetTrue).help(help));
        }
        command
    }
}

/// What happens to a command that is typed while the agent is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenBusy {
    /// It runs at once: it does not affect the current request.
    Runs,
    /// It is queued after earlier input: it changes what the model sees.
    Queues,
    /// It waits outside of the queue until the tool calls of this reply are done.
    Parks,
}

/// The commands of the chat, in the order of `/help`.
pub fn all() -> impl Iterator<Item = &'static CommandSpec> + Clone {
    let of_features = FEATURES.iter().flat_map(|feature| feature.commands);
    COMMANDS.iter().chain(of_features).copied()
}

/// The commands of the core.
pub const COMMANDS: &[&CommandSpec] = &[
    &fork::FORK,
    &new::NEW,
    &switch::SWITCH,
    &agents::AGENTS,
    &views::INBOX,
    &views::WALL,
    &ask::ASK,
    &views::COMPARE,
    &views::TIMELINE,
    &views::SEARCH,
    &views::RESUME,
    &name::NAME,
    &kill::KILL,
    &archive::ARCHIVE,
    &archive::UNARCHIVE,
    &delete::DELETE,
    #[cfg(feature = "coordinator")]
    &team::TEAM,
    #[cfg(feature = "coordinator")]
    &review::REVIEW,
    &env::ENV,
    &interrupt::INTERRUPT,
    &retry::RETRY,
    &stop::STOP,
    &limit::LIMIT,
    &tools::TOOLS,
    &skills::SKILLS,
    &skills::SKILL,
    &hooks::HOOKS,
    &approval::APPROVAL,
    &rules::RULES,
    &rewind::MARK,
    &rewind::REWIND,
    &undo::UNDO,
    &undo::DIFF,
    &undo::LAND,
    &done::DONE,
    &rewind::CLEAR,
    &rewind::COMPACT,
    &slice::SLICE,
    &model::MODEL,
    &model::THINKING,
    &setup::SETUP,
    &set::SET,
    &system::SYSTEM,
    &init::INIT,
    &queue::QUEUE,
    &usage::USAGE,
    &raw::RAW,
    &copy::COPY,
    &export::EXPORT,
    &tell::TELL,
    &mail::SEND,
    &mail::CHECK_MAIL,
    &mail::READ_MAIL,
    &mail::FILTER_MAIL,
    &mail::DELETE_MAIL,
    &help::HELP,
    &sessions::SESSIONS,
    &detach::DETACH,
    &exit::EXIT,
];

/// Commands of clients and of the shell alone. The chat has keys and views for the same.
const CLIENT_COMMANDS: &[&CommandSpec] = &[
    &mail::MAIL,
    &approve::APPROVE,
    &approve::DENY,
    &status::STATUS,
    #[cfg(feature = "hosts")]
    &call_tool::CALL_TOOL,
];

/// The commands that are subcommands of the shell too.
pub fn shell_commands() -> impl Iterator<Item = (&'static CommandSpec, &'static ShellSpec)> {
    all().chain(CLIENT_COMMANDS.iter().copied()).filter_map(|spec| Some((spec, spec.shell.as_ref()?)))
}

/// Commands of Cargo features that the program was built without, each with its feature.
const NOT_BUILT_IN: &[(&str, &str)] = &[
    #[cfg(not(feature = "coordinator"))]
    ("team", "coordinator"),
    #[cfg(not(feature = "coordinator"))]
    ("review", "coordinator"),
];

/// Parses one line: a command is run, everything else is a message; a message that begins with a slash is typed with
/// two. A command that changes what the model sees is queued if the agent is busy or something is already queued.
pub fn read(line: &str, context: &CommandContext) -> Result<InputResult> {
    let result = read_queued(line, context)?;
    let changes = matches!(result, InputResult::NewState(..));
    let queues = matches!(parse(line), Some((name, _)) if find(name).is_some_and(|spec| spec.busy == WhenBusy::Queues));
    Ok(if changes && queues && context.agent()?.is_occupied() {
        InputResult::NewState(Change::Enqueue(line.to_owned()), None)
    } else {
        result
    })
}

/// Parses the command of a client, given as words: its name, then its arguments.
///
/// # Errors
/// Clients do not run this command, or its arguments are invalid.
pub fn parse_client_command(words: &[String]) -> Result<(&'static CommandSpec, ArgMatches)> {
    let (name, arguments) = words.split_first().ok_or_else(|| usage_error("no command given"))?;
    let of_chat = find(name).filter(|spec| spec.shell.is_some() || spec.is_for_clients);
    let spec = of_chat.or_else(|| CLIENT_COMMANDS.iter().find(|spec| spec.name == name).copied());
    let spec = spec.ok_or_else(|| usage_error(format!("clients cannot run the command {name:?}")))?;
    Ok((spec, parse_words(spec, arguments)?))
}

/// Runs a command that only reads for a model, and returns its text.
///
/// # Errors
/// There is no such command, its arguments are invalid, or it changes something.
pub fn run_for_model(context: &CommandContext, words: &[String]) -> Result<String> {
    let (name, arguments) = words.split_first().ok_or_else(|| usage_error("no command given"))?;
    let spec = find(name).ok_or_else(|| unknown(name, context))?;
    match (spec.run)(context, &parse_words(spec, arguments)?)? {
        InputResult::Continue(Some(text)) => Ok(text),
        _ => Err(usage_error(format!("models cannot run the command {name:?}"))),
    }
}

/// Like [`read`], for a line taken from the queue: it is never queued again.
pub fn read_queued(line: &str, context: &CommandContext) -> Result<InputResult> {
    if is_pasted_path(line) {
        return Ok(InputResult::Message(line.to_owned()));
    }
    let Some((name, arguments)) = parse(line) else {
        return Ok(InputResult::Message(line.strip_prefix('/').unwrap_or(line).to_owned()));
    };
    let is_own = replacement(context, name).is_some();
    match (find(name).filter(|_| !is_own), custom::find(context, name)) {
        (Some(spec), _) => (spec.run)(context, &parse_line(spec, arguments)?),
        (None, Some(command)) => custom::run(command, arguments),
        (None, None) => match (skills::find(context, name), server_prompt::find(context, name)) {
            (Some(skill), _) => Ok(skills::run_skill(skill, arguments)),
            (None, Some(prompt)) => server_prompt::run(prompt, arguments),
            // The host reads the line itself.
            (None, None) if host_command::find(context, name).is_some() => Ok(InputResult::Message(line.to_owned())),
            (None, None) => Err(unknown(name, context)),
        },
    }
}

/// The meaning of a text from a client: a skill or a prompt of a server by its name after a slash, otherwise the text
/// itself.
pub fn change_of_client(text: String, context: &CommandContext) -> Result<Change> {
    let Some((name, arguments)) = parse(&text) else { return Ok(Change::Submit(text)) };
    let result = match (skills::find(context, name), server_prompt::find(context, name)) {
        (Some(skill), _) => skills::run_skill(skill, arguments),
        (None, Some(prompt)) => server_prompt::run(prompt, arguments)?,
        (None, None) => return Ok(Change::Submit(text)),
    };
    Ok(match result {
        InputResult::NewState(change, _) => change,
        InputResult::Message(text) => Change::Submit(text),
        _ => Change::Submit(text),
    })
}

/// Built-in commands that a custom command or a skill of the person replaces: those that say to agents what to do.
const REPLACEABLE: [&str; 2] = ["init", "review"];

/// Whether a custom command can have this name.
pub fn is_free_name(name: &str) -> bool {
    find(name).is_none() || REPLACEABLE.contains(&name)
}

/// The description of what replaces a built-in command.
fn replacement<'a>(context: &CommandContext<'a>, name: &str) -> Option<&'a str> {
    if !REPLACEABLE.contains(&name) {
        return None;
    }
    let of_person = |skill: &&Skill| skill.author == Author::Person;
    let custom = custom::find(context, name).map(|command| command.description.as_str());
    custom.or_else(|| skills::find(context, name).filter(of_person).map(|skill| skill.description.as_str()))
}

/// Whether the line begins with the path of an image or a PDF file, as terminals paste it.
fn is_pasted_path(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    line.starts_with('/') && first[1..].contains('/') && is_attachable(first)
}

/// Splits a command into name and arguments; `None` for a message.
fn parse(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix('/').filter(|rest| !rest.starts_with('/'))?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some((name, arguments.trim()))
}

/// The command with this name or alias.
pub fn find(name: &str) -> Option<&'static CommandSpec> {
    all().find(|spec| spec.name == name || spec.aliases.contains(&name))
}

fn unknown(name: &str, context: &CommandContext) -> Error {
    if let Some((_, feature)) = NOT_BUILT_IN.iter().find(|(command, _)| *command == name) {
        return Error::not_built_in(feature);
    }
    let custom = context.config.commands.iter().map(|command| command.name.as_str());
    let skills = skills::for_people(context).map(|skill| skill.name.as_str());
    let of_host = host_command::all(context).map(|command| command.name.as_str());
    let names = all().map(|spec| spec.name).chain(custom).chain(skills).chain(of_host);
    usage_error(match text::nearest(name, names) {
        Some(nearest) => format!("unknown command /{name}: did you mean /{nearest}?"),
        None => format!("unknown command /{name}: /help lists all commands (type // to send a message with a slash)"),
    })
}

/// The agent with this name, number or id.
pub fn agent_called(roster: &Roster, text: &str) -> Result<AgentId> {
    find_agent(roster, text, "/agents --all or `polylogue ps --all`")
}

/// [`agent_called`] for a model.
pub fn agent_called_by_model(roster: &Roster, text: &str) -> Result<AgentId> {
    find_agent(roster, text, "the agents tool")
}

fn find_agent(roster: &Roster, text: &str, list_command: &str) -> Result<AgentId> {
    one_of(roster.find(text), text, || format!("no agent {text:?}: {list_command} lists all agents"))
}

/// The agent that was found, or else an ended agent with this name.
pub fn or_ended(store: &Store, found: Result<AgentId>, name: &str) -> Result<AgentId> {
    found.or_else(|error| store.find(name)?.one().ok_or(error))
}

/// The archived agent that is called so.
///
/// # Errors
/// No archived agent or several match, or the store cannot be read.
pub fn archived_called(store: &Store, text: &str) -> Result<AgentId> {
    let found = called_among(&store.archived_agents()?.agents, text);
    one_of(found, text, || {
        format!("no archived agent {text:?}: /agents --archived or `polylogue ps --archived` lists them")
    })
}

/// The agent with this name, number or id: a listed one, or else an archived or killed one.
pub fn any_called(roster: &Roster, store: &Store, text: &str) -> Result<AgentId> {
    match roster.find(text) {
        Found::None => any_stored(store, text),
        found => one_of(found, text, String::new),
    }
}

/// The stored agent that is called so; a killed one also by its former name or number.
pub fn any_stored(store: &Store, text: &str) -> Result<AgentId> {
    let found = match store.find(text)? {
        Found::None => called_among(&store.killed_agents()?.agents, text),
        found => found,
    };
    one_of(found, text, || format!("no agent {text:?}: /agents --all or `polylogue ps --all` lists them"))
}

fn called_among(rows: &[AgentRow], text: &str) -> Found {
    let known = rows.iter().map(|row| Known { id: row.id, number: row.number, name: row.name.as_deref() });
    find_called(&known.collect::<Vec<_>>(), text)
}

/// The one agent that was found, or an error.
pub fn one_of(found: Found, text: &str, unknown: impl FnOnce() -> String) -> Result<AgentId> {
    match found {
        Found::One(id) => Ok(id),
        Found::None => Err(usage_error(unknown())),
        Found::Ambiguous(ids) => {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            Err(usage_error(format!("{text:?} is ambiguous: type more of one of {}", ids.join(", "))))
        }
    }
}

/// The name by which a model addresses the agent that forked it.
pub const PARENT: &str = "parent";

/// Checks a name for an agent: it must not look like a number or an option, and must not be [`PARENT`].
pub fn checked_name(name: &str) -> Result<String> {
    if name == PARENT {
        return Err(usage_error("the name `parent` is reserved for the parent of each agent: choose another one"));
    }
    let is_fine = name.starts_with(char::is_alphabetic)
        && name.chars().count() <= 32
        && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
    if is_fine {
        return Ok(name.to_owned());
    }
    Err(usage_error(format!("invalid name {name:?}: use a letter and up to 31 letters, digits, - or _")))
}

fn usage_error(message: impl Into<String>) -> Error {
    Error::usage(message)
}
