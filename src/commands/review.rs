//! `/review`: several children review the changes of the working tree.

use super::{CommandContext, CommandSpec, WhenBusy, nothing, usage_error};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

pub const REVIEW: CommandSpec = CommandSpec {
    name: "review",
    aliases: &[],
    arguments: "[BASE]",
    about: "review the changes since HEAD or a branch",
    busy: WhenBusy::Runs,
    run,
    complete: nothing,
};

fn run(_: &CommandContext, arguments: &str) -> Result<InputResult> {
    let is_one_word = !arguments.contains(char::is_whitespace) && !arguments.starts_with('-');
    if !is_one_word {
        return Err(usage_error("/review takes one branch or commit, as in /review main"));
    }
    let base = Some(arguments.to_owned()).filter(|base| !base.is_empty());
    Ok(InputResult::NewState(Change::Review(base), Some("comparing the working tree …".into())))
}
