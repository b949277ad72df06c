//! Mail between agents.

use crate::agent::State;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::base::text;
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

/// Whether an agent has unread mail or, if others are named, each of them has sent it some, is idle or has ended.
pub(in crate::repl) fn is_wait_over(core: &Core, agent: AgentId, from: &[AgentId]) -> bool {
    let has_mail = core.agent(agent).is_none_or(|agent| agent.unread > 0);
    if from.is_empty() || from.iter().all(|from| is_at_rest(core, *from)) {
        return has_mail || !from.is_empty();
    }
    // With a store that cannot be read it would wait for ever.
    let has_all = |senders: Vec<AgentId>| from.iter().all(|from| senders.contains(from) || is_at_rest(core, *from));
    has_mail && core.store().unread_senders(agent).map_or(true, has_all)
}

/// How much mail an agent has, and what these agents do.
pub(in crate::repl) fn describe(core: &Core, agent: AgentId, from: &[AgentId]) -> String {
    let unread = core.agent(agent).map_or(0, |agent| agent.unread);
    let mut answer = format!("{}.", text::counted(unread, "unread message", "unread messages"));
    for id in from {
        let state = core.agent(*id).map(|agent| format!(": {}", agent.state().name())).unwrap_or_default();
        answer.push_str(&format!("\n{}{state}", core.name_of(*id)));
    }
    answer
}

/// Whether an agent has ended, or is idle with an empty queue.
pub(in crate::repl) fn is_at_rest(core: &Core, id: AgentId) -> bool {
    core.roster.get(id).is_none_or(|agent| agent.state() == State::Idle && agent.queue.is_empty())
}
