//! `/exit`: exit the program.

use super::CommandSpec;
use crate::domain::flow::InputResult;

pub const EXIT: CommandSpec = CommandSpec {
    aliases: &["quit", "q"],
    is_for_clients: true,
    ..CommandSpec::new("exit", "exit; all conversations are stored", |_, _| Ok(InputResult::Exit))
};
