//! Undo: the plan comes from the stored steps, and the result is stored as a step.

use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, MessageId};
use crate::base::text::counted;
use crate::domain::file_change::{
    Conflict, FileChange, FileStep, REDO, Restore, StoredStep, UNDO, UndoPlan, UndoRequest, UndoTo, plan_undo,
};
use crate::store::Store;
use crate::tools::snapshots::{Snapshots, Undo, UndoOutcome, finish_undo};

/// Files that a message names; more are counted.
const MOST_NAMED: usize = 20;

/// The plan of an undo.
pub fn plan(store: &Store, agent: AgentId, request: UndoRequest) -> Result<Undo> {
    let before = match request.to {
        UndoTo::Redo => return plan_redo(store, agent, request.skips),
        UndoTo::Before(message) => message,
        UndoTo::LastTurn => last_turn(store, agent)?,
    };
    let steps: Vec<StoredStep> = store.file_steps(agent, before)?;
    let steps: Vec<StoredStep> = steps.into_iter().filter(is_open).collect();
    if steps.is_empty() {
        return Err(Error::usage(format!("no tool of this agent has changed files since message {}", before.0)));
    }
    let name = |other| match store.agent(other) {
        Ok(Some(row)) => row.label(),
        _ => "another agent".to_owned(),
    };
    let plan = plan_undo(&steps, |step, path| store.also_wrote(step, path).ok().flatten().map(name));
    let UndoPlan { restores, conflicts, undoes } = plan;
    let step = FileStep { undoes, ..FileStep::new(agent, UNDO) };
    Ok(Undo { step, message: before.0, restores, conflicts, skips: request.skips })
}

fn plan_redo(store: &Store, agent: AgentId, skips: bool) -> Result<Undo> {
    let Some((undo, mut undoes)) = store.newest_undo(agent)? else {
        return Err(Error::usage("nothing was undone that could be done again"));
    };
    let changes: Vec<_> = undo.open_changes().cloned().collect();
    undoes.extend(changes.iter().map(|change| (undo.step.id.clone(), change.path.clone())));
    let restore = |FileChange { path, before, after }| Restore { path, from: after, to: before };
    let restores = changes.into_iter().map(restore).collect();
    let step = FileStep { undoes, ..FileStep::new(agent, REDO) };
    Ok(Undo { step, message: undo.message.0, restores, conflicts: Vec::new(), skips })
}

fn is_open(stored: &StoredStep) -> bool {
    let has_flaw = stored.step.flaw.is_some() && stored.undone.is_empty();
    stored.is_of_tool() && (has_flaw || stored.open_changes().next().is_some())
}

/// The message that began the newest turn whose changes were not undone.
fn last_turn(store: &Store, agent: AgentId) -> Result<MessageId> {
    let steps: Vec<StoredStep> = store.file_steps(agent, MessageId(0))?.into_iter().filter(is_open).collect();
    let with_files = steps.iter().rev().find(|step| step.open_changes().next().is_some());
    let newest = with_files.or(steps.last());
    let newest =
        newest.ok_or_else(|| Error::usage("no tool of this agent has changed files, or all of it was undone"))?;
    store.prompt_before(agent, newest.message)
}

/// The result of an undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undone {
    /// For the person.
    pub text: String,
    /// For the model, whose files have changed.
    pub for_model: Option<String>,
}

/// How a person undoes in the chat, for messages.
pub const IN_CHAT: &str = "/undo";
/// The same in the shell.
pub const IN_SHELL: &str = "polylogue undo";

/// Stores the result of an undo.
///
/// # Errors
/// Nothing was undone, or it cannot be stored; then the next start stores it.
pub fn conclude(
    store: &Store,
    snapshots: &Snapshots,
    before: MessageId,
    outcome: UndoOutcome,
    command: &str,
) -> Result<Undone> {
    match outcome {
        UndoOutcome::Done(step, conflicts) => {
            store.keep_file_step(&step, Some(before))?;
            snapshots.forget(&step.id);
            Ok(report(&step, before, &conflicts, command))
        }
        UndoOutcome::Refused(conflicts) => {
            let named = list_lines(conflicts.iter().map(ToString::to_string));
            let count = counted(conflicts.len(), "obstacle", "obstacles");
            Err(Error::usage(format!(
                "nothing was undone, {count}; --skip leaves these as they are and brings back the others:\n{named}"
            )))
        }
        UndoOutcome::Failed(why) => Err(Error::usage(format!("nothing was undone: {why}"))),
    }
}

/// `command` is how the person undoes, in the chat or in the shell.
fn report(step: &FileStep, before: MessageId, conflicts: &[Conflict], command: &str) -> Undone {
    let files = counted(step.changes.len(), "file", "files");
    let names = list_lines(step.changes.iter().map(|change| change.path.display().to_string()));
    let (what, how) = match step.tool.as_str() {
        REDO => ("changed again as before the undo", format!("{command} takes that back")),
        _ => ("brought back", format!("{command} --redo takes that back")),
    };
    let mut text = format!("{files} {what} ({how})");
    if step.tool == REDO && step.changes.is_empty() && conflicts.is_empty() {
        text = "the files are as before the undo already".to_owned();
    }
    if step.tool == UNDO {
        text = format!("{files} {what} to before message {} ({how})", before.0);
    }
    if !names.is_empty() {
        text = format!("{text}:\n{names}");
    }
    if !conflicts.is_empty() {
        text.push_str(&format!("\nleft as they are:\n{}", list_lines(conflicts.iter().map(ToString::to_string))));
    }
    let for_model = (!step.changes.is_empty()).then(|| match step.tool.as_str() {
        REDO => format!("The user took an undo back. These files changed:\n{names}"),
        _ => format!(
            "The user undid changes of yours. These files are as before, read them again before you edit them:\n{names}"
        ),
    });
    Undone { text, for_model }
}

fn list_lines(lines: impl Iterator<Item = String>) -> String {
    let lines: Vec<String> = lines.map(|line| format!("  {line}")).collect();
    let more = lines.len().checked_sub(MOST_NAMED).filter(|more| *more > 0);
    let shown: Vec<String> = lines.into_iter().take(MOST_NAMED).collect();
    let more = more.map(|more| format!("\n  and {more} more")).unwrap_or_default();
    format!("{}{more}", shown.join("\n"))
}

/// Continues the work of an earlier process: steps that it did not store, and undos that it did not complete. Returns
/// notes, each with its agent.
pub fn take_up(store: &Store, snapshots: &Snapshots, command: &str) -> Vec<(AgentId, String)> {
    let mut notes = Vec::new();
    for journal in snapshots.journals() {
        let (id, agent, before) = (journal.step.id.clone(), journal.step.agent, MessageId(journal.message));
        let is_undo = journal.step.tool == UNDO || journal.step.tool == REDO;
        let stored = if is_undo {
            let (step, conflicts) = finish_undo(snapshots, journal);
            let note = format!(
                "an undo was interrupted and is complete now: {}",
                report(&step, before, &conflicts, command).text
            );
            notes.push((agent, note));
            store.keep_file_step(&step, Some(before))
        } else {
            snapshots.recover_step(journal).map_or(Ok(()), |step| store.keep_file_step(&step, None))
        };
        match stored {
            Ok(()) => snapshots.forget(&id),
            Err(error) => notes.push((agent, format!("changes of files were not stored: {error}"))),
        }
    }
    notes
}
