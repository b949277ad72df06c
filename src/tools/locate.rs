//! From the path that a model wrote to the file that it means, and whether the tools may open it.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;
use rustix::io::Errno;

use super::Environment;
use super::file_access::{not_readable, reason, suggestion};
use crate::base::beneath::{self, FileId};
use crate::base::process::account_home;
use crate::domain::places::{GIT_MARKS, PROTECTED_IN_GIT};
use crate::policy::paths::{self, Access, DenyList, Linked, PathPolicy, Verdict};

/// As many as the kernel follows (path_resolution(7)).
pub(super) const MAX_LINKS: usize = 40;

/// How many denied files are compared with a file that has several names.
const MAX_DENIED_FILES: usize = 10_000;
/// How many directories deep these are looked for.
const MAX_DENIED_DEPTH: usize = 4;

/// A path of a call: its target, and what the tools may do there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Canonical; it need not exist.
    pub path: PathBuf,
    /// What the tools may do there.
    pub verdict: Verdict,
}

impl Environment {
    /// Where the tools may go in this environment.
    pub fn path_policy(&self) -> PathPolicy<'_> {
        let workspace = self.worktree.as_deref().unwrap_or(&self.working_directory);
        PathPolicy {
            workspace,
            outputs: &self.output_directory,
            skills: &self.skill_folders,
            guarded: &self.sandbox.settings.guarded,
            denied: &self.denied,
        }
    }

    /// Makes a path from a model absolute; `~` is the home directory.
    pub fn resolve(&self, path: &str) -> PathBuf {
        let below_home = path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
        match (below_home, &self.denied.home) {
            (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
            _ => self.working_directory.join(path),
        }
    }

    /// Finds the target of a path.
    pub fn locate(&self, path: &str, access: Access) -> Result<Located, String> {
        if path.is_empty() || path.contains('\0') {
            return Err("the path must not be empty or contain a NUL character".into());
        }
        let written = self.resolve(path);
        let found = canonical(&written, MAX_LINKS).map_err(|error| format!("{path}: {}", not_located(&error)))?;
        let kind = found.symlink_metadata().map(|found| found.file_type());
        let access = match kind {
            Ok(kind) if access == Access::Read && kind.is_dir() => Access::List,
            _ => access,
        };
        let policy = self.path_policy();
        let mut verdict = policy.verdict(&found, access);
        if access == Access::Write && is_in_git_directory(&found, policy.workspace) {
            verdict = verdict.or_protected();
        }
        if let Verdict::Denied(what) = verdict {
            return Err(denial_message(path, what));
        }
        if access == Access::Read && kind.is_ok_and(|kind| !kind.is_file()) {
            return Err(format!("{path}: not a regular file"));
        }
        Ok(Located { path: found, verdict })
    }
}

/// Whether a file that is written is one that git obeys in a git directory of any name, or one that makes a directory look
/// like a git directory: two of the three marks are enough, since the third may come from a command.
fn is_in_git_directory(path: &Path, workspace: &Path) -> bool {
    let is_one_of = |name: &OsStr, names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
    let below = path.ancestors().take_while(|above| *above != workspace);
    below.filter_map(|path| Some((path.parent()?, path.file_name()?))).any(|(directory, name)| {
        let is_mark = is_one_of(name, &GIT_MARKS);
        let is_there = |mark: &str| is_mark && name.eq_ignore_ascii_case(mark) || has_entry(directory, mark);
        (is_mark || is_one_of(name, PROTECTED_IN_GIT)) && GIT_MARKS.iter().filter(|mark| is_there(mark)).count() > 1
    })
}

fn has_entry(directory: &Path, name: &str) -> bool {
    directory.join(name).symlink_metadata().is_ok()
}

fn not_located(error: &io::Error) -> String {
    let is_loop = Errno::from_io_error(error) == Some(Errno::LOOP);
    match error.kind() {
        _ if is_loop => "too many symbolic links".into(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => not_readable(error),
        _ => reason(error),
    }
}

/// Why a path is refused.
pub fn denial_message(path: &str, what: &str) -> String {
    format!("{path}: access denied: {what}; tools never open it")
}

/// The path without symbolic links; its end need not exist.
pub(super) fn canonical(path: &Path, links: usize) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        result => return result,
    }
    let parent = path.parent().ok_or(io::ErrorKind::NotFound)?;
    if let Ok(target) = fs::read_link(path) {
        let left = links.checked_sub(1).ok_or(Errno::LOOP)?;
        return canonical(&parent.join(target), left);
    }
    // A path that ends with `..` has no name.
    let name = path.file_name().ok_or(io::ErrorKind::NotFound)?;
    Ok(canonical(parent, links)?.join(name))
}

