//! `/name`: what this agent is called.

use super::{CommandSpec, House, checked_name, nothing};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

/// `/name`.
pub const NAME: CommandSpec = CommandSpec {
    name: "name",
    aliases: &[],
    arguments: "[NAME]",
    about: "what this agent is called",
    run: |_: &House, arguments| named(arguments),
    complete: nothing,
};

fn named(arguments: &str) -> Result<InputResult> {
    let name = if arguments.is_empty() { None } else { Some(checked_name(arguments)?) };
    Ok(InputResult::NewState(Change::Name(name), None))
}
