//! `/setup`: the panel that chooses a provider, its key and a model.

use super::CommandSpec;
use crate::domain::change::{Change, Shown, ViewName};
use crate::domain::flow::InputResult;

pub const SETUP: CommandSpec = CommandSpec::new("setup", "choose a provider, its key and a model", |_, _| {
    Ok(InputResult::NewState(Change::Show(Shown::View(ViewName::Setup)), None))
});
