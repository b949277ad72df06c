//! Deletes agents: for a person, and those that were not used for as long as the configuration says.

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::chunk::{Chunk, Status};
use crate::domain::scrollback::LineKind;
use crate::repl::core::archive::require_at_rest;
use crate::repl::core::{Core, agent_gone, drafts, viewers};

/// Deletes an agent with the messages that no other agent inherits, and confirms it at the agent where this was
/// requested.
pub(in crate::repl) fn delete(core: &mut Core, asked_at: AgentId, id: AgentId) -> Result<()> {
    core.require_writable()?;
    let row = core.store.agent(id)?.ok_or_else(agent_gone)?;
    let parent = core.roster.parent(id);
    remove_everywhere(core, id)?;
    let shown_at = if asked_at == id { parent } else { Some(asked_at) };
    shown_at.into_iter().for_each(|at| core.note(at, LineKind::Mark, &format!("{} deleted", row.label())));
    Ok(())
}

/// Deletes at most `most` agents that were not used since `before`, in milliseconds since 1970, except those that are in
/// use. Returns whether there may be more.
pub(in crate::repl) fn delete_expired(
    core: &mut Core,
    before: i64,
    most: usize,
    is_in_use: impl Fn(AgentId) -> bool,
) -> Result<bool> {
    // The ones in use are few, so they do not hide the others for ever.
    let expired = core.store.expired(before, most * 4)?;
    let mut deleted = 0;
    for id in expired.into_iter().filter(|id| !is_in_use(*id)) {
        if deleted == most {
            return Ok(true);
        }
        deleted += usize::from(remove_everywhere(core, id).is_ok());
    }
    Ok(false)
}

/// Deletes a conversation in which nothing was written.
pub(super) fn delete_unwritten(core: &mut Core, id: AgentId) -> Result<()> {
    remove_everywhere(core, id)
}

fn remove_everywhere(core: &mut Core, id: AgentId) -> Result<()> {
    let adopter = match core.roster.get(id) {
        Some(_) => Some(require_at_rest(core, id, "deleted")?),
        None => None,
    };
    drafts::load(core, id);
    core.store.delete(&[id], core.clock.unix_ms())?;
    if adopter.is_some() {
        core.trees.on_removed(&core.roster, id, core.clock.steady_ms());
        if let Some(removed) = core.take_out(id, adopter, false) {
            viewers::keep_last_chunks(core, removed, &[Chunk::Mark("deleted".into()), Chunk::Status(Status::Dead)]);
        }
    }
    Ok(())
}
