//! `/exit`: exit the program.

use super::{CommandSpec, WhenBusy, nothing, refuse_arguments};
use crate::domain::flow::InputResult;

pub const EXIT: CommandSpec = CommandSpec {
    name: "exit",
    aliases: &["quit", "q"],
    arguments: "",
    about: "exit; all conversations are stored",
    busy: WhenBusy::Runs,
    run: |_, arguments| refuse_arguments("exit", arguments).map(|()| InputResult::Exit),
    complete: nothing,
};
