//! `/export`: writes a conversation to a new file, on a thread: a log may be long, and a disk slow.

mod json;
mod markdown;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use clap::ArgMatches;

use super::arguments::{positional, unquoted, value_of};
use super::complete::complete_two_words;
use super::{CommandContext, CommandSpec, Rest, usage_error};
use crate::agent::Agent;
use crate::base::error::Result;
use crate::domain::change::{Change, FileJob};
use crate::domain::flow::InputResult;
use crate::domain::message::Message;

pub const EXPORT: CommandSpec = CommandSpec {
    arguments: "[md|json] [FILE]",
    define: |command| command.arg(positional("file", "FILE")),
    rest: Some(Rest::AsTyped("file")),
    complete: Some(|_, typed| complete_two_words(typed, vec!["md ".into(), "json ".into()], |_| Vec::new())),
    ..CommandSpec::new("export", "write the conversation to a new file", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let arguments = value_of(given, "file").unwrap_or_default();
    let (word, rest) = arguments.split_once(char::is_whitespace).unwrap_or((arguments, ""));
    let (is_json, file) = match word {
        "md" => (false, rest.trim()),
        "json" => (true, rest.trim()),
        _ => (arguments.ends_with(".json"), arguments),
    };
    let path = path_of(unquoted(file))?.unwrap_or_else(|| default_path(context, is_json));
    Ok(InputResult::NewState(Change::Files(FileJob::Export { path, is_json }), None))
}

/// Whose log is exported, and when.
pub struct Subject {
    label: String,
    model: String,
    /// The fields of a JSON object.
    identity: Value,
    /// Milliseconds since 1970.
    unix_ms: i64,
}

impl Subject {
    /// Copies what an export says of an agent.
    pub fn of(agent: &Agent, unix_ms: i64) -> Self {
        let (identity, model) = (&agent.identity, agent.inputs.endpoint.full_name());
        let object = json!({
            "id": identity.id.to_string(),
            "number": identity.number(),
            "name": identity.name,
            "parent": identity.parent.filter(|_| identity.has_parent()).map(|parent| parent.to_string()),
            "model": model,
            "created_at": identity.created_at,
        });
        Self { label: identity.label(), model, identity: object, unix_ms }
    }

    /// The messages as JSON or Markdown, with what could not be read.
    pub fn text(&self, messages: &[Message], damaged: &[String], is_json: bool) -> String {
        if is_json { json::of(self, messages, damaged) } else { markdown::of(self, messages, damaged) }
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
fn default_path(context: &CommandContext, is_json: bool) -> PathBuf {
    let label = context.agent().map(|agent| agent.identity.label().replace(' ', "-")).unwrap_or_default();
    format!("{label}-{}.{}", date(context.unix_ms), if is_json { "json" } else { "md" }).into()
}

/// The day in UTC (ISO 8601). Counts in eras of 400 years that begin in March, so that the leap day is the last of a
/// year (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn date(unix_ms: i64) -> String {
    let days = unix_ms.div_euclid(86_400_000) + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
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
