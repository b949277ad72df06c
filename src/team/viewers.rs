//! Viewers: cursors into the output of agents. Agents know nothing of them, and a viewer that does not read costs its
//! agent nothing: it falls behind and learns how many chunks it missed.
//!
//! ```text
//!   begin      oldest                                   next
//!     ┊ dropped │ chunk │ chunk │ chunk │ chunk │ chunk │
//!     ▲                         ▲                       ▲
//!     a viewer that lags:       one that reads          one that has read everything
//!     `missed` chunks
//! ```
//! The output of a removed agent is stored until every viewer of it has read it or has detached.

use std::collections::BTreeMap;

use crate::agent::Output;
use crate::base::id::AgentId;
use crate::domain::chunk::Numbered;
use crate::team::Roster;

/// A reading ends with the chunk that makes it exceed this many bytes, so that one viewer never delays a turn for long.
const BYTES_PER_READING: usize = 256 * 1024;

/// Identifies a viewer. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewerId(u64);

/// The chunks that a viewer read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ViewerOutput {
    /// How many chunks before the first of `chunks` were dropped before this viewer read them.
    pub missed: u64,
    /// In order; a viewer reads each chunk once.
    pub chunks: Vec<Numbered>,
    /// The agent was killed or closed, and everything was read.
    pub is_over: bool,
}

impl ViewerOutput {
    fn over() -> Self {
        Self { is_over: true, ..Self::default() }
    }
}

struct Viewer {
    agent: AgentId,
    /// The number of the next chunk that it reads.
    next: u64,
}

pub struct Viewers {
    epoch: String,
    open: BTreeMap<ViewerId, Viewer>,
    opened: u64,
    gone: BTreeMap<AgentId, Output>,
}

impl Default for Viewers {
    fn default() -> Self {
        Self { epoch: AgentId::random().to_string(), open: BTreeMap::new(), opened: 0, gone: BTreeMap::new() }
    }
}

impl Viewers {
    /// Names this process: chunk numbers of another one mean nothing here.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// A viewer of this agent that reads from the chunk of this number on.
    pub fn open(&mut self, agent: AgentId, next: u64) -> ViewerId {
        self.opened += 1;
        let id = ViewerId(self.opened);
        self.open.insert(id, Viewer { agent, next });
        id
    }

    pub fn close(&mut self, viewer: ViewerId) {
        if let Some(closed) = self.open.remove(&viewer) {
            self.forget_read(closed.agent);
        }
    }

    /// The number of the next chunk that this viewer reads; none if it is not attached.
    pub fn next(&self, viewer: ViewerId) -> Option<u64> {
        self.open.get(&viewer).map(|viewer| viewer.next)
    }

    pub fn agent(&self, viewer: ViewerId) -> Option<AgentId> {
        self.open.get(&viewer).map(|viewer| viewer.agent)
    }

    /// At most `most` chunks that this viewer has not read yet.
    pub fn read(&mut self, roster: &Roster, viewer: ViewerId, most: usize) -> ViewerOutput {
        let Some(viewer) = self.open.get_mut(&viewer) else { return ViewerOutput::over() };
        let (agent, is_gone) = (viewer.agent, roster.get(viewer.agent).is_none());
        let Some(output) = output_of(roster, &self.gone, agent) else { return ViewerOutput::over() };
        let mut reading = viewer.read(output, most);
        reading.is_over = is_gone && viewer.next == output.next();
        self.forget_read(agent);
        reading
    }

    /// Whether this viewer has not read everything.
    pub fn has_unread(&self, roster: &Roster, viewer: ViewerId) -> bool {
        let Some(viewer) = self.open.get(&viewer) else { return false };
        output_of(roster, &self.gone, viewer.agent).is_some_and(|output| viewer.next < output.next())
    }

    /// Whether a viewer is attached to this agent.
    pub fn is_open(&self, agent: AgentId) -> bool {
        self.open.values().any(|viewer| viewer.agent == agent)
    }

    /// Stores the output of a removed agent for its viewers.
    pub fn keep(&mut self, agent: AgentId, output: Output) {
        self.gone.insert(agent, output);
    }

    /// Removed agents whose output a viewer still reads.
    #[cfg(test)]
    pub fn gone(&self) -> Vec<AgentId> {
        self.gone.keys().copied().collect()
    }

    fn forget_read(&mut self, agent: AgentId) {
        let Some(output) = self.gone.get(&agent) else { return };
        if !self.open.values().any(|viewer| viewer.agent == agent && viewer.next < output.next()) {
            self.gone.remove(&agent);
        }
    }
}

impl Viewer {
    fn read(&mut self, output: &Output, most: usize) -> ViewerOutput {
        let missed = output.oldest().saturating_sub(self.next);
        let mut reading = ViewerOutput { missed, ..ViewerOutput::default() };
        self.next += missed;
        let mut bytes = 0;
        while self.next < output.next() && reading.chunks.len() < most && bytes < BYTES_PER_READING {
            if let Some((chunk, length)) = output.get(self.next) {
                bytes += length;
                reading.chunks.push(Numbered { agent: self.agent, number: self.next, chunk });
            }
            self.next += 1;
        }
        reading
    }
}

fn output_of<'a>(roster: &'a Roster, gone: &'a BTreeMap<AgentId, Output>, agent: AgentId) -> Option<&'a Output> {
    roster.get(agent).map(|agent| &agent.output).or_else(|| gone.get(&agent))
}
