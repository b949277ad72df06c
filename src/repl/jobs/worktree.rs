//! `/env`: children in other environments, and the git worktrees that some of them work in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::agent::{Agent, State};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::environment::EnvironmentSpec;
use crate::domain::flow::{Change, Origin};
use crate::domain::scrollback::LineKind;
use crate::domain::tool::ToolResult;
use crate::repl::core::drafts::return_refused;
use crate::repl::core::file_steps::tell_model;
use crate::repl::core::spawn::{Inherit, Spawn};
use crate::repl::core::{Core, agent_gone};
use crate::repl::jobs::Jobs;
use crate::store::AgentRow;
use crate::team::{Resolution, ResolvedEnvironment};
use crate::tools::{Running, worktree};

/// A git command that runs on a thread.
pub(super) struct WorktreeJob {
    running: Running,
    root: PathBuf,
    agent: AgentId,
    origin: Origin,
    /// The environment for which the worktree is created; none if it is removed.
    spec: Option<EnvironmentSpec>,
}

/// A worktree in which no agent works any more.
pub(super) struct UnusedWorktree {
    root: PathBuf,
    /// The agent that gets the note about its removal.
    adopter: AgentId,
}

impl Jobs {
    /// Creates a child in another environment: at once, when the agent's tools are done, or when git has created the
    /// worktree.
    pub(in crate::repl) fn enter_environment(
        &mut self,
        core: &mut Core,
        origin: Origin,
        agent: AgentId,
        spec: String,
    ) -> Result<()> {
        let parent = core.roster.get(agent).ok_or_else(agent_gone)?;
        if matches!(parent.state(), State::ExecutingTool | State::AwaitingApproval) {
            return self.park(core, origin, agent, Change::Environment(spec));
        }
        let current = parent.inputs.environment.clone();
        match core.factory.environments.find(&spec, &current)? {
            Resolution::Ready(resolved) if resolved.environment.spec == current.spec => {
                core.note(agent, LineKind::Note, &format!("this agent is already in {}", current.spec));
                Ok(())
            }
            Resolution::Ready(resolved) => spawn_in(core, origin, agent, resolved),
            Resolution::Worktree(spec, directory) => self.make_worktree(core, origin, agent, spec, directory),
            Resolution::Remote(spec, directory) => self.reach(core, origin, agent, spec, directory),
        }
    }

    fn make_worktree(
        &mut self,
        core: &mut Core,
        origin: Origin,
        agent: AgentId,
        spec: EnvironmentSpec,
        directory: PathBuf,
    ) -> Result<()> {
        if self.is_making_worktree(agent) {
            return Err(Error::usage("a worktree is already being created: Esc cancels it"));
        }
        let root = core.factory.environments.new_worktree_path(AgentId::random())?;
        core.factory.environments.note_origin(&root, &directory)?;
        let environment = core.factory.environments.usual().environment;
        core.note(agent, LineKind::Note, &format!("creating a git worktree of {}", directory.display()));
        let running = worktree::add(directory, root.clone(), environment, Arc::clone(&core.waker))?;
        self.worktrees.push(WorktreeJob { running, root, agent, origin, spec: Some(spec) });
        core.roster.with(agent, |agent| agent.makes_worktree = true);
        Ok(())
    }

    pub(super) fn is_making_worktree(&self, agent: AgentId) -> bool {
        let is_wanted = |job: &WorktreeJob| job.spec.is_some() && !job.running.has_been_cancelled();
        self.worktrees.iter().any(|job| job.agent == agent && is_wanted(job))
    }

    pub(super) fn cancel_worktree(&mut self, core: &mut Core, agent: AgentId) {
        if self.is_making_worktree(agent) {
            let jobs = self.worktrees.iter().filter(|job| job.agent == agent && job.spec.is_some());
            jobs.for_each(|job| job.running.cancel());
            core.roster.with(agent, |agent| agent.makes_worktree = false);
            core.note(agent, LineKind::Note, "cancelled the worktree");
        }
    }

    /// Handles the git commands that have ended, and starts the removal of unused worktrees.
    pub(super) fn poll_git(&mut self, core: &mut Core) {
        let done: Vec<WorktreeJob> = self.worktrees.extract_if(.., |job| job.running.is_complete()).collect();
        for WorktreeJob { running, root, agent, origin, spec } in done {
            let is_unwanted = running.has_been_cancelled();
            let result = running.collect();
            if !root.exists() {
                core.factory.environments.forget_origin(&root);
            }
            match spec {
                Some(_) if is_unwanted && result.is_error => {}
                Some(_) if is_unwanted => self.release_worktree(root, agent),
                Some(spec) => self.on_worktree_made(core, origin, agent, &spec, root, &result),
                None => core.note(agent, LineKind::Note, &result.content),
            }
        }
        // Before that, tools of removed agents may still write there.
        if core.draining.is_empty() && self.landings.is_empty() {
            for UnusedWorktree { root, adopter } in std::mem::take(&mut self.unused_worktrees) {
                self.remove_worktree(core, root, adopter);
            }
        }
    }

