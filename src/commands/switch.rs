//! `/switch`: shows another agent.

use super::complete::agent_names;
use super::{CommandContext, CommandSpec, WhenBusy, agent_called, usage_error};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

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
        return Err(usage_error("no agent given: /switch NAME, NUMBER or the first characters of an ID"));
    }
    let id = agent_called(context.roster, arguments)?;
    Ok(if id == context.current {
        InputResult::Continue(Some("already on this agent".into()))
    } else {
        InputResult::NewState(Change::Switch(id), None)
    })
}
