//! Edits of a history, which may wait in the agent's queue. Their effect on the store comes first, in one transaction with
//! leaving the queue; memory follows when that is committed.

use crate::agent::Agent;
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, MessageId};
use crate::domain::change::HistoryEdit;
use crate::domain::flow::Origin;
use crate::domain::history::History;
use crate::domain::message::{Body, Message};
use crate::repl::Repl;
use crate::repl::core::log::count_context;
use crate::repl::core::{Core, agent_gone, drafts};
use crate::repl::jobs::StagedSlice;
use crate::repl::terminals::show_again;
use crate::store::input_line;

/// An edit that is in the store and not yet in memory.
pub(super) enum Staged {
    Log(Vec<Message>),
    Slice(StagedSlice),
    /// A compaction for this goal; nothing of it is stored so far.
    Compact(Origin, Option<String>),
}

/// Writes an edit to the store. Memory is unchanged.
pub(super) fn stage(core: &mut Core, origin: Origin, agent: AgentId, edit: &HistoryEdit) -> Result<Staged> {
    let body = match edit {
        HistoryEdit::Clear => Body::Clear,
        HistoryEdit::UndoClear => Body::ClearUndone(clear_to_undo(core, agent)?),
        HistoryEdit::Compact(goal) => return Ok(Staged::Compact(origin, goal.clone())),
        HistoryEdit::UndoCompact => Body::CompactionUndone(compaction_to_undo(core, agent)?),
        HistoryEdit::Mark(label) => Body::Mark(label.clone()),
        HistoryEdit::Rewind(label) => Body::Rewind(rewind_target(core, agent, label.as_deref())?),
        HistoryEdit::RewindTo { after, .. } => Body::Rewind(*after),
        HistoryEdit::Slice(spec) => return StagedSlice::stage(core, origin, agent, spec).map(Staged::Slice),
    };
    core.append_event(agent, body).map(Staged::Log)
}

/// The mark to rewind to. Marks are not inherited: inherited messages end at the fork point or before it.
fn rewind_target(core: &mut Core, agent: AgentId, label: Option<&str>) -> Result<MessageId> {
    core.load(agent)?;
    let agent = core.agent(agent).ok_or_else(agent_gone)?;
    let history = agent.inputs.history.as_ref().ok_or_else(agent_gone)?;
    history.find_mark(label, agent.identity.fork_point).ok_or_else(|| {
        let message = match label {
            Some(label) => format!("no mark {label:?} to rewind to: /mark LABEL sets one"),
            None => "no mark to rewind to: /mark sets one".into(),
        };
        Error::usage(message)
    })
}

/// The `clear` that `/clear undo` takes back.
fn clear_to_undo(core: &Core, agent: AgentId) -> Result<MessageId> {
    let nothing = || Error::usage("nothing to undo: there is no /clear of this agent");
    core.store().newest_clear(agent)?.ok_or_else(nothing)
}

/// The compaction that `/compact undo` takes back.
fn compaction_to_undo(core: &mut Core, agent: AgentId) -> Result<MessageId> {
    core.load(agent)?;
    let history = core.agent(agent).and_then(|agent| agent.inputs.history.as_ref());
    let nothing = || Error::usage("nothing to undo: this conversation is not compacted");
    history.ok_or_else(agent_gone)?.newest_compaction().ok_or_else(nothing)
}

impl Repl {
    /// Applies an edit at once.
    pub(super) fn edit_history(&mut self, origin: Origin, agent: AgentId, edit: HistoryEdit) -> Result<()> {
        let staged = stage(&mut self.core, origin, agent, &edit)?;
        self.install(agent, staged)?;
        if let HistoryEdit::RewindTo { text: Some(text), .. } = edit {
            drafts::return_text(&mut self.core, agent, origin, &input_line(&text));
        }
        Ok(())
    }

    /// Reads a conversation again; its older messages may be in the store only.
    fn read_again(&mut self, agent: AgentId) -> Result<()> {
        let lacks = |history: &History| history.lacks_undone_clear();
        let is_cut = |agent: &Agent| agent.inputs.history.as_ref().is_none_or(lacks);
        if self.core.agent(agent).is_some_and(is_cut) {
            self.core.edit(agent, |agent| agent.inputs.history = None);
            self.core.load(agent)?;
            show_again(&mut self.core, agent);
        }
        Ok(())
    }

    /// Applies the staged change in memory.
    pub(super) fn install(&mut self, agent: AgentId, staged: Staged) -> Result<()> {
        match staged {
            Staged::Log(messages) => {
                let is_undone = |message: &Message| matches!(message.body, Body::ClearUndone(_));
                let brings_back = messages.iter().any(is_undone);
                self.core.remember(agent, messages);
                if brings_back {
                    self.read_again(agent)?;
                }
                count_context(&mut self.core, agent);
                Ok(())
            }
            Staged::Compact(origin, goal) => self.jobs.compact(&mut self.core, origin, agent, goal),
            Staged::Slice(slice) => self.jobs.install_slice(&mut self.core, agent, slice),
        }
    }
}
