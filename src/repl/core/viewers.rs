//! Viewers of agents: attached, read and closed; older chunks are read from the store for them.

use crate::agent::{Agent, Role};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::chunk::{Chunk, Position, begin_of_last};
use crate::repl::core::{Core, agent_gone};
use crate::team::{ViewerId, ViewerOutput};

/// Messages read from the store at once, until an agent's ring is full.
const PAGE: usize = 256;

/// See [`crate::repl::Repl::attach`].
pub(in crate::repl) fn attach(core: &mut Core, agent: AgentId, from: Option<&Position>) -> Result<ViewerId> {
    let (begin, next) = bounds(core, agent)?;
    let start = match from {
        Some(from) if from.epoch == core.viewers.epoch() && (begin..=next).contains(&from.number) => from.number,
        _ => filled_bounds(core, agent)?.0,
    };
    Ok(core.viewers.open(agent, start))
}

/// See [`crate::repl::Repl::attach_to_last`].
pub(in crate::repl) fn attach_to_last(core: &mut Core, agent: AgentId, count: u64) -> Result<ViewerId> {
    let (begin, next) = bounds(core, agent)?;
    if next - begin < count {
        filled_bounds(core, agent)?;
    }
    let oldest = core.roster.get(agent).map_or(next, |agent| agent.output.oldest());
    Ok(core.viewers.open(agent, oldest.max(next.saturating_sub(count))))
}

/// Attaches a viewer that begins with the chunk of this number.
pub(in crate::repl) fn open(core: &mut Core, agent: AgentId, chunk: u64) -> ViewerId {
    core.viewers.open(agent, chunk)
}

pub(in crate::repl) fn close(core: &mut Core, viewer: ViewerId) {
    core.viewers.close(viewer);
}

/// See [`crate::repl::Repl::read`].
pub(in crate::repl) fn read(core: &mut Core, viewer: ViewerId, most: usize) -> ViewerOutput {
    core.viewers.read(&core.roster, viewer, most)
}

/// Whether [`read`] would return something.
pub(in crate::repl) fn has_unread(core: &Core, viewer: ViewerId) -> bool {
    core.viewers.has_unread(&core.roster, viewer)
}

/// The number of the next chunk that a viewer reads.
pub(in crate::repl) fn next(core: &Core, viewer: ViewerId) -> Option<u64> {
    core.viewers.next(viewer)
}

/// The agent of a viewer.
pub(in crate::repl) fn agent(core: &Core, viewer: ViewerId) -> Option<AgentId> {
    core.viewers.agent(viewer)
}

/// Identifies this process: the numbers of chunks are valid only with the epoch of their process.
pub(in crate::repl) fn epoch(core: &Core) -> &str {
    core.viewers.epoch()
}

/// How many viewers are attached.
pub(in crate::repl) fn count(core: &Core) -> usize {
    core.viewers.count()
}

/// Keeps the output of a removed agent, with these last chunks, for its viewers.
pub(super) fn keep_last_chunks(core: &mut Core, mut agent: Agent, last: &[Chunk]) {
    if core.viewers.is_open(agent.id()) {
        last.iter().for_each(|chunk| agent.emit_aside(chunk));
        core.viewers.keep(agent.id(), agent.output);
    }
}

/// The numbers of the first chunk that the agent's ring ever held and of its next chunk.
pub(in crate::repl) fn bounds(core: &Core, agent: AgentId) -> Result<(u64, u64)> {
    let agent = core.roster.get(agent).filter(|agent| agent.role != Role::Summary).ok_or_else(agent_gone)?;
    Ok((agent.output.begin(), agent.output.next()))
}

/// Like [`bounds`], after stored messages were added at the front as far as they fit.
pub(in crate::repl) fn filled_bounds(core: &mut Core, agent: AgentId) -> Result<(u64, u64)> {
    while let Some(before) = core.roster.get(agent).and_then(|agent| agent.output.load_before()) {
        let page = core.store.tail(agent, before, PAGE)?;
        core.roster.with(agent, |agent| agent.output.fill(&page, page.len() < PAGE));
    }
    bounds(core, agent)
}

#[cfg(test)]
/// The removed agents whose output is kept.
pub(in crate::repl) fn gone(core: &Core) -> Vec<AgentId> {
    core.viewers.gone().to_vec()
}

/// Attaches a viewer that begins with the newest `count` messages of an agent.
pub(in crate::repl) fn attach_to_last_messages(core: &mut Core, agent: AgentId, count: u64) -> Result<ViewerId> {
    let (_, next) = filled_bounds(core, agent)?;
    let begin = core.roster.get(agent).and_then(|agent| begin_of_last(count, agent.output.newest()));
    Ok(core.viewers.open(agent, begin.unwrap_or(next)))
}
