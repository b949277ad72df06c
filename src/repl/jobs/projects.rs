//! Reads the project at a place, for agents that were loaded from the store: their first request waits for it. The
//! place of a new environment is read when it is entered.

use std::sync::Arc;

use crate::base::id::AgentId;
use crate::repl::core::Core;
use crate::repl::jobs::Jobs;
use crate::repl::jobs::tasks::Kind;
use crate::tools::remote::{Remote, RemoteProject};
use crate::tools::{Job, Outcome};

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
        if !self.reading_projects.contains(&key) {
            let place = Arc::clone(&remote);
            let work = move |job: &Job| Ok(RemoteProject::read(&place, job));
            let then = move |jobs: &mut Self, core: &mut Core, project: Outcome<RemoteProject>| {
                jobs.reading_projects.remove(&remote.project_key());
                learn(core, &remote, project.unwrap_or_default());
                jobs.release_held(core);
            };
            // Without a thread the agent continues without it.
            if self.tasks.spawn(core, (Kind::ReadProject, agent, None), work, then).is_err() {
                return false;
            }
            self.reading_projects.insert(key);
        }
        self.held.insert(agent);
        true
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
