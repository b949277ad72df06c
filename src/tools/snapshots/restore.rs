//! Brings files back. Everything is checked before the first file is changed; then the journal is written, so that the next
//! process completes what this one does not.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};

use super::journal::Journal;
use super::{MOST_KEPT, Snapshots, split};
use crate::base::beneath::open_directory;
use crate::base::clock::unix_ms;
use crate::domain::diff::{self, FileHunks};
use crate::domain::file_change::{Conflict, FileChange, FileState, FileStep, Restore};
use crate::tools::atomic_write::{make_directory, write_link, write_state};
use crate::tools::file_access::reason;

/// The permissions of a file that comes back, if they are not known.
const NEW_FILE: u32 = 0o644;

/// The changes to undo or to repeat.
#[derive(Debug, Clone)]
pub struct Undo {
    /// Without its changes.
    pub step: FileStep,
    /// The message before which the files are brought back.
    pub message: i64,
    pub restores: Vec<Restore>,
    /// The known conflicts.
    pub conflicts: Vec<Conflict>,
    /// Brings the other files back where some cannot be.
    pub skips: bool,
}

/// How an undo ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoOutcome {
    /// The files were brought back, except these.
    Done(FileStep, Vec<Conflict>),
    /// Nothing was changed.
    Refused(Vec<Conflict>),
    /// Writing failed; changed files are restored, unless the message says otherwise.
    Failed(String),
}

/// The restores that are possible and necessary, and the conflicts of the others.
pub fn check(snapshots: &Snapshots, restores: Vec<Restore>) -> (Vec<Restore>, Vec<Conflict>) {
    let (mut possible, mut conflicts) = (Vec::new(), Vec::new());
    for restore in restores {
        let path = &restore.path;
        let why = match snapshots.state(path) {
            Ok(now) if is_like(&now, &restore.to) => continue,
            Ok(now) if !is_like(&now, &restore.from) => Some(changed_since(&now)),
            Ok(_) => (!snapshots.has(&restore.to)).then(|| not_kept(&restore.to)),
            Err(error) => Some(reason(&error)),
        };
        match why {
            Some(why) => conflicts.push(Conflict { path: Some(path.clone()), why }),
            None => possible.push(restore),
        }
    }
    (possible, conflicts)
}

/// The permissions of a directory may change: files in it do not depend on them.
fn is_like(a: &FileState, b: &FileState) -> bool {
    a == b || matches!((a, b), (FileState::Directory { .. }, FileState::Directory { .. }))
}

fn changed_since(now: &FileState) -> String {
    match now {
        FileState::Absent => "was removed since".into(),
        _ => "was changed since".into(),
    }
}

fn not_kept(state: &FileState) -> String {
    match state.content() {
        Some((_, size)) if size > MOST_KEPT => {
            format!("was larger than {} MiB before the change and was not kept", MOST_KEPT >> 20)
        }
        Some(_) => "its earlier content is missing or damaged in the data directory".into(),
        None => "was not a file before the change".into(),
    }
}

