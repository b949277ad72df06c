//! Viewers: whoever reads the output of an agent, each of them a number in that agent's ring and nothing more. Agents know
//! nothing of them, and a viewer that does not read costs its agent nothing: it lags, and is told what it has missed.
//!
//! ```text
//!   begin      oldest                                   next
//!     ┊ dropped │ chunk │ chunk │ chunk │ chunk │ chunk │
//!     ▲                         ▲                       ▲
//!     a viewer that lags:       one that reads          one that has read everything
//!     "so many are missed"
//! ```
//! What only the store has of an agent is put in front of its ring when the first viewer wants it. The output of an agent
//! that is gone is kept until every viewer of it has read it, or has left.

use std::collections::BTreeMap;

use crate::agent::{Agent, Output};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::chunk::{Chunk, Numbered};
use crate::domain::scrollback::LineKind;
use crate::domain::wire::Place;
use crate::repl::Repl;
use crate::repl::core::agent_gone;

/// Messages that are read from the store at once, until a ring is full.
const PAGE: usize = 256;
/// A reading ends behind the chunk with which it has so many bytes: one viewer never holds a turn up for long.
const BYTES_AT_ONCE: usize = 256 * 1024;
/// Chunks that a callback is told in one turn.
const CHUNKS_PER_TURN: usize = 256;

/// Names a viewer. Never used again, not even when the viewer has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewerId(u64);

/// What a viewer has read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ViewerOutput {
    /// So many chunks were dropped before this viewer came to read them: they are missing before the first of these.
    pub missed: u64,
    /// The chunks, in order, each exactly once over all readings of a viewer.
    pub chunks: Vec<Numbered>,
    /// The agent is dead or was closed, and everything was read: nothing will ever come.
    pub is_over: bool,
}

/// Is told what is new. An error of it ends it, and is noted at the agent.
pub type OnChunks = Box<dyn FnMut(&ViewerOutput) -> Result<()>>;

/// One reader.
struct Viewer {
    agent_id: AgentId,
    /// The number of the next chunk that it wants.
    next: u64,
    /// It does not come to read, but is told.
    on_chunks: Option<OnChunks>,
}

/// All readers of all agents.
pub(super) struct Viewers {
    epoch: String,
    open: BTreeMap<ViewerId, Viewer>,
    opened: u64,
    /// What is left of agents that are gone.
    gone: BTreeMap<AgentId, Output>,
}

impl Default for Viewers {
    fn default() -> Self {
        Self { epoch: AgentId::random().to_string(), open: BTreeMap::new(), opened: 0, gone: BTreeMap::new() }
    }
}

impl Viewers {
    fn open(&mut self, agent_id: AgentId, next: u64, on_chunks: Option<OnChunks>) -> ViewerId {
        self.opened += 1;
        let id = ViewerId(self.opened);
        self.open.insert(id, Viewer { agent_id, next, on_chunks });
        id
    }

    /// Keeps what an agent said for those who have not read all of it.
    fn keep(&mut self, agent_id: AgentId, output: Output) {
        if self.open.values().any(|viewer| viewer.agent_id == agent_id) {
            self.gone.insert(agent_id, output);
        }
    }

    /// Forgets what nobody has to read any more.
    fn forget_read(&mut self, agent_id: AgentId) {
        let Some(output) = self.gone.get(&agent_id) else { return };
        if !self.open.values().any(|viewer| viewer.agent_id == agent_id && viewer.next < output.next()) {
            self.gone.remove(&agent_id);
        }
    }
}

impl Viewer {
    fn read(&mut self, output: &Output, most: usize) -> ViewerOutput {
        let mut seen = ViewerOutput { missed: output.oldest().saturating_sub(self.next), ..ViewerOutput::default() };
        self.next += seen.missed;
        let mut bytes = 0;
        while self.next < output.next() && seen.chunks.len() < most && bytes < BYTES_AT_ONCE {
            if let Some((chunk, length)) = output.get(self.next) {
                bytes += length;
                seen.chunks.push(Numbered { agent: self.agent_id, number: self.next, chunk });
            }
            self.next += 1;
        }
        seen
    }
}

impl Repl {
    /// Names this process among all that have given numbers to chunks: a number means nothing in another one.
    pub fn epoch(&self) -> &str {
        &self.core.viewers.epoch
    }

    /// A viewer of this agent, from this place on: behind what it has seen of it before. Without a place, and with one of
    /// another process or one that no chunk ever had, from the oldest chunk on, that which only the store has included as
    /// far as the ring holds it. What was dropped since that place is counted at the first [`Repl::read`].
    ///
    /// # Errors
    /// There is no such agent, or the store cannot be read.
    pub fn attach(&mut self, agent_id: AgentId, from: Option<&Place>) -> Result<ViewerId> {
        let next = self.place(agent_id, from)?;
        Ok(self.core.viewers.open(agent_id, next, None))
    }

    /// A viewer of this agent that begins with its newest chunks, at most so many, and goes on with what comes.
    ///
    /// # Errors
    /// As for [`Repl::attach`].
    pub fn attach_to_last(&mut self, agent_id: AgentId, count: u64) -> Result<ViewerId> {
        let (begin, next) = self.bounds(agent_id)?;
        if next - begin < count {
            self.filled_bounds(agent_id)?;
        }
        let oldest = self.core.roster.get(agent_id).map_or(next, |agent| agent.output.oldest());
        Ok(self.core.viewers.open(agent_id, oldest.max(next.saturating_sub(count)), None))
    }

