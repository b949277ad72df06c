//! Walks a directory tree with the `ignore` crate: ignored files are skipped, and symbolic links are not
//! followed.
//!
//! Only `.gitignore` (inside a git repository) and `.ignore` count, not the user's global git configuration, so that a
//! call has the same result on every machine. An ignored directory can still be listed by naming it as the start.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::{DirEntry, Walk, WalkBuilder};

use super::file_access::not_readable;
use super::locate::Opener;
use super::{Environment, Job, visible};
use crate::policy::paths::{Access, DenyList, PathPolicy, Verdict};

/// How many entries one walk visits.
const MAX_ENTRIES: usize = 500_000;

/// Files of the kernel, which are left out of a walk that does not start there.
const KERNEL_DIRECTORIES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The `ignore` crate reads ignore files whole.
const MAX_IGNORE_FILE_SIZE: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkEnd {
    /// Every entry was visited.
    Complete,
    Stopped,
    /// [`MAX_ENTRIES`] was reached.
    TooManyEntries,
    Cancelled,
}

/// Where a walk starts: a directory or a single file.
pub struct WalkRoot {
    path: PathBuf,
    max_depth: Option<usize>,
    /// What tools never open, if any of it may be below.
    denied: Option<Denied>,
    /// Whether `.gitignore` counts only inside a git repository.
    requires_git: bool,
}

/// The deny list for entries, owned by the walk.
#[derive(Clone)]
struct Denied {
    workspace: PathBuf,
    outputs: PathBuf,
    skills: Arc<[PathBuf]>,
    list: Arc<DenyList>,
}

impl Denied {
    fn contains(&self, path: &Path) -> bool {
        let (workspace, outputs, skills) = (&*self.workspace, &*self.outputs, &*self.skills);
        let policy = PathPolicy { workspace, outputs, skills, guarded: &[], denied: &self.list };
        matches!(policy.verdict(path, Access::Read), Verdict::Denied(_))
    }
}

impl WalkRoot {
    /// `root` is the canonical target of `path`.
    pub fn new(path: &str, root: &Path, env: &Environment, max_depth: Option<usize>) -> Result<Self, String> {
        let problem =
            |error: &io::Error| format!("{path}: {}{}", not_readable(error), Opener::new(env).suggestion(root, error));
        let found = fs::symlink_metadata(root).map_err(|error| problem(&error))?;
        if found.is_symlink() {
            return Err(format!("{path}: was replaced by a symbolic link"));
        }
        let policy = env.path_policy();
        let denied = policy.may_contain_denied(root).then(|| Denied {
            workspace: policy.workspace.into(),
            outputs: policy.outputs.into(),
            skills: Arc::clone(&env.skill_folders),
            list: Arc::clone(&env.denied),
        });
        match root.ancestors().find(|directory| !has_readable_ignore_files(directory)) {
            Some(directory) => {
                let problem = ".gitignore or .ignore is not a regular file, or is larger than 1 MiB";
                Err(format!("{}: {problem}", directory.display()))
            }
            None => Ok(Self { path: root.into(), max_depth, denied, requires_git: true }),
        }
    }

    /// Lets `.gitignore` count outside of git repositories too.
    pub fn ignoring_everywhere(self) -> Self {
        Self { requires_git: false, ..self }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Visits everything below the start (of a file: the file itself), sorted by name, a directory before its entries.
    pub fn walk(&self, job: &Job, mut visit: impl FnMut(&DirEntry) -> ControlFlow<()>) -> WalkEnd {
        // A directory that cannot be read counts as empty, as for ripgrep.
        let entries = self.entries().flatten().filter(|entry| entry.depth() > 0 || !entry.path().is_dir());
        for (count, entry) in entries.enumerate() {
            if job.is_cancelled() {
                return WalkEnd::Cancelled;
            }
            if count >= MAX_ENTRIES {
                return WalkEnd::TooManyEntries;
            }
            if visit(&entry).is_break() {
                return WalkEnd::Stopped;
            }
        }
        if job.is_cancelled() { WalkEnd::Cancelled } else { WalkEnd::Complete }
    }

    fn entries(&self) -> Walk {
        let denied = self.denied.clone();
        WalkBuilder::new(&self.path)
            .hidden(false)
            .git_global(false)
            .git_exclude(false)
            .require_git(self.requires_git)
            .max_depth(self.max_depth)
            .sort_by_file_name(Ord::cmp)
            .filter_entry(move |entry| {
                !denied.as_ref().is_some_and(|denied| denied.contains(entry.path()))
                    && (!is_directory(entry) || may_be_entered(entry.path()))
            })
            .build()
    }

    /// The path of an entry from the start; of a start that is a file, its name.
    pub fn relative<'a>(&self, entry: &'a DirEntry) -> &'a Path {
        match entry.path().strip_prefix(&self.path) {
            Ok(path) if !path.as_os_str().is_empty() => path,
            _ => Path::new(entry.file_name()),
        }
    }

    /// The path to show to the model: relative to the working directory if it is below that, else absolute.
    pub fn display_path(&self, path: &Path, env: &Environment) -> String {
        visible(&path.strip_prefix(&env.working_directory).unwrap_or(path).to_string_lossy())
    }
}

pub fn too_many_entries() -> String {
    format!("[stopped after {MAX_ENTRIES} entries; search a subdirectory]")
}

pub fn is_directory(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_dir())
}

fn may_be_entered(directory: &Path) -> bool {
    directory.file_name().is_none_or(|name| name != ".git")
        && !KERNEL_DIRECTORIES.iter().any(|kernel| directory == Path::new(kernel))
        && has_readable_ignore_files(directory)
}

/// The `ignore` crate opens ignore files without looking: it would wait for ever on a pipe of that name.
fn has_readable_ignore_files(directory: &Path) -> bool {
    [".gitignore", ".ignore"].iter().all(|name| match fs::metadata(directory.join(name)) {
        Ok(found) => found.is_file() && found.len() <= MAX_IGNORE_FILE_SIZE,
        Err(_) => true,
    })
}
