//! `/delete`: removes an agent with its conversation.

use clap::ArgMatches;

use super::arguments::{AGENT, agent_arg, value_of};
use super::{CommandContext, CommandSpec, ShellSpec, WithoutServer, any_called, usage_error};
use crate::base::error::Result;
use crate::domain::change::Change;
use crate::domain::flow::InputResult;

pub const DELETE: CommandSpec = CommandSpec {
    arguments: "AGENT",
    shell: Some(ShellSpec {
        without_server: WithoutServer::Runs,
        ..ShellSpec::new("Delete an agent with its conversation, also an archived or killed one; this cannot be undone")
    }),
    define: |command| command.arg(agent_arg("Agent to delete")),
    ..CommandSpec::new("delete", "delete an agent, also an archived or killed one", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let name = value_of(given, AGENT).ok_or_else(|| usage_error("no agent given: /agents --all lists all agents"))?;
    let agent_id = any_called(context.roster, context.store, name)?;
    Ok(InputResult::NewState(Change::Delete(agent_id), None))
}
