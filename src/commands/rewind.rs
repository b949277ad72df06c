//! Commands that change what the model remembers: `/clear`, `/mark`, `/rewind`.

use super::complete::marks;
use super::{CommandSpec, WhenBusy, nothing, refuse_arguments};
use crate::domain::flow::{Change, InputResult};

pub const CLEAR: CommandSpec = CommandSpec {
    name: "clear",
    aliases: &[],
    arguments: "",
    about: "remove everything so far from the context",
    busy: WhenBusy::Queues,
    run: |_, arguments| {
        refuse_arguments("clear", arguments)?;
        Ok(InputResult::NewState(Change::Clear, None))
    },
    complete: nothing,
};

pub const MARK: CommandSpec = CommandSpec {
    name: "mark",
    aliases: &[],
    arguments: "[LABEL]",
    about: "set a mark that /rewind returns to",
    busy: WhenBusy::Queues,
    run: |_, arguments| Ok(InputResult::NewState(Change::Mark(arguments.to_owned()), None)),
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
        Ok(InputResult::NewState(Change::Rewind(label), None))
    },
    complete: marks,
};
