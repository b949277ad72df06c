//! Mail between agents.

use crate::agent::State;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::chunk::Chunk;
use crate::domain::mail::MailId;
use crate::repl::core::Core;
use crate::repl::event::Event;

impl Core {
    /// Delivers a message to an agent.
    pub(in crate::repl) fn send_mail(&mut self, from: AgentId, to: AgentId, body: &str) -> Result<MailId> {
        let id = self.store.deliver(from, to, body, self.clock.unix_ms())?;
        self.roster.with(to, |agent| {
            agent.unread += 1;
            agent.emit_aside(&Chunk::Mail { from, id });
        });
        self.emit(Event::MailArrived { agent: to });
        Ok(id)
    }

    /// Marks a message as read, the given one or else the oldest unread one, and returns it as text.
    pub(in crate::repl) fn read_mail(&mut self, agent_id: AgentId, id: Option<MailId>) -> Result<String> {
        let mail = self.store.read_mail(agent_id, id, self.clock.unix_ms())?;
        count_unread(self, agent_id)?;
        match (mail, id) {
            (Some(mail), _) => Ok(format!("message {} from {}:\n{}", mail.id.0, self.name_of(mail.from), mail.body)),
            (None, Some(id)) => Err(Error::usage(format!("no mail with id {}", id.0))),
            (None, None) => Ok("no unread mail".into()),
        }
    }
}

pub(in crate::repl) fn delete_mail(core: &mut Core, agent_id: AgentId, id: MailId) -> Result<()> {
    core.store.delete_mail(agent_id, id)?;
    count_unread(core, agent_id)
}

fn count_unread(core: &mut Core, agent_id: AgentId) -> Result<()> {
    let unread = core.store.count_unread(agent_id)?;
    core.roster.with(agent_id, |agent| {
        agent.unread = unread;
        agent.view.touch();
    });
    Ok(())
}

/// Whether an agent has ended, or is idle with an empty queue.
pub(in crate::repl) fn is_at_rest(core: &Core, id: AgentId) -> bool {
    core.roster.get(id).is_none_or(|agent| agent.state() == State::Idle && agent.queue.is_empty())
}
