//! Performs what keys ask for, one act after the other.

use crate::base::error::Result;
use crate::base::id::{AgentId, TerminalId};
use crate::commands;
use crate::domain::flow::Origin;
use crate::repl::terminals::Act;
use crate::repl::{Repl, Turn};

impl Repl {
    /// Finishes the act of one key before it reads the next: what a key means depends on it.
    pub(super) fn handle_input(&mut self) -> Result<Turn> {
        for id in self.terminals.ids() {
            if self.terminals.get(id).is_some_and(|terminal| terminal.is_gone()) {
                return Ok(Turn::Exit);
            }
            self.terminals.read_remote(&self.core, id)?;
            while let Some((agent, act)) = self.terminals.next_act(&mut self.core, id) {
                if self.perform(id, agent, act)? == Turn::Exit {
                    return Ok(Turn::Exit);
                }
                self.apply_effects();
            }
        }
        Ok(Turn::Continue)
    }

    fn perform(&mut self, id: TerminalId, agent: AgentId, act: Act) -> Result<Turn> {
        match act {
            Act::Line(text) => return Ok(self.enter_line(id, agent, &text)),
            Act::Change(change) => {
                self.apply_or_notify(Origin::Terminal(id), agent, change);
            }
            Act::Suspend if self.terminals.suspend_remote(id) => {}
            Act::Suspend => self.suspend()?,
            Act::Leave => return Ok(self.terminals.leave_or_warn(&self.core, id)),
        }
        Ok(Turn::Continue)
    }

    /// Runs a command or sends a message. If that fails, the line returns to the draft.
    fn enter_line(&mut self, id: TerminalId, agent: AgentId, text: &str) -> Turn {
        let context = self.core.command_context(agent, self.terminals.infos(id));
        let result = commands::read(text, &context);
        match result.and_then(|result| self.apply_result(Origin::Terminal(id), agent, result)) {
            Ok(turn) => {
                self.terminals.on_line_done(&self.core, id, agent);
                turn
            }
            Err(error) => {
                self.terminals.on_line_failed(&mut self.core, id, agent, text, error);
                Turn::Continue
            }
        }
    }
}
