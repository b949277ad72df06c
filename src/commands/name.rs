//! `/name`: what this agent is called.

use super::{CommandContext, CommandSpec, WhenBusy, checked_name};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

/// `/name`.
pub const NAME: CommandSpec = CommandSpec {
    name: "name",
    aliases: &[],
    arguments: "[NAME | --none]",
    about: "what this agent is called",
    busy: WhenBusy::Runs,
    run: named,
    complete: |_, _| vec!["--none".into()],
};

fn named(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let name = match arguments {
        "" => return Ok(InputResult::Continue(Some(format!("this is {}", context.name_of(context.current))))),
        "--none" => None,
        name => Some(checked_name(name)?),
    };
    Ok(InputResult::NewState(Change::Name(name), None))
}
