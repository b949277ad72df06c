//! The last step of a landing changes files of a person: a branch moves on where it is checked out. Whatever ends the program or
//! git meanwhile, the files are afterwards as before that step or as after it.
//!
//! A note says which step is under way. Git writes the files first, then its index, and moves the branch last:
//!
//! ```text
//!   note ──► files, some may be written in part ──► index ──► branch ──► note removed
//!            └────── taken back ─────────────────┘  └ completed ┘
//! ```

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::{Landing, plain};
use crate::base::beneath::read_followed;
use crate::base::file;
use crate::sandbox;
use crate::tools::file_access::reason;
use crate::tools::git::Git;
use crate::tools::worktree::notes;
use crate::tools::{Environment, Job, Outcome};

/// Of a note, in bytes.
const MAX_NOTE: u64 = 64 << 10;
/// Ends the names of notes.
const LANDING: &str = ".landing";
/// The most bytes of a file that is compared with what git would have written.
const MAX_FILE: u64 = 64 << 20;

/// The note about a landing of the worktree at `root`.
fn note_of(root: &Path) -> PathBuf {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    notes(root).join(format!("{name}{LANDING}"))
}

/// Notes that a branch will move on from one commit to another where it is checked out.
pub(super) fn begin(root: &Path, checkout: &Path, old: &str, new: &str) -> Outcome<()> {
    let mut note = format!("{old}\n{new}\n").into_bytes();
    note.extend(checkout.as_os_str().as_bytes());
    file::replace(&note_of(root), &note).map_err(|error| reason(&error))
}

pub(super) fn end(root: &Path) {
    drop(fs::remove_file(note_of(root)));
}

/// The worktrees among which a landing was interrupted, from the directory of all worktrees.
pub fn interrupted(worktrees: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(notes(&worktrees.join("any"))).into_iter().flatten().flatten();
    let names = listed.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(LANDING).map(str::to_owned));
    names.map(|name| worktrees.join(name)).collect()
}

/// Completes or takes back the last step of an interrupted landing. The result is a message for the person; none if nothing was
/// to be done.
///
/// # Errors
/// Something is left that only the person can decide.
pub fn recover(root: &Path, env: &Environment, job: &Job) -> Outcome<Option<String>> {
    let Some((old, new, checkout)) = read(root) else { return Ok(None) };
    let outcome = recover_at(&checkout, (&old, &new), env, job);
    end(root);
    outcome.map_err(|why| format!("a landing in {} was interrupted: {why}", checkout.display()))
}

fn read(root: &Path) -> Option<(String, String, PathBuf)> {
    let note = String::from_utf8(read_followed(&note_of(root), MAX_NOTE).ok()?).ok()?;
    let mut parts = note.splitn(3, '\n');
    Some((parts.next()?.to_owned(), parts.next()?.to_owned(), parts.next()?.into()))
}

fn recover_at(checkout: &Path, (old, new): (&str, &str), env: &Environment, job: &Job) -> Outcome<Option<String>> {
    let common = sandbox::git_directory(checkout).ok_or("it is no longer a repository")?;
    let mut git = Git::at(checkout, &common, env, job);
    git.max_output = usize::try_from(MAX_FILE).unwrap_or(usize::MAX);
    let run = |arguments: &[&str]| git.run(checkout, &plain(arguments));
    if run(&["rev-parse", "HEAD"])? != old {
        // It had moved on, or the person has.
        return Ok(None);
    }
    drop(fs::remove_file(checkout.join(run(&["rev-parse", "--git-path", "index.lock"])?)));
    if run(&["diff", "--cached", "--quiet", new]).is_ok() {
        run(&["reset", "--quiet", "--soft", new])?;
        return Ok(Some(format!("a landing that was interrupted is complete now: {}", checkout.display())));
    }
    let changed = run(&["diff", "--no-renames", "--name-only", "-z", old, new])?;
    let names: Vec<&str> = changed.split('\0').filter(|name| !name.is_empty()).collect();
    let (mut restored, mut left) = (0, Vec::new());
    for name in names {
        let is_in_index = !run(&["ls-files", "--", &literal(name)])?.is_empty();
        let is_there = checkout.join(name).symlink_metadata().is_ok();
        if is_in_index && run(&["diff", "--quiet", "--", &literal(name)]).is_ok() || !is_in_index && !is_there {
            continue;
        }
        match (is_there, is_of_git(checkout, name, new, &git)) {
            (false, _) | (true, true) if is_in_index => drop(run(&["checkout-index", "--force", "--", name])?),
            (true, true) => fs::remove_file(checkout.join(name)).map_err(|error| reason(&error))?,
            _ => left.push(name),
        }
        restored += 1;
    }
    match (restored, left.is_empty()) {
        (0, _) => Ok(None),
        (_, true) => Ok(Some(format!("a landing that was interrupted was taken back: {}", checkout.display()))),
        (_, false) => Err(format!("look at these files, which also somebody else has changed: {}", left.join(", "))),
    }
}

/// A path without the meaning of its special characters (gitglossary(7), pathspec).
fn literal(name: &str) -> String {
    format!(":(top,literal){name}")
}

/// Whether git has written a file, or the beginning of it, as it is in a commit.
fn is_of_git(checkout: &Path, name: &str, commit: &str, git: &Git) -> bool {
    let path = checkout.join(name);
    let named = format!("{commit}:{name}");
    if let Ok(target) = fs::read_link(&path) {
        let meant = git.run(checkout, &plain(&["cat-file", "blob", &named]));
        return meant.is_ok_and(|meant| meant == target.to_string_lossy());
    }
    let hash = |arguments: &[&str]| git.run(checkout, &plain(arguments)).ok();
    if hash(&["hash-object", "--", name]).is_some_and(|hash_now| hash(&["rev-parse", &named]) == Some(hash_now)) {
        return true;
    }
    let Ok(begun) = read_followed(&path, MAX_FILE) else { return false };
    let whole = git.run(checkout, &plain(&["cat-file", "blob", &named])).unwrap_or_default();
    whole.starts_with(&*String::from_utf8_lossy(&begun))
}

impl Landing<'_> {
    /// After git has failed to move the branch on.
    pub(super) fn take_back(&self) {
        drop(recover(self.root, self.git.env, self.git.job));
    }
}
