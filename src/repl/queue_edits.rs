//! Edits an agent's queue: what `/queue` and the keys change of it.

use crate::agent::Queued;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::change::QueueEdit;
use crate::domain::flow::Origin;
use crate::repl::Repl;
use crate::repl::core::{Core, agent_gone, drafts};
use crate::repl::event::Event;

impl Repl {
    /// Applies an edit of `/queue`.
    pub(super) fn edit_queue(&mut self, origin: Origin, agent_id: AgentId, edit: QueueEdit) -> Result<()> {
        let core = &mut self.core;
        match edit {
            QueueEdit::Resume => {
                self.resume_queue(agent_id);
                Ok(())
            }
            QueueEdit::TakeBackNewest => take_back_newest(core, origin, agent_id),
            QueueEdit::TakeBack(position) => take_back(core, origin, agent_id, position),
            QueueEdit::Drop(position) => {
                let dropped = entry_at(core, agent_id, position)?;
                core.drop_queued(agent_id, &[dropped])
            }
            QueueEdit::Clear => {
                let all: Vec<Queued> = core.agent(agent_id).ok_or_else(agent_gone)?.queue.iter().cloned().collect();
                core.drop_queued(agent_id, &all)
            }
            QueueEdit::Move { from, to } => {
                let moved = core.store().move_queued(agent_id, from, to)?;
                core.edit(agent_id, |agent| {
                    if let Some(entry) = agent.queue.remove(from) {
                        agent.queue.insert(to, entry);
                    }
                    // Ids are positions in the order: an entry that moves gets another id.
                    agent.queue.iter_mut().zip(moved).for_each(|(entry, row)| entry.id = row.id);
                    agent.view.touch();
                });
                Ok(())
            }
        }
    }
}

fn take_back_newest(core: &mut Core, origin: Origin, agent_id: AgentId) -> Result<()> {
    let entries = core.agent(agent_id).ok_or_else(agent_gone)?.queue.len();
    entries.checked_sub(1).map_or(Ok(()), |newest| take_back(core, origin, agent_id, newest))
}

fn take_back(core: &mut Core, origin: Origin, agent_id: AgentId, position: usize) -> Result<()> {
    let taken = entry_at(core, agent_id, position)?;
    let slot = drafts::slot_for_return(core, origin);
    drafts::load(core, agent_id);
    core.store().unqueue(agent_id, taken.id, slot)?;
    core.edit(agent_id, |agent| agent.queue.remove(position));
    drafts::return_to_slot(core, agent_id, slot, &taken.line());
    core.emit(Event::QueueChanged { agent: agent_id });
    Ok(())
}

fn entry_at(core: &Core, agent_id: AgentId, position: usize) -> Result<Queued> {
    let queue = &core.agent(agent_id).ok_or_else(agent_gone)?.queue;
    queue.get(position).cloned().ok_or_else(|| {
        let entries = text::counted(queue.len(), "entry", "entries");
        Error::usage(format!("no entry {} in the queue: it has {entries}", position + 1))
    })
}
