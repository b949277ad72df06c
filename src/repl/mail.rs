//! Letters, and waiting for them. A wait is a value that is looked at when something happens: no thread, no polling.

use crate::agent::State;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::commands;
use crate::domain::chunk::Chunk;
use crate::domain::mail::{Mail, MailId};
use crate::domain::scrollback::LineKind;
use crate::repl::Repl;
use crate::repl::apply::agent_gone;
use crate::store::Found;

/// A call that waits for letters.
pub(super) struct MailWait {
    /// Who waits.
    pub agent_id: AgentId,
    /// The id of its call.
    pub call: String,
    /// Until each of these has written, gone idle or died; empty: until any letter comes.
    pub from: Vec<AgentId>,
}

impl Repl {
    /// Puts a letter into a box; who waits for it goes on.
    pub(super) fn send_mail(&mut self, from: AgentId, to: AgentId, body: &str) -> Result<MailId> {
        let id = self.core.store.deliver(from, to, body, self.core.clock.unix_ms())?;
        self.core.roster.with(to, |agent| {
            agent.unread += 1;
            agent.emit_aside(&Chunk::Mail { from, id });
        });
        self.check_mail_waits();
        Ok(id)
    }

    /// Takes a letter out to be read.
    pub(super) fn take_mail(&mut self, agent_id: AgentId, id: Option<MailId>) -> Result<Option<Mail>> {
        let mail = self.core.store.read_mail(agent_id, id, self.core.clock.unix_ms())?;
        self.count_unread(agent_id)?;
        Ok(mail)
    }

    /// `/read-mail`: a letter on the screen.
    pub(super) fn show_mail(&mut self, agent_id: AgentId, id: Option<MailId>) -> Result<()> {
        let text = match self.take_mail(agent_id, id)? {
            Some(mail) => format!(
                "letter {} from {}:\n{}",
                mail.id.0,
                self.command_context(agent_id).name_of(mail.from),
                mail.body
            ),
            None if id.is_some() => "there is no such letter: /check-mail lists them".into(),
            None => "no unread letters".into(),
        };
        self.core.note(agent_id, LineKind::Note, &text);
        Ok(())
    }

    /// `/delete-mail`.
    pub(super) fn delete_mail(&mut self, agent_id: AgentId, id: MailId) -> Result<()> {
        self.core.store.delete_mail(agent_id, id)?;
        self.count_unread(agent_id)
    }

    /// An agent's letters, one line each.
    pub(super) fn list_mail(&self, agent_id: AgentId) -> Result<String> {
        let mail = self.core.store.mail(agent_id, None)?;
        Ok(commands::mail_lines(&self.command_context(agent_id), &mail))
    }

    fn count_unread(&mut self, agent_id: AgentId) -> Result<()> {
        let unread = self.core.store.count_unread(agent_id)?;
        self.core.roster.with(agent_id, |agent| {
            agent.unread = unread;
            agent.view.touch();
        });
        Ok(())
    }

    /// What came before the program ended is still unread.
    pub(super) fn count_mail(&mut self) -> Result<()> {
        for (agent_id, unread) in self.core.store.unread_mail()? {
            self.core.roster.with(agent_id, |agent| agent.unread = unread);
        }
        Ok(())
    }

    /// Goes through all waits: what they wait for may have happened.
    pub(super) fn check_mail_waits(&mut self) {
        let mut at = 0;
        while at < self.mail_waits.len() {
            let is_over = match self.core.roster.get(self.mail_waits[at].agent_id) {
                Some(agent) if agent.is_waiting_call(&self.mail_waits[at].call) => self.is_over(&self.mail_waits[at]),
                // The call was cut: nobody waits any more.
                _ => {
                    self.mail_waits.remove(at);
                    continue;
                }
            };
            if is_over {
                let waiting = self.mail_waits.remove(at);
                self.answer_wait(waiting.agent_id, &waiting.call, &waiting.from, "");
            } else {
                at += 1;
            }
        }
    }

    /// Whether what a call waits for has happened.
    pub(super) fn is_over(&self, waiting: &MailWait) -> bool {
        if waiting.from.is_empty() {
            return self.core.roster.get(waiting.agent_id).is_none_or(|agent| agent.unread > 0);
        }
        // A store that cannot be read would let it wait for ever.
        let Ok(senders) = self.core.store.unread_senders(waiting.agent_id) else { return true };
        waiting.from.iter().all(|from| senders.contains(from) || self.is_at_rest(*from))
    }

    /// Dead, or idle with nothing queued.
    pub(super) fn is_at_rest(&self, id: AgentId) -> bool {
        self.core.roster.get(id).is_none_or(|agent| agent.state() == State::Idle && agent.queue.is_empty())
    }

    /// The time of a wait is over.
    pub(super) fn end_wait(&mut self, agent_id: AgentId, call: &str) {
        if let Some(at) =
            self.mail_waits.iter().position(|waiting| waiting.agent_id == agent_id && waiting.call == call)
        {
            let waiting = self.mail_waits.remove(at);
            self.answer_wait(agent_id, call, &waiting.from, "The time is over. ");
        }
    }

    /// Tells the model what there is.
    pub(super) fn answer_wait(&mut self, agent_id: AgentId, call: &str, from: &[AgentId], before: &str) {
        let unread = self.core.roster.get(agent_id).map_or(0, |agent| agent.unread);
        let mut told = format!("{before}{unread} unread letters.");
        for one in from {
            let state = match self.core.roster.get(*one) {
                None => "dead",
                Some(agent) => agent.state().name(),
            };
            told.push_str(&format!("\n{}: {state}", self.command_context(agent_id).name_of(*one)));
        }
        self.core.with_agent(agent_id, |agent, context| agent.answer_call(call, Ok(told), context));
    }

    /// The agent that is meant.
    ///
    /// # Errors
    /// Nobody or more than one is.
    pub(super) fn agent_named(&self, agent_id: AgentId, name: &str) -> Result<AgentId> {
        if name == commands::PARENT {
            return self.core.roster.parent(agent_id).ok_or_else(agent_gone);
        }
        commands::agent_called(&self.core.roster, name)
    }

    /// The same, and the dead too: who waits for one of them is told that it is dead.
    pub(super) fn agent_once_named(&self, agent_id: AgentId, name: &str) -> Result<AgentId> {
        self.agent_named(agent_id, name).or_else(|error| match self.core.store.find(name)? {
            Found::One(id) => Ok(id),
            _ => Err(error),
        })
    }
}
