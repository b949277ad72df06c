//! `/exit`: leave the program.

use super::{CommandSpec, WhenBusy, nothing, refuse_arguments};
use crate::domain::flow::InputResult;

/// `/exit`.
pub const EXIT: CommandSpec = CommandSpec {
    name: "exit",
    aliases: &["quit", "q"],
    arguments: "",
    about: "leave; every conversation is kept",
    busy: WhenBusy::Runs,
    run: |_, arguments| refuse_arguments("exit", arguments).map(|()| InputResult::Exit),
    complete: nothing,
};
