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
use crate::tools::{Environment, Job, Outcome, visible};

/// Of a note, in bytes.
const MAX_NOTE: u64 = 64 << 10;
/// Ends the names of notes.
const LANDING: &str = ".landing";
/// The most bytes of a file that is compared with what git would have written.
const MAX_FILE: u64 = 64 << 20;

/// The note about a landing of the worktree at `root`.
fn note_of(root: &Path) -> PathBuf {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    notes(root.parent().unwrap_or(root)).join(format!("{name}{LANDING}"))
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
    let listed = fs::read_dir(notes(worktrees)).into_iter().flatten().flatten();
    let names = listed.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(LANDING).map(str::to_owned));
    names.map(|name| worktrees.join(name)).collect()
}

/// Completes or takes back the last step of an interrupted landing. The result is a message for the person; none if nothing was
/// to be done. If git cannot be run, the note stays.
///
/// # Errors
/// Something is left that only the person can decide.
pub fn recover(root: &Path, env: &Environment, job: &Job) -> Outcome<Option<String>> {
    let Some(step) = read(root) else { return Ok(None) };
    let shown = step.checkout.display();
    let left = step.recover(root, env, job).map_err(|why| format!("a landing in {shown} was interrupted: {why}"))?;
    end(root);
    match left {
        Recovered::Nothing => Ok(None),
        Recovered::Complete => Ok(Some(format!("a landing that was interrupted is complete now: {shown}"))),
        Recovered::TakenBack => Ok(Some(format!("a landing that was interrupted was taken back: {shown}"))),
        Recovered::Except(names) => Err(format!(
            "a landing in {shown} was interrupted: look at these files, which also somebody else has changed: {}",
            names.join(", ")
        )),
    }
}

/// The step that a note is about.
struct Step {
    old: String,
    new: String,
    checkout: PathBuf,
}

enum Recovered {
    Nothing,
    Complete,
    TakenBack,
    /// But for these files.
    Except(Vec<String>),
}

fn read(root: &Path) -> Option<Step> {
    let note = String::from_utf8(read_followed(&note_of(root), MAX_NOTE).ok()?).ok()?;
    let mut parts = note.splitn(3, '\n');
    Some(Step { old: parts.next()?.to_owned(), new: parts.next()?.to_owned(), checkout: parts.next()?.into() })
}

impl Step {
    fn recover(&self, root: &Path, env: &Environment, job: &Job) -> Outcome<Recovered> {
        let Self { old, new, checkout } = self;
        let common = sandbox::git_directory(checkout).ok_or("it is no longer a repository")?;
        let git = Git::at(checkout, &common, env, job)?;
        let run = |arguments: &[&str]| git.run(checkout, &plain(arguments));
        if run(&["rev-parse", "HEAD"])? != *old {
            // It had moved on, or the person has.
            return Ok(Recovered::Nothing);
        }
        let lock = checkout.join(run(&["rev-parse", "--git-path", "index.lock"])?);
        let changed_at = |path: &Path| path.symlink_metadata().and_then(|found| found.modified()).ok();
        match changed_at(&lock) {
            Some(locked) if changed_at(&note_of(root)).is_some_and(|noted| locked < noted) => {
                return Err(format!("{} is in use", lock.display()));
            }
            Some(_) => drop(fs::remove_file(&lock)),
            None => {}
        }
        if run(&["diff", "--cached", "--quiet", new]).is_ok() {
            run(&["reset", "--quiet", "--soft", new])?;
            return Ok(Recovered::Complete);
        }
        let changed = run(&["diff", "--no-renames", "--name-only", "-z", old, new])?;
        let (mut restored, mut left) = (false, Vec::new());
        for name in changed.split('\0').filter(|name| !name.is_empty()) {
            match self.take_back(name, &git) {
                Ok(was_changed) => restored |= was_changed,
                Err(_) if job.is_cancelled() => return Err("interrupted".into()),
                Err(_) => left.push(visible(name)),
            }
        }
        Ok(match (restored, left.is_empty()) {
            (false, true) => Recovered::Nothing,
            (true, true) => Recovered::TakenBack,
            (_, false) => Recovered::Except(left),
        })
    }

    /// Brings a file back to what is in the index. Returns whether it had been changed; fails if not only by git.
    fn take_back(&self, name: &str, git: &Git) -> Outcome<bool> {
        let checkout = &self.checkout;
        let run = |arguments: &[&str]| git.run(checkout, &plain(arguments));
        if name.contains(char::REPLACEMENT_CHARACTER) || self.leads_through_link(name) {
            return Err("its name is not one that can be handled".into());
        }
        let listed = run(&["ls-files", "-z", "--", &literal(name)])?;
        let is_in_index = listed.split('\0').any(|listed| listed == name);
        let is_there = checkout.join(name).symlink_metadata().is_ok();
        if is_in_index && run(&["diff", "--quiet", "--", &literal(name)]).is_ok() || !is_in_index && !is_there {
            return Ok(false);
        }
        if is_there && !self.is_of_git(name, git) {
            return Err("somebody else has changed it".into());
        }
        match is_in_index {
            true => run(&["checkout-index", "--force", "--", name])?,
            // By git, in the sandbox, which writes nowhere else.
            false => run(&["clean", "--force", "--quiet", "-x", "--", &literal(name)])?,
        };
        Ok(true)
    }

    /// Whether a directory above a file is a link.
    fn leads_through_link(&self, name: &str) -> bool {
        let above = Path::new(name).ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        above.into_iter().any(|above| self.checkout.join(above).is_symlink())
    }

    /// Whether git has written a file, or the beginning of it, as it is in the new commit.
    fn is_of_git(&self, name: &str, git: &Git) -> bool {
        let path = self.checkout.join(name);
        let named = format!("{}:{name}", self.new);
        let run = |arguments: &[&str]| git.run(&self.checkout, &plain(arguments)).ok();
        let Some(whole) = run(&["cat-file", "blob", &named]) else { return false };
        if let Ok(target) = fs::read_link(&path) {
            return whole == target.to_string_lossy();
        }
        if run(&["hash-object", "--", name]).is_some_and(|hash| run(&["rev-parse", &named]) == Some(hash)) {
            return true;
        }
        let begun = read_followed(&path, MAX_FILE).unwrap_or_default();
        !begun.is_empty() && whole.starts_with(&*String::from_utf8_lossy(&begun))
    }
}

/// A path without the meaning of its special characters (gitglossary(7), pathspec).
fn literal(name: &str) -> String {
    format!(":(top,literal){name}")
}

impl Landing<'_> {
    /// After git was stopped while it moved the branch on. Fails with what is not as it was.
    pub(super) fn take_back(&self) -> Outcome<()> {
        self.without_interruption(|git| recover(self.root, git.env, git.job).map(drop))
    }
}
