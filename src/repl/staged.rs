//! Changes that may wait in an agent's queue. Their effect on the store comes first, in one transaction with leaving the
//! queue; memory follows when that is committed.

use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::flow::{Change, Origin};
use crate::domain::message::{Body, Message};
use crate::repl::Repl;
use crate::repl::core::{Core, agent_gone};
use crate::repl::jobs::StagedSlice;

/// A change that is in the store and not yet in memory.
pub(super) enum Staged {
    Log(Vec<Message>),
    Slice(StagedSlice),
}

/// Writes a change to the store. Memory is unchanged.
pub(super) fn stage(core: &mut Core, origin: Origin, agent: AgentId, change: &Change) -> Result<Staged> {
    let body = match change {
        Change::Clear => Body::Clear,
        Change::Mark(label) => Body::Mark(label.clone()),
        Change::Rewind(label) => Body::Rewind(rewind_target(core, agent, label.as_deref())?),
        Change::Slice(spec) => return StagedSlice::stage(core, origin, agent, spec).map(Staged::Slice),
        other => {
            return Err(Error::usage(format!("/{} cannot be queued", other.name())));
        }
    };
    core.append_event(agent, body).map(Staged::Log)
}

/// The mark to go back to. Marks are not inherited: what is inherited lies at or before the fork point.
fn rewind_target(core: &mut Core, agent: AgentId, label: Option<&str>) -> Result<crate::base::id::MessageId> {
    core.load(agent)?;
    let agent = core.roster.get(agent).ok_or_else(agent_gone)?;
    let history = agent.inputs.history.as_ref().ok_or_else(agent_gone)?;
    history.find_mark(label, agent.identity.fork_point).ok_or_else(|| {
        let message = match label {
            Some(label) => format!("no mark {label:?} to rewind to"),
            None => "no mark to rewind to: /mark sets one".into(),
        };
        Error::usage(message)
    })
}

impl Repl {
    /// Brings memory up to what was staged.
    pub(super) fn install(&mut self, agent: AgentId, staged: Staged) -> Result<()> {
        match staged {
            Staged::Log(messages) => {
                self.core.remember(agent, messages);
                Ok(())
            }
            Staged::Slice(slice) => self.jobs.install_slice(&mut self.core, agent, slice),
        }
    }
}