    /// A viewer that is told instead of coming to read: at the end of every turn in which there was something new. It is
    /// gone with its agent, when it fails (which is noted at the agent), or with [`Repl::detach`].
    ///
    /// # Errors
    /// As for [`Repl::attach`].
    pub fn on_chunks(&mut self, agent_id: AgentId, from: Option<&Place>, tell: OnChunks) -> Result<ViewerId> {
        let next = self.place(agent_id, from)?;
        Ok(self.core.viewers.open(agent_id, next, Some(tell)))
    }

    /// What this viewer has not seen yet, at most so many chunks, and fewer if they are large: [`Repl::has_unread`] says
    /// whether there are more. A viewer that is not attached is told that it is over.
    pub fn read(&mut self, viewer: ViewerId, most: usize) -> ViewerOutput {
        let Some(one) = self.core.viewers.open.get_mut(&viewer) else { return over() };
        let agent_id = one.agent_id;
        let Some(output) = output_of(&self.core.roster, &self.core.viewers.gone, agent_id) else { return over() };
        let mut seen = one.read(output, most);
        seen.is_over = one.next == output.next() && self.core.roster.get(agent_id).is_none();
        self.core.viewers.forget_read(agent_id);
        seen
    }

    /// Whether [`Repl::read`] would have something to tell this viewer.
    pub fn has_unread(&self, viewer: ViewerId) -> bool {
        self.core.viewers.open.get(&viewer).is_some_and(|one| self.is_behind(one))
    }

    /// Where this viewer goes on, for [`Repl::attach`]; none if it is not attached.
    pub fn place_of(&self, viewer: ViewerId) -> Option<Place> {
        let one = self.core.viewers.open.get(&viewer)?;
        Some(Place { epoch: self.core.viewers.epoch.clone(), number: one.next })
    }

    /// How many viewers are attached.
    pub fn viewers(&self) -> usize {
        self.core.viewers.open.len()
    }

    /// The viewer leaves; the agent goes on, and so does the keeping of what it says.
    pub fn detach(&mut self, viewer: ViewerId) {
        if let Some(left) = self.core.viewers.open.remove(&viewer) {
            self.core.viewers.forget_read(left.agent_id);
        }
    }

    /// An agent is gone from memory: those who look are told everything up to this last word.
    pub(super) fn keep_last_words(&mut self, mut agent: Agent, last: &[Chunk]) {
        last.iter().for_each(|chunk| agent.emit_aside(chunk));
        self.core.viewers.keep(agent.id(), agent.output);
    }

    /// Whether a viewer that is told, and does not come to read, is behind.
    pub(super) fn has_to_tell(&self) -> bool {
        self.core.viewers.open.values().any(|one| one.on_chunks.is_some() && self.is_behind(one))
    }

    /// Tells those who want to be told, each a bounded number of chunks.
    pub(super) fn tell_viewers(&mut self) {
        let is_due = |one: &Viewer| one.on_chunks.is_some() && self.is_behind(one);
        let due: Vec<ViewerId> =
            self.core.viewers.open.iter().filter(|(_, one)| is_due(one)).map(|(id, _)| *id).collect();
        for id in due {
            let Some(one) = self.core.viewers.open.get_mut(&id) else { continue };
            let (agent_id, Some(mut tell)) = (one.agent_id, one.on_chunks.take()) else { continue };
            let seen = self.read(id, CHUNKS_PER_TURN);
            let told = tell(&seen);
            if told.is_err() || seen.is_over {
                self.detach(id);
            } else if let Some(one) = self.core.viewers.open.get_mut(&id) {
                one.on_chunks = Some(tell);
            }
            if let Err(error) = told {
                self.core.note(agent_id, LineKind::Error, &format!("a viewer has failed and is told no more: {error}"));
            }
        }
    }

    fn is_behind(&self, viewer: &Viewer) -> bool {
        let output = output_of(&self.core.roster, &self.core.viewers.gone, viewer.agent_id);
        output.is_some_and(|output| viewer.next < output.next())
    }

    /// The number that a viewer wants first.
    fn place(&mut self, agent_id: AgentId, from: Option<&Place>) -> Result<u64> {
        let (begin, next) = self.bounds(agent_id)?;
        match from {
            Some(from) if from.epoch == self.core.viewers.epoch && (begin..=next).contains(&from.number) => {
                Ok(from.number)
            }
            _ => Ok(self.filled_bounds(agent_id)?.0),
        }
    }

    /// The numbers of the first chunk that this agent's ring has ever held and of the next one that it will hold.
    fn bounds(&self, agent_id: AgentId) -> Result<(u64, u64)> {
        let agent = self.core.roster.get(agent_id).filter(|_| !self.is_summary_job(agent_id)).ok_or_else(agent_gone)?;
        Ok((agent.output.begin(), agent.output.next()))
    }

    /// The same, when everything stored stands in front that fits.
    fn filled_bounds(&mut self, agent_id: AgentId) -> Result<(u64, u64)> {
        while let Some(before) = self.core.roster.get(agent_id).and_then(|agent| agent.output.wants_older_than()) {
            let page = self.core.store.tail(agent_id, before, PAGE)?;
            self.core.roster.with(agent_id, |agent| agent.output.fill(&page, page.len() < PAGE));
        }
        self.bounds(agent_id)
    }
}

/// The output of an agent that lives, or is gone.
fn output_of<'a>(
    roster: &'a crate::team::Roster,
    gone: &'a BTreeMap<AgentId, Output>,
    agent_id: AgentId,
) -> Option<&'a Output> {
    roster.get(agent_id).map(|agent| &agent.output).or_else(|| gone.get(&agent_id))
}

fn over() -> ViewerOutput {
    ViewerOutput { is_over: true, ..ViewerOutput::default() }
}

#[cfg(test)]
mod tests;
