//! `/detach`, `/background`: leave this terminal while the chat goes on.

use super::{CommandSpec, WhenBusy, nothing, refuse_arguments};
use crate::domain::flow::InputResult;

pub const DETACH: CommandSpec = CommandSpec {
    name: "detach",
    aliases: &["background"],
    arguments: "",
    about: "leave this terminal; the agents keep running in the background",
    busy: WhenBusy::Runs,
    run: |_, arguments| refuse_arguments("detach", arguments).map(|()| InputResult::Detach),
    complete: nothing,
};
