//! `/stop`: ends the current work of an agent and of all its descendants, or of every agent.

use clap::ArgMatches;

use super::arguments::{AGENT, agent_arg, flag};
use super::{CommandContext, CommandSpec};
use crate::base::error::Result;
use crate::domain::change::Change;
use crate::domain::flow::InputResult;

pub const STOP: CommandSpec = CommandSpec {
    arguments: "[AGENT | --all]",
    is_for_clients: true,
    define: |command| {
        command.arg(agent_arg("Agent to stop")).arg(flag("all", "Stop every agent").conflicts_with(AGENT))
    },
    ..CommandSpec::new("stop", "stop an agent and all below it, or every agent", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let root = (!given.get_flag("all")).then(|| context.target(given)).transpose()?;
    Ok(InputResult::NewState(Change::Stop(root), None))
}
