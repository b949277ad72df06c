//! `/env`: children in other environments, and the git worktrees that some of them work in.

use std::path::{Path, PathBuf};

use crate::agent::Agent;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::change::{Change, Fork, ForkPlace};
use crate::domain::environment::{EnvironmentSpec, WORKTREE};
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::repl::core::drafts::return_refused;
use crate::repl::core::file_steps::{environment_of_git, tell_model};
use crate::repl::core::{Core, agent_gone, remove};
use crate::repl::jobs::Jobs;
use crate::repl::jobs::parked::{spawn_fork, typed_line};
use crate::repl::jobs::tasks::Kind;
use crate::store::AgentRow;
use crate::team::{Resolution, ResolvedEnvironment};
use crate::tools::worktree::{self, AddedWorktree};
use crate::tools::{Job, Outcome};

/// A worktree to make, and what for.
struct NewWorktree {
    fork: Fork,
    /// The environment of the child, without a directory.
    spec: EnvironmentSpec,
    /// In the repository.
    directory: PathBuf,
    /// The suffix of the first name to try: 1 is `fix`, 2 is `fix-2`.
    number: usize,
}

/// A worktree in which no agent works any more.
pub(super) struct UnusedWorktree {
    root: PathBuf,
    /// The agent that gets the note about its removal.
    adopter: AgentId,
}

impl Jobs {
    /// Creates a child in another environment: at once, or when git has created the worktree or a machine is reached.
    pub(super) fn fork_into_environment(
        &mut self,
        core: &mut Core,
        (origin, agent): (Origin, AgentId),
        fork: Fork,
        spec: &str,
    ) -> Result<()> {
        let current = core.agent(agent).ok_or_else(agent_gone)?.inputs.environment.clone();
        match core.factory_mut().environments.find(spec, &current)? {
            Resolution::Ready(resolved) if resolved.environment.spec == current.spec => {
                core.note(agent, LineKind::Note, &format!("this agent is already in {}", current.spec));
                Ok(())
            }
            Resolution::Ready(resolved) => fork_in(core, origin, agent, fork, resolved),
            Resolution::Worktree(..) if self.is_making_worktree(agent) => {
                Err(Error::usage("a worktree is already being created: Esc cancels it"))
            }
            Resolution::Worktree(spec, directory) => {
                self.make_worktree(core, (origin, agent), NewWorktree { fork, spec, directory, number: 1 })
            }
            Resolution::Remote(spec, directory) => self.reach(core, (origin, agent), fork, spec, directory),
        }
    }

    /// Creates a child in a new worktree, when git has created that.
    pub(super) fn fork_into_worktree(
        &mut self,
        core: &mut Core,
        (origin, agent): (Origin, AgentId),
        fork: Fork,
    ) -> Result<()> {
        let here = &core.agent(agent).ok_or_else(agent_gone)?.inputs.environment;
        if let Some(remote) = &here.remote {
            return Err(Error::usage(format!("git worktrees are made on this machine only, not at {}", remote.place)));
        }
        let (spec, directory) = (WORKTREE.parse()?, here.working_directory.clone());
        self.make_worktree(core, (origin, agent), NewWorktree { fork, spec, directory, number: 1 })
    }

    fn make_worktree(&mut self, core: &mut Core, (origin, agent): (Origin, AgentId), new: NewWorktree) -> Result<()> {
        let name = name_of_worktree(core, agent, &new.fork);
        let (id, environments) = (AgentId::random(), &core.factory().environments);
        let (root, number) = environments.new_worktree_path(&new.directory, &name, new.number)?;
        environments.record_origin(&root, &new.directory, id)?;
        let environment = environment_of_git(core);
        let shown = worktree::name_of(&root).unwrap_or_else(|| root.display().to_string());
        core.note(agent, LineKind::Mark, &format!("creating the git worktree {shown}"));
        let (task, there) = ((Kind::AddWorktree, agent, Some(root.clone())), root.clone());
        let directory = new.directory.clone();
        let is_in = |project: &PathBuf| core.factory().environments.is_in(&directory, project);
        let extras = core.config().worktree_extras(is_in);
        let work = move |job: &Job| worktree::add(&directory, &there, &extras, &environment, job);
        self.tasks.spawn(core, task, work, move |jobs, core, outcome| {
            jobs.on_worktree_made(core, (origin, agent), NewWorktree { number, ..new }, root, outcome);
        })?;
        self.update_makes_worktree(core, agent);
        Ok(())
    }

