//! Writes that the store has not accepted so far. They stay in memory, in their order, and are stored when the store
//! can be written again: before anything else is added to the log of their agent, from time to time, and at the end of
//! the program.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::history::History;
use crate::domain::message::{Body, Message};
use crate::domain::scrollback::LineKind;
use crate::repl::core::Core;
use crate::store::Store;

/// How often the store is tried.
const RETRY: Duration = Duration::from_secs(5);

/// A way to write to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::repl) enum Write {
    Append,
    /// Ends a reply.
    Settle,
    /// Ends a turn.
    Finish,
    /// A question is open from now on.
    Question,
}

impl Write {
    fn apply(self, store: &Store, agent: AgentId, bodies: Vec<Body>, at: i64) -> Result<Vec<Message>> {
        match self {
            Self::Append => store.append(agent, bodies, at),
            Self::Settle => store.settle_reply(agent, bodies, at),
            Self::Finish => store.finish_turn(agent, bodies, at),
            Self::Question => store.begin_question(agent, bodies, at),
        }
    }
}

struct Unsaved {
    agent: AgentId,
    bodies: Vec<Body>,
    write: Write,
    /// Milliseconds since 1970.
    at: i64,
}

#[derive(Default)]
pub(in crate::repl) struct UnsavedWrites {
    waiting: VecDeque<Unsaved>,
    /// Writes in a transaction that several agents share; they are rolled back with it.
    shared: Option<Vec<Unsaved>>,
    retry_at: Option<Moment>,
    /// The agents at which a failed checkpoint was reported.
    reported: BTreeSet<AgentId>,
}

impl UnsavedWrites {
    /// Whether something of this agent is only in memory.
    pub fn has(&self, agent: AgentId) -> bool {
        self.waiting.iter().any(|unsaved| unsaved.agent == agent)
    }

    fn note_saved(&mut self, saved: Unsaved) {
        self.reported.remove(&saved.agent);
        if let Some(shared) = &mut self.shared {
            shared.push(saved);
        }
    }

    /// The question of this agent is over, whether or not it was ever stored.
    pub fn close_question(&mut self, agent: AgentId) {
        let questions = self.waiting.iter_mut().filter(|unsaved| unsaved.agent == agent);
        questions.filter(|unsaved| unsaved.write == Write::Question).for_each(|unsaved| unsaved.write = Write::Append);
    }

    pub fn forget(&mut self, agent: AgentId) {
        self.waiting.retain(|unsaved| unsaved.agent != agent);
        self.reported.remove(&agent);
    }

    /// Whether a failed checkpoint of this agent should be reported: once until one of its writes succeeds.
    pub fn is_new_failure(&mut self, agent: AgentId) -> bool {
        self.reported.insert(agent)
    }
}

impl Core {
    /// Appends messages to an agent's log and to its conversation. If they cannot be stored, they stay in memory until they
    /// can, and a note says so.
    pub(in crate::repl) fn record(&mut self, agent: AgentId, bodies: Vec<Body>, write: Write) {
        let unsaved = Unsaved { agent, bodies, write, at: self.clock.unix_ms() };
        let stored =
            self.save_unsaved(agent).and_then(|()| write.apply(&self.store, agent, unsaved.bodies.clone(), unsaved.at));
        let messages = match stored {
            Ok(messages) => {
                self.unsaved.note_saved(unsaved);
                messages
            }
            Err(error) => keep(self, unsaved, &error),
        };
        self.roster.with(agent, |agent| agent.remember(messages));
    }

