//! `/setup`: the panel that chooses a provider, its key and a model.

use super::CommandSpec;
use crate::domain::flow::{Change, InputResult, Shown, ViewName};

pub const SETUP: CommandSpec = CommandSpec::new("setup", "choose a provider, its key and a model", |_, _| {
    Ok(InputResult::NewState(Change::Show(Shown::View(ViewName::Setup)), None))
});
