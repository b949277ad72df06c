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
use crate::domain::environment::Spec;
use crate::domain::flow::Change;
use crate::domain::scrollback::LineKind;
use crate::domain::tool::ToolResult;
use crate::repl::apply::nobody;
use crate::repl::{Repl, SeatId};
use crate::team::{Home, Site};
use crate::tools::{Running, worktree};

/// What git does for the house.
pub(super) struct Chore {
    running: Running,
    root: PathBuf,
    /// Whom it concerns.
    who: AgentId,
    /// The terminal from which it was asked for.
    asker: Option<SeatId>,
    /// What the worktree is made for; none if it is removed.
    spec: Option<Spec>,
}

/// A worktree in which nobody works any more.
pub(super) struct Abandoned {
    root: PathBuf,
    /// Who is told what becomes of it.
    heir: AgentId,
}

impl Repl {
    /// A child in the environment of this specification: while the agent's tools run it waits for them, as a value.
    pub(super) fn environment_by_person(&mut self, asker: Option<SeatId>, who: AgentId, text: String) -> Result<()> {
        let agent = self.roster.get(who).ok_or_else(nobody)?;
        if matches!(agent.state(), State::ExecutingTool | State::AwaitingApproval) {
            return self.park(asker, who, Change::Environment(text));
        }
        let here = agent.talk.environment.clone();
        match self.shared.nursery.homes.find(&text, &here)? {
            Site::There(home) if home.environment.spec == here.spec => {
                self.note(who, LineKind::Note, &format!("this agent is in {} already", here.spec));
                Ok(())
            }
            Site::There(home) => self.settle(asker, who, home),
            Site::Worktree(spec, directory) => self.make_worktree(asker, who, spec, directory),
        }
    }

    fn settle(&mut self, asker: Option<SeatId>, who: AgentId, home: Home) -> Result<()> {
        let here = home.environment.clone();
        let mut words =
            format!("environment {}: {} tools in {}", here.spec, here.tools.len(), here.working_directory.display());
        if let Some(root) = &here.worktree {
            words.push_str(&format!(", on the branch {}", worktree::branch_of(root)));
        }
        let id = self.namesake(home.environment.worktree.as_ref())?;
        let child = self.fork_into(asker, who, id, home)?;
        self.note(child, LineKind::Note, &words);
        Ok(())
    }

    /// Whom a worktree was made for, if they are not born yet; else anybody.
    fn namesake(&self, worktree: Option<&PathBuf>) -> Result<AgentId> {
        let name = worktree.and_then(|root| root.file_name()?.to_str()?.parse().ok());
        Ok(match name {
            Some(id) if self.shared.store.agent(id)?.is_none() => id,
            _ => AgentId::random(),
        })
    }

    fn make_worktree(&mut self, asker: Option<SeatId>, who: AgentId, spec: Spec, directory: PathBuf) -> Result<()> {
        if self.has_chore(who) {
            return Err(Error::new(ErrorKind::Usage, "a worktree is being made already: Esc ends that"));
        }
        let root = self.shared.nursery.homes.place_for_worktree(AgentId::random())?;
        let env = self.shared.nursery.homes.usual().environment;
        self.note(who, LineKind::Note, &format!("git makes a worktree of {}", directory.display()));
        let running = worktree::add(directory, root.clone(), env, Arc::clone(&self.shared.wake))?;
        self.chores.push(Chore { running, root, who, asker, spec: Some(spec) });
        Ok(())
    }

    /// Whether a worktree is being made for a child of this agent.
    pub(super) fn has_chore(&self, who: AgentId) -> bool {
        let is_wanted = |chore: &Chore| chore.spec.is_some() && !chore.running.has_been_cancelled();
        self.chores.iter().any(|chore| chore.who == who && is_wanted(chore))
    }

    /// Whether git does something, or has to.
    pub(super) fn has_chores(&self) -> bool {
        !self.chores.is_empty() || !self.abandoned.is_empty()
    }

