//! `/env ssh:HOST:DIR` and `/env container:IMAGE`: a thread connects, and then the child is created.

use std::path::PathBuf;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::change::{Change, Fork, ForkPlace};
use crate::domain::environment::EnvironmentSpec;
use crate::domain::flow::Origin;
use crate::domain::remote_place::RemotePlace;
use crate::domain::scrollback::LineKind;
use crate::repl::core::Core;
use crate::repl::jobs::Jobs;
use crate::repl::jobs::parked::must_wait;
use crate::repl::jobs::tasks::Kind;
use crate::repl::jobs::worktree::fork_in;
use crate::tools::Job;
use crate::tools::remote::{Remote, reach};

impl Jobs {
    pub(super) fn reach(
        &mut self,
        core: &mut Core,
        (origin, agent): (Origin, AgentId),
        fork: Fork,
        spec: EnvironmentSpec,
        directory: PathBuf,
    ) -> Result<()> {
        if self.is_reaching(agent) || self.is_making_worktree(agent) {
            return Err(Error::usage("another environment is already being entered: Esc cancels it"));
        }
        let place = spec.remote.clone().ok_or_else(|| Error::usage("no place is named"))?;
        let connection = core.factory_mut().environments.connection(&place, &directory)?;
        let note = match &spec.remote {
            Some(RemotePlace::Ssh { host, .. }) => format!("connecting to {host}"),
            _ => "starting the container (its image may have to be fetched)".to_owned(),
        };
        core.note(agent, LineKind::Note, &note);
        let (local, shared) = (directory.clone(), Arc::clone(&connection));
        let work = {
            let place = place.clone();
            move |job: &Job| reach(&place, &local, &shared, job)
        };
        self.tasks.spawn(core, (Kind::Connect, agent, None), work, move |jobs, core, outcome| {
            core.edit(agent, |agent| agent.makes_worktree = false);
            let entered = outcome.map_err(Error::usage).and_then(|(there, project)| {
                let place = place.with_directory(&there);
                // The connection is kept until the child has it.
                let remote = Remote::new(place.clone(), &directory, connection);
                core.factory_mut().environments.learn_project(&remote, project);
                jobs.enter(core, (origin, agent), fork, spec.at(place), directory)
            });
            if let Err(error) = entered {
                core.note(agent, LineKind::Error, &error.message);
            }
        })?;
        core.edit(agent, |agent| agent.makes_worktree = true);
        Ok(())
    }

    pub(super) fn is_reaching(&self, agent: AgentId) -> bool {
        self.tasks.is_running(Kind::Connect, agent)
    }

    pub(super) fn cancel_reaching(&mut self, core: &mut Core, agent: AgentId) {
        if self.is_reaching(agent) {
            self.tasks.cancel(Kind::Connect, agent);
            core.edit(agent, |agent| agent.makes_worktree = false);
            core.note(agent, LineKind::Note, "cancelled the environment");
        }
    }

    fn enter(
        &mut self,
        core: &mut Core,
        (origin, agent): (Origin, AgentId),
        fork: Fork,
        spec: EnvironmentSpec,
        directory: PathBuf,
    ) -> Result<()> {
        let Some(parent) = core.agent(agent) else { return Ok(()) };
        let current = parent.inputs.environment.spec.clone();
        if must_wait(core, agent, &fork)? {
            let fork = Fork { place: Some(ForkPlace::Environment(spec.to_string())), ..fork };
            return self.park(core, origin, agent, Change::Fork(fork));
        }
        let resolved = core.factory_mut().environments.remote_environment(&spec, directory)?;
        if resolved.environment.spec == current {
            core.note(agent, LineKind::Note, &format!("this agent is already in {current}"));
            return Ok(());
        }
        fork_in(core, origin, agent, fork, resolved)
    }
}
