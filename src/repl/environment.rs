//! `/env`: an agent's child in another environment, and the worktrees that some of them live in.
//!
//! ```text
//!   /env worktree ──▶ chore: git makes it, on a thread ──▶ /env worktree@PLACE ──▶ a child there
//!   the last who worked there dies ──▶ abandoned ──▶ chore: git removes it, or it is kept
//!   the program dies between git and the child ──▶ the next start finds it abandoned
//! ```
//!
//! As long as a chore is under way there is no child; an interrupt ends it and what it made.

use std::path::PathBuf;
use std::sync::Arc;

use crate::agent::State;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::environment::EnvironmentSpec;
use crate::domain::flow::{Change, Origin};
use crate::domain::scrollback::LineKind;
use crate::domain::tool::ToolResult;
use crate::repl::Repl;
use crate::repl::core::agent_gone;
use crate::team::{Resolution, ResolvedEnvironment};
use crate::tools::{Running, worktree};

/// What git does for the house.
pub(super) struct WorktreeJob {
    running: Running,
    root: PathBuf,
    /// Whom it concerns.
    agent_id: AgentId,
    /// The terminal from which it was asked for.
    origin: Origin,
    /// What the worktree is made for; none if it is removed.
    spec: Option<EnvironmentSpec>,
}

/// A worktree in which nobody works any more.
pub(super) struct UnusedWorktree {
    root: PathBuf,
    /// Who is told what becomes of it.
    adopter: AgentId,
}

impl Repl {
    /// A child in the environment of this specification: while the agent's tools run it waits for them, as a value.
    pub(super) fn environment_by_person(&mut self, origin: Origin, agent_id: AgentId, text: String) -> Result<()> {
        let agent = self.core.roster.get(agent_id).ok_or_else(agent_gone)?;
        if matches!(agent.state(), State::ExecutingTool | State::AwaitingApproval) {
            return self.park(origin, agent_id, Change::Environment(text));
        }
        let here = agent.talk.environment.clone();
        match self.core.factory.environments.find(&text, &here)? {
            Resolution::Ready(resolved) if resolved.environment.spec == here.spec => {
                self.core.note(agent_id, LineKind::Note, &format!("this agent is in {} already", here.spec));
                Ok(())
            }
            Resolution::Ready(resolved) => self.settle(origin, agent_id, resolved),
            Resolution::Worktree(spec, directory) => self.make_worktree(origin, agent_id, spec, directory),
        }
    }

    fn settle(&mut self, origin: Origin, agent_id: AgentId, resolved: ResolvedEnvironment) -> Result<()> {
        let here = resolved.environment.clone();
        let mut words =
            format!("environment {}: {} tools in {}", here.spec, here.tools.len(), here.working_directory.display());
        if let Some(root) = &here.worktree {
            words.push_str(&format!(", on the branch {}", worktree::branch_of(root)));
        }
        let id = self.id_of_worktree(resolved.environment.worktree.as_ref())?;
        let child = self.fork_into(origin, agent_id, id, resolved)?;
        self.core.note(child, LineKind::Note, &words);
        Ok(())
    }

    /// Whom a worktree was made for, if they are not born yet; else anybody.
    fn id_of_worktree(&self, worktree: Option<&PathBuf>) -> Result<AgentId> {
        let name = worktree.and_then(|root| root.file_name()?.to_str()?.parse().ok());
        Ok(match name {
            Some(id) if self.core.store.agent(id)?.is_none() => id,
            _ => AgentId::random(),
        })
    }

    fn make_worktree(
        &mut self,
        origin: Origin,
        agent_id: AgentId,
        spec: EnvironmentSpec,
        directory: PathBuf,
    ) -> Result<()> {
        if self.has_worktree_job(agent_id) {
            return Err(Error::new(ErrorKind::Usage, "a worktree is being made already: Esc ends that"));
        }
        let root = self.core.factory.environments.place_for_worktree(AgentId::random())?;
        let env = self.core.factory.environments.usual().environment;
        self.core.note(agent_id, LineKind::Note, &format!("git makes a worktree of {}", directory.display()));
        let running = worktree::add(directory, root.clone(), env, Arc::clone(&self.core.waker))?;
        self.worktree_jobs.push(WorktreeJob { running, root, agent_id, origin, spec: Some(spec) });
        Ok(())
    }

    /// Whether a worktree is being made for a child of this agent.
    pub(super) fn has_worktree_job(&self, agent_id: AgentId) -> bool {
        let is_wanted =
            |worktree_job: &WorktreeJob| worktree_job.spec.is_some() && !worktree_job.running.has_been_cancelled();
        self.worktree_jobs.iter().any(|worktree_job| worktree_job.agent_id == agent_id && is_wanted(worktree_job))
    }

