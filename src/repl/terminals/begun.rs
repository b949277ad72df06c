//! The choices of conversations at a terminal, and the conversations that it has begun: those without messages are not
//! kept.

use std::path::PathBuf;

use crate::base::id::{AgentId, TerminalId};
use crate::domain::change::Change;
use crate::domain::choices::Choices;
use crate::domain::flow::Origin;
use crate::repl::component::Command;
use crate::repl::core::{Core, last_conversation, works_in};
use crate::repl::terminals::{Terminals, place_of};

impl Terminals {
    /// Sets what conversations begin with at a terminal.
    pub(in crate::repl) fn set_beginning(&mut self, id: TerminalId, choices: Choices) {
        if let Some(terminal) = self.get_mut(id) {
            terminal.begins_with = choices;
        }
    }

    /// Where conversations begin that are asked for there, and with what.
    pub(in crate::repl) fn beginning_of(&self, origin: Origin) -> (Option<PathBuf>, Choices) {
        let Some(terminal) = origin.terminal().and_then(|id| self.get(id)) else { return Default::default() };
        (terminal.directory().map(PathBuf::from), terminal.begins_with.clone())
    }

    /// Where a terminal was opened, unless that is where this process was started.
    pub(in crate::repl) fn directory_of(&self, id: TerminalId) -> Option<PathBuf> {
        self.get(id)?.directory().map(PathBuf::from)
    }

    /// Shows the last conversation of the directory in which a terminal was opened, or a new one there.
    pub(super) fn return_to_directory(&self, core: &Core, id: TerminalId) -> Option<Command> {
        let terminal = self.get(id)?;
        let (origin, agent, place) = (Origin::Terminal(id), terminal.focus, place_of(core, terminal));
        // An error is shown when the store is used next.
        let last = last_conversation(core, place.as_deref()).ok()?;
        let is_here = |last: &AgentId| works_in(core, *last, place.as_deref().unwrap_or("/"));
        let change = match last.filter(is_here) {
            Some(last) => Change::Switch(last),
            None if self.is_read_only(id) => return None,
            None => Change::New { prompt: None, name: None, model: None },
        };
        Some(Command { origin, agent, change })
    }

    /// A terminal has begun a conversation.
    pub(in crate::repl) fn note_begun(&mut self, core: &mut Core, id: TerminalId, agent: AgentId) {
        if let Some(terminal) = self.get_mut(id) {
            terminal.begun.push(agent);
        }
        // Without the note a crash leaves an empty conversation.
        drop(core.store().note_begun(agent));
    }

    /// Whether a terminal has begun this conversation.
    pub(in crate::repl) fn has_begun(&self, agent: AgentId) -> bool {
        self.iter().any(|terminal| terminal.begun.contains(&agent))
    }

    /// Takes the conversations that all terminals have begun.
    pub(in crate::repl) fn take_begun(&mut self) -> Vec<AgentId> {
        self.iter_mut().flat_map(|terminal| std::mem::take(&mut terminal.begun)).collect()
    }
}
