//! What a person may ask of the house with a line that begins with `/`. One file a command: a const and a function that
//! reads the house and returns a wish. Help and completion come from the table.

mod agents;
mod complete;
mod copy;
mod custom;
mod detach;
mod env;
mod exit;
mod export;
mod fork;
mod help;
mod interrupt;
mod kill;
mod mail;
mod model;
mod name;
mod past;
mod queue;
mod sessions;
mod slice;
mod switch;
mod system;
#[cfg(feature = "coordinator")]
mod team;
mod tools;
mod usage;

use crate::agent::Agent;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::config::Config;
use crate::domain::flow::{Change, InputResult};
use crate::domain::history::History;
use crate::store::Store;
use crate::team::{NoSuchAgent, Roster};
pub use agents::agent_tree;
pub use complete::complete;
pub use help::KEYS;
pub use mail::mail_lines;
#[cfg(feature = "coordinator")]
pub use team::{TeamRequest, parse_team_request};

/// The house as a command may see it.
pub struct CommandContext<'a> {
    /// Everybody.
    pub roster: &'a Roster,
    /// What is stored.
    pub store: &'a Store,
    /// What the program was told at its start.
    pub config: &'a Config,
    /// Whom the person is talking with.
    pub current: AgentId,
    /// Milliseconds since 1970.
    pub unix_ms: i64,
    /// The terminals, in the order in which they sat down; empty where nobody asks at one.
    pub terminal_infos: Vec<TerminalInfo>,
}

/// One terminal, as a command may see it.
pub struct TerminalInfo {
    /// How a person calls it.
    pub number: u64,
    /// When it sat down, in milliseconds since 1970.
    pub since: i64,
    /// Columns and rows.
    pub size: (u16, u16),
    /// The agent that it looks at.
    pub focus: AgentId,
    /// It only watches.
    pub is_read_only: bool,
    /// It is the one at which the command was typed.
    pub is_origin: bool,
}

impl CommandContext<'_> {
    /// Whom the person is talking with.
    ///
    /// # Errors
    /// It is gone.
    pub fn agent(&self) -> Result<&Agent> {
        self.roster.get(self.current).ok_or_else(|| usage("this agent is gone: /agents lists those that are there"))
    }

    /// Hands over what the model is told: what is in memory, else what is stored.
    ///
    /// # Errors
    /// It is gone, or the store cannot be read.
    pub fn with_history<T>(&self, tell: impl FnOnce(&History) -> T) -> Result<T> {
        match &self.agent()?.talk.history {
            Some(history) => Ok(tell(history)),
            None => Ok(tell(&History::from_messages(self.store.replay(self.current)?.0))),
        }
    }

    /// What people call an agent, living or dead: its name, else its id.
    pub fn name_of(&self, id: AgentId) -> String {
        match self.roster.get(id) {
            Some(agent) => agent.identity.name.clone().unwrap_or_else(|| id.to_string()),
            None => {
                let row = self.store.agent(id).ok().flatten();
                format!("{} (dead)", row.and_then(|row| row.name).unwrap_or_else(|| id.to_string()))
            }
        }
    }
}

/// One command.
pub struct CommandSpec {
    /// What is typed, without the slash.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// What may follow the name.
    pub arguments: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// What becomes of it while the agent works.
    pub busy: WhenBusy,
    /// Reads the house and returns a wish.
    pub run: fn(&CommandContext, &str) -> Result<InputResult>,
    /// What could stand in the place of what is typed behind the name so far.
    pub complete: fn(&CommandContext, typed: &str) -> Vec<String>,
}

/// What becomes of a command that is typed while the agent works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenBusy {
    /// It is carried out at once: it does not touch the request that is under way.
    Runs,
    /// It waits its turn in the queue, behind what was queued before: it changes what the model is told.
    Queues,
    /// It waits, outside of the queue, until the tools of this reply are done.
    Parks,
}

