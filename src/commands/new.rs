//! `/new`: a conversation that begins empty.

use super::fork::{Options, complete_options, options};
use super::{CommandContext, CommandSpec, WhenBusy};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

pub const NEW: CommandSpec = CommandSpec {
    name: "new",
    aliases: &[],
    arguments: "[--name N] [--model M] [PROMPT]",
    about: "create an agent that inherits nothing",
    busy: WhenBusy::Runs,
    run,
    complete: |context, typed| complete_options(context, &OPTIONS, typed),
};

const OPTIONS: [&str; 2] = ["--name", "--model"];

fn run(_: &CommandContext, arguments: &str) -> Result<InputResult> {
    let Options { name, model, prompt, .. } = options("new", &OPTIONS, arguments)?;
    Ok(InputResult::NewState(Change::New { prompt, name, model }, None))
}
