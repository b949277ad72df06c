//! An agent's changes of files between two points of its conversation, as diffs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::base::text::counted;
use crate::domain::diff::FileDiff;
use crate::domain::file_change::FileState;
use crate::store::Store;
use crate::tools::branch_diff::{self, BranchDiff};
use crate::tools::diff::Summary;
use crate::tools::snapshots::Snapshots;
use crate::tools::{Environment, Job, Outcome};

/// Files that are compared; more are only named.
const MOST_FILES: usize = 100;

/// Maximum calls with unknown changes that are named.
const MOST_FLAWS: usize = 10;

/// A file, and its states before and after the changes of an agent.
pub type ChangedFile = (PathBuf, FileState, FileState);

/// The files that an agent's tools changed from one message on and before another, without what was undone.
pub fn changed_files(
    store: &Store,
    agent: AgentId,
    from: MessageId,
    before: Option<MessageId>,
) -> Result<Vec<ChangedFile>> {
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
    Ok(files.into_iter().map(|(path, (before, after))| (path, before, after)).collect())
}

/// Compares the states of files. Blocks while they are read.
pub fn compare(snapshots: &Snapshots, files: &[ChangedFile]) -> Vec<FileDiff> {
    let diffs = files.iter().enumerate().map(|(at, (path, before, after))| match at < MOST_FILES {
        true => diff(snapshots, path, before, after),
        false => FileDiff { path: path.clone(), about: "not compared".into(), ..FileDiff::default() },
    });
    diffs.collect()
}

/// What is needed to find out what an agent has changed, on a thread.
pub struct ChangeSource {
    pub label: String,
    /// Its worktree, and the environment for git.
    pub worktree: Option<(PathBuf, Arc<Environment>)>,
    pub files: Vec<ChangedFile>,
    pub snapshots: Option<Snapshots>,
    /// See [`not_shown`].
    pub not_shown: String,
}

/// What an agent has changed.
pub struct AgentChanges {
    /// The agent.
    pub label: String,
    pub heading: String,
    /// The branch that its worktree left.
    pub target: Option<String>,
    /// Where the files are, if their paths are relative.
    pub root: Option<PathBuf>,
    pub files: Vec<FileDiff>,
    /// Those that its tools changed outside of its worktree.
    pub elsewhere: Vec<FileDiff>,
    /// What is not known.
    pub not_shown: String,
}

impl ChangeSource {
    /// Compares the worktree with the branch that it left, or the files with what they were.
    pub fn read(self, job: &Job) -> Outcome<AgentChanges> {
        let Self { label, worktree, mut files, snapshots, not_shown } = self;
        let is_outside = |path: &Path| worktree.as_ref().is_none_or(|(root, _)| !path.starts_with(root));
        files.retain(|(path, ..)| is_outside(path));
        let of_tools = snapshots.map(|snapshots| compare(&snapshots, &files)).unwrap_or_default();
        if let Some((root, environment)) = worktree {
            let BranchDiff { heading, target, files } = branch_diff::diff(&root, &environment, job)?;
            let (target, root) = (Some(target), Some(root));
            return Ok(AgentChanges { label, heading, target, root, files, elsewhere: of_tools, not_shown });
        }
        let heading = match of_tools.len() {
            0 => format!("no tool of {label} has changed a file"),
            count => format!("{label} has changed {}", counted(count, "file", "files")),
        };
        Ok(AgentChanges { label, heading, target: None, root: None, files: of_tools, elsewhere: Vec::new(), not_shown })
    }
}

impl AgentChanges {
    /// For programs.
    pub fn as_json(&self) -> Value {
        let list = |files: &[FileDiff]| files.iter().map(FileDiff::as_json).collect::<Vec<_>>();
        json!({
            "agent": self.label,
            "root": self.root.as_ref().map(|root| root.to_string_lossy()),
            "target": self.target,
            "heading": self.heading,
            "files": list(&self.files),
            "elsewhere": list(&self.elsewhere),
            "not_shown": self.not_shown.trim_start().lines().collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for AgentChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.heading)?;
        self.files.iter().try_for_each(|file| file.fmt(f))?;
        if !self.elsewhere.is_empty() {
            f.write_str("\noutside of the worktree:")?;
        }
        self.elsewhere.iter().try_for_each(|file| file.fmt(f))?;
        f.write_str(&self.not_shown)
    }
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
    let what = match (before, after) {
        (FileState::Absent, _) => "new",
        (_, FileState::Absent) => "deleted",
        _ => "",
    };
    let (Some(old), Some(new)) = (text(before), text(after)) else {
        let why = "not text, too large, or no longer there";
        let about = if what.is_empty() { why.to_owned() } else { format!("{what}, {why}") };
        return FileDiff { path: path.into(), about, ..FileDiff::default() };
    };
    let Summary { removed, added, lines } = Summary::exact(&old, &new);
    let deleted_mode =
        if let (FileState::File { mode, .. }, FileState::Absent) = (before, after) { Some(*mode) } else { None };
    FileDiff { path: path.into(), about: what.into(), removed, added, lines, deleted_mode }
}