    /// Whether git does something, or has to.
    pub(super) fn has_worktree_jobs(&self) -> bool {
        !self.worktree_jobs.is_empty() || !self.unused_worktrees.is_empty()
    }

    /// No child of this agent is wanted any more.
    pub(super) fn cancel_worktree_job(&mut self, agent_id: AgentId) {
        if self.has_worktree_job(agent_id) {
            self.worktree_jobs
                .iter()
                .filter(|one| one.agent_id == agent_id && one.spec.is_some())
                .for_each(|one| one.running.cancel());
            self.core.note(agent_id, LineKind::Note, "the worktree is not made");
        }
    }

    /// Goes on with what git has done, and lets it remove what is abandoned.
    pub(super) fn poll_worktree_jobs(&mut self) {
        let (done, under_way): (Vec<WorktreeJob>, _) = std::mem::take(&mut self.worktree_jobs)
            .into_iter()
            .partition(|worktree_job| worktree_job.running.is_complete());
        self.worktree_jobs = under_way;
        for WorktreeJob { running, root, agent_id, origin, spec } in done {
            let is_unwanted = running.has_been_cancelled();
            let result = running.collect();
            match spec {
                Some(_) if is_unwanted && result.is_error => {}
                Some(_) if is_unwanted => self.release_worktree(root, agent_id),
                Some(spec) => self.on_worktree(origin, agent_id, &spec, root, &result),
                None => self.core.note(agent_id, LineKind::Note, &result.content),
            }
        }
        // What the dead still run may write there.
        if self.core.draining.is_empty() {
            for UnusedWorktree { root, adopter } in std::mem::take(&mut self.unused_worktrees) {
                self.remove_worktree(root, adopter);
            }
        }
    }

    /// Git has made a worktree, or has not.
    fn on_worktree(
        &mut self,
        origin: Origin,
        agent_id: AgentId,
        spec: &EnvironmentSpec,
        root: PathBuf,
        made: &ToolResult,
    ) {
        if made.is_error {
            return self.core.note(agent_id, LineKind::Error, &format!("no worktree: {}", made.content));
        }
        let there = spec.in_directory(Some(made.content.as_ref()));
        if !self.apply_or_notify(origin, agent_id, Change::Environment(there.to_string())) {
            return self.release_worktree(root, agent_id);
        }
        // Where it has to wait for tools after all, the person has not typed the place that was made meanwhile.
        if let Some(parked) = self.parked.iter_mut().find(|parked| parked.agent_id == agent_id) {
            parked.line = Some(format!("/env {spec}"));
        }
    }

    /// At the start: a worktree for somebody whom the store does not know was made right before the program died. Whoever
    /// only looks leaves it to the process that may be making it.
    pub(super) fn find_unused_worktrees(&mut self, adopter: AgentId) {
        if self.core.store.is_read_only() {
            return;
        }
        for (id, root) in self.core.factory.environments.worktrees() {
            if self.core.store.agent(id) == Ok(None) {
                self.release_worktree(root, adopter);
            }
        }
        self.poll_worktree_jobs();
    }

    /// Somebody who worked there, or was to, is gone. Of several who go together one is enough: git is asked once.
    pub(super) fn release_worktree(&mut self, root: PathBuf, adopter: AgentId) {
        if self.unused_worktrees.iter().all(|unused_worktrees| unused_worktrees.root != root) {
            self.unused_worktrees.push(UnusedWorktree { root, adopter });
        }
    }

    /// A change that waited is not wanted any more: nor is the worktree that was made for it.
    pub(super) fn let_go(&mut self, change: &Change, adopter: AgentId) {
        let Change::Environment(text) = change else { return };
        let place = text.parse::<EnvironmentSpec>().ok().and_then(|spec| spec.directory);
        if let Some(root) = place.and_then(|place| self.core.factory.environments.worktree_around(place.as_ref())) {
            self.release_worktree(root, adopter);
        }
    }

    fn remove_worktree(&mut self, root: PathBuf, adopter: AgentId) {
        if self.core.roster.iter().any(|agent| agent.talk.environment.worktree.as_ref() == Some(&root)) {
            return;
        }
        let env = self.core.factory.environments.usual().environment;
        match worktree::remove(root.clone(), env, Arc::clone(&self.core.waker)) {
            Ok(running) => self.worktree_jobs.push(WorktreeJob {
                running,
                root,
                agent_id: adopter,
                origin: Origin::Internal,
                spec: None,
            }),
            Err(error) => self.core.note(adopter, LineKind::Error, &format!("{} is kept: {error}", root.display())),
        }
    }
}
