//! `/export`: writes a conversation to a new file, on a thread: a log may be long, and a disk slow.

mod atif;
mod json;
mod markdown;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use clap::ArgMatches;

use super::arguments::{flag, positional, unquoted, value_of};
use super::complete::complete_two_words;
use super::{CommandContext, CommandSpec, Rest, usage_error};
use crate::agent::Agent;
use crate::base::clock::utc_time;
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::domain::change::{Change, ExportFormat, FileJob};
use crate::domain::flow::InputResult;
use crate::domain::message::{Body, Message, forked_agent, is_of_child};
use crate::store::AgentRow;

pub const EXPORT: CommandSpec = CommandSpec {
    arguments: "[--replace] [md|json|atif] [FILE]",
    define: |command| command.arg(positional("file", "FILE")).arg(flag("replace", "Replace the file if it exists")),
    rest: Some(Rest::AsTyped("file")),
    is_for_clients: true,
    complete: Some(|_, typed| {
        let formats = ExportFormat::ALL.map(|(name, _)| format!("{name} "));
        complete_two_words(typed, formats.into(), |_| Vec::new())
    }),
    ..CommandSpec::new("export", "write the conversation to a new file", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let arguments = value_of(given, "file").unwrap_or_default();
    let (word, rest) = arguments.split_once(char::is_whitespace).unwrap_or((arguments, ""));
    let (format, file) = match ExportFormat::ALL.iter().find(|(name, _)| *name == word) {
        Some((_, format)) => (*format, rest.trim()),
        None if arguments.ends_with(".json") => (ExportFormat::Json, arguments),
        None => (ExportFormat::Markdown, arguments),
    };
    let path = path_of(unquoted(file))?.unwrap_or_else(|| default_path(context, format));
    let replaces = given.get_flag("replace");
    Ok(InputResult::NewState(Change::Files(FileJob::Export { path, format, replaces }), None))
}

/// An agent whose log is exported.
pub struct Subject {
    pub id: AgentId,
    label: String,
    model: String,
    /// The fields of a JSON object; null for a fork.
    identity: Value,
    /// The last message that it has inherited.
    fork_point: MessageId,
}

impl Subject {
    /// Copies what an export says of an agent.
    pub fn of(agent: &Agent) -> Self {
        let (identity, model) = (&agent.identity, agent.inputs.endpoint.full_name());
        let object = json!({
            "id": identity.id.to_string(),
            "number": identity.number(),
            "name": identity.name,
            "parent": identity.parent.filter(|_| identity.has_parent()).map(|parent| parent.to_string()),
            "model": model,
            "created_at": identity.created_at,
        });
        Self { id: identity.id, label: identity.label(), model, identity: object, fork_point: identity.fork_point }
    }

    /// The same of a forked agent, which may be gone, as far as a trajectory says it.
    pub fn of_fork(row: &AgentRow) -> Self {
        let model = row.endpoint.clone().unwrap_or_default();
        Self { id: row.id, label: row.label(), model, identity: Value::Null, fork_point: row.fork_point }
    }
}

/// A log that is exported.
pub struct Log {
    pub subject: Subject,
    pub messages: Vec<Message>,
    /// What could not be read.
    pub damaged: Vec<String>,
}

impl Log {
    /// The agents that it has forked.
    pub fn forks(&self) -> impl Iterator<Item = AgentId> {
        self.messages.iter().filter(|message| !self.is_inherited(message)).filter_map(fork_of)
    }

    fn is_inherited(&self, message: &Message) -> bool {
        message.id <= self.subject.fork_point
    }

    /// The text of an export at this time, in milliseconds since 1970. `forks` are the logs of its descendants.
    ///
    /// # Errors
    /// The format needs messages and there are none.
    pub fn text(&self, forks: &[Self], format: ExportFormat, unix_ms: i64) -> Result<String> {
        match format {
            ExportFormat::Markdown => Ok(markdown::of(self, unix_ms)),
            ExportFormat::Json => Ok(json::of(self, unix_ms)),
            ExportFormat::Atif => match atif::of(self, forks) {
                Some(trajectory) => Ok(format!("{trajectory:#}\n")),
                None => Err(usage_error("nothing to export: this conversation has no messages")),
            },
        }
    }
}

/// The agent whose fork this message notes.
fn fork_of(message: &Message) -> Option<AgentId> {
    match &message.body {
        Body::Fork(other) if !is_of_child(other) => forked_agent(other),
        _ => None,
    }
}

/// Expands `~/` at the beginning; `None` if no file is given.
fn path_of(file: &str) -> Result<Option<PathBuf>> {
    let rest = match file.strip_prefix('~') {
        _ if file.is_empty() => return Ok(None),
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
        Some(rest) if rest.contains('/') => {
            return Err(usage_error("cannot expand the home directory of another user: write out the path"));
        }
        _ => return Ok(Some(file.into())),
    };
    let home = std::env::var_os("HOME").ok_or_else(|| usage_error("cannot expand ~: HOME is not set"))?;
    Ok(Some(Path::new(&home).join(rest)))
}

/// `scout-2026-03-01.md`
fn default_path(context: &CommandContext, format: ExportFormat) -> PathBuf {
    let label = context.agent().map(|agent| agent.identity.label().replace(' ', "-")).unwrap_or_default();
    let end = match format {
        ExportFormat::Markdown => "md",
        ExportFormat::Json => "json",
        ExportFormat::Atif => "atif.json",
    };
    format!("{label}-{}.{end}", date(context.unix_ms)).into()
}

/// The day in UTC.
fn date(unix_ms: i64) -> String {
    utc_time(unix_ms).and_then(|time| Some(time.split_once('T')?.0.to_owned())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_computed_from_milliseconds() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_818, "2026-12-31"),
        ] {
            assert_eq!(date(days * 86_400_000), text);
            assert_eq!(date(days * 86_400_000 + 86_399_999), text);
        }
    }

    #[test]
    fn only_a_leading_tilde_is_the_home_directory() {
        let home = PathBuf::from(std::env::var_os("HOME").expect("a home"));
        assert_eq!(path_of("~/a.md").unwrap(), Some(home.join("a.md")));
        assert_eq!(path_of("~a.md").unwrap(), Some("~a.md".into()));
        assert!(path_of("~nobody/x").unwrap_err().message.contains("another user"));
        assert_eq!(path_of("").unwrap(), None);
    }
}