/// The directories to which variables of this process move parts of the table, with the part; `HOME` may move all of it
/// away from the home directory of the account.
pub fn moved_directories() -> Vec<(PathBuf, &'static str)> {
    let directory = |(name, part): &(&str, &'static str)| Some((PathBuf::from(std::env::var_os(name)?), *part));
    let moved = paths::MOVED.iter().filter_map(directory).filter(|(directory, _)| directory.is_absolute());
    let account = account_home().filter(|home| home.is_absolute() && home.parent().is_some());
    moved.chain(account.map(|home| (home.to_owned(), ""))).collect()
}

/// Where the denied files of this machine are. `moved` is called when a path is judged for the first time.
pub fn deny_list(
    home: Option<PathBuf>,
    own: &[PathBuf],
    moved: impl FnOnce() -> Vec<(PathBuf, &'static str)> + Send + 'static,
) -> DenyList {
    let real = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let home = home.as_ref().map(real);
    let own = own.iter().flat_map(|path| [path.clone(), real(path)]).filter(|path| path.is_absolute()).collect();
    let below = home.clone();
    let linked = Linked::new(move || {
        let rows = below.as_deref().map(denied_below).unwrap_or_default();
        let leads_elsewhere =
            |(path, what): (PathBuf, _)| Some((fs::canonicalize(&path).ok()?, what)).filter(|(real, _)| *real != path);
        let mut linked: Vec<_> = rows.into_iter().filter_map(leads_elsewhere).collect();
        for (path, what) in moved().iter().flat_map(|(directory, part)| rows_in(directory, part)) {
            linked.extend([(real(&path), what), (path, what)]);
        }
        linked
    });
    DenyList { home, own, linked }
}

/// The paths of the table below a home directory that exist.
fn denied_below(home: &Path) -> Vec<(PathBuf, &'static str)> {
    let mut found = rows_in(home, "");
    found.retain(|(path, _)| path.symlink_metadata().is_ok());
    found
}

/// The paths of a part of the table, if that part is in this directory.
fn rows_in(directory: &Path, part: &str) -> Vec<(PathBuf, &'static str)> {
    let mut found = Vec::new();
    for (row, what) in paths::DENIED {
        let rest =
            if part.is_empty() { Some(*row) } else { row.strip_prefix(part).and_then(|rest| rest.strip_prefix('/')) };
        match rest {
            _ if *row == part => found.push((directory.to_path_buf(), *what)),
            Some(rest) if rest.contains('*') => found.extend(matching(directory, rest).map(|path| (path, *what))),
            Some(rest) => found.push((directory.join(rest), *what)),
            None => {}
        }
    }
    found
}

/// The paths that exist for a row with a `*` in its last name.
fn matching(directory: &Path, row: &str) -> impl Iterator<Item = PathBuf> {
    let parent = directory.join(row).parent().map(Path::to_path_buf).unwrap_or_default();
    let entries = fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(move |path| path.strip_prefix(directory).is_ok_and(|below| paths::is_at_or_below(row, below)))
}

/// Opens the files of one call.
pub struct Opener<'a> {
    env: &'a Environment,
    /// A denied file can have another name that is not denied.
    denied: OnceCell<HashSet<FileId>>,
}

impl<'a> Opener<'a> {
    /// For the files of one call in this environment.
    pub fn new(env: &'a Environment) -> Self {
        Self { env, denied: OnceCell::new() }
    }

    /// Opens the regular file at a canonical path, without blocking.
    ///
    /// # Errors
    /// A message for the model that follows the path and `: `.
    pub fn open(&self, path: &Path) -> Result<(File, Stat), String> {
        let (file, stat) = beneath::open_path(path).map_err(|error| self.not_opened(path, &error))?;
        self.check_names(&stat)?;
        Ok((file, stat))
    }

    fn not_opened(&self, path: &Path, error: &io::Error) -> String {
        match error.kind() {
            io::ErrorKind::IsADirectory => "is a directory; use list_dir".into(),
            io::ErrorKind::Other => reason(error),
            _ => not_readable(error) + &self.suggestion(path, error),
        }
    }

    /// The nearest name in the directory, which is named only inside the workspace.
    pub fn suggestion(&self, path: &Path, error: &io::Error) -> String {
        let is_free = self.env.path_policy().verdict(path, Access::List) == Verdict::Free;
        if is_free { suggestion(path, error) } else { String::new() }
    }

    /// Fails if one of the names of this file is denied.
    pub fn check_names(&self, stat: &Stat) -> Result<(), String> {
        let is_denied = || self.denied.get_or_init(|| denied_files(&self.env.denied)).contains(&FileId::of(stat));
        if stat.st_nlink > 1 && is_denied() {
            return Err("access denied: another name of this file is one that tools never open".into());
        }
        Ok(())
    }
}

/// All denied files that can be found quickly.
fn denied_files(list: &DenyList) -> HashSet<FileId> {
    let mut found = HashSet::new();
    // Of our own directories only the files: worktrees are below them.
    let mut waiting: Vec<(PathBuf, usize)> = list.own.iter().map(|own| (own.clone(), MAX_DENIED_DEPTH)).collect();
    let rows = list.home.as_deref().map(denied_below).unwrap_or_default().into_iter().map(|(path, _)| (path, 0));
    waiting.extend(rows.chain(list.linked.iter().map(|(path, _)| (path.clone(), 0))));
    while let Some((path, depth)) = waiting.pop().filter(|_| found.len() < MAX_DENIED_FILES) {
        let Ok(stat) = rustix::fs::stat(&path) else { continue };
        if beneath::require_regular(&stat).is_ok() {
            found.insert(FileId::of(&stat));
        } else if depth <= MAX_DENIED_DEPTH {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            waiting.extend(entries.map(|entry| (entry.path(), depth + 1)));
        }
    }
    found
}
