//! `/name`: the agent's name.

use super::{CommandContext, CommandSpec, WhenBusy, checked_name};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

pub const NAME: CommandSpec = CommandSpec {
    name: "name",
    aliases: &[],
    arguments: "[NAME | --none]",
    about: "show, set or remove the name of this agent",
    busy: WhenBusy::Runs,
    run,
    complete: |_, _| vec!["--none".into()],
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let name = match arguments {
        "" => return Ok(InputResult::Continue(Some(format!("this agent is {}", context.name_of(context.current))))),
        "--none" => None,
        name => Some(checked_name(name)?),
    };
    Ok(InputResult::NewState(Change::Name(name), None))
}
