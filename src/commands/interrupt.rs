//! `/interrupt`: the same as Esc while the agent works.

use super::{CommandSpec, WhenBusy, nothing, refuse_arguments};
use crate::agent::State;
use crate::base::error::Result;
use crate::commands::CommandContext;
use crate::domain::flow::{Change, InputResult};

/// `/interrupt`.
pub const INTERRUPT: CommandSpec = CommandSpec {
    name: "interrupt",
    aliases: &[],
    arguments: "",
    about: "stop what this agent does (Esc)",
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
        InputResult::Continue(Some("nothing is under way".into()))
    } else {
        InputResult::NewState(Change::Interrupt, None)
    })
}
