//! Brings files back that tools of agents have changed. Files are read and written on a thread; the loop stores what was done.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};

use crate::base::error::{Error, Result, system_message};
use crate::base::id::{AgentId, MessageId};
use crate::domain::file_change::UndoRequest;
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::repl::component::{Command, Component};
use crate::repl::core::{Core, file_steps};
use crate::repl::event::Event;
use crate::team::undo::{IN_CHAT, IN_SHELL, conclude, plan, take_up as take_up_journals};
use crate::tools::snapshots::{self, Snapshots, UndoOutcome};

/// An undo that is under way.
struct Running {
    origin: Origin,
    /// Where it was asked for.
    shown_at: AgentId,
    agent: AgentId,
    before: MessageId,
    snapshots: Snapshots,
    end: Receiver<UndoOutcome>,
}

/// The undos that are under way.
#[derive(Default)]
pub(super) struct Undos {
    running: Vec<Running>,
}

impl Undos {
    /// Starts an undo. Its result is shown at `shown_at`.
    ///
    /// # Errors
    /// The agent is busy, or there is nothing to undo.
    pub(super) fn begin(
        &mut self,
        core: &mut Core,
        origin: Origin,
        shown_at: AgentId,
        agent: AgentId,
        request: UndoRequest,
    ) -> Result<()> {
        if let Some(found) = core.roster.get(agent) {
            if let Some(remote) = &found.inputs.environment.remote {
                let place = &remote.place;
                return Err(Error::usage(format!("{place}: files that are changed there cannot be brought back")));
            }
            core.require_idle(agent)?;
        }
        if self.running.iter().any(|running| running.agent == agent) {
            return Err(Error::usage("an undo of this agent is under way: wait until it is done"));
        }
        let snapshots = file_steps::snapshots(core)?;
        let undo = plan(&core.store, agent, request)?;
        let before = MessageId(undo.message);
        let (sender, end) = mpsc::channel();
        let (wake, kept) = (Arc::clone(&core.waker), snapshots.clone());
        let work = move || {
            // The loop may be gone; then the next start takes the journal up.
            drop(sender.send(snapshots::undo(&kept, undo)));
            wake();
        };
        let started = std::thread::Builder::new().name("undo".into()).spawn(work);
        started.map_err(|error| Error::usage(format!("cannot undo: {}", system_message(&error))))?;
        self.running.push(Running { origin, shown_at, agent, before, snapshots, end });
        Ok(())
    }

    /// Whether one is under way.
    pub(super) fn is_busy(&self) -> bool {
        !self.running.is_empty()
    }

    fn collect(&mut self, core: &mut Core) {
        let ended = self.running.extract_if(.., |running| match running.end.try_recv() {
            Err(TryRecvError::Empty) => false,
            outcome => {
                let lost = |_| UndoOutcome::Failed("internal error; the next start completes it".into());
                end(core, running, outcome.unwrap_or_else(lost));
                true
            }
        });
        ended.for_each(drop);
    }
}

fn end(core: &mut Core, running: &Running, outcome: UndoOutcome) {
    let command = if matches!(running.origin, Origin::Client(_)) { IN_SHELL } else { IN_CHAT };
    let outcome = conclude(&core.store, &running.snapshots, running.before, outcome, command).map(|undone| {
        file_steps::tell_model(core, running.agent, undone.for_model);
        undone.text
    });
    match (running.origin, outcome) {
        (Origin::Client(client), outcome) => {
            if let Ok(text) = &outcome {
                core.note(running.shown_at, LineKind::Note, text);
            }
            core.emit(Event::ClientJobEnded { client, outcome });
        }
        (_, Ok(text)) => core.note(running.shown_at, LineKind::Note, &text),
        (_, Err(error)) => core.note(running.shown_at, LineKind::Error, &error.message),
    }
}

impl Component for Undos {
    fn step(&mut self, core: &mut Core, _: &mut Vec<Command>) {
        if !self.running.is_empty() {
            self.collect(core);
        }
    }
}

/// Takes up what an earlier process has left.
pub(super) fn take_up(core: &mut Core) {
    let Ok(snapshots) = file_steps::snapshots(core) else { return };
    if core.store.is_read_only() {
        return;
    }
    let root = core.roster.nth(0);
    for (agent, note) in take_up_journals(&core.store, &snapshots, IN_CHAT) {
        let shown_at = if core.roster.get(agent).is_some() { Some(agent) } else { root };
        shown_at.into_iter().for_each(|at| core.note(at, LineKind::Note, &note));
    }
}
