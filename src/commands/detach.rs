//! `/detach`, `/background`: leave this terminal while the chat goes on.

use super::CommandSpec;
use crate::domain::flow::InputResult;

pub const DETACH: CommandSpec = CommandSpec {
    aliases: &["background"],
    ..CommandSpec::new("detach", "leave this terminal; the agents keep running in the background", |_, _| {
        Ok(InputResult::Detach)
    })
};
