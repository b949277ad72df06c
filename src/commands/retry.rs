//! `/retry`: tries the last turn again, as Enter on an empty input does.

use super::{CommandContext, CommandSpec, WhenBusy, nothing, refuse_arguments};
use crate::agent::State;
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

pub const RETRY: CommandSpec = CommandSpec {
    name: "retry",
    aliases: &[],
    arguments: "",
    about: "try the last turn again after a failure or an interrupt (Enter)",
    busy: WhenBusy::Runs,
    run,
    complete: nothing,
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    refuse_arguments("retry", arguments)?;
    Ok(match context.agent()?.state() {
        State::Idle => InputResult::NewState(Change::Retry, None),
        State::WaitingForLlm => InputResult::NewState(Change::TryNow, None),
        State::ExecutingTool | State::AwaitingApproval => InputResult::Continue(Some("this agent is at work".into())),
    })
}