/// All commands, as help lists them.
pub const COMMANDS: &[&CommandSpec] = &[
    &fork::FORK,
    &switch::SWITCH,
    &agents::AGENTS,
    &name::NAME,
    &kill::KILL,
    #[cfg(feature = "coordinator")]
    &team::TEAM,
    &env::ENV,
    &interrupt::INTERRUPT,
    &tools::TOOLS,
    &past::MARK,
    &past::REWIND,
    &past::CLEAR,
    &slice::SLICE,
    &model::MODEL,
    &model::THINKING,
    &system::SYSTEM,
    &queue::QUEUE,
    &usage::USAGE,
    &copy::COPY,
    &export::EXPORT,
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

/// Commands of Cargo features that this program was built without, each with its feature.
const LEFT_OUT: &[(&str, &str)] = &[
    #[cfg(not(feature = "coordinator"))]
    ("team", "coordinator"),
];

/// Turns one line into what is wanted: a command into its result, everything else into a message.
/// A line that begins with two slashes is a message that begins with one. A command that changes what the model is told
/// waits while the agent works or while something is queued before it: then that is what is wanted.
///
/// # Errors
/// When the command is unknown, or cannot be carried out as it was typed.
pub fn read(line: &str, context: &CommandContext) -> Result<InputResult> {
    let result = read_at_its_turn(line, context)?;
    let changes = matches!(result, InputResult::NewState(..));
    let queues = matches!(parse(line), Some((name, _)) if find(name).is_some_and(|spec| spec.busy == WhenBusy::Queues));
    Ok(if changes && queues && context.agent()?.is_occupied() {
        InputResult::NewState(Change::Enqueue(line.to_owned()), None)
    } else {
        result
    })
}

/// The same for a line whose turn has come: nothing is before it.
///
/// # Errors
/// As for [`read`].
pub fn read_at_its_turn(line: &str, context: &CommandContext) -> Result<InputResult> {
    let Some((name, arguments)) = parse(line) else {
        return Ok(InputResult::Message(line.strip_prefix('/').unwrap_or(line).to_owned()));
    };
    match (find(name), custom::find(context, name)) {
        (Some(spec), _) => (spec.run)(context, arguments),
        (None, Some(command)) => custom::run(command, arguments),
        (None, None) => Err(unknown(name, context)),
    }
}

/// The name of a command and what stands behind it; none for a message.
fn parse(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix('/').filter(|rest| !rest.starts_with('/'))?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some((name, arguments.trim()))
}

/// The command of this name.
pub fn find(name: &str) -> Option<&'static CommandSpec> {
    COMMANDS.iter().find(|spec| spec.name == name || spec.aliases.contains(&name)).copied()
}

fn unknown(name: &str, context: &CommandContext) -> Error {
    if let Some((_, feature)) = LEFT_OUT.iter().find(|(command, _)| *command == name) {
        return Error::not_built_in(feature);
    }
    let custom = context.config.commands.iter().map(|command| command.name.as_str());
    let names = COMMANDS.iter().map(|spec| spec.name).chain(custom);
    let words = match text::nearest(name, names) {
        Some(nearest) => format!("there is no /{name}: did you mean /{nearest}?"),
        None => format!("there is no /{name}: /help lists the commands (// begins a message with a slash)"),
    };
    Error::new(ErrorKind::Usage, words)
}

/// The agent that a person named.
///
/// # Errors
/// Nobody or more than one is.
pub fn agent_called(roster: &Roster, text: &str) -> Result<AgentId> {
    roster.find(text).map_err(|error| {
        Error::new(
            ErrorKind::Usage,
            match error {
                NoSuchAgent::Unknown => format!("there is no agent {text:?}: /agents lists them"),
                NoSuchAgent::Ambiguous(ids) => {
                    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
                    format!("{text:?} may be any of {}: type more of it", ids.join(", "))
                }
            },
        )
    })
}

/// What a model calls who forked it, and nobody else.
pub const PARENT: &str = "parent";

/// A name that a person or a model may give: nothing that could be taken for a number, an option or everybody's parent.
///
/// # Errors
/// It is none.
pub fn checked_name(name: &str) -> Result<String> {
    if name == PARENT {
        return Err(usage("`parent` is how every agent calls the one that forked it: choose another name"));
    }
    let is_fine = name.starts_with(char::is_alphabetic)
        && name.chars().count() <= 32
        && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
    if is_fine {
        return Ok(name.to_owned());
    }
    Err(usage(&format!("{name:?} is no name: a letter, then up to 31 letters, digits, - or _")))
}

/// The text without the quotes around it, if there are any. Where quotes stand inside too, nobody knows which belong
/// together: then they are all part of the text.
fn unquoted(text: &str) -> &str {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.filter(|inner| !inner.contains('"')).unwrap_or(text)
}

fn usage(words: &str) -> Error {
    Error::new(ErrorKind::Usage, words)
}

fn nothing(_: &CommandContext, _: &str) -> Vec<String> {
    Vec::new()
}

fn refuse_arguments(name: &str, arguments: &str) -> Result<()> {
    if arguments.is_empty() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Usage, format!("/{name} takes nothing behind it, but {arguments:?} stands there")))
}
