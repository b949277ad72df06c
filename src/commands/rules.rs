//! `/rules`: the rules that hold for the agent, and taking back one that was given in an answer.

use super::{CommandContext, CommandSpec, WhenBusy, nothing, usage_error};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult, Shown};
use crate::domain::rule::Rule;

pub const RULES: CommandSpec = CommandSpec {
    name: "rules",
    aliases: &[],
    arguments: "[remove RULE]",
    about: "list the rules of this agent",
    // Only later tool calls are affected.
    busy: WhenBusy::Runs,
    run,
    complete: nothing,
};

fn run(_: &CommandContext, arguments: &str) -> Result<InputResult> {
    match arguments.split_once(' ') {
        None if arguments.is_empty() => Ok(InputResult::NewState(Change::Show(Shown::Rules), None)),
        Some(("remove", rule)) => {
            let rule: Rule = rule.parse()?;
            let note = format!("{rule} was taken back");
            Ok(InputResult::NewState(Change::Revoke(rule), Some(note)))
        }
        _ => Err(usage_error(format!("/rules takes no arguments or remove RULE (got {arguments:?})"))),
    }
}
