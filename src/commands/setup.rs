//! `/setup`: the panel that chooses a provider, its key and a model.

use super::{CommandSpec, WhenBusy, nothing, refuse_arguments};
use crate::domain::flow::{Change, InputResult, Shown, ViewName};

pub const SETUP: CommandSpec = CommandSpec {
    name: "setup",
    aliases: &[],
    arguments: "",
    about: "choose a provider, its key and a model",
    busy: WhenBusy::Runs,
    run: |_, arguments| {
        refuse_arguments("setup", arguments)?;
        Ok(InputResult::NewState(Change::Show(Shown::View(ViewName::Setup)), None))
    },
    complete: nothing,
};
