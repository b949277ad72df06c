//! Writing to an agent's log: what happened to a conversation apart from what was said in it.

use crate::agent::State;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::message::{Body, Message};
use crate::repl::Repl;
use crate::repl::apply::agent_gone;

impl Repl {
    /// Enters an event into an idle agent's conversation: in the middle of a turn it would cut calls from their results.
    pub(super) fn log_event(&mut self, agent_id: AgentId, body: Body) -> Result<()> {
        self.require_idle(agent_id)?;
        let stored = self.core.store.append(agent_id, vec![body], self.core.clock.unix_ms())?;
        self.after_commit(move |repl| repl.show_logged(agent_id, stored));
        Ok(())
    }

    /// What was entered into the log is shown, and part of the conversation.
    pub(super) fn show_logged(&mut self, agent_id: AgentId, messages: Vec<Message>) {
        self.core.roster.with(agent_id, |agent| {
            messages.iter().for_each(|message| agent.emit_logged(&message.body));
            agent.remember(messages);
        });
    }

    /// Says no to what cannot be done in the middle of a turn.
    pub(super) fn require_idle(&self, agent_id: AgentId) -> Result<()> {
        let agent = self.core.roster.get(agent_id).ok_or_else(agent_gone)?;
        if agent.state() == State::Idle {
            return Ok(());
        }
        let words = format!("{} is busy: wait for it, or stop it with Esc first", agent.identity.label());
        Err(Error::new(ErrorKind::Usage, words))
    }
}
