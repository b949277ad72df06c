//! `/kill`: ends an agent permanently.

use clap::ArgMatches;

use super::arguments::{agent_arg, flag};
use super::{CommandContext, CommandSpec, ShellSpec};
use crate::base::error::Result;
use crate::domain::change::Change;
use crate::domain::flow::InputResult;

pub const KILL: CommandSpec = CommandSpec {
    arguments: "[AGENT] [--cascade | --descendants]",
    shell: Some(ShellSpec { runs_at_agent: true, ..ShellSpec::new("End an agent; this cannot be undone") }),
    define: |command| {
        command
            .arg(agent_arg("Agent to end"))
            .arg(flag("cascade", "End its descendants as well"))
            .arg(flag("descendants", "End its descendants and not the agent itself").conflicts_with("cascade"))
    },
    ..CommandSpec::new("kill", "end an agent, all below it, or both", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let agent_id = context.target(given)?;
    let change = match given.get_flag("descendants") {
        true => Change::KillDescendants(agent_id),
        false => Change::Kill { agent_id, cascade: given.get_flag("cascade") },
    };
    Ok(InputResult::NewState(change, None))
}
