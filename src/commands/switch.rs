//! `/switch`: shows another agent.

use clap::ArgMatches;

use super::arguments::{AGENT, agent_arg, value_of};
use super::{CommandContext, CommandSpec, Rest, agent_called, usage_error};
use crate::base::error::Result;
use crate::domain::change::Change;
use crate::domain::flow::InputResult;

pub const SWITCH: CommandSpec = CommandSpec {
    aliases: &["s"],
    arguments: "NAME | NUMBER | ID",
    define: |command| command.arg(agent_arg("Agent to show")),
    rest: Some(Rest::AsTyped(AGENT)),
    ..CommandSpec::new("switch", "show another agent (Alt+1..9, Ctrl+arrows)", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let name = value_of(given, AGENT);
    let name =
        name.ok_or_else(|| usage_error("no agent given: /switch NAME, NUMBER or the first characters of an ID"))?;
    let id = agent_called(context.roster, name)?;
    Ok(if id == context.current {
        InputResult::Continue(Some("already on this agent".into()))
    } else {
        InputResult::NewState(Change::Switch(id), None)
    })
}
