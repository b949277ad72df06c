//! An agent's changes of files between two points of its conversation, as diffs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::domain::file_change::FileState;
use crate::store::Store;
use crate::tools::diff::Summary;
use crate::tools::snapshots::Snapshots;

/// Lines of the diff of one file.
const MOST_LINES: usize = 400;
/// Files that are compared; more are only named.
const MOST_FILES: usize = 100;

/// Maximum calls with unknown changes that are named.
const MOST_FLAWS: usize = 10;

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    pub path: PathBuf,
    /// `-1 +2 lines`, or why there is no diff.
    pub counts: String,
    /// As in the question of `edit_file`.
    pub lines: Vec<String>,
}

/// The changes of an agent's tools from one message on and before another, without those that were undone. Blocks while
/// files are read.
pub fn changes(
    store: &Store,
    snapshots: &Snapshots,
    agent: AgentId,
    from: MessageId,
    before: Option<MessageId>,
) -> Result<Vec<FileDiff>> {
    let steps = store.file_steps(agent, from)?;
    let is_meant = |message: MessageId| before.is_none_or(|before| message < before);
    let mut files: BTreeMap<PathBuf, (FileState, FileState)> = BTreeMap::new();
    for stored in steps.iter().filter(|stored| stored.is_of_tool() && is_meant(stored.message)) {
        for change in stored.open_changes() {
            let first = (change.before.clone(), change.after.clone());
            files.entry(change.path.clone()).or_insert(first).1 = change.after.clone();
        }
    }
    files.retain(|_, (before, after)| before != after && !matches!(before, FileState::Directory { .. }));
    files.retain(|_, (before, after)| *before != FileState::Absent || !matches!(after, FileState::Directory { .. }));
    let diffs = files.iter().enumerate().map(|(at, (path, (before, after)))| match at < MOST_FILES {
        true => diff(snapshots, path, before, after),
        false => FileDiff { path: path.clone(), counts: "not compared".into(), lines: Vec::new() },
    });
    Ok(diffs.collect())
}

impl fmt::Display for FileDiff {
    /// Begins with a line end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}  {}", self.path.display(), self.counts)?;
        self.lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// The changes of an agent's tools outside of its worktree, and calls whose changes are unknown, as lines after a diff.
pub fn other_changes(store: &Store, snapshots: &Snapshots, agent: AgentId, worktree: &Path) -> Result<String> {
    let mut found = changes(store, snapshots, agent, MessageId(0), None)?;
    found.retain(|diff| !diff.path.starts_with(worktree));
    let mut text = String::new();
    if !found.is_empty() {
        text.push_str("\noutside of the worktree:");
        found.iter().for_each(|diff| text.push_str(&diff.to_string()));
    }
    Ok(text + &not_shown(store, agent)?)
}

/// The calls of an agent whose changes are unknown, as lines after a diff.
pub fn not_shown(store: &Store, agent: AgentId) -> Result<String> {
    let steps = store.file_steps(agent, MessageId(0))?;
    let flaws = steps.iter().filter(|stored| stored.is_of_tool()).filter_map(|stored| {
        let flaw = stored.step.flaw.as_ref()?;
        Some(format!("\n  {} in message {}: {flaw}", stored.step.tool, stored.message.0))
    });
    let flaws: Vec<String> = flaws.collect();
    let mut text = "\nnot shown: changes by bash outside of git repositories, and files that git ignores".to_owned();
    flaws.iter().take(MOST_FLAWS).for_each(|line| text.push_str(line));
    if let Some(more) = flaws.len().checked_sub(MOST_FLAWS).filter(|more| *more > 0) {
        text.push_str(&format!("\n  and {more} more calls"));
    }
    Ok(text)
}

fn diff(snapshots: &Snapshots, path: &Path, before: &FileState, after: &FileState) -> FileDiff {
    let text = |state: &FileState| match state {
        FileState::Absent | FileState::Directory { .. } => Some(String::new()),
        state => String::from_utf8(snapshots.content_at(path, state)?).ok(),
    };
    let (counts, lines) = match (text(before), text(after)) {
        (Some(old), Some(new)) => {
            let summary = Summary::new(&old, &new, MOST_LINES);
            (summary.counts(), summary.lines)
        }
        _ => ("not text, too large, or no longer there".into(), Vec::new()),
    };
    let what = match (before, after) {
        (FileState::Absent, _) => "new, ",
        (_, FileState::Absent) => "deleted, ",
        _ => "",
    };
    FileDiff { path: path.into(), counts: format!("{what}{counts}"), lines }
}
