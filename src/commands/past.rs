//! The commands about what an agent remembers: `/clear`, `/mark`, `/rewind`.

use super::complete::marks;
use super::{CommandSpec, WhenBusy, nothing, refuse_arguments};
use crate::domain::flow::{Change, InputResult};

/// `/clear`.
pub const CLEAR: CommandSpec = CommandSpec {
    name: "clear",
    aliases: &[],
    arguments: "",
    about: "the model forgets everything so far",
    busy: WhenBusy::Queues,
    run: |_, arguments| {
        refuse_arguments("clear", arguments)?;
        Ok(InputResult::NewState(Change::Clear, None))
    },
    complete: nothing,
};

/// `/mark`.
pub const MARK: CommandSpec = CommandSpec {
    name: "mark",
    aliases: &[],
    arguments: "[LABEL]",
    about: "a place to come back to",
    busy: WhenBusy::Queues,
    run: |_, arguments| Ok(InputResult::NewState(Change::Mark(arguments.to_owned()), None)),
    complete: nothing,
};

/// `/rewind`.
pub const REWIND: CommandSpec = CommandSpec {
    name: "rewind",
    aliases: &[],
    arguments: "[LABEL]",
    about: "forget what came after a mark",
    busy: WhenBusy::Queues,
    run: |_, arguments| {
        let label = (!arguments.is_empty()).then(|| arguments.to_owned());
        Ok(InputResult::NewState(Change::Rewind(label), None))
    },
    complete: marks,
};
