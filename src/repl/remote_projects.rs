//! Reads what the project of a place brings, for agents that were loaded from the store: their first request waits for it. The
//! place of a new environment is read when it is entered.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::base::id::AgentId;
use crate::repl::component::{Command, Component};
use crate::repl::core::Core;
use crate::repl::core::programs::waits_for_slot;
use crate::repl::event::Event;
use crate::tools::Running;
use crate::tools::remote::{Remote, RemoteProject, look};

struct Search {
    remote: Arc<Remote>,
    running: Running,
    found: Receiver<RemoteProject>,
}

#[derive(Default)]
pub(super) struct RemoteProjects {
    running: Vec<Search>,
    /// Agents whose request waits.
    held: BTreeSet<AgentId>,
}

impl RemoteProjects {
    /// Whether the request of an agent has to wait, because it is not known what the project at its place brings. It joins the
    /// send queue when that is known, or cannot be.
    pub(super) fn hold(&mut self, core: &Core, agent: AgentId) -> bool {
        let Some(remote) = core.roster.get(agent).and_then(|agent| agent.inputs.environment.remote.clone()) else {
            return false;
        };
        if core.factory.environments.knows_project(&remote) {
            return false;
        }
        if !self.is_searching(&remote) {
            // Without a thread the agent goes on as it is.
            let Ok((running, found)) = look(Arc::clone(&remote), Arc::clone(&core.waker)) else { return false };
            self.running.push(Search { remote, running, found });
        }
        self.held.insert(agent);
        true
    }

    fn is_searching(&self, remote: &Remote) -> bool {
        self.running.iter().any(|search| search.remote.project_key() == remote.project_key())
    }

    fn release(&mut self, core: &mut Core) {
        let is_free = |agent: &AgentId| {
            let remote = core.roster.get(*agent).and_then(|agent| agent.inputs.environment.remote.as_ref());
            remote.is_none_or(|remote| !self.is_searching(remote))
        };
        let free: Vec<AgentId> = self.held.iter().copied().filter(is_free).collect();
        for agent in free {
            self.held.remove(&agent);
            if core.roster.get(agent).is_some_and(waits_for_slot) {
                core.join_send_queue(agent);
            }
        }
    }
}

/// Gives what was found to the agents that work there.
fn learn(core: &mut Core, remote: &Remote, project: RemoteProject) {
    core.factory.environments.learn_project(remote, project);
    for id in core.roster.ids() {
        let environments = &core.factory.environments;
        core.roster.with(id, |agent| {
            let inputs = &mut agent.inputs;
            let is_there = |other: &Arc<Remote>| other.project_key() == remote.project_key();
            if inputs.environment.remote.as_ref().is_some_and(is_there) {
                let has_own_instructions = *inputs.system != *inputs.environment.instructions;
                let mut environment = Arc::clone(&inputs.environment);
                environments.instruct(Arc::make_mut(&mut environment));
                let system = (*environment.instructions).into();
                inputs.move_to(environment, system, has_own_instructions);
            }
        });
    }
}

impl Component for RemoteProjects {
    fn on_event(&mut self, event: &Event, _: &mut Core) {
        if let Event::Removed { agent, .. } | Event::Interrupted { agent, .. } = event {
            self.held.remove(agent);
        }
    }

    fn step(&mut self, core: &mut Core, _: &mut Vec<Command>) {
        let done: Vec<Search> = self.running.extract_if(.., |search| search.running.is_complete()).collect();
        if done.is_empty() {
            return;
        }
        for Search { remote, running, found } in done {
            drop(running.collect());
            learn(core, &remote, found.try_recv().unwrap_or_default());
        }
        self.release(core);
    }
}
