//! `/delete`: removes an agent with its conversation.

use super::complete::agent_names;
use super::{CommandContext, CommandSpec, WhenBusy, any_called, usage_error};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

pub const DELETE: CommandSpec = CommandSpec {
    name: "delete",
    aliases: &[],
    arguments: "AGENT",
    about: "delete an agent, also an archived or killed one",
    busy: WhenBusy::Runs,
    run,
    complete: agent_names,
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    if arguments.is_empty() {
        return Err(usage_error("no agent given: /agents --all lists all agents"));
    }
    let agent_id = any_called(context.roster, context.store, arguments)?;
    Ok(InputResult::NewState(Change::Delete(agent_id), None))
}