/// Checks and restores the files. Blocks; runs on a thread.
pub fn undo(snapshots: &Snapshots, undo: Undo) -> UndoOutcome {
    let Undo { mut step, message, restores, mut conflicts, skips } = undo;
    let (restores, more) = check(snapshots, restores);
    conflicts.extend(more);
    if !conflicts.is_empty() && !skips {
        return UndoOutcome::Refused(conflicts);
    }
    for Restore { path, from, to } in restores {
        match snapshots.keep(&path) {
            Ok((_, true)) => {
                let why = format!("is larger than {} MiB and could not be brought back later", MOST_KEPT >> 20);
                conflicts.push(Conflict { path: Some(path), why });
            }
            Ok((now, _)) if is_like(&now, &from) => step.changes.push(FileChange { path, before: now, after: to }),
            Ok(_) => conflicts.push(Conflict { path: Some(path), why: "was changed meanwhile".into() }),
            Err(error) => conflicts.push(Conflict { path: Some(path), why: reason(&error) }),
        }
    }
    if !conflicts.is_empty() && !skips {
        return UndoOutcome::Refused(conflicts);
    }
    let is_refused = |path: &Path| conflicts.iter().any(|conflict| conflict.path.as_deref() == Some(path));
    step.undoes.retain(|(_, path)| !is_refused(path));
    (step.began_at, step.ended_at) = (unix_ms(), unix_ms());
    let journal = Journal { step: step.clone(), message, intended: None };
    if let Err(error) = snapshots.write_journal(&journal) {
        return UndoOutcome::Failed(format!("the data directory cannot be written: {}", reason(&error)));
    }
    match carry_out(snapshots, &step.id, &step.changes) {
        Ok(()) => {
            step.ended_at = unix_ms();
            step.changes.retain(|change| snapshots.state(&change.path).is_ok_and(|now| now != change.before));
            UndoOutcome::Done(step, conflicts)
        }
        Err(why) => {
            let is_done =
                |change: &FileChange| snapshots.state(&change.path).is_ok_and(|now| is_like(&now, &change.before));
            let reversed: Vec<FileChange> = step.changes.iter().map(reversed).filter(is_done).collect();
            let left = carry_out(snapshots, &step.id, &reversed);
            snapshots.forget(&step.id);
            let left = left.err().map(|left| format!("; not everything could be put back: {left}"));
            UndoOutcome::Failed(format!("{why}{}", left.unwrap_or_default()))
        }
    }
}

/// Reverts hunks of a change, as one undo.
pub fn revert_hunks(
    snapshots: &Snapshots,
    step: FileStep,
    message: i64,
    hunks: &[FileHunks],
) -> Result<UndoOutcome, String> {
    let restores = hunks.iter().map(|hunks| without_hunks(snapshots, hunks)).collect::<Result<_, String>>()?;
    Ok(undo(snapshots, Undo { step, message, restores, conflicts: Vec::new(), skips: false }))
}

/// A file without some hunks of its change. If the change made it and nothing is left of it, it is removed.
fn without_hunks(snapshots: &Snapshots, FileHunks { path, file, hunks }: &FileHunks) -> Result<Restore, String> {
    let shown = path.display();
    let (from, is_too_large) = snapshots.keep(path).map_err(|error| format!("{shown}: {}", reason(&error)))?;
    let (text, mode) = match &from {
        FileState::Absent => (Some(String::new()), file.deleted_mode.unwrap_or(NEW_FILE) & 0o777),
        FileState::File { mode, .. } if !is_too_large => {
            (snapshots.content(&from).and_then(|content| String::from_utf8(content).ok()), *mode)
        }
        _ => (None, 0),
    };
    let mut text = text.ok_or_else(|| format!("{shown}: not a text file, or too large; /undo brings it back"))?;
    let all = file.hunks();
    // From the last to the first: the line numbers of those before stay true.
    for lines in hunks.iter().rev().filter_map(|hunk| all.get(*hunk)) {
        text = diff::revert_hunk(&text, &file.lines[lines.clone()]).map_err(|why| format!("{shown}: {why}"))?;
    }
    let to = match file.is_new() && text.is_empty() {
        true => FileState::Absent,
        false => snapshots.keep_text(&text, mode).map_err(|error| reason(&error))?,
    };
    Ok(Restore { path: path.clone(), from, to })
}

/// Completes an undo that another process began. Returns the step, and the files that others changed meanwhile.
pub fn finish_undo(snapshots: &Snapshots, journal: Journal) -> (FileStep, Vec<Conflict>) {
    let mut step = journal.step;
    let mut conflicts = Vec::new();
    for directory in step.changes.iter().filter_map(|change| change.path.parent()) {
        // Of the file at which the process was killed.
        let _ = fs::remove_file(directory.join(temporary_name(&step.id)));
    }
    step.changes.retain(|change| {
        let is_ours = match snapshots.state(&change.path) {
            Ok(now) => is_like(&now, &change.before) || is_like(&now, &change.after),
            Err(_) => false,
        };
        if !is_ours {
            let why = "was changed while an undo was interrupted".to_owned();
            conflicts.push(Conflict { path: Some(change.path.clone()), why });
        }
        is_ours
    });
    if let Err(why) = carry_out(snapshots, &step.id, &step.changes) {
        conflicts.push(Conflict { path: None, why });
    }
    step.changes.retain(|change| snapshots.state(&change.path).is_ok_and(|now| is_like(&now, &change.after)));
    step.ended_at = unix_ms();
    (step, conflicts)
}

