//! `/env`: children in other environments, and the git worktrees that some of them work in.

use std::path::{Path, PathBuf};

use crate::agent::{Agent, State};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::change::Change;
use crate::domain::environment::EnvironmentSpec;
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::repl::core::drafts::return_refused;
use crate::repl::core::file_steps::tell_model;
use crate::repl::core::spawn::{Inherit, Spawn};
use crate::repl::core::{Core, agent_gone, remove};
use crate::repl::jobs::Jobs;
use crate::repl::jobs::tasks::Kind;
use crate::store::AgentRow;
use crate::team::{Resolution, ResolvedEnvironment};
use crate::tools::worktree::{self, Added};
use crate::tools::{Job, Outcome};

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
        let parent = core.agent(agent).ok_or_else(agent_gone)?;
        if matches!(parent.state(), State::ExecutingTool | State::AwaitingApproval) {
            return self.park(core, origin, agent, Change::Environment(spec));
        }
        let current = parent.inputs.environment.clone();
        match core.factory_mut().environments.find(&spec, &current)? {
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
        let root = core.factory_mut().environments.new_worktree_path(AgentId::random())?;
        core.factory_mut().environments.note_origin(&root, &directory)?;
        let environment = core.factory_mut().environments.usual().environment;
        core.note(agent, LineKind::Note, &format!("creating a git worktree of {}", directory.display()));
        let (task, there) = ((Kind::AddWorktree, agent, Some(root.clone())), root.clone());
        let work = move |job: &Job| worktree::add(&directory, &there, &environment, job);
        self.tasks.spawn(core, task, work, move |jobs, core, outcome| {
            jobs.on_worktree_made(core, (origin, agent), &spec, root, outcome);
        })?;
        core.edit(agent, |agent| agent.makes_worktree = true);
        Ok(())
    }

    pub(super) fn is_making_worktree(&self, agent: AgentId) -> bool {
        self.tasks.is_running(Kind::AddWorktree, agent)
    }

    pub(super) fn cancel_worktree(&mut self, core: &mut Core, agent: AgentId) {
        if self.is_making_worktree(agent) {
            self.tasks.cancel(Kind::AddWorktree, agent);
            core.edit(agent, |agent| agent.makes_worktree = false);
            core.note(agent, LineKind::Note, "cancelled the worktree");
        }
    }

    /// Git may have made it nevertheless.
    pub(super) fn on_worktree_cancelled(&mut self, core: &mut Core, root: PathBuf, agent: AgentId) {
        if root.exists() {
            self.release_worktree(root, agent);
        } else {
            core.factory_mut().environments.forget_origin(&root);
        }
    }

    /// Starts the removal of unused worktrees, once no tool of a removed agent can write there.
    pub(super) fn remove_unused_worktrees(&mut self, core: &mut Core) {
        if !remove::is_draining(core) && !self.tasks.has_any(&[Kind::Land, Kind::Diff]) {
            for UnusedWorktree { root, adopter } in std::mem::take(&mut self.unused_worktrees) {
                self.remove_worktree(core, root, adopter);
            }
        }
    }

    fn on_worktree_made(
        &mut self,
        core: &mut Core,
        (origin, agent): (Origin, AgentId),
        spec: &EnvironmentSpec,
        root: PathBuf,
        made: Outcome<Added>,
    ) {
        core.edit(agent, |agent| agent.makes_worktree = false);
        let Added { directory, incomplete } = match made {
            Ok(added) => added,
            Err(why) => {
                core.factory_mut().environments.forget_origin(&root);
                core.note(agent, LineKind::Error, &format!("cannot create a worktree: {why}"));
                return return_refused(core, agent, origin, &format!("/env {spec}"));
            }
        };
        let there = spec.in_directory(Some(&directory));
        if let Err(error) = self.enter_environment(core, origin, agent, there.to_string()) {
            core.note(agent, LineKind::Error, &error.message);
            return self.release_worktree(root, agent);
        }
        if !incomplete.is_empty() {
            let is_there = |agent: &&Agent| agent.inputs.environment.worktree.as_ref() == Some(&root);
            // Until the tools are done there is no child.
            let shown_at = core.roster().iter().find(is_there).map_or(agent, Agent::id);
            core.note(shown_at, LineKind::Mark, &incomplete);
            tell_model(core, shown_at, (shown_at != agent).then(|| format!("In this worktree {incomplete}.")));
        }
        // If the change is parked now, its line is what the user typed, without the new directory.
        self.set_parked_line(core, agent, format!("/env {spec}"));
    }

    /// Finds worktrees of agents that were never stored because the program crashed. A read-only process leaves them alone:
    /// another process may be creating them.
    pub(in crate::repl) fn find_unused_worktrees(&mut self, core: &mut Core, adopter: AgentId) {
        if core.store().is_read_only() {
            return;
        }
        for (id, root) in core.factory().environments.worktrees() {
            if core.store().agent(id) == Ok(None) {
                self.release_worktree(root, adopter);
            }
        }
        self.remove_unused_worktrees(core);
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
        let root = directory.and_then(|path| core.factory().environments.worktree_around(path.as_ref()));
        if let Some(root) = root {
            self.release_worktree(root, adopter);
        }
    }

    fn remove_worktree(&mut self, core: &mut Core, root: PathBuf, agent: AgentId) {
        if core.roster().iter().any(|agent| agent.inputs.environment.worktree.as_ref() == Some(&root))
            || has_archived_agent(core, &root)
        {
            return;
        }
        let environment = core.factory_mut().environments.usual().environment;
        let (task, there) = ((Kind::RemoveWorktree, agent, Some(root.clone())), root.clone());
        let work = move |job: &Job| worktree::remove(&there, &environment, job);
        let removed = self.tasks.spawn(core, task, work, move |_, core, outcome| {
            if !root.exists() {
                core.factory_mut().environments.forget_origin(&root);
            }
            let (Ok(text) | Err(text)) = outcome;
            core.note(agent, LineKind::Note, &text);
        });
        if let Err(error) = removed {
            core.note(agent, LineKind::Error, &format!("cannot remove a worktree: {error}"));
        }
    }
}

/// Whether an archived agent would work in a worktree when it is brought back; also true if that cannot be read.
fn has_archived_agent(core: &Core, root: &Path) -> bool {
    let is_there = |row: &AgentRow| {
        let spec = row.environment.as_deref().and_then(|text| text.parse::<EnvironmentSpec>().ok());
        spec.and_then(|spec| spec.directory).is_some_and(|directory| Path::new(&directory).starts_with(root))
    };
    core.store().archived_agents().map_or(true, |archived| archived.agents.iter().any(is_there))
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
        Some(id) if core.store().agent(id)?.is_none() => Some(id),
        _ => None,
    })
}
