//! `/inbox`, `/wall`, `/compare`, `/timeline`, `/search` and `/resume`: views over many agents.

use super::arguments::{positional, value_of};
use super::{CommandSpec, Rest};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult, Shown, ViewName};

pub const INBOX: CommandSpec =
    CommandSpec::new("inbox", "show who needs you: questions, failed and finished agents (Alt+A)", |_, _| {
        show(ViewName::Inbox)
    });

pub const WALL: CommandSpec =
    CommandSpec::new("wall", "show all agents as live tiles (Alt+W)", |_, _| show(ViewName::Wall));

pub const COMPARE: CommandSpec =
    CommandSpec::new("compare", "show the answers to /ask side by side (Alt+C)", |_, _| show(ViewName::Compare));

pub const TIMELINE: CommandSpec =
    CommandSpec::new("timeline", "show all that happened; fork, rewind, undo there (Esc Esc)", |_, _| {
        show(ViewName::Timeline)
    });

pub const SEARCH: CommandSpec = CommandSpec {
    arguments: "[WORDS]",
    define: |command| command.arg(positional("words", "WORDS")),
    rest: Some(Rest::AsTyped("words")),
    ..CommandSpec::new("search", "search the messages of all agents, killed ones too (Ctrl+F)", |_, given| {
        let words = value_of(given, "words").unwrap_or_default().to_owned();
        Ok(InputResult::NewState(Change::Show(Shown::Search(words)), None))
    })
};

pub const RESUME: CommandSpec =
    CommandSpec::new("resume", "continue a conversation, also an archived one", |_, _| show(ViewName::Picker));

fn show(view: ViewName) -> Result<InputResult> {
    Ok(InputResult::NewState(Change::Show(Shown::View(view)), None))
}