/// The name of the files that a step renames.
fn temporary_name(step: &str) -> OsString {
    OsString::from(format!(".polylogue-{step}.new"))
}

fn reversed(change: &FileChange) -> FileChange {
    FileChange { path: change.path.clone(), before: change.after.clone(), after: change.before.clone() }
}

/// Removes first, the deepest first, and then creates and replaces: a file may come where a directory was.
fn carry_out(snapshots: &Snapshots, step: &str, changes: &[FileChange]) -> Result<(), String> {
    let mut changes: Vec<&FileChange> = changes.iter().collect();
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    let message = |change: &FileChange, why: String| format!("{}: {why}", change.path.display());
    for change in changes.iter().rev() {
        remove(snapshots, change).map_err(|error| message(change, reason(&error)))?;
    }
    let temporary = temporary_name(step);
    changes.iter().try_for_each(|change| create(snapshots, change, &temporary).map_err(|why| message(change, why)))
}

fn remove(snapshots: &Snapshots, change: &FileChange) -> io::Result<()> {
    let FileChange { path, before, after } = change;
    let was_directory = matches!(before, FileState::Directory { .. });
    let stays = !was_directory && after.content().is_some() || is_like(before, after);
    if stays || !snapshots.state(path).is_ok_and(|now| is_like(&now, before)) {
        return Ok(());
    }
    let removed = match before {
        FileState::Directory { .. } => unlink(path, AtFlags::REMOVEDIR),
        FileState::File { .. } | FileState::Link { .. } => unlink(path, AtFlags::empty()),
        FileState::Absent | FileState::Other => Ok(()),
    };
    match removed {
        // Files of others are in it.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && *after == FileState::Absent => Ok(()),
        removed => removed,
    }
}

fn create(snapshots: &Snapshots, change: &FileChange, temporary: &OsStr) -> Result<(), String> {
    let FileChange { path, before, after } = change;
    let now = snapshots.state(path).map_err(|error| reason(&error))?;
    if is_like(&now, after) || *after == FileState::Absent {
        return Ok(());
    }
    let is_as_expected = |now: &FileState| now == before || *now == FileState::Absent;
    let is_unchanged = || snapshots.state(path).is_ok_and(|now| is_as_expected(&now));
    let content = || snapshots.content(after).ok_or_else(|| not_kept(after));
    let is_written = match after {
        FileState::File { mode, .. } => write_state(path, (&content()?, *mode), temporary, is_unchanged),
        FileState::Link { .. } => write_link(path, OsStr::from_bytes(&content()?), temporary, is_unchanged),
        FileState::Directory { mode } => restore_directory(path, *mode).map(|()| true),
        FileState::Absent | FileState::Other => Ok(true),
    };
    match is_written {
        Ok(true) => Ok(()),
        Ok(false) => Err("was changed meanwhile".into()),
        Err(error) => Err(reason(&error)),
    }
}

/// No symbolic link above the path is followed.
fn unlink(path: &Path, flags: AtFlags) -> io::Result<()> {
    let (parent, name) = split(path);
    Ok(rustix::fs::unlinkat(open_directory(parent)?, name, flags)?)
}

/// Creates a directory and those above it that are missing. No symbolic link is followed.
fn restore_directory(path: &Path, mode: u32) -> io::Result<()> {
    let directory = make_directory(path)?;
    // A descriptor that only looks names up cannot change permissions.
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let readable = rustix::fs::openat(&directory, ".", flags, Mode::empty())?;
    Ok(rustix::fs::fchmod(readable, Mode::from_raw_mode(mode))?)
}
