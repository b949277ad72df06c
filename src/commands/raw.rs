//! `/raw`: replies as they were written, instead of drawn.

use clap::ArgMatches;

use super::{CommandContext, CommandSpec, WhenBusy};
use crate::base::error::Result;
use crate::domain::change::Change;
use crate::domain::flow::InputResult;

pub const RAW: CommandSpec = CommandSpec {
    // The conversation is read from the store, where a reply is once it is complete.
    busy: WhenBusy::Queues,
    ..CommandSpec::new("raw", "show the source of replies, or draw them again", run)
};

fn run(_context: &CommandContext, _: &ArgMatches) -> Result<InputResult> {
    Ok(InputResult::NewState(Change::ToggleRaw, None))
}
