//! Steps that are not in the database yet. A tool writes one before it changes a file; the loop removes it once the
//! step is stored. The next process continues the steps of a killed one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::base::digest::sha256;
use serde::{Deserialize, Serialize};

use super::Snapshots;
use crate::base::beneath::read_followed;
use crate::base::clock::unix_ms;
use crate::base::id::AgentId;
use crate::domain::file_change::{FileChange, FileState, FileStep};
use crate::tools::file_access::reason;

/// In bytes; a longer journal is not read.
const MOST_BYTES: u64 = 64 << 20;

/// What is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// For an undo, the changes to make; for a tool, `after` is not known yet.
    pub step: FileStep,
    /// The message before which an undo brings the files back.
    #[serde(default)]
    pub message: i64,
    /// The digest and the size of the content that a tool is about to write.
    #[serde(default)]
    pub intended: Option<(String, u64)>,
}

impl Snapshots {
    fn journal_path(&self, step: &str) -> PathBuf {
        self.directory.join("open").join(format!("{step}.json"))
    }

    pub(super) fn write_journal(&self, journal: &Journal) -> io::Result<()> {
        self.write(&self.journal_path(&journal.step.id), &serde_json::to_vec(journal)?)
    }

    /// The step is in the database, or the call changed nothing.
    pub fn forget(&self, step: &str) {
        // If it stays, the next start finds the step in the database.
        let _ = fs::remove_file(self.journal_path(step));
    }

    /// The journals that an earlier process has left. Unreadable ones are removed.
    pub fn journals(&self) -> Vec<Journal> {
        let entries = fs::read_dir(self.directory.join("open")).into_iter().flatten().flatten();
        let mut journals = Vec::new();
        for path in entries.map(|entry| entry.path()) {
            match read_followed(&path, MOST_BYTES).ok().and_then(|text| serde_json::from_slice::<Journal>(&text).ok()) {
                Some(journal) => journals.push(journal),
                None => drop(fs::remove_file(&path)),
            }
        }
        journals.sort_by(|a, b| (a.step.began_at, &a.step.id).cmp(&(b.step.began_at, &b.step.id)));
        journals
    }

    /// The step of a tool that an earlier process left, as far as it got; `None` if it changed nothing.
    pub fn recover_step(&self, Journal { mut step, intended, .. }: Journal) -> Option<FileStep> {
        for change in &mut step.changes {
            let now = self.state(&change.path).unwrap_or(FileState::Other);
            change.after = match (&intended, &now, &change.before) {
                _ if now == change.before => now,
                // Whatever the file is now, this is what the tool wrote.
                (Some((digest, size)), FileState::File { mode, .. }, _)
                | (Some((digest, size)), _, FileState::File { mode, .. }) => {
                    FileState::File { mode: *mode, digest: digest.clone(), size: *size }
                }
                _ => now,
            };
        }
        step.changes.retain(|change| change.before != change.after);
        (!step.changes.is_empty() || step.flaw.is_some()).then_some(step)
    }
}

/// Records the changes of one call.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// Where.
    pub snapshots: Snapshots,
    /// Whose call it is.
    pub agent: AgentId,
    /// The call, as the provider named it.
    pub call: String,
}

impl Recorder {
    /// Keeps a file that is about to be written with this content, and the directories that are missing above it.
    pub fn before_write(&self, tool: &str, path: &Path, content: &[u8]) -> OpenStep {
        let mut open = self.begin(tool);
        let missing = path.ancestors().skip(1).take_while(|directory| directory.symlink_metadata().is_err());
        missing.for_each(|directory| open.expect(directory, FileState::Absent));
        match self.snapshots.keep(path) {
            // A file that was too large is named by the undo.
            Ok((before, _)) => open.expect(path, before),
            Err(error) => {
                open.journal.step.flaw = Some(format!("{} was not kept: {}", path.display(), reason(&error)));
            }
        }
        open.journal.intended = Some((sha256(content), content.len() as u64));
        open.save();
        open
    }

    /// A step without results yet.
    pub fn begin(&self, tool: &str) -> OpenStep {
        let now = unix_ms();
        let step =
            FileStep { call: self.call.clone(), began_at: now, ended_at: now, ..FileStep::new(self.agent, tool) };
        let journal = Journal { step, message: 0, intended: None };
        OpenStep { snapshots: self.snapshots.clone(), journal }
    }
}

/// A step whose tool is running.
#[derive(Debug)]
pub struct OpenStep {
    snapshots: Snapshots,
    journal: Journal,
}

impl OpenStep {
    fn expect(&mut self, path: &Path, before: FileState) {
        let change = FileChange { path: path.into(), after: before.clone(), before };
        self.journal.step.changes.push(change);
    }

    /// The changes of the call are not or not fully known.
    pub fn set_flaw(&mut self, why: Option<String>) {
        self.journal.step.flaw = why;
    }

    /// The changes found by comparing the files before and after.
    pub fn set_compared(&mut self, changes: Vec<FileChange>) {
        self.journal.step.is_compared = true;
        self.journal.step.changes = changes;
    }

    /// Writes it down for the case that the process is killed.
    pub fn save(&mut self) {
        if let Err(error) = self.snapshots.write_journal(&self.journal) {
            let why = format!("nothing could be kept in the data directory: {}", reason(&error));
            self.journal.step.flaw = Some(why);
        }
    }

    /// The step, now that the tool has ended; `None` if it changed nothing.
    pub fn finish(mut self, has_succeeded: bool) -> Option<FileStep> {
        let step = &mut self.journal.step;
        step.ended_at = unix_ms();
        if !step.is_compared {
            for change in &mut step.changes {
                change.after = self.snapshots.state(&change.path).unwrap_or(FileState::Other);
            }
        }
        step.changes.retain(|change| change.before != change.after);
        if step.changes.is_empty() && (step.flaw.is_none() || !has_succeeded) {
            self.snapshots.forget(&step.id);
            return None;
        }
        Some(self.journal.step)
    }
}
