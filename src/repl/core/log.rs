//! Writing to an agent's log, and reading its conversation from the store.

use crate::agent::{Agent, Effect, Role, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, MessageId};
use crate::domain::chunk::Chunk;
use crate::domain::context_use::{ContextUse, changes_context};
use crate::domain::history::History;
use crate::domain::message::{Body, Message};
use crate::domain::scrollback::LineKind;
use crate::domain::stream::Piece;
use crate::repl::core::{Core, agent_gone};

/// How many of the newest messages are read to find the last reply.
const NEWEST_MESSAGES: usize = 64;
/// Stop after this many failed checkpoints in a row.
const MOST_FAILED_CHECKPOINTS: usize = 2;

impl Core {
    /// Shows logged messages and adds them to the conversation.
    pub fn remember(&mut self, agent_id: AgentId, messages: Vec<Message>) {
        self.roster.with(agent_id, |agent| {
            messages.iter().for_each(|message| agent.emit_logged(&message.body));
            agent.remember(messages);
        });
    }

    /// Fails if the agent is in the middle of a turn.
    pub fn require_idle(&self, agent_id: AgentId) -> Result<()> {
        let agent = self.roster.get(agent_id).ok_or_else(agent_gone)?;
        if agent.state() == State::Idle && !agent.is_compacting() {
            return Ok(());
        }
        Err(Error::usage(format!("{} is busy: wait, or press Esc to interrupt it", agent.identity.label())))
    }

    /// Reads an agent's conversation from the store unless it is in memory.
    pub(in crate::repl) fn load(&mut self, agent_id: AgentId) -> Result<()> {
        load_before(self, agent_id, MessageId(i64::MAX))
    }

    pub(in crate::repl) fn require_writable(&self) -> Result<()> {
        if self.store.is_read_only() {
            return Err(Error::usage("this chat is read-only: nothing can be sent or changed"));
        }
        Ok(())
    }

    /// Writes an event to an idle agent's log: in the middle of a turn it would separate calls from their results.
    /// Memory is unchanged.
    pub fn append_event(&mut self, agent: AgentId, body: Body) -> Result<Vec<Message>> {
        self.require_idle(agent)?;
        append_before_request(self, agent, body)
    }
}

/// The same for an agent that works, and whose next request was not made yet.
pub(in crate::repl) fn append_before_request(core: &mut Core, agent: AgentId, body: Body) -> Result<Vec<Message>> {
    core.save_unsaved(agent)?;
    core.store.append(agent, vec![body], core.clock.unix_ms())
}

/// Stores a part of a reply, and in the same transaction those of other agents that come next in the outbox.
pub(in crate::repl) fn record_checkpoints(
    core: &mut Core,
    first: (AgentId, Piece),
    mut trace: impl FnMut(AgentId, &Effect),
) {
    let mut parts = vec![first];
    while let Some((agent_id, effect)) = core.outbox.pop_checkpoint() {
        trace(agent_id, &effect);
        if let Effect::Checkpoint(piece) = effect {
            parts.push((agent_id, piece));
        }
    }
    let is_stored = |id: &AgentId| core.roster.get(*id).is_some_and(|agent| agent.role != Role::Summary);
    parts.retain(|(agent_id, _)| is_stored(agent_id));
    // What is only in memory comes first.
    let (parts, failed): (Vec<_>, Vec<_>) =
        parts.into_iter().partition(|(agent_id, _)| core.save_unsaved(*agent_id).is_ok());
    failed.into_iter().for_each(|(agent_id, piece)| put_checkpoint_off(core, agent_id, &piece));
    if core.store.append_pieces(&parts).is_err() {
        record_checkpoints_one_by_one(core, parts);
    }
}

/// A part that cannot be stored does not prevent the others. If several cannot, the store is at fault, and each further
/// attempt may take as long as it waits for another program.
fn record_checkpoints_one_by_one(core: &mut Core, parts: Vec<(AgentId, Piece)>) {
    let mut failures = 0;
    for (agent_id, piece) in parts {
        let part = (agent_id, piece);
        if failures < MOST_FAILED_CHECKPOINTS {
            let Err(error) = core.store.append_pieces(std::slice::from_ref(&part)) else { continue };
            failures += 1;
            if core.unsaved.is_new_failure(agent_id) {
                core.note(agent_id, LineKind::Error, &format!("the reply so far is not saved: {error}"));
            }
        }
        put_checkpoint_off(core, agent_id, &part.1);
    }
}

fn put_checkpoint_off(core: &mut Core, agent_id: AgentId, piece: &Piece) {
    core.roster.with(agent_id, |agent| agent.on_checkpoint_failed(piece));
}

/// Counts how full the context of an agent is, if that is unknown. The newest messages are enough if the provider has
/// counted a reply among them; otherwise the conversation is loaded, unless it is empty, or long enough to wait for the
/// next message.
pub(in crate::repl) fn count_context(core: &mut Core, agent_id: AgentId) {
    let Some(agent) = core.roster.get(agent_id).filter(|agent| agent.context_use.is_none()) else { return };
    if agent.inputs.history.is_none() {
        let tail = core.store.tail(agent_id, None, NEWEST_MESSAGES).unwrap_or_default();
        if let Some(known) = ContextUse::of_tail(&tail) {
            core.roster.with(agent_id, |agent| agent.context_use = Some(known));
            return;
        }
        if tail.is_empty()
            || tail.len() == NEWEST_MESSAGES && !tail.iter().any(|message| changes_context(&message.body))
        {
            return;
        }
        // The error is reported when a message is sent.
        drop(core.load(agent_id));
    }
    core.roster.with(agent_id, Agent::count_context);
}

/// Like [`Core::load`], without this message and later ones: they are about to be added.
pub(super) fn load_before(core: &mut Core, agent_id: AgentId, first: MessageId) -> Result<()> {
    if core.roster.get(agent_id).is_none_or(|agent| agent.inputs.history.is_some()) {
        return Ok(());
    }
    let (mut messages, damaged) = core.store.replay(agent_id)?;
    messages.retain(|message| message.id < first);
    core.roster.with(agent_id, |agent| {
        agent.inputs.history = Some(History::from_messages(messages));
        for message in damaged {
            agent.emit_aside(&Chunk::Error { kind: ErrorKind::Store.name().into(), message });
        }
    });
    Ok(())
}
