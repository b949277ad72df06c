//! `/exit`: leave the program.

use super::{CommandSpec, nothing, refuse_arguments};
use crate::domain::flow::InputResult;

/// `/exit`.
pub const EXIT: CommandSpec = CommandSpec {
    name: "exit",
    aliases: &["quit", "q"],
    arguments: "",
    about: "leave; every conversation is kept",
    run: |_, arguments| refuse_arguments("exit", arguments).map(|()| InputResult::Exit),
    complete: nothing,
};
