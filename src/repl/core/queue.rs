//! Texts and commands that wait for an agent.

use crate::agent::{Agent, Context, Queued, State};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::flow::{Origin, QueueEdit};
use crate::domain::scrollback::LineKind;
use crate::repl::core::{Core, agent_gone};
use crate::repl::event::Event;

/// The most entries in the queue of one agent.
const MOST_QUEUED: usize = 1_000;

impl Core {
    /// Stores a message to an idle agent and begins its turn.
    ///
    /// # Errors
    /// The conversation cannot be read, or the store refuses; nothing has changed then.
    pub(in crate::repl) fn begin_turn(&mut self, origin: Origin, agent_id: AgentId, text: String) -> Result<()> {
        self.load(agent_id)?;
        let message = self.store.begin_turn(agent_id, text, self.clock.unix_ms())?;
        self.start_turn(origin, agent_id, |agent, context| agent.begin(message, context));
        Ok(())
    }

    /// Begins the turn of the first queued message.
    ///
    /// # Errors
    /// As for [`Core::begin_turn`].
    pub(in crate::repl) fn begin_queued_turn(&mut self, agent_id: AgentId, entry: &Queued) -> Result<()> {
        self.load(agent_id)?;
        let message = self.store.promote(agent_id, entry.id, self.clock.unix_ms())?;
        self.start_turn(entry.origin, agent_id, |agent, context| {
            agent.queue.pop_front();
            agent.begin(message, context);
        });
        Ok(())
    }

    pub(super) fn start_turn(&mut self, origin: Origin, id: AgentId, begin: impl FnOnce(&mut Agent, &mut Context)) {
        let chunk = self.next_chunk(id);
        self.with_agent(id, begin);
        self.emit(Event::TurnStarted { agent: id, origin, chunk });
    }

    /// Adds a message or a command to the queue. Returns its position, counted from 1.
    ///
    /// # Errors
    /// The queue is full, or the store refuses; nothing has changed then.
    pub(in crate::repl) fn enqueue(
        &mut self,
        origin: Origin,
        agent_id: AgentId,
        text: &str,
        is_command: bool,
    ) -> Result<usize> {
        if self.roster.get(agent_id).is_some_and(|agent| agent.queue.len() >= MOST_QUEUED) {
            return Err(Error::usage(format!("the queue is full: {MOST_QUEUED} entries are waiting")));
        }
        let id = self.store.enqueue(agent_id, text, is_command, self.clock.unix_ms())?;
        let position = self.roster.with(agent_id, |agent| {
            agent.queue.push_back(Queued { id, text: text.to_owned(), is_command, origin });
            agent.view.touch();
            agent.queue.len()
        });
        self.emit(Event::QueueChanged { agent: agent_id });
        position.ok_or_else(agent_gone)
    }

    /// The first entry in the queue of an idle agent.
    pub(in crate::repl) fn next_queued(&self, agent_id: AgentId) -> Option<Queued> {
        self.roster.get(agent_id).filter(|agent| agent.state() == State::Idle)?.queue.front().cloned()
    }

    /// Moves the newest entry back to the draft.
    pub(in crate::repl) fn take_back_newest(&mut self, agent_id: AgentId) -> Result<()> {
        let entries = self.roster.get(agent_id).ok_or_else(agent_gone)?.queue.len();
        entries.checked_sub(1).map_or(Ok(()), |newest| self.take_back(agent_id, newest))
    }

    pub(in crate::repl) fn edit_queue(&mut self, agent_id: AgentId, edit: QueueEdit) -> Result<()> {
        match edit {
            QueueEdit::TakeBack(position) => self.take_back(agent_id, position),
            QueueEdit::Drop(position) => {
                let dropped = self.queue_entry(agent_id, position)?;
                self.drop_queued(agent_id, &[dropped])
            }
            QueueEdit::Clear => {
                let all: Vec<Queued> =
                    self.roster.get(agent_id).ok_or_else(agent_gone)?.queue.iter().cloned().collect();
                self.drop_queued(agent_id, &all)
            }
            QueueEdit::Move { from, to } => {
                let moved = self.store.move_queued(agent_id, from, to)?;
                self.roster.with(agent_id, |agent| {
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

    fn take_back(&mut self, agent_id: AgentId, position: usize) -> Result<()> {
        let taken = self.queue_entry(agent_id, position)?;
        self.store.unqueue(agent_id, taken.id)?;
        self.roster.with(agent_id, |agent| {
            agent.queue.remove(position);
            agent.view.draft.set(&taken.line());
            agent.view.touch();
        });
        self.emit(Event::QueueChanged { agent: agent_id });
        Ok(())
    }

    pub(in crate::repl) fn drop_queued(&mut self, agent_id: AgentId, dropped: &[Queued]) -> Result<()> {
        let ids: Vec<_> = dropped.iter().map(|entry| entry.id).collect();
        self.store.drop_queued(agent_id, &ids)?;
        self.roster.with(agent_id, |agent| {
            agent.queue.retain(|entry| !ids.contains(&entry.id));
            agent.view.touch();
        });
        self.emit(Event::QueueChanged { agent: agent_id });
        Ok(())
    }

    fn queue_entry(&self, agent_id: AgentId, position: usize) -> Result<Queued> {
        let queue = &self.roster.get(agent_id).ok_or_else(agent_gone)?.queue;
        queue.get(position).cloned().ok_or_else(|| {
            let entries = text::counted(queue.len(), "entry", "entries");
            Error::usage(format!("no entry {} in the queue: it has {entries}", position + 1))
        })
    }

    /// Reads the stored queues at the start.
    pub(in crate::repl) fn restore_queues(&mut self) -> Result<()> {
        for id in self.store.agents_with_queue()? {
            match self.store.queued(id) {
                Ok(queued) => self.roster.with(id, |agent| agent.queue.extend(queued.into_iter().map(Queued::from))),
                Err(error) => {
                    self.note(id, LineKind::Error, &format!("cannot read the queue: {error}"));
                    None
                }
            };
        }
        Ok(())
    }
}
