//! `/inbox`, `/wall`, `/compare`, `/timeline`, `/search` and `/resume`: views over many agents.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::arguments::{positional, value_of};
use super::{CommandContext, CommandSpec, Rest};
use crate::base::error::Result;
use crate::domain::change::{Change, Shown, ViewName};
use crate::domain::flow::InputResult;
use crate::domain::title::title;
use crate::store::Conversation;

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

pub const RESUME: CommandSpec = CommandSpec {
    is_for_clients: true,
    ..CommandSpec::new("resume", "continue a conversation, also an archived one", |context, _| match context.clients {
        Some(_) => conversations_as_json(context).map(InputResult::Data),
        None => show(ViewName::Picker),
    })
};

/// The conversations that a person can resume.
fn conversations_as_json(context: &CommandContext) -> Result<Value> {
    let own = context.config.working_directory.canonicalize().ok();
    let row = |conversation: Conversation| {
        let directory = conversation.directory.map(PathBuf::from).or_else(|| own.clone())?;
        (!conversation.is_print_run).then(|| {
            json!({
                "id": conversation.agent.to_string(),
                "title": title(&conversation.said),
                "directory": directory.to_string_lossy(),
                "updated_at": conversation.last_at,
            })
        })
    };
    Ok(context.store.conversations()?.into_iter().filter_map(row).collect())
}

fn show(view: ViewName) -> Result<InputResult> {
    Ok(InputResult::NewState(Change::Show(Shown::View(view)), None))
}
