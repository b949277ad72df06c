//! `/tell`: a message to another agent, as if it were typed there.

use clap::ArgMatches;

use super::arguments::{AGENT, agent_arg, positional, value_of};
use super::{CommandContext, CommandSpec, Rest, agent_called, usage_error};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

pub const TELL: CommandSpec = CommandSpec {
    arguments: "AGENT TEXT",
    define: |command| command.arg(agent_arg("Recipient")).arg(positional("text", "TEXT")),
    rest: Some(Rest::Unquoted("text")),
    ..CommandSpec::new("tell", "send a message to another agent, which answers it at once", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let missing = || usage_error("no agent or no text given: /tell AGENT TEXT");
    let to = value_of(given, AGENT).ok_or_else(missing)?;
    let text = value_of(given, "text").filter(|text| !text.trim().is_empty()).ok_or_else(missing)?;
    let agent_id = agent_called(context.roster, to)?;
    let note = format!("told {}", context.name_of(agent_id));
    let note = (agent_id != context.current).then_some(note);
    Ok(InputResult::NewState(Change::Tell { to: agent_id, text: text.to_owned() }, note))
}
