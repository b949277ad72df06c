//! What a person has entered and the agent has no time for yet: texts and commands, in one order. Each turn of a text and
//! each command is carried out whole before the next begins.
//!
//! ```text
//!   entered --> [ 1 text, 2 /mark here, 3 text ] --> a text begins a turn; when that has ended, the next
//!                                                --> a command is carried out; at once, the next
//! ```
//! The queue waits after an interrupt and after an error, until the person resumes it. A command that cannot be carried
//! out stays where it is, and the queue waits there: what stands behind it may rely on it.

use crate::agent::{Queued, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::commands;
use crate::domain::flow::QueueEdit;
use crate::domain::scrollback::LineKind;
use crate::repl::apply::agent_gone;
use crate::repl::{Repl, TerminalId};

/// How much one agent's queue holds: nobody types as much, and a script that does is told to wait.
const MOST_QUEUED: usize = 1_000;

/// A change of memory that waits for a change of the store.
pub(super) type AfterCommit = Box<dyn FnOnce(&mut Repl)>;

impl Repl {
    /// Stores a person's text, then sends it: at once, or behind what the agent is doing.
    pub(super) fn submit(&mut self, origin: Option<TerminalId>, agent_id: AgentId, text: String) -> Result<()> {
        let agent = self.core.roster.get(agent_id).ok_or_else(agent_gone)?;
        if agent.is_occupied() {
            return self.enqueue(origin, agent_id, text, false);
        }
        self.load(agent_id)?;
        let message = self.core.store.begin_turn(agent_id, text, self.core.clock.unix_ms())?;
        self.core.with_agent(agent_id, |agent, context| agent.begin(message, context));
        Ok(())
    }

    /// Stores a text or a command behind what is queued, tells the place, and goes on if the agent is idle.
    ///
    /// # Errors
    /// The queue is full, or the store refuses; nothing has changed then.
    pub(super) fn enqueue(
        &mut self,
        origin: Option<TerminalId>,
        agent_id: AgentId,
        text: String,
        is_command: bool,
    ) -> Result<()> {
        if self.core.roster.get(agent_id).is_some_and(|agent| agent.queue.len() >= MOST_QUEUED) {
            let words = format!("the queue is full: {MOST_QUEUED} entries wait already");
            return Err(Error::new(ErrorKind::Usage, words));
        }
        let id = self.core.store.enqueue(agent_id, &text, is_command, self.core.clock.unix_ms())?;
        if let Some(at) = origin.filter(|_| is_command) {
            self.entered_at.insert(id, at);
        }
        let place = self.core.roster.with(agent_id, |agent| {
            agent.queue.push_back(Queued { id, text: text.clone(), is_command });
            agent.view.touch();
            agent.queue.len()
        });
        match self.terminals.still_at(origin, agent_id).zip(place) {
            Some((at, place)) if is_command => self.notice(at, format!("{text} waits its turn: queued as {place}")),
            Some((at, place)) if place > super::draw::QUEUE_ROWS => self.notice(at, format!("queued as {place}")),
            _ => {}
        }
        self.resume(agent_id);
        Ok(())
    }

    /// Goes on with the queue of an idle agent: commands as they come, up to the first text, whose turn begins.
    pub(super) fn resume(&mut self, agent_id: AgentId) {
        while let Some(next) = self.next_queued(agent_id) {
            let outcome =
                if next.is_command { self.carry_out_queued(agent_id, &next) } else { self.promote(agent_id, &next) };
            if let Err(error) = outcome {
                let at = first_line(&next);
                let words =
                    format!("{error} - the queue waits at {at} (/queue drop 1, then Enter, goes on without it)");
                return self.core.note(agent_id, LineKind::Error, &words);
            }
        }
        // Who waits for an idle agent with a queue waits for nothing more when the queue is empty.
        self.check_mail_waits();
    }

    fn next_queued(&self, agent_id: AgentId) -> Option<Queued> {
        self.core.roster.get(agent_id).filter(|agent| agent.state() == State::Idle)?.queue.front().cloned()
    }

    /// The turn of a text begins.
    fn promote(&mut self, agent_id: AgentId, next: &Queued) -> Result<()> {
        self.load(agent_id)?;
        let message = self.core.store.promote(agent_id, next.id, self.core.clock.unix_ms())?;
        self.on_turn_begins(agent_id, next.id);
        self.core.with_agent(agent_id, |agent, context| {
            agent.queue.pop_front();
            agent.begin(message, context);
        });
        Ok(())
    }

    /// A command leaves the queue and is carried out, in one transaction: a crash finds both or neither.
    fn carry_out_queued(&mut self, agent_id: AgentId, next: &Queued) -> Result<()> {
        let result = commands::read_queued(&next.text, &self.command_context(agent_id))?;
        let origin = self.entered_at.get(&next.id).copied();
        self.together(|repl| {
            repl.core.store.drop_queued(agent_id, &[next.id])?;
            repl.carry_out(origin, agent_id, result).map(drop)
        })?;
        self.entered_at.remove(&next.id);
        self.core.roster.with(agent_id, |agent| {
            agent.queue.pop_front();
            agent.view.touch();
        });
        Ok(())
    }

    /// Carries out `work` so that all that it stores is kept, or, after an error, nothing. What it does in memory it must
    /// leave to [`Repl::after_commit`]: only then does memory know nothing that the store does not.
    pub(super) fn together<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.core.store.begin_together()?;
        let done = work(self);
        let ended = self.core.store.end_together(done.is_ok());
        let effects = std::mem::take(&mut self.after_commit);
        ended?;
        if done.is_ok() {
            effects.into_iter().for_each(|effect| effect(self));
        }
        done
    }

    /// Changes memory when what was stored just now is kept: at once, or at the end of [`Repl::together`].
    pub(super) fn after_commit(&mut self, effect: impl FnOnce(&mut Self) + 'static) {
        if self.core.store.is_together() {
            self.after_commit.push(Box::new(effect));
        } else {
            effect(self);
        }
    }

    /// The newest entry becomes the draft again.
    pub(super) fn take_back_newest(&mut self, agent_id: AgentId) -> Result<()> {
        let entries = self.core.roster.get(agent_id).ok_or_else(agent_gone)?.queue.len();
        entries.checked_sub(1).map_or(Ok(()), |newest| self.take_back(agent_id, newest))
    }

    /// Carries out what `/queue` asks for.
    pub(super) fn edit_queue(&mut self, agent_id: AgentId, edit: QueueEdit) -> Result<()> {
        match edit {
            QueueEdit::TakeBack(place) => self.take_back(agent_id, place),
            QueueEdit::Drop(place) => {
                let dropped = self.entry(agent_id, place)?;
                self.drop_queued(agent_id, &[dropped])
            }
            QueueEdit::Clear => {
                let all: Vec<Queued> =
                    self.core.roster.get(agent_id).ok_or_else(agent_gone)?.queue.iter().cloned().collect();
                self.drop_queued(agent_id, &all)
            }
            QueueEdit::Move { from, to } => {
                let ids: Vec<_> =
                    self.core.roster.get(agent_id).ok_or_else(agent_gone)?.queue.iter().map(|entry| entry.id).collect();
                let moved = self.core.store.move_queued(agent_id, from, to)?;
                let place = |id| ids.iter().position(|one| *one == id);
                self.on_queue_renamed(agent_id, |id| {
                    place(id).map_or(id, |place| ids[place_after_move(place, from, to)])
                });
                self.core.roster.with(agent_id, |agent| {
                    agent.queue = moved.into();
                    agent.view.touch();
                });
                Ok(())
            }
        }
    }

    fn take_back(&mut self, agent_id: AgentId, place: usize) -> Result<()> {
        let taken = self.entry(agent_id, place)?;
        self.core.store.unqueue(agent_id, taken.id)?;
        self.entered_at.remove(&taken.id);
        self.core.roster.with(agent_id, |agent| {
            agent.queue.remove(place);
            agent.view.draft.set(&taken.line());
            agent.view.touch();
        });
        self.check_mail_waits();
        Ok(())
    }

    pub(super) fn drop_queued(&mut self, agent_id: AgentId, dropped: &[Queued]) -> Result<()> {
        let ids: Vec<_> = dropped.iter().map(|entry| entry.id).collect();
        self.core.store.drop_queued(agent_id, &ids)?;
        self.entered_at.retain(|id, _| !ids.contains(id));
        self.core.roster.with(agent_id, |agent| {
            agent.queue.retain(|entry| !ids.contains(&entry.id));
            agent.view.touch();
        });
        self.check_mail_waits();
        Ok(())
    }

    fn entry(&self, agent_id: AgentId, place: usize) -> Result<Queued> {
        let queue = &self.core.roster.get(agent_id).ok_or_else(agent_gone)?.queue;
        let words = || format!("nothing is queued as {}: {} entries are", place + 1, queue.len());
        queue.get(place).cloned().ok_or_else(|| Error::new(ErrorKind::Usage, words()))
    }

    /// What was queued before the program ended is queued again.
    pub(super) fn read_queues(&mut self) -> Result<()> {
        for id in self.core.store.agents_with_queue()? {
            match self.core.store.queued(id) {
                Ok(queued) => self.core.roster.with(id, |agent| agent.queue.extend(queued)),
                Err(error) => {
                    self.core.note(id, LineKind::Error, &format!("the queued texts cannot be read: {error}"));
                    None
                }
            };
        }
        Ok(())
    }
}

/// Where the entry at `place` is when the one at `from` has gone to `to`.
fn place_after_move(place: usize, from: usize, to: usize) -> usize {
    match place {
        _ if place == from => to,
        _ if from < place && place <= to => place - 1,
        _ if to <= place && place < from => place + 1,
        _ => place,
    }
}

fn first_line(entry: &Queued) -> &str {
    entry.text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_found_where_it_is_after_any_move() {
        for (from, to) in (0..5).flat_map(|from| (0..5).map(move |to| (from, to))) {
            let mut entries: Vec<usize> = (0..5).collect();
            let moved = entries.remove(from);
            entries.insert(to, moved);
            for entry in 0..5 {
                assert_eq!(entries[place_after_move(entry, from, to)], entry, "{entry}: {from} to {to}");
            }
        }
    }
}