    fn on_worktree_made(
        &mut self,
        core: &mut Core,
        origin: Origin,
        agent: AgentId,
        spec: &EnvironmentSpec,
        root: PathBuf,
        made: &ToolResult,
    ) {
        core.roster.with(agent, |agent| agent.makes_worktree = false);
        if made.is_error {
            core.note(agent, LineKind::Error, &format!("cannot create a worktree: {}", made.content));
            return return_refused(core, agent, origin, &format!("/env {spec}"));
        }
        let (directory, missing) = made.content.split_once(worktree::END_OF_PATH).unwrap_or((&made.content, ""));
        let there = spec.in_directory(Some(directory.as_ref()));
        if let Err(error) = self.enter_environment(core, origin, agent, there.to_string()) {
            core.note(agent, LineKind::Error, &error.message);
            return self.release_worktree(root, agent);
        }
        if !missing.is_empty() {
            let is_there = |agent: &&Agent| agent.inputs.environment.worktree.as_ref() == Some(&root);
            // Until the tools are done there is no child.
            let shown_at = core.roster.iter().find(is_there).map_or(agent, Agent::id);
            core.note(shown_at, LineKind::Mark, missing);
            tell_model(core, shown_at, (shown_at != agent).then(|| format!("In this worktree {missing}.")));
        }
        // If the change is parked now, its line is what the user typed, without the new directory.
        self.set_parked_line(core, agent, format!("/env {spec}"));
    }

    /// Finds worktrees of agents that were never stored because the program crashed. A read-only process leaves them alone:
    /// another process may be creating them.
    pub(in crate::repl) fn find_unused_worktrees(&mut self, core: &mut Core, adopter: AgentId) {
        if core.store.is_read_only() {
            return;
        }
        for (id, root) in core.factory.environments.worktrees() {
            if core.store.agent(id) == Ok(None) {
                self.release_worktree(root, adopter);
            }
        }
        self.poll_git(core);
    }

    /// Marks a worktree as unused; it is removed once no agent works in it.
    pub(super) fn release_worktree(&mut self, root: PathBuf, adopter: AgentId) {
        if self.unused_worktrees.iter().all(|unused| unused.root != root) {
            self.unused_worktrees.push(UnusedWorktree { root, adopter });
        }
    }

    /// Releases the worktree that was created for a parked change.
    pub(super) fn release_for(&mut self, core: &Core, change: &Change, adopter: AgentId) {
        let Change::Environment(text) = change else { return };
        let directory = text.parse::<EnvironmentSpec>().ok().and_then(|spec| spec.directory);
        let root = directory.and_then(|path| core.factory.environments.worktree_around(path.as_ref()));
        if let Some(root) = root {
            self.release_worktree(root, adopter);
        }
    }

    fn remove_worktree(&mut self, core: &mut Core, root: PathBuf, agent: AgentId) {
        if core.roster.iter().any(|agent| agent.inputs.environment.worktree.as_ref() == Some(&root))
            || has_archived_agent(core, &root)
        {
            return;
        }
        let environment = core.factory.environments.usual().environment;
        match worktree::remove(root.clone(), environment, Arc::clone(&core.waker)) {
            Ok(running) => {
                self.worktrees.push(WorktreeJob { running, root, agent, origin: Origin::Internal, spec: None });
            }
            Err(error) => {
                core.note(agent, LineKind::Error, &format!("cannot remove the worktree {}: {error}", root.display()))
            }
        }
    }
}

/// Whether an archived agent works in a worktree when it is brought back; also if that cannot be read.
fn has_archived_agent(core: &Core, root: &Path) -> bool {
    let is_there = |row: &AgentRow| {
        let spec = row.environment.as_deref().and_then(|text| text.parse::<EnvironmentSpec>().ok());
        spec.and_then(|spec| spec.directory).is_some_and(|directory| Path::new(&directory).starts_with(root))
    };
    core.store.archived_agents().map_or(true, |archived| archived.agents.iter().any(is_there))
}

/// Creates a child in an environment that is ready.
pub(super) fn spawn_in(core: &mut Core, origin: Origin, parent: AgentId, resolved: ResolvedEnvironment) -> Result<()> {
    let environment = resolved.environment.clone();
    let mut message = format!(
        "environment {}: {} in {}",
        environment.spec,
        text::counted(environment.tools.len(), "tool", "tools"),
        environment.place().display()
    );
    if let Some(root) = &environment.worktree {
        message.push_str(&format!(", branch {}", worktree::branch_of(root)));
    }
    let id = id_of_worktree(core, environment.worktree.as_ref())?;
    let child = core.spawn(Spawn { id, environment: Some(resolved), ..Spawn::new(parent, origin, Inherit::All) })?;
    core.note(child, LineKind::Note, &message);
    Ok(())
}

/// The agent that a worktree was made for, if it does not exist yet.
fn id_of_worktree(core: &Core, worktree: Option<&PathBuf>) -> Result<Option<AgentId>> {
    let id = worktree.and_then(|root| root.file_name()?.to_str()?.parse().ok());
    Ok(match id {
        Some(id) if core.store.agent(id)?.is_none() => Some(id),
        _ => None,
    })
}
