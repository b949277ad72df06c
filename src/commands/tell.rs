//! `/tell`: a message to another agent, as if it were typed there.

use super::complete::agent_names;
use super::{CommandContext, CommandSpec, WhenBusy, agent_called, unquoted, usage_error};
use crate::base::error::Result;
use crate::domain::called::split_called;
use crate::domain::flow::{Change, InputResult};

pub const TELL: CommandSpec = CommandSpec {
    name: "tell",
    aliases: &[],
    arguments: "AGENT TEXT",
    about: "send a message to another agent, which answers it at once",
    busy: WhenBusy::Runs,
    run,
    complete: agent_names,
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let (to, text) = split_called(arguments);
    let text = unquoted(text.trim());
    if to.is_empty() || text.is_empty() {
        return Err(usage_error("no agent or no text given: /tell AGENT TEXT"));
    }
    let agent_id = agent_called(context.roster, to)?;
    let note = format!("told {}", context.name_of(agent_id));
    let note = (agent_id != context.current).then_some(note);
    Ok(InputResult::NewState(Change::Tell { to: agent_id, text: text.to_owned() }, note))
}