    /// Stores what an agent has in memory only. Nothing else may be added to its log before.
    pub(in crate::repl) fn save_unsaved(&mut self, agent: AgentId) -> Result<()> {
        if !self.unsaved.has(agent) {
            return Ok(());
        }
        if self.unsaved.shared.is_none() && self.store.is_in_transaction() {
            return Err(Error::new(ErrorKind::Store, "earlier messages of this agent are not saved yet: try again"));
        }
        while let Some(index) = self.unsaved.waiting.iter().position(|unsaved| unsaved.agent == agent) {
            let Unsaved { bodies, write, at, .. } = &self.unsaved.waiting[index];
            write.apply(&self.store, agent, bodies.clone(), *at)?;
            self.unsaved.waiting.remove(index).into_iter().for_each(|saved| self.unsaved.note_saved(saved));
        }
        read_ids(self, agent)?;
        self.note(agent, LineKind::Note, "the changes kept in memory are saved now");
        Ok(())
    }
}

/// The number of messages that are only in memory.
pub(in crate::repl) fn count(core: &Core) -> usize {
    core.unsaved.waiting.iter().map(|unsaved| unsaved.bodies.len().max(1)).sum()
}

/// Whether something of this agent is only in memory.
pub(in crate::repl) fn has(core: &Core, agent: AgentId) -> bool {
    core.unsaved.has(agent)
}

/// When the store is tried again.
pub(in crate::repl) fn deadline(core: &Core) -> Option<Moment> {
    core.unsaved.retry_at
}

/// Keeps in memory what could not be stored. Returns the messages, which have the id of the previous message until
/// then.
fn keep(core: &mut Core, unsaved: Unsaved, error: &Error) -> Vec<Message> {
    if !core.unsaved.has(unsaved.agent) {
        core.note(unsaved.agent, LineKind::Error, &format!("not saved, kept in memory until it can be: {error}"));
    }
    let history = core.roster.get(unsaved.agent).and_then(|agent| agent.inputs.history.as_ref());
    let (id, created_at) = (history.map(History::last_id).unwrap_or_default(), unsaved.at);
    let messages = unsaved.bodies.iter().cloned().map(|body| Message { id, body, created_at }).collect();
    core.unsaved.waiting.push_back(unsaved);
    retry_later(core);
    messages
}

fn retry_later(core: &mut Core) {
    core.unsaved.retry_at = Some(core.clock.now() + RETRY);
}

/// Reads the conversation again, now that messages that were only in memory have ids of their own.
fn read_ids(core: &mut Core, agent: AgentId) -> Result<()> {
    if core.roster.get(agent).is_some_and(|agent| agent.inputs.history.is_some()) {
        let history = History::from_messages(core.store.replay(agent)?.0);
        core.roster.with(agent, |agent| agent.inputs.history = Some(history));
    }
    Ok(())
}

/// Tries the store again if it is time.
pub(in crate::repl) fn save_due(core: &mut Core) {
    let now = core.clock.now();
    if core.unsaved.retry_at.is_some_and(|at| at <= now) {
        save_all(core);
    }
}

/// Stores everything that is only in memory, as far as possible.
pub(in crate::repl) fn save_all(core: &mut Core) {
    core.unsaved.retry_at = None;
    while let Some(first) = core.unsaved.waiting.front().map(|unsaved| unsaved.agent) {
        // The others would fail as well, and each may take as long as the store waits for another program.
        if core.save_unsaved(first).is_err() {
            return retry_later(core);
        }
    }
}

/// Begins a transaction in which the turns of several agents end.
pub(in crate::repl) fn begin_shared(core: &mut Core) -> Result<()> {
    core.store.begin()?;
    core.unsaved.shared = Some(Vec::new());
    Ok(())
}

/// Commits it. If that fails, everything that was written in it stays in memory until it can be stored.
pub(in crate::repl) fn end_shared(core: &mut Core, agents: &[AgentId]) -> Result<()> {
    let shared = core.unsaved.shared.take().unwrap_or_default();
    let Err(error) = core.store.end(true) else { return Ok(()) };
    shared.into_iter().rev().for_each(|unsaved| core.unsaved.waiting.push_front(unsaved));
    retry_later(core);
    let text = format!("the end of this turn is not saved, it is kept in memory until it can be: {error}");
    agents.iter().for_each(|agent| core.note(*agent, LineKind::Error, &text));
    Err(error)
}
