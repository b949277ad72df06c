//! `/switch`: another agent on the screen.

use super::complete::agent_names;
use super::{CommandContext, CommandSpec, WhenBusy, agent_called};
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::flow::{Change, InputResult};

/// `/switch`.
pub const SWITCH: CommandSpec = CommandSpec {
    name: "switch",
    aliases: &["s"],
    arguments: "NAME | NUMBER | ID",
    about: "show another agent (Alt+1..9, Ctrl+arrows)",
    busy: WhenBusy::Runs,
    run,
    complete: agent_names,
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    if arguments.is_empty() {
        return Err(Error::new(
            ErrorKind::Usage,
            "say which agent: /switch NAME, a number, or the beginning of its id",
        ));
    }
    let id = agent_called(context.roster, arguments)?;
    Ok(if id == context.current {
        InputResult::Continue(Some("this is the agent on the screen".into()))
    } else {
        InputResult::NewState(Change::Switch(id), None)
    })
}
