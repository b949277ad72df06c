//! `/land` and `/diff` of agents that work in a git worktree.

use std::path::PathBuf;

use crate::agent::State;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::file_change::LandRequest;
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::repl::core::{Core, drafts, file_steps};
use crate::repl::event::Event;
use crate::repl::jobs::Jobs;
use crate::repl::jobs::tasks::Kind;
use crate::team::changes::other_changes;
use crate::tools::{Job, branch_diff, landing};

impl Jobs {
    /// Brings the work in the worktree of an agent, which may have been killed, to the branch that it left.
    pub(super) fn land(
        &mut self,
        core: &mut Core,
        origin: Origin,
        shown_at: AgentId,
        agent: AgentId,
        request: LandRequest,
    ) -> Result<()> {
        let label = core.roster().label_of(agent);
        let none = || Error::usage(format!("{label} does not work in a git worktree of its own (/fork --worktree)"));
        let root = file_steps::worktree_of(core, agent).ok_or_else(none)?;
        let is_busy = |id: &AgentId| core.agent(*id).is_some_and(|agent| agent.state() != State::Idle);
        let there = core.roster().iter().filter(|agent| agent.inputs.environment.worktree.as_ref() == Some(&root));
        if let Some(busy) = there.map(|agent| agent.id()).find(is_busy) {
            let label = core.roster().label_of(busy);
            return Err(Error::usage(format!("{label} is at work in the worktree: wait, or press Esc there")));
        }
        if self.tasks.is_running_in(Kind::Land, &root) {
            return Err(Error::usage("merge already in progress"));
        }
        let environment = core.factory_mut().environments.usual().environment;
        let line = line_of(core, shown_at, agent, &request);
        let (task, there) = ((Kind::Land, agent, Some(root.clone())), root.clone());
        let work = move |job: &Job| landing::land(&there, &request, &environment, job);
        self.tasks.spawn(core, task, work, move |jobs, core, outcome| {
            if outcome.is_ok() {
                jobs.on_landed(core, agent, root, shown_at);
            }
            report(core, origin, shown_at, &line, outcome.map_err(Error::usage));
        })
    }

    /// Compares the worktree of an agent with its base; false if the agent works in none.
    pub(in crate::repl) fn diff(
        &mut self,
        core: &mut Core,
        origin: Origin,
        shown_at: AgentId,
        agent: AgentId,
    ) -> Result<bool> {
        let Some(root) = file_steps::worktree_of(core, agent) else { return Ok(false) };
        let elsewhere = match file_steps::snapshots(core) {
            Ok(snapshots) => other_changes(core.store(), &snapshots, agent, &root)?,
            Err(_) => String::new(),
        };
        let environment = core.factory_mut().environments.usual().environment;
        let task = (Kind::Diff, agent, Some(root.clone()));
        let work = move |job: &Job| branch_diff::diff(&root, &environment, job);
        self.tasks.spawn(core, task, work, move |_, core, outcome| {
            let outcome = outcome.map(|text| format!("{text}{elsewhere}")).map_err(Error::usage);
            report(core, origin, shown_at, "", outcome);
        })?;
        Ok(true)
    }

    fn on_landed(&mut self, core: &mut Core, agent: AgentId, root: PathBuf, shown_at: AgentId) {
        let text = "The user landed the commits of this worktree. Files may have changed, read them again before you edit them.";
        file_steps::tell_model(core, agent, Some(text.to_owned()));
        if core.agent(agent).is_none() {
            // Nothing would be lost with it any more.
            self.release_worktree(root, shown_at);
        }
    }
}

/// Shows a person or a client the outcome of a task. If it failed, the typed line becomes the draft again, unless it is
/// empty; a client still has it.
pub(super) fn report(core: &mut Core, origin: Origin, shown_at: AgentId, line: &str, outcome: Result<String>) {
    match (origin, outcome) {
        (Origin::Client(client), outcome) => core.emit(Event::ClientJobEnded { client, outcome }),
        (_, Ok(text)) => core.note(shown_at, LineKind::Note, &text),
        (_, Err(error)) => {
            if !line.is_empty() {
                drafts::return_refused(core, shown_at, origin, line);
            }
            core.note(shown_at, LineKind::Error, &error.message);
        }
    }
}

/// The line to type again.
fn line_of(core: &Core, typed_at: AgentId, agent: AgentId, request: &LandRequest) -> String {
    let name = || core.agent(agent).and_then(|agent| agent.identity.name.clone()).unwrap_or_else(|| agent.short());
    let named = if typed_at == agent { String::new() } else { format!(" {}", name()) };
    let rebase = if request.is_rebase { " --rebase" } else { "" };
    let commit = request.commit.as_ref().map(|message| format!(" --commit {message}")).unwrap_or_default();
    let verify = if request.verifies { " --verify" } else { "" };
    format!("/land{named}{rebase}{verify}{commit}")
}
