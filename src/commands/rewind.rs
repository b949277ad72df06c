//! Commands that change what the model remembers: `/clear`, `/compact`, `/mark`, `/rewind`.

use super::complete::marks;
use super::{CommandSpec, WhenBusy, nothing, usage_error};
use crate::domain::flow::{Change, HistoryEdit, InputResult};

pub const CLEAR: CommandSpec = CommandSpec {
    name: "clear",
    aliases: &[],
    arguments: "[undo]",
    about: "remove everything so far from the context, or bring it back",
    busy: WhenBusy::Queues,
    run: |_, arguments| match arguments {
        "" => Ok(InputResult::NewState(Change::EditHistory(HistoryEdit::Clear), None)),
        "undo" => Ok(InputResult::NewState(Change::EditHistory(HistoryEdit::UndoClear), None)),
        _ => Err(usage_error(format!("unknown argument {arguments:?}: /clear undo takes the last /clear back"))),
    },
    complete: |_, _| vec!["undo".into()],
};

pub const COMPACT: CommandSpec = CommandSpec {
    name: "compact",
    aliases: &[],
    arguments: "[GOAL | undo]",
    about: "replace older messages with a summary",
    busy: WhenBusy::Queues,
    run: |_, arguments| {
        let change = match arguments {
            "" => Change::EditHistory(HistoryEdit::Compact(None)),
            "undo" => Change::EditHistory(HistoryEdit::UndoCompact),
            goal => Change::EditHistory(HistoryEdit::Compact(Some(goal.to_owned()))),
        };
        Ok(InputResult::NewState(change, None))
    },
    complete: |_, _| vec!["undo".into()],
};

pub const MARK: CommandSpec = CommandSpec {
    name: "mark",
    aliases: &[],
    arguments: "[LABEL]",
    about: "set a mark that /rewind returns to",
    busy: WhenBusy::Queues,
    run: |_, arguments| Ok(InputResult::NewState(Change::EditHistory(HistoryEdit::Mark(arguments.to_owned())), None)),
    complete: nothing,
};

pub const REWIND: CommandSpec = CommandSpec {
    name: "rewind",
    aliases: &[],
    arguments: "[LABEL]",
    about: "return to a mark, by default the newest",
    busy: WhenBusy::Queues,
    run: |_, arguments| {
        let label = (!arguments.is_empty()).then(|| arguments.to_owned());
        Ok(InputResult::NewState(Change::EditHistory(HistoryEdit::Rewind(label)), None))
    },
    complete: marks,
};
