//! `/system`: the system prompt of this agent.

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::{CommandContext, CommandSpec, Rest};
use crate::base::error::Result;
use crate::domain::change::{Change, Setting};
use crate::domain::flow::InputResult;

pub const SYSTEM: CommandSpec = CommandSpec {
    arguments: "[TEXT | --default]",
    define: |command| command.arg(positional("text", "TEXT")),
    rest: Some(Rest::AsTyped("text")),
    complete: Some(|_, _| vec!["--default".into()]),
    ..CommandSpec::new("system", "show or set the system prompt", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let (change, note) = match value_of(given, "text") {
        Some("--default") => (None, "the default system prompt is used from the next request on"),
        Some(text) => (Some(text.to_owned()), "the new system prompt is used from the next request on"),
        None => return Ok(InputResult::Continue(Some(context.agent()?.system_prompt().into_owned()))),
    };
    Ok(InputResult::NewState(Change::Setting(Setting::System(change)), Some(note.into())))
}