    /// No child of this agent is wanted any more.
    pub(super) fn cancel_chore(&mut self, who: AgentId) {
        if self.has_chore(who) {
            self.chores.iter().filter(|one| one.who == who && one.spec.is_some()).for_each(|one| one.running.cancel());
            self.note(who, LineKind::Note, "the worktree is not made");
        }
    }

    /// Goes on with what git has done, and lets it remove what is abandoned.
    pub(super) fn run_chores(&mut self) {
        let (done, under_way): (Vec<Chore>, _) =
            std::mem::take(&mut self.chores).into_iter().partition(|chore| chore.running.is_complete());
        self.chores = under_way;
        for Chore { running, root, who, asker, spec } in done {
            let is_unwanted = running.has_been_cancelled();
            let result = running.collect();
            match spec {
                Some(_) if is_unwanted && result.is_error => {}
                Some(_) if is_unwanted => self.abandon_worktree(root, who),
                Some(spec) => self.on_worktree(asker, who, &spec, root, &result),
                None => self.note(who, LineKind::Note, &result.content),
            }
        }
        // What the dead still run may write there.
        if self.dying.is_empty() {
            for Abandoned { root, heir } in std::mem::take(&mut self.abandoned) {
                self.clear_away(root, heir);
            }
        }
    }

    /// Git has made a worktree, or has not.
    fn on_worktree(&mut self, asker: Option<SeatId>, who: AgentId, spec: &Spec, root: PathBuf, made: &ToolResult) {
        if made.is_error {
            return self.note(who, LineKind::Error, &format!("no worktree: {}", made.content));
        }
        let there = spec.in_directory(Some(made.content.as_ref()));
        if !self.apply_or_say(asker, who, Change::Environment(there.to_string())) {
            return self.abandon_worktree(root, who);
        }
        // Where it has to wait for tools after all, the person has not typed the place that was made meanwhile.
        if let Some(parked) = self.parked.iter_mut().find(|parked| parked.who == who) {
            parked.line = Some(format!("/env {spec}"));
        }
    }

    /// At the start: a worktree for somebody whom the store does not know was made right before the program died. Whoever
    /// only looks leaves it to the process that may be making it.
    pub(super) fn sweep_worktrees(&mut self, heir: AgentId) {
        if self.shared.store.is_read_only() {
            return;
        }
        for (id, root) in self.shared.nursery.homes.worktrees() {
            if self.shared.store.agent(id) == Ok(None) {
                self.abandon_worktree(root, heir);
            }
        }
        self.run_chores();
    }

    /// Somebody who worked there, or was to, is gone. Of several who go together one is enough: git is asked once.
    pub(super) fn abandon_worktree(&mut self, root: PathBuf, heir: AgentId) {
        if self.abandoned.iter().all(|abandoned| abandoned.root != root) {
            self.abandoned.push(Abandoned { root, heir });
        }
    }

    /// A change that waited is not wanted any more: nor is the worktree that was made for it.
    pub(super) fn let_go(&mut self, change: &Change, heir: AgentId) {
        let Change::Environment(text) = change else { return };
        let place = text.parse::<Spec>().ok().and_then(|spec| spec.directory);
        if let Some(root) = place.and_then(|place| self.shared.nursery.homes.worktree_around(place.as_ref())) {
            self.abandon_worktree(root, heir);
        }
    }

    fn clear_away(&mut self, root: PathBuf, heir: AgentId) {
        if self.roster.iter().any(|agent| agent.talk.environment.worktree.as_ref() == Some(&root)) {
            return;
        }
        let env = self.shared.nursery.homes.usual().environment;
        match worktree::remove(root.clone(), env, Arc::clone(&self.shared.wake)) {
            Ok(running) => self.chores.push(Chore { running, root, who: heir, asker: None, spec: None }),
            Err(error) => self.note(heir, LineKind::Error, &format!("{} is kept: {error}", root.display())),
        }
    }
}
