//! Letters, and waiting for them. A wait is a value that is looked at when something happens: no thread, no polling.

use crate::agent::State;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::commands;
use crate::domain::chunk::Chunk;
use crate::domain::mail::{Mail, MailId};
use crate::domain::scrollback::LineKind;
use crate::repl::Repl;
use crate::repl::apply::nobody;
use crate::store::Found;

/// A call that waits for letters.
pub(super) struct Waiting {
    /// Who waits.
    pub who: AgentId,
    /// The id of its call.
    pub call: String,
    /// Until each of these has written, gone idle or died; empty: until any letter comes.
    pub from: Vec<AgentId>,
}

impl Repl {
    /// Puts a letter into a box; who waits for it goes on.
    pub(super) fn send_mail(&mut self, from: AgentId, to: AgentId, body: &str) -> Result<MailId> {
        let id = self.shared.store.deliver(from, to, body, self.shared.clock.unix_ms())?;
        self.roster.with(to, |agent| {
            agent.unread += 1;
            agent.emit_aside(&Chunk::Mail { from, id });
        });
        self.look_at_waits();
        Ok(id)
    }

    /// Takes a letter out to be read.
    pub(super) fn take_mail(&mut self, who: AgentId, id: Option<MailId>) -> Result<Option<Mail>> {
        let mail = self.shared.store.read_mail(who, id, self.shared.clock.unix_ms())?;
        self.count_unread(who)?;
        Ok(mail)
    }

    /// `/read-mail`: a letter on the screen.
    pub(super) fn show_mail(&mut self, who: AgentId, id: Option<MailId>) -> Result<()> {
        let text = match self.take_mail(who, id)? {
            Some(mail) => format!("letter {} from {}:\n{}", mail.id.0, self.house(who).name_of(mail.from), mail.body),
            None if id.is_some() => "there is no such letter: /check-mail lists them".into(),
            None => "no unread letters".into(),
        };
        self.note(who, LineKind::Note, &text);
        Ok(())
    }

    /// `/delete-mail`.
    pub(super) fn delete_mail(&mut self, who: AgentId, id: MailId) -> Result<()> {
        self.shared.store.delete_mail(who, id)?;
        self.count_unread(who)
    }

    /// An agent's letters, one line each.
    pub(super) fn list_mail(&self, who: AgentId) -> Result<String> {
        let mail = self.shared.store.mail(who, None)?;
        Ok(commands::mail_lines(&self.house(who), &mail))
    }

    fn count_unread(&mut self, who: AgentId) -> Result<()> {
        let unread = self.shared.store.count_unread(who)?;
        self.roster.with(who, |agent| {
            agent.unread = unread;
            agent.view.touch();
        });
        Ok(())
    }

    /// What came before the program ended is still unread.
    pub(super) fn count_mail(&mut self) -> Result<()> {
        for (who, unread) in self.shared.store.unread_mail()? {
            self.roster.with(who, |agent| agent.unread = unread);
        }
        Ok(())
    }

    /// Goes through all waits: what they wait for may have happened.
    pub(super) fn look_at_waits(&mut self) {
        let mut at = 0;
        while at < self.waits.len() {
            let is_over = match self.roster.get(self.waits[at].who) {
                Some(agent) if agent.is_waiting_call(&self.waits[at].call) => self.is_over(&self.waits[at]),
                // The call was cut: nobody waits any more.
                _ => {
                    self.waits.remove(at);
                    continue;
                }
            };
            if is_over {
                let waiting = self.waits.remove(at);
                self.answer_wait(waiting.who, &waiting.call, &waiting.from, "");
            } else {
                at += 1;
            }
        }
    }

    /// Whether what a call waits for has happened.
    pub(super) fn is_over(&self, waiting: &Waiting) -> bool {
        if waiting.from.is_empty() {
            return self.roster.get(waiting.who).is_none_or(|agent| agent.unread > 0);
        }
        // A store that cannot be read would let it wait for ever.
        let Ok(senders) = self.shared.store.unread_senders(waiting.who) else { return true };
        waiting.from.iter().all(|from| senders.contains(from) || self.is_at_rest(*from))
    }

    /// Dead, or idle with nothing queued.
    pub(super) fn is_at_rest(&self, id: AgentId) -> bool {
        self.roster.get(id).is_none_or(|agent| agent.state() == State::Idle && agent.queue.is_empty())
    }

    /// The time of a wait is over.
    pub(super) fn end_wait(&mut self, who: AgentId, call: &str) {
        if let Some(at) = self.waits.iter().position(|waiting| waiting.who == who && waiting.call == call) {
            let waiting = self.waits.remove(at);
            self.answer_wait(who, call, &waiting.from, "The time is over. ");
        }
    }

    /// Tells the model what there is.
    pub(super) fn answer_wait(&mut self, who: AgentId, call: &str, from: &[AgentId], before: &str) {
        let unread = self.roster.get(who).map_or(0, |agent| agent.unread);
        let mut told = format!("{before}{unread} unread letters.");
        for one in from {
            let state = match self.roster.get(*one) {
                None => "dead",
                Some(agent) => agent.state().name(),
            };
            told.push_str(&format!("\n{}: {state}", self.house(who).name_of(*one)));
        }
        self.with_agent(who, |agent, context| agent.answer_call(call, Ok(told), context));
    }

    /// The agent that is meant.
    ///
    /// # Errors
    /// Nobody or more than one is.
    pub(super) fn agent_named(&self, who: AgentId, name: &str) -> Result<AgentId> {
        if name == commands::PARENT {
            return self.roster.parent(who).ok_or_else(nobody);
        }
        commands::agent_called(&self.roster, name)
    }

    /// The same, and the dead too: who waits for one of them is told that it is dead.
    pub(super) fn agent_once_named(&self, who: AgentId, name: &str) -> Result<AgentId> {
        self.agent_named(who, name).or_else(|error| match self.shared.store.find(name)? {
            Found::One(id) => Ok(id),
            _ => Err(error),
        })
    }
}
