//! `/name`: the agent's name.

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::{CommandContext, CommandSpec, Rest, checked_name};
use crate::base::error::Result;
use crate::domain::change::{Change, Setting};
use crate::domain::flow::InputResult;

pub const NAME: CommandSpec = CommandSpec {
    arguments: "[NAME | --none]",
    define: |command| command.arg(positional("name", "NAME")),
    rest: Some(Rest::AsTyped("name")),
    complete: Some(|_, _| vec!["--none".into()]),
    ..CommandSpec::new("name", "show, set or remove the name of this agent", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let name = match value_of(given, "name") {
        Some("--none") => None,
        Some(name) => Some(checked_name(name)?),
        None => return Ok(InputResult::Continue(Some(format!("this agent is {}", context.name_of(context.current))))),
    };
    Ok(InputResult::NewState(Change::Setting(Setting::Name(name)), None))
}
