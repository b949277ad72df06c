//! `/interrupt`: stops the agent, as Esc does.

use clap::ArgMatches;

use super::arguments::agent_arg;
use super::{CommandContext, CommandSpec, ShellSpec};
use crate::agent::Agent;
use crate::base::error::Result;
use crate::domain::change::Change;
use crate::domain::flow::InputResult;

pub const INTERRUPT: CommandSpec = CommandSpec {
    arguments: "[AGENT]",
    shell: Some(ShellSpec { runs_at_agent: true, ..ShellSpec::new("Stop the current turn of an agent") }),
    define: |command| command.arg(agent_arg("Agent to stop")),
    ..CommandSpec::new("interrupt", "stop this agent (Esc) or another one", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let agent_id = context.target(given)?;
    Ok(match context.roster.get(agent_id).is_some_and(Agent::can_be_interrupted) {
        true => InputResult::NewStateAt(agent_id, Change::Interrupt, None),
        false if agent_id == context.current => InputResult::Continue(Some("this agent is idle".into())),
        false => InputResult::Continue(Some(format!("{} is idle", context.name_of(agent_id)))),
    })
}
