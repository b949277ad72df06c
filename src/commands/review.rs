//! `/review`: several children review the changes of the working tree.

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::{CommandContext, CommandSpec, Rest, usage_error};
use crate::base::error::Result;
use crate::domain::change::{Change, TeamStart};
use crate::domain::flow::InputResult;

pub const REVIEW: CommandSpec = CommandSpec {
    arguments: "[BASE]",
    define: |command| command.arg(positional("base", "BASE")),
    rest: Some(Rest::AsTyped("base")),
    ..CommandSpec::new("review", "review the changes since HEAD or a branch", run)
};

fn run(_: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let base = value_of(given, "base").map(str::to_owned);
    // What begins with a hyphen would be an option of git.
    if base.as_ref().is_some_and(|base| base.contains(char::is_whitespace) || base.starts_with('-')) {
        return Err(usage_error("/review takes one branch or commit, as in /review main"));
    }
    Ok(InputResult::NewState(Change::Team(TeamStart::Review(base)), Some("comparing the working tree …".into())))
}
