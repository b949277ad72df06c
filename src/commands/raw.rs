//! `/raw`: replies as they were written, instead of drawn.

use super::{CommandContext, CommandSpec, WhenBusy, nothing, refuse_arguments};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

pub const RAW: CommandSpec = CommandSpec {
    name: "raw",
    aliases: &[],
    arguments: "",
    about: "show the source of replies, or draw them again",
    // The conversation is read from the store, where a reply is once it is complete.
    busy: WhenBusy::Queues,
    run,
    complete: nothing,
};

fn run(_context: &CommandContext, arguments: &str) -> Result<InputResult> {
    refuse_arguments("raw", arguments)?;
    Ok(InputResult::NewState(Change::ToggleRaw, None))
}
