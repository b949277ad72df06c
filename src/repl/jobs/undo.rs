//! Restores files that tools of agents have changed. Files are read and written on a thread; the loop stores the
//! result.

use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, MessageId};
use crate::domain::diff::FileHunks;
use crate::domain::file_change::{FileStep, UNDO, UndoRequest};
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::repl::core::{Core, file_steps};
use crate::repl::jobs::Jobs;
use crate::repl::jobs::landing::{name_to_type, report};
use crate::repl::jobs::tasks::Kind;
use crate::team::undo::{IN_CHAT, IN_SHELL, conclude, plan, take_up as take_up_journals};
use crate::tools::Job;
use crate::tools::snapshots::{self, UndoOutcome};

impl Jobs {
    /// Starts an undo. Its result is shown at `shown_at`.
    pub(super) fn undo(
        &mut self,
        core: &mut Core,
        origin: Origin,
        shown_at: AgentId,
        agent: AgentId,
        request: UndoRequest,
    ) -> Result<()> {
        if let Some(found) = core.agent(agent) {
            if let Some(remote) = &found.inputs.environment.remote {
                let place = &remote.place;
                return Err(Error::usage(format!("{place}: files that are changed there cannot be brought back")));
            }
            // Without a person, a stored question stays open, and nothing of the agent runs.
            let is_parked = !core.config().settings.is_interactive
                && found.question().is_some()
                && !core.roster().with_live_tools().contains(&agent);
            if !is_parked {
                core.require_idle(agent)?;
            }
        }
        self.require_settled(core, agent)?;
        let snapshots = file_steps::snapshots(core)?;
        let undo = plan(core.store(), agent, request)?;
        let (before, kept) = (MessageId(undo.message), snapshots.clone());
        // If the loop ends meanwhile, the next start takes the journal up.
        let work = move |_: &Job| Ok(snapshots::undo(&kept, undo));
        self.tasks.spawn(core, (Kind::Undo, agent, None), work, move |_, core, outcome| {
            let lost = |_| UndoOutcome::Failed("internal error; the next start completes it".into());
            let command = if matches!(origin, Origin::Client(_)) { IN_SHELL } else { IN_CHAT };
            let undone = conclude(core.store(), &snapshots, before, outcome.unwrap_or_else(lost), command);
            let undone = undone.map(|undone| {
                file_steps::tell_model(core, agent, undone.for_model);
                undone.text
            });
            if let (Origin::Client(_), Ok(text)) = (origin, &undone) {
                let shown_at = if core.agent(agent).is_some() { agent } else { shown_at };
                core.note(shown_at, LineKind::Note, text);
            }
            report(core, origin, shown_at, "", undone);
        })
    }

    /// Reverts hunks of what an agent has changed. `/undo --redo` applies them again.
    pub(super) fn revert_hunks(
        &mut self,
        core: &mut Core,
        (origin, shown_at): (Origin, AgentId),
        agent: AgentId,
        hunks: Vec<FileHunks>,
    ) -> Result<()> {
        core.require_idle(agent)?;
        self.require_settled(core, agent)?;
        let root = file_steps::worktree_of(core, agent);
        if root.is_some_and(|root| self.tasks.is_running_in(Kind::Land, &root)) {
            return Err(Error::usage("the worktree is being landed: wait for the note"));
        }
        let snapshots = file_steps::snapshots(core)?;
        let before = core.store().last_own_message(agent)?;
        let (kept, step) = (snapshots.clone(), FileStep::new(agent, UNDO));
        let (count, again) = match hunks.iter().map(|file| file.hunks.len()).sum() {
            1 => ("one hunk".to_owned(), "it"),
            count => (format!("{count} hunks"), "them"),
        };
        let place = match &hunks[..] {
            [file] => file.path.display().to_string(),
            files => format!("{} files", files.len()),
        };
        let who = if shown_at == agent { String::new() } else { format!(" {}", name_to_type(core, agent)) };
        let note = format!("reverted {count} of {place} (/undo{who} --redo applies {again} again)");
        let work = move |_: &Job| snapshots::revert_hunks(&kept, step, before.0, &hunks);
        self.tasks.spawn(core, (Kind::Undo, agent, None), work, move |_, core, outcome| {
            let outcome = outcome.unwrap_or_else(UndoOutcome::Failed);
            let undone = conclude(core.store(), &snapshots, before, outcome, IN_CHAT).map(|undone| {
                file_steps::tell_model(core, agent, undone.for_model);
                note
            });
            report(core, origin, shown_at, "", undone);
        })
    }

    /// Fails while an undo or the host of an agent may still change files.
    fn require_settled(&self, core: &Core, agent: AgentId) -> Result<()> {
        if self.tasks.is_running(Kind::Undo, agent) {
            return Err(Error::usage("an undo of this agent is under way: wait until it is done"));
        }
        if file_steps::has_host_turn(core, agent) {
            return Err(Error::usage("its host is still ending its turn: try again in a moment"));
        }
        Ok(())
    }

    /// Whether files are being brought back.
    pub(in crate::repl) fn is_undoing(&self) -> bool {
        self.tasks.has_any(&[Kind::Undo])
    }
}

/// Completes the undos that an earlier process left unfinished. Returns a note for each; its agent shows it too.
pub(in crate::repl) fn take_up(core: &mut Core) -> Vec<String> {
    let Ok(snapshots) = file_steps::snapshots(core) else { return Vec::new() };
    if core.store().is_read_only() {
        return Vec::new();
    }
    let root = core.roster().nth(0);
    let done = take_up_journals(core.store(), &snapshots, IN_CHAT);
    for (agent, note) in &done {
        let shown_at = if core.agent(*agent).is_some() { Some(*agent) } else { root };
        shown_at.into_iter().for_each(|at| core.note(at, LineKind::Note, note));
    }
    done.into_iter().map(|(_, note)| note).collect()
}
