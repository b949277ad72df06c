//! Reads the project at a place, for agents that were loaded from the store: their first request waits for it. The
//! place of a new environment is read when it is entered.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::base::id::AgentId;
use crate::domain::scrollback::LineKind;
use crate::repl::core::Core;
use crate::repl::core::programs::request_again;
use crate::repl::jobs::Jobs;
use crate::repl::jobs::tasks::Kind;
use crate::tools::remote::{Remote, RemoteProject};
use crate::tools::{Job, Outcome};

#[derive(Default)]
pub(super) struct RemoteProjects {
    /// Those that are being read, by [`Remote::project_key`].
    reading: BTreeSet<String>,
    /// Agents whose request waits, for a project or for a landing.
    held: BTreeSet<AgentId>,
}

impl RemoteProjects {
    pub fn holds(&self, agent: AgentId) -> bool {
        self.held.contains(&agent)
    }

    pub fn release(&mut self, agent: AgentId) {
        self.held.remove(&agent);
    }
}

impl Jobs {
    /// Whether the request of an agent has to wait because the project at its place has not been read yet. It is made again
    /// once the project has been read, or cannot be.
    pub(super) fn holds_for_project(&mut self, core: &Core, agent: AgentId) -> bool {
        let Some(remote) = core.agent(agent).and_then(|agent| agent.inputs.environment.remote.clone()) else {
            return false;
        };
        if core.factory().environments.knows_project(&remote) {
            return false;
        }
        let key = remote.project_key();
        if !self.projects.reading.contains(&key) {
            let place = Arc::clone(&remote);
            let work = move |job: &Job| Ok(RemoteProject::read(&place, job));
            let then = move |jobs: &mut Self, core: &mut Core, project: Outcome<RemoteProject>| {
                jobs.projects.reading.remove(&remote.project_key());
                learn(core, &remote, project.unwrap_or_default());
                jobs.release_held(core);
            };
            // Without a thread the agent continues without it.
            if self.tasks.spawn(core, (Kind::ReadProject, agent, None), work, then).is_err() {
                return false;
            }
            self.projects.reading.insert(key);
        }
        self.projects.held.insert(agent);
        true
    }

    /// Whether the request of an agent has to wait because its worktree is being landed: what it would change there would be
    /// left behind.
    pub(super) fn holds_for_landing(&mut self, core: &mut Core, agent: AgentId) -> bool {
        let root = core.agent(agent).and_then(|agent| agent.inputs.environment.worktree.as_deref());
        let is_landing = root.is_some_and(|root| self.tasks.is_running_in(Kind::Land, root));
        if is_landing && self.projects.held.insert(agent) {
            core.note(agent, LineKind::Note, "waiting: the worktree is being landed");
        }
        is_landing
    }

    pub(super) fn release_held(&mut self, core: &mut Core) {
        let Self { projects: RemoteProjects { reading, held }, tasks, .. } = self;
        let is_free = |agent: &AgentId| {
            let environment = core.agent(*agent).map(|agent| &agent.inputs.environment);
            let remote = environment.and_then(|environment| environment.remote.as_ref());
            let root = environment.and_then(|environment| environment.worktree.as_deref());
            remote.is_none_or(|remote| !reading.contains(&remote.project_key()))
                && root.is_none_or(|root| !tasks.is_running_in(Kind::Land, root))
        };
        let free: Vec<AgentId> = held.extract_if(.., is_free).collect();
        for agent in free {
            request_again(core, agent);
        }
    }
}

/// Gives the project to the agents that work there.
fn learn(core: &mut Core, remote: &Remote, project: RemoteProject) {
    core.factory_mut().environments.learn_project(remote, project);
    for id in core.roster().ids() {
        let is_there = |other: &Arc<Remote>| other.project_key() == remote.project_key();
        let environment = core.agent(id).map(|agent| &agent.inputs.environment);
        let there = environment.filter(|environment| environment.remote.as_ref().is_some_and(is_there));
        let Some(mut environment) = there.cloned() else { continue };
        core.factory().environments.instruct(Arc::make_mut(&mut environment));
        core.edit(id, |agent| {
            let inputs = &mut agent.inputs;
            let has_own_instructions = *inputs.system != *inputs.environment.instructions;
            let system = (*environment.instructions).into();
            inputs.move_to(environment, system, has_own_instructions);
        });
    }
}
