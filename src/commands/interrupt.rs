//! `/interrupt`: stops the agent, as Esc does.

use super::{CommandSpec, WhenBusy, nothing, refuse_arguments};
use crate::agent::Agent;
use crate::base::error::Result;
use crate::commands::CommandContext;
use crate::domain::flow::{Change, InputResult};

pub const INTERRUPT: CommandSpec = CommandSpec {
    name: "interrupt",
    aliases: &[],
    arguments: "",
    about: "stop this agent (Esc)",
    busy: WhenBusy::Runs,
    run,
    complete: nothing,
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    refuse_arguments("interrupt", arguments)?;
    Ok(match context.roster.get(context.current).is_some_and(Agent::can_be_interrupted) {
        true => InputResult::NewState(Change::Interrupt, None),
        false => InputResult::Continue(Some("this agent is idle".into())),
    })
}
