//! Writing to an agent's log: what happened to a conversation apart from what was said in it.

use crate::agent::State;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::message::{Body, Message};
use crate::repl::Repl;
use crate::repl::apply::nobody;

impl Repl {
    /// Enters an event into an idle agent's conversation: in the middle of a turn it would cut calls from their results.
    pub(super) fn log_event(&mut self, who: AgentId, body: Body) -> Result<()> {
        self.require_idle(who)?;
        let stored = self.shared.store.append(who, vec![body], self.shared.clock.unix_ms())?;
        self.once_kept(move |repl| repl.show_logged(who, stored));
        Ok(())
    }

    /// What was entered into the log is shown, and part of the conversation.
    pub(super) fn show_logged(&mut self, who: AgentId, messages: Vec<Message>) {
        self.roster.with(who, |agent| {
            messages.iter().for_each(|message| agent.emit_logged(&message.body));
            agent.remember(messages);
        });
    }

    /// Says no to what cannot be done in the middle of a turn.
    pub(super) fn require_idle(&self, who: AgentId) -> Result<()> {
        let agent = self.roster.get(who).ok_or_else(nobody)?;
        if agent.state() == State::Idle {
            return Ok(());
        }
        let words = format!("{} is busy: wait for it, or stop it with Esc first", agent.identity.label());
        Err(Error::new(ErrorKind::Usage, words))
    }
}
