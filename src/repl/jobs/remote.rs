//! `/env ssh:HOST:DIR` and `/env container:IMAGE`: a thread connects, and then the child is created.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::agent::State;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::environment::EnvironmentSpec;
use crate::domain::flow::{Change, Origin};
use crate::domain::remote_place::RemotePlace;
use crate::domain::scrollback::LineKind;
use crate::repl::core::Core;
use crate::repl::jobs::Jobs;
use crate::repl::jobs::worktree::spawn_in;
use crate::team::Reaching;
use crate::tools::Running;
use crate::tools::remote::{Connection, Remote, RemoteProject};

/// A place that a thread tries to reach.
pub(super) struct RemoteJob {
    running: Running,
    /// Kept until the child has it.
    connection: Arc<Connection>,
    /// What the project there brings.
    project: Receiver<RemoteProject>,
    agent: AgentId,
    origin: Origin,
    spec: EnvironmentSpec,
    /// The directory of the agent on this machine.
    directory: PathBuf,
}

impl Jobs {
    pub(super) fn reach(
        &mut self,
        core: &mut Core,
        origin: Origin,
        agent: AgentId,
        spec: EnvironmentSpec,
        directory: PathBuf,
    ) -> Result<()> {
        if self.is_reaching(agent) || self.is_making_worktree(agent) {
            return Err(Error::usage("another environment is already being entered: Esc cancels it"));
        }
        let Reaching { running, connection, project } =
            core.factory.environments.reach(&spec, &directory, Arc::clone(&core.waker))?;
        let note = match &spec.remote {
            Some(RemotePlace::Ssh { host, .. }) => format!("connecting to {host}"),
            _ => "starting the container (its image may have to be fetched)".to_owned(),
        };
        core.note(agent, LineKind::Note, &note);
        self.remotes.push(RemoteJob { running, connection, project, agent, origin, spec, directory });
        core.roster.with(agent, |agent| agent.makes_worktree = true);
        Ok(())
    }

    pub(super) fn is_reaching(&self, agent: AgentId) -> bool {
        self.remotes.iter().any(|job| job.agent == agent && !job.running.has_been_cancelled())
    }

    pub(super) fn cancel_reaching(&mut self, core: &mut Core, agent: AgentId) {
        if self.is_reaching(agent) {
            self.remotes.iter().filter(|job| job.agent == agent).for_each(|job| job.running.cancel());
            core.roster.with(agent, |agent| agent.makes_worktree = false);
            core.note(agent, LineKind::Note, "cancelled the environment");
        }
    }

    pub(super) fn poll_remotes(&mut self, core: &mut Core) {
        let done: Vec<RemoteJob> = self.remotes.extract_if(.., |job| job.running.is_complete()).collect();
        for RemoteJob { running, connection, project, agent, origin, spec, directory } in done {
            let is_unwanted = running.has_been_cancelled();
            let result = running.collect();
            if is_unwanted {
                continue;
            }
            core.roster.with(agent, |agent| agent.makes_worktree = false);
            let entered = match (result.is_error, &spec.remote) {
                (false, Some(place)) => {
                    let place = place.with_directory(&result.content);
                    let remote = Remote::new(place.clone(), &directory, Arc::clone(&connection));
                    core.factory.environments.learn_project(&remote, project.try_recv().unwrap_or_default());
                    self.enter(core, (origin, agent), spec.at(place), directory)
                }
                _ => Err(Error::usage(result.content)),
            };
            if let Err(error) = entered {
                core.note(agent, LineKind::Error, &error.message);
            }
            drop(connection);
        }
    }

    fn enter(
        &mut self,
        core: &mut Core,
        (origin, agent): (Origin, AgentId),
        spec: EnvironmentSpec,
        directory: PathBuf,
    ) -> Result<()> {
        let Some(parent) = core.roster.get(agent) else { return Ok(()) };
        if matches!(parent.state(), State::ExecutingTool | State::AwaitingApproval) {
            return self.park(core, origin, agent, Change::Environment(spec.to_string()));
        }
        let current = parent.inputs.environment.spec.clone();
        let resolved = core.factory.environments.elsewhere(&spec, directory)?;
        if resolved.environment.spec == current {
            core.note(agent, LineKind::Note, &format!("this agent is already in {current}"));
            return Ok(());
        }
        spawn_in(core, origin, agent, resolved)
    }
}
