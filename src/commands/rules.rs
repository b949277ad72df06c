//! `/rules`: the rules that hold for the agent, and taking back one that was given in an answer.

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::{CommandContext, CommandSpec, Rest, usage_error};
use crate::base::error::Result;
use crate::domain::change::{Change, Setting, Shown};
use crate::domain::flow::InputResult;
use crate::domain::rule::Rule;

/// Runs at once: only later tool calls are affected.
pub const RULES: CommandSpec = CommandSpec {
    arguments: "[remove RULE]",
    define: |command| command.arg(positional("remove", "remove")).arg(positional("rule", "RULE")),
    rest: Some(Rest::AsTyped("rule")),
    ..CommandSpec::new("rules", "list the rules of this agent", run)
};

fn run(_: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    match (value_of(given, "remove"), value_of(given, "rule")) {
        (None, _) => Ok(InputResult::NewState(Change::Show(Shown::Rules), None)),
        (Some("remove"), Some(rule)) => {
            let rule: Rule = rule.parse()?;
            let note = format!("{rule} was taken back");
            Ok(InputResult::NewState(Change::Setting(Setting::Revoke(rule)), Some(note)))
        }
        (Some(other), _) => Err(usage_error(format!("/rules takes no arguments or remove RULE (got {other:?})"))),
    }
}
