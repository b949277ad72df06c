//! `/land` and `/diff` of agents that work in a git worktree.

use std::path::PathBuf;
use std::sync::Arc;

use crate::agent::State;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::file_change::LandRequest;
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::repl::core::{Core, drafts, file_steps};
use crate::repl::event::Event;
use crate::repl::jobs::Jobs;
use crate::team::changes::other_changes;
use crate::tools::{Running, branch_diff, landing};

/// A git command that runs on a thread for a person.
pub(super) struct LandingJob {
    running: Running,
    origin: Origin,
    /// Where it was asked for.
    shown_at: AgentId,
    agent: AgentId,
    root: PathBuf,
    kind: Kind,
}

enum Kind {
    /// With the line that was typed.
    Land(String),
    /// With what git cannot show.
    Diff(String),
}

impl Jobs {
    /// Brings the work in the worktree of an agent, which may have been killed, to the branch that it left.
    ///
    /// # Errors
    /// It has none, or an agent works there.
    pub(in crate::repl) fn land(
        &mut self,
        core: &mut Core,
        origin: Origin,
        shown_at: AgentId,
        agent: AgentId,
        request: LandRequest,
    ) -> Result<()> {
        let label = core.roster.label_of(agent);
        let none = || Error::usage(format!("{label} does not work in a git worktree of its own (/env worktree)"));
        let root = file_steps::worktree_of(core, agent).ok_or_else(none)?;
        let is_busy = |id: &AgentId| core.roster.get(*id).is_some_and(|agent| agent.state() != State::Idle);
        let there = core.roster.iter().filter(|agent| agent.inputs.environment.worktree.as_ref() == Some(&root));
        if let Some(busy) = there.map(|agent| agent.id()).find(is_busy) {
            let label = core.roster.label_of(busy);
            return Err(Error::usage(format!("{label} is at work in the worktree: wait, or press Esc there")));
        }
        let is_same = |job: &LandingJob| job.root == root && matches!(job.kind, Kind::Land(_));
        if self.landings.iter().any(is_same) {
            return Err(Error::usage("the worktree is being landed already"));
        }
        let environment = core.factory.environments.usual().environment;
        let line = line_of(core, shown_at, agent, &request);
        let running = landing::land(root.clone(), request, environment, Arc::clone(&core.waker))?;
        self.landings.push(LandingJob { running, origin, shown_at, agent, root, kind: Kind::Land(line) });
        Ok(())
    }

    /// Compares the worktree of an agent with where it left; false if the agent works in none.
    ///
    /// # Errors
    /// The store cannot be read, or no thread is left.
    pub(in crate::repl) fn diff(
        &mut self,
        core: &mut Core,
        origin: Origin,
        shown_at: AgentId,
        agent: AgentId,
    ) -> Result<bool> {
        let Some(root) = file_steps::worktree_of(core, agent) else { return Ok(false) };
        let elsewhere = match file_steps::snapshots(core) {
            Ok(snapshots) => other_changes(&core.store, &snapshots, agent, &root)?,
            Err(_) => String::new(),
        };
        let environment = core.factory.environments.usual().environment;
        let running = branch_diff::diff(root.clone(), environment, Arc::clone(&core.waker))?;
        let kind = Kind::Diff(elsewhere);
        self.landings.push(LandingJob { running, origin, shown_at, agent, root, kind });
        Ok(true)
    }

    /// Shows what has ended.
    pub(super) fn poll_landings(&mut self, core: &mut Core) {
        let done: Vec<LandingJob> = self.landings.extract_if(.., |job| job.running.is_complete()).collect();
        for job in done {
            let LandingJob { running, origin, shown_at, agent, root, kind } = job;
            let result = running.collect();
            let text = result.content.to_string();
            let outcome = match (result.is_error, kind) {
                (true, Kind::Land(line)) => {
                    // A client has it still.
                    if !matches!(origin, Origin::Client(_)) {
                        drafts::return_refused(core, shown_at, origin, &line);
                    }
                    Err(Error::usage(text))
                }
                (true, Kind::Diff(_)) => Err(Error::usage(text)),
                (false, Kind::Diff(elsewhere)) => Ok(format!("{text}{elsewhere}")),
                (false, Kind::Land(_)) => {
                    self.on_landed(core, agent, root, shown_at);
                    Ok(text)
                }
            };
            report(core, origin, shown_at, outcome);
        }
    }

    fn on_landed(&mut self, core: &mut Core, agent: AgentId, root: PathBuf, shown_at: AgentId) {
        let text = "The user landed the commits of this worktree. Files may have changed, read them again before you edit them.";
        file_steps::tell_model(core, agent, Some(text.to_owned()));
        if core.roster.get(agent).is_none() {
            // Nothing would be lost with it any more.
            self.release_worktree(root, shown_at);
        }
    }
}

pub(super) fn report(core: &mut Core, origin: Origin, shown_at: AgentId, outcome: Result<String>) {
    match (origin, outcome) {
        (Origin::Client(client), outcome) => core.emit(Event::ClientJobEnded { client, outcome }),
        (_, Ok(text)) => core.note(shown_at, LineKind::Note, &text),
        (_, Err(error)) => core.note(shown_at, LineKind::Error, &error.message),
    }
}

/// The line to type again.
fn line_of(core: &Core, typed_at: AgentId, agent: AgentId, request: &LandRequest) -> String {
    let name = || core.roster.get(agent).and_then(|agent| agent.identity.name.clone()).unwrap_or_else(|| agent.short());
    let named = if typed_at == agent { String::new() } else { format!(" {}", name()) };
    let rebase = if request.is_rebase { " --rebase" } else { "" };
    let commit = request.commit.as_ref().map(|message| format!(" --commit {message}")).unwrap_or_default();
    let verify = if request.verifies { " --verify" } else { "" };
    format!("/land{named}{rebase}{verify}{commit}")
}
