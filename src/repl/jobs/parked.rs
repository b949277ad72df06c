//! Changes that wait until an agent's tools are done.

use crate::agent::{State, Wait};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::change::{Change, Fork, ForkPlace};
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::repl::core::drafts;
use crate::repl::core::spawn::{Inherit, Spawn};
use crate::repl::core::{Core, agent_gone};
use crate::repl::jobs::Jobs;
use crate::store::QueueId;
use crate::team::ResolvedEnvironment;

pub(in crate::repl) struct Parked {
    pub agent: AgentId,
    pub origin: Origin,
    pub change: Change,
    /// The line that was typed, if it had arguments.
    pub line: Option<String>,
    /// Where that is stored meanwhile.
    stored: Option<QueueId>,
}

impl Parked {
    /// It is about to be made or cancelled. If its line stays stored, the next start says that it was not made.
    pub(super) fn not_stored(mut self, core: &Core) -> Self {
        let _ = self.stored.take().map(|id| core.store().drop_parked(id));
        self
    }
}

impl Jobs {
    /// `/fork`: a busy agent is forked after its last complete exchange, or, if the child inherits the open one too, when
    /// the tools of the reply are done.
    pub(in crate::repl) fn fork(&mut self, core: &mut Core, origin: Origin, agent: AgentId, fork: Fork) -> Result<()> {
        if must_wait(core, agent, &fork)? {
            return self.park(core, origin, agent, Change::Fork(fork));
        }
        match fork.place.clone() {
            None => spawn_fork(core, origin, agent, fork, None).map(drop),
            Some(ForkPlace::Environment(spec)) => self.fork_into_environment(core, (origin, agent), fork, &spec),
            Some(ForkPlace::NewWorktree) => self.fork_into_worktree(core, (origin, agent), fork),
        }
    }

    /// Parks a change until the tools of this reply have ended; the loop continues.
    pub(super) fn park(&mut self, core: &mut Core, origin: Origin, agent: AgentId, change: Change) -> Result<()> {
        if self.parked.iter().any(|parked| parked.agent == agent) {
            return Err(Error::usage(format!("{} already in progress", change.name())));
        }
        let line = line_of(&change);
        let stored = match &line {
            Some(line) if !core.store().is_read_only() => {
                Some(core.store().park_line(agent, line, core.clock().unix_ms())?)
            }
            _ => None,
        };
        core.note(
            agent,
            LineKind::Note,
            &format!("/{} waits until the tools are done (Esc cancels it)", change.name()),
        );
        self.parked.push(Parked { agent, origin, change, line, stored });
        Ok(())
    }

    /// Takes the change that is parked for this agent.
    pub(in crate::repl) fn take_parked(&mut self, core: &Core, agent: AgentId) -> Option<Parked> {
        let index = self.parked.iter().position(|parked| parked.agent == agent)?;
        Some(self.parked.remove(index).not_stored(core))
    }

    /// A parked change could not be carried out.
    pub(in crate::repl) fn on_parked_failed(&mut self, core: &mut Core, parked: &Parked) {
        self.release_for(core, &parked.change, parked.agent);
        if let Some(line) = &parked.line {
            drafts::return_refused(core, parked.agent, parked.origin, line);
        }
    }

    /// Sets the line that was typed for a parked change.
    pub(super) fn set_parked_line(&mut self, core: &Core, agent: AgentId, line: String) {
        let Some(parked) = self.parked.iter_mut().find(|parked| parked.agent == agent) else { return };
        if let Some(id) = parked.stored.take() {
            let _ = core.store().drop_parked(id);
            parked.stored = core.store().park_line(agent, &line, core.clock().unix_ms()).ok();
        }
        parked.line = Some(line);
    }

    /// Cancels the parked change, and returns its line to the draft.
    pub(super) fn cancel_parked(&mut self, core: &mut Core, agent: AgentId) {
        self.cancel_worktree(core, agent);
        self.cancel_reaching(core, agent);
        let Some(parked) = self.take_parked(core, agent) else { return };
        core.note(agent, LineKind::Note, &format!("cancelled /{}", parked.change.name()));
        self.release_for(core, &parked.change, parked.agent);
        if let Some(line) = &parked.line {
            drafts::return_line(core, parked.agent, parked.origin, line);
        }
    }
}

/// Whether a fork includes what tools are still working at.
pub(super) fn must_wait(core: &Core, agent: AgentId, fork: &Fork) -> Result<bool> {
    let agent = core.agent(agent).ok_or_else(agent_gone)?;
    if fork.includes_current && matches!(agent.wait(), Wait::Hooks) {
        return Err(Error::usage("hooks have not let the message pass yet: fork when it is sent, or without it"));
    }
    Ok(fork.includes_current && agent.state().is_at_calls())
}

/// Creates the child of a fork, in this environment or in that of its parent.
pub(super) fn spawn_fork(
    core: &mut Core,
    origin: Origin,
    agent: AgentId,
    fork: Fork,
    environment: Option<(Option<AgentId>, ResolvedEnvironment)>,
) -> Result<AgentId> {
    let is_idle = core.agent(agent).ok_or_else(agent_gone)?.state() == State::Idle;
    let Fork { prompt, name, model, definition, inherits_nothing, includes_current, stays, place: _ } = fork;
    let inherit = match inherits_nothing {
        true => Inherit::Nothing,
        false if includes_current || is_idle => Inherit::All,
        false => Inherit::BeforeTurn,
    };
    let (id, environment) = environment.map_or((None, None), |(id, resolved)| (id, Some(resolved)));
    let spawn = Spawn { stays, id, environment, ..Spawn::new(agent, origin, inherit) };
    core.spawn(Spawn { prompt, name, model, definition, ..spawn })
}

/// The line that was typed for this change; none if it was no fork.
fn line_of(change: &Change) -> Option<String> {
    if let Change::Fork(fork) = change { Some(typed_line(fork)) } else { None }
}

/// The line that was typed for a fork.
pub(super) fn typed_line(fork: &Fork) -> String {
    let Fork { prompt, name, model, definition, inherits_nothing, includes_current, stays, place } = fork;
    if let Some(ForkPlace::Environment(spec)) = place {
        return format!("/env {spec}");
    }
    let name = name.as_ref().map(|name| format!(" --name {name}"));
    let model = model.as_ref().map(|model| format!(" --model {model}"));
    let definition = definition.as_ref().map(|definition| format!(" --as {definition}"));
    let stay = stays.then(|| " --stay".to_owned());
    let current = includes_current.then(|| " --include-current".to_owned());
    let worktree = place.as_ref().map(|_| " --worktree".to_owned());
    let prompt = prompt.as_ref().map(|prompt| match prompt.starts_with('-') {
        true => format!(" -- {prompt}"),
        false => format!(" {prompt}"),
    });
    let arguments: String = [current, worktree, name, model, definition, stay, prompt].into_iter().flatten().collect();
    format!("/{}{arguments}", if *inherits_nothing { "new" } else { "fork" })
}
