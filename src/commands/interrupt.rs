//! `/interrupt`: stops the agent, as Esc does.

use super::{CommandSpec, WhenBusy, nothing, refuse_arguments};
use crate::agent::State;
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
    let is_idle = context
        .roster
        .get(context.current)
        .is_none_or(|agent| agent.state() == State::Idle && !agent.has_background_work());
    Ok(if is_idle {
        InputResult::Continue(Some("this agent is idle".into()))
    } else {
        InputResult::NewState(Change::Interrupt, None)
    })
}
