//! Changes that wait until an agent's tools are done.

use crate::agent::State;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::flow::{Change, Origin};
use crate::domain::scrollback::LineKind;
use crate::repl::core::spawn::{Inherit, Spawn};
use crate::repl::core::{Core, agent_gone};
use crate::repl::jobs::Jobs;

pub(in crate::repl) struct Parked {
    pub agent: AgentId,
    pub origin: Origin,
    pub change: Change,
    /// The line that was typed, if it had arguments.
    pub line: Option<String>,
}

impl Jobs {
    /// `/fork`: an agent whose tools are running is forked when they are done.
    pub(in crate::repl) fn fork(
        &mut self,
        core: &mut Core,
        origin: Origin,
        agent: AgentId,
        prompt: Option<String>,
        name: Option<String>,
        model: Option<String>,
    ) -> Result<()> {
        let parent = core.roster.get(agent).ok_or_else(agent_gone)?;
        if matches!(parent.state(), State::ExecutingTool | State::AwaitingApproval) {
            return self.park(core, origin, agent, Change::Fork { prompt, name, model });
        }
        core.spawn(Spawn { prompt, name, model, ..Spawn::new(agent, origin, Inherit::All) }).map(drop)
    }

    /// Parks a change until the tools of this reply are done; the loop goes on.
    ///
    /// # Errors
    /// Another one is parked already.
    pub(super) fn park(&mut self, core: &mut Core, origin: Origin, agent: AgentId, change: Change) -> Result<()> {
        if self.parked.iter().any(|parked| parked.agent == agent) {
            return Err(Error::usage(format!("{} already in progress", change.name())));
        }
        core.note(
            agent,
            LineKind::Note,
            &format!("/{} waits until the tools are done (Esc cancels it)", change.name()),
        );
        let line = line_of(&change);
        self.parked.push(Parked { agent, origin, change, line });
        Ok(())
    }

    /// Takes the change that is parked for this agent.
    pub(in crate::repl) fn take_parked(&mut self, agent: AgentId) -> Option<Parked> {
        let index = self.parked.iter().position(|parked| parked.agent == agent)?;
        Some(self.parked.remove(index))
    }

    /// A parked change could not be carried out.
    pub(in crate::repl) fn on_parked_failed(&mut self, core: &mut Core, parked: &Parked) {
        self.release_for(core, &parked.change, parked.agent);
        if let Some(line) = &parked.line {
            core.return_text(parked.agent, line);
        }
    }

    /// Sets the line that was typed for a parked change.
    pub(super) fn set_parked_line(&mut self, agent: AgentId, line: String) {
        if let Some(parked) = self.parked.iter_mut().find(|parked| parked.agent == agent) {
            parked.line = Some(line);
        }
    }

    /// Cancels the parked change, and returns its line to the draft.
    pub(super) fn cancel_parked(&mut self, core: &mut Core, agent: AgentId) {
        self.cancel_worktree(core, agent);
        let Some(parked) = self.take_parked(agent) else { return };
        core.note(agent, LineKind::Note, &format!("cancelled /{}", parked.change.name()));
        self.on_parked_failed(core, &parked);
    }
}

/// The line that was typed for this change; none if it had no arguments.
fn line_of(change: &Change) -> Option<String> {
    if let Change::Environment(spec) = change {
        return Some(format!("/env {spec}"));
    }
    let Change::Fork { prompt, name, model } = change else { return None };
    let name = name.as_ref().map(|name| format!(" --name {name}"));
    let model = model.as_ref().map(|model| format!(" --model {model}"));
    let prompt = prompt.as_ref().map(|prompt| format!(" {prompt}"));
    let arguments: String = [name, model, prompt].into_iter().flatten().collect();
    (!arguments.is_empty()).then(|| format!("/fork{arguments}"))
}