    /// Updates the flag by which Esc cancels a worktree in progress.
    fn update_makes_worktree(&self, core: &mut Core, agent: AgentId) {
        let is_making = self.is_making_worktree(agent) || self.is_reaching(agent);
        core.edit(agent, |agent| agent.makes_worktree = is_making);
    }

    pub(super) fn is_making_worktree(&self, agent: AgentId) -> bool {
        self.tasks.is_running(Kind::AddWorktree, agent)
    }

    pub(super) fn cancel_worktree(&mut self, core: &mut Core, agent: AgentId) {
        if self.is_making_worktree(agent) {
            self.tasks.cancel(Kind::AddWorktree, agent);
            self.update_makes_worktree(core, agent);
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
        if !remove::is_draining(core) && !self.tasks.has_any(&[Kind::Land, Kind::Discard, Kind::Diff]) {
            for UnusedWorktree { root, adopter } in std::mem::take(&mut self.unused_worktrees) {
                self.remove_worktree(core, root, adopter);
            }
        }
    }

    fn on_worktree_made(
        &mut self,
        core: &mut Core,
        (origin, agent): (Origin, AgentId),
        new: NewWorktree,
        root: PathBuf,
        made: Outcome<AddedWorktree>,
    ) {
        self.update_makes_worktree(core, agent);
        let line = typed_line(&new.fork);
        let (directory, incomplete) = match made {
            Ok(AddedWorktree::Added { directory, incomplete }) => (directory, incomplete),
            Ok(AddedWorktree::BranchExists) if new.fork.name.is_none() => {
                core.factory_mut().environments.forget_origin(&root);
                let next = NewWorktree { number: new.number + 1, ..new };
                if let Err(error) = self.make_worktree(core, (origin, agent), next) {
                    core.note(agent, LineKind::Error, &error.message);
                    return_refused(core, agent, origin, &line);
                }
                return;
            }
            Ok(AddedWorktree::BranchExists) => {
                let branch = worktree::branch_of(&root);
                let why = format!("the branch {branch} exists: choose another --name, or delete it with git branch -d");
                return self.on_worktree_failed(core, (origin, agent), &root, &line, &why);
            }
            Err(why) => return self.on_worktree_failed(core, (origin, agent), &root, &line, &why),
        };
        let there = new.spec.in_directory(Some(&directory)).to_string();
        let fork = Fork { place: Some(ForkPlace::Environment(there)), ..new.fork };
        if let Err(error) = self.fork(core, origin, agent, fork) {
            core.note(agent, LineKind::Error, &error.message);
            return_refused(core, agent, origin, &line);
            return self.release_worktree(root, agent);
        }
        if !incomplete.is_empty() {
            // Until the tools are done there is no child.
            let shown_at = core.roster().in_worktree(&root).next().map_or(agent, Agent::id);
            core.note(shown_at, LineKind::Mark, &incomplete);
            tell_model(core, shown_at, (shown_at != agent).then(|| format!("In this worktree {incomplete}.")));
        }
        // If the change is parked now, its line is what the user typed, without the new directory.
        self.set_parked_line(core, agent, line);
    }

    fn on_worktree_failed(
        &mut self,
        core: &mut Core,
        (origin, agent): (Origin, AgentId),
        root: &Path,
        line: &str,
        why: &str,
    ) {
        core.factory_mut().environments.forget_origin(root);
        core.note(agent, LineKind::Error, &format!("cannot create a worktree: {why}"));
        return_refused(core, agent, origin, line);
    }

    /// Finds worktrees of agents that were never stored because the program crashed. A read-only process leaves them alone:
    /// another process may be creating them.
    pub(in crate::repl) fn find_unused_worktrees(&mut self, core: &mut Core, adopter: AgentId) {
        if core.store().is_read_only() {
            return;
        }
        core.factory().environments.remove_scratch();
        self.recover_landings(core, adopter);
        for (id, root) in core.factory().environments.worktrees() {
            if core.store().agent(id) == Ok(None) {
                self.release_worktree(root, adopter);
            }
        }
        self.remove_unused_worktrees(core);
    }

    /// Marks a worktree as unused; it is removed once no agent works in it.
    pub(in crate::repl) fn release_worktree(&mut self, root: PathBuf, adopter: AgentId) {
        if self.unused_worktrees.iter().all(|unused| unused.root != root) {
            self.unused_worktrees.push(UnusedWorktree { root, adopter });
        }
    }

    /// Releases the worktree that was created for a parked change.
    pub(super) fn release_for(&mut self, core: &Core, change: &Change, adopter: AgentId) {
        let Change::Fork(Fork { place: Some(ForkPlace::Environment(text)), .. }) = change else { return };
        let directory = text.parse::<EnvironmentSpec>().ok().and_then(|spec| spec.directory);
        let root = directory.and_then(|path| core.factory().environments.worktree_around(path.as_ref()));
        if let Some(root) = root {
            self.release_worktree(root, adopter);
        }
    }

    fn remove_worktree(&mut self, core: &mut Core, root: PathBuf, agent: AgentId) {
        // A second removal would see what the first has already deleted as changes.
        if !root.exists()
            || self.tasks.is_running_in(Kind::RemoveWorktree, &root)
            || core.roster().in_worktree(&root).next().is_some()
            || has_archived_agent(core, &root)
        {
            return;
        }
        let environment = environment_of_git(core);
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

/// Creates the child of a fork in an environment that is ready.
pub(super) fn fork_in(
    core: &mut Core,
    origin: Origin,
    parent: AgentId,
    fork: Fork,
    resolved: ResolvedEnvironment,
) -> Result<()> {
    let environment = resolved.environment.clone();
    let mut message = format!(
        "environment {}: {} in {}",
        environment.spec.split('@').next().unwrap_or_default(),
        text::counted(environment.tools.len(), "tool", "tools"),
        environment.place_name().unwrap_or_else(|| environment.place().display().to_string())
    );
    if let Some(root) = &environment.worktree {
        message.push_str(&format!(", branch {}", worktree::branch_of(root)));
    }
    let id = id_of_worktree(core, environment.worktree.as_deref())?;
    let child = spawn_fork(core, origin, parent, fork, Some((id, resolved)))?;
    core.note(child, LineKind::Note, &message);
    Ok(())
}

/// The agent that a worktree was made for, if it does not exist yet.
fn id_of_worktree(core: &Core, worktree: Option<&Path>) -> Result<Option<AgentId>> {
    let id = worktree.and_then(|root| core.factory().environments.agent_of_worktree(root));
    Ok(match id {
        Some(id) if core.store().agent(id)?.is_none() => Some(id),
        _ => None,
    })
}

/// The name for the worktree of a fork: that of the agent, or else the first words of the prompt, or else of the parent's
/// title.
fn name_of_worktree(core: &Core, parent: AgentId, fork: &Fork) -> String {
    let title = || core.agent(parent).map(|agent| agent.title.clone()).unwrap_or_default();
    let first = fork.name.as_deref().or(fork.prompt.as_deref());
    let named = first.map_or_else(|| worktree::name_from(&title()), worktree::name_from);
    if named.is_empty() { "work".to_owned() } else { named }
}
