//! `/retry`: tries the last turn again, as Enter on an empty input does.

use clap::ArgMatches;

use super::{CommandContext, CommandSpec};
use crate::agent::State;
use crate::base::error::Result;
use crate::domain::change::Change;
use crate::domain::flow::InputResult;

pub const RETRY: CommandSpec =
    CommandSpec::new("retry", "try the last turn again after a failure or an interrupt (Enter)", run);

fn run(context: &CommandContext, _: &ArgMatches) -> Result<InputResult> {
    Ok(match context.agent()?.state() {
        State::Idle => InputResult::NewState(Change::Retry, None),
        State::WaitingForLlm => InputResult::NewState(Change::TryNow, None),
        State::ExecutingTool | State::AwaitingApproval => InputResult::Continue(Some("this agent is at work".into())),
    })
}
