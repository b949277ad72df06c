//! `/new`: a conversation that begins empty.

use clap::ArgMatches;

use super::fork::{NewAgentArgs, new_agent_args};
use super::{CommandContext, CommandSpec, Rest};
use crate::base::error::Result;
use crate::domain::change::Change;
use crate::domain::flow::InputResult;

pub const NEW: CommandSpec = CommandSpec {
    arguments: "[--name N] [--model M] [PROMPT]",
    define: new_agent_args,
    rest: Some(Rest::Unquoted("prompt")),
    ..CommandSpec::new("new", "create an agent that inherits nothing", run)
};

fn run(_: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let NewAgentArgs { name, model, prompt } = NewAgentArgs::read(given)?;
    Ok(InputResult::NewState(Change::New { prompt, name, model }, None))
}
