//! `/system`: what the model is told before everything.

use super::{CommandContext, CommandSpec, WhenBusy};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

/// `/system`.
pub const SYSTEM: CommandSpec = CommandSpec {
    name: "system",
    aliases: &[],
    arguments: "[TEXT | --default]",
    about: "the instructions before everything",
    busy: WhenBusy::Runs,
    run,
    complete: |_, _| vec!["--default".into()],
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let (change, note) = match arguments {
        "" => return Ok(InputResult::Continue(Some(context.agent()?.talk.system.to_string()))),
        "--default" => (None, "the usual instructions, from the next request on"),
        text => (Some(text.to_owned()), "other instructions, from the next request on"),
    };
    Ok(InputResult::NewState(Change::System(change), Some(note.into())))
}
