//! Commands that change what the model remembers: `/clear`, `/compact`, `/mark`, `/rewind`.

use super::arguments::{positional, value_of};
use super::{CommandSpec, Rest, WhenBusy, usage_error};
use crate::domain::change::{Change, HistoryEdit};
use crate::domain::flow::InputResult;

pub const CLEAR: CommandSpec = CommandSpec {
    arguments: "[undo]",
    define: |command| command.arg(positional("undo", "undo")),
    busy: WhenBusy::Queues,
    complete: Some(|_, _| vec!["undo".into()]),
    ..CommandSpec::new("clear", "remove everything so far from the context, or bring it back", |_, given| {
        match value_of(given, "undo").unwrap_or_default() {
            "" => Ok(InputResult::NewState(Change::EditHistory(HistoryEdit::Clear), None)),
            "undo" => Ok(InputResult::NewState(Change::EditHistory(HistoryEdit::UndoClear), None)),
            other => Err(usage_error(format!("unknown argument {other:?}: /clear undo takes the last /clear back"))),
        }
    })
};

pub const COMPACT: CommandSpec = CommandSpec {
    arguments: "[GOAL | undo]",
    define: |command| command.arg(positional("goal", "GOAL")),
    rest: Some(Rest::AsTyped("goal")),
    busy: WhenBusy::Queues,
    complete: Some(|_, _| vec!["undo".into()]),
    ..CommandSpec::new("compact", "replace older messages with a summary", |_, given| {
        let change = match value_of(given, "goal").unwrap_or_default() {
            "" => Change::EditHistory(HistoryEdit::Compact(None)),
            "undo" => Change::EditHistory(HistoryEdit::UndoCompact),
            goal => Change::EditHistory(HistoryEdit::Compact(Some(goal.to_owned()))),
        };
        Ok(InputResult::NewState(change, None))
    })
};

pub const MARK: CommandSpec = CommandSpec {
    arguments: "[LABEL]",
    define: |command| command.arg(positional("label", "LABEL")),
    rest: Some(Rest::AsTyped("label")),
    busy: WhenBusy::Queues,
    ..CommandSpec::new("mark", "set a mark that /rewind returns to", |_, given| {
        let label = value_of(given, "label").unwrap_or_default().to_owned();
        Ok(InputResult::NewState(Change::EditHistory(HistoryEdit::Mark(label)), None))
    })
};

pub const REWIND: CommandSpec = CommandSpec {
    arguments: "[MARK]",
    define: |command| command.arg(positional("label", "MARK")),
    rest: Some(Rest::AsTyped("label")),
    busy: WhenBusy::Queues,
    ..CommandSpec::new("rewind", "return to a mark, by default the newest", |_, given| {
        let label = value_of(given, "label").map(str::to_owned);
        Ok(InputResult::NewState(Change::EditHistory(HistoryEdit::Rewind(label)), None))
    })
};
