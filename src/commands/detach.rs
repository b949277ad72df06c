//! `/detach`: let go of a chat that goes on without this terminal.

use super::{CommandSpec, WhenBusy, nothing, refuse_arguments};
use crate::domain::flow::InputResult;

/// `/detach`.
pub const DETACH: CommandSpec = CommandSpec {
    name: "detach",
    aliases: &[],
    arguments: "",
    about: "let this terminal go; all else goes on",
    busy: WhenBusy::Runs,
    run: |_, arguments| refuse_arguments("detach", arguments).map(|()| InputResult::Detach),
    complete: nothing,
};
