//! `/system`: the system prompt of this agent.

use super::{CommandContext, CommandSpec, WhenBusy};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

pub const SYSTEM: CommandSpec = CommandSpec {
    name: "system",
    aliases: &[],
    arguments: "[TEXT | --default]",
    about: "show or set the system prompt",
    busy: WhenBusy::Runs,
    run,
    complete: |_, _| vec!["--default".into()],
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let (change, note) = match arguments {
        "" => return Ok(InputResult::Continue(Some(context.agent()?.system_prompt().into_owned()))),
        "--default" => (None, "the default system prompt is used from the next request on"),
        text => (Some(text.to_owned()), "the new system prompt is used from the next request on"),
    };
    Ok(InputResult::NewState(Change::System(change), Some(note.into())))
}
