//! Attaches viewers to agents, and reads older chunks from the store for them.

use crate::agent::{Agent, Role};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::chunk::{Chunk, Position, begin_of_last};
use crate::repl::core::{Core, agent_gone};
use crate::team::ViewerId;

/// Messages read from the store at once, until an agent's ring is full.
const PAGE: usize = 256;

impl Core {
    /// See [`crate::repl::Repl::attach`].
    pub(in crate::repl) fn attach(&mut self, agent: AgentId, from: Option<&Position>) -> Result<ViewerId> {
        let (begin, next) = self.bounds(agent)?;
        let start = match from {
            Some(from) if from.epoch == self.viewers.epoch() && (begin..=next).contains(&from.number) => from.number,
            _ => self.filled_bounds(agent)?.0,
        };
        Ok(self.viewers.open(agent, start))
    }

    /// See [`crate::repl::Repl::attach_to_last`].
    pub(in crate::repl) fn attach_to_last(&mut self, agent: AgentId, count: u64) -> Result<ViewerId> {
        let (begin, next) = self.bounds(agent)?;
        if next - begin < count {
            self.filled_bounds(agent)?;
        }
        let oldest = self.roster.get(agent).map_or(next, |agent| agent.output.oldest());
        Ok(self.viewers.open(agent, oldest.max(next.saturating_sub(count))))
    }

    /// Keeps the output of a removed agent, with these last chunks, for its viewers.
    pub(super) fn keep_last_chunks(&mut self, mut agent: Agent, last: &[Chunk]) {
        if self.viewers.is_open(agent.id()) {
            last.iter().for_each(|chunk| agent.emit_aside(chunk));
            self.viewers.keep(agent.id(), agent.output);
        }
    }

    /// The numbers of the first chunk that the agent's ring ever held and of its next chunk.
    pub(in crate::repl) fn bounds(&self, agent: AgentId) -> Result<(u64, u64)> {
        let agent = self.roster.get(agent).filter(|agent| agent.role != Role::Summary).ok_or_else(agent_gone)?;
        Ok((agent.output.begin(), agent.output.next()))
    }

    /// Like [`Core::bounds`], after stored messages were added at the front as far as they fit.
    pub(in crate::repl) fn filled_bounds(&mut self, agent: AgentId) -> Result<(u64, u64)> {
        while let Some(before) = self.roster.get(agent).and_then(|agent| agent.output.load_before()) {
            let page = self.store.tail(agent, before, PAGE)?;
            self.roster.with(agent, |agent| agent.output.fill(&page, page.len() < PAGE));
        }
        self.bounds(agent)
    }
}

/// Attaches a viewer that begins with the newest `count` messages of an agent.
pub(in crate::repl) fn attach_to_last_messages(core: &mut Core, agent: AgentId, count: u64) -> Result<ViewerId> {
    let (_, next) = core.filled_bounds(agent)?;
    let begin = core.roster.get(agent).and_then(|agent| begin_of_last(count, agent.output.newest()));
    Ok(core.viewers.open(agent, begin.unwrap_or(next)))
}
