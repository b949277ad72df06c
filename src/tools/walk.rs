//! Walking through directories as a developer sees them: what ignore files name is left out, links are not followed, and
//! nothing that is met can hold the walk up or lead it in circles.
//!
//! Only the project's own ignore files count (`.gitignore`, `.ignore`): the same question has the same answer on every
//! machine. A directory that must be walked although it is ignored can be named as the place where to begin.

use std::fs;
use std::path::{Path, PathBuf};

use ignore::{DirEntry, Walk, WalkBuilder};

use super::opening::{cannot, is_of_a_process};
use super::{Environment, Job, visible};

/// Entries that one walk looks at, at most: somebody who begins at `/` is told to begin deeper.
const MOST_ENTRIES: usize = 500_000;

/// How large an ignore file may be, in bytes: it is read whole.
const LARGEST_IGNORE_FILE: u64 = 1 << 20;

/// Directories of the kernel, where nothing is a file of anybody's.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Why a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All was seen.
    Complete,
    /// The visitor had enough.
    Enough,
    /// There was more than anybody should walk through.
    TooMuch,
    /// The job was cancelled.
    Interrupted,
}

/// Whether a visitor wants more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go {
    /// It does.
    On,
    /// It has enough.
    Stop,
}

/// Where a walk begins: a directory or a single file, links to it followed.
pub struct Start {
    root: PathBuf,
    depth: Option<usize>,
}

impl Start {
    /// The place that a model named.
    ///
    /// # Errors
    /// Words for the model: it does not exist, or must not be walked.
    pub fn at(path: &str, env: &Environment, depth: Option<usize>) -> Result<Self, String> {
        if path.contains('\0') {
            return Err("`path` contains a NUL character.".into());
        }
        let root = fs::canonicalize(env.resolve(path)).map_err(|error| format!("{path} {}.", cannot(&error)))?;
        if is_of_a_process(&root) {
            return Err(format!("{path} belongs to a process and may hold secrets."));
        }
        match root.ancestors().find(|directory| !has_harmless_ignore_files(directory)) {
            Some(odd) => Err(format!("{} has an ignore file that cannot be read as one.", odd.display())),
            None => Ok(Self { root, depth }),
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.root.is_dir()
    }

    /// The place itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Visits everything below (a file: itself), a directory before what is in it, in the order of names.
    pub fn walk(&self, job: &Job, mut visit: impl FnMut(&DirEntry) -> Go) -> End {
        let is_file = !self.is_directory();
        for (count, entry) in self.entries().enumerate() {
            if job.is_cancelled() {
                return End::Interrupted;
            }
            if count >= MOST_ENTRIES {
                return End::TooMuch;
            }
            // A directory that may not be read is as good as empty: a model that needs it will name it.
            let Ok(entry) = entry else { continue };
            if (is_file || entry.depth() > 0) && visit(&entry) == Go::Stop {
                return End::Enough;
            }
        }
        End::Complete
    }

    fn entries(&self) -> Walk {
        WalkBuilder::new(&self.root)
            .hidden(false)
            .git_global(false)
            .git_exclude(false)
            .require_git(false)
            .follow_links(false)
            .max_depth(self.depth)
            .sort_by_file_name(Ord::cmp)
            .filter_entry(is_worth_a_visit)
            .build()
    }

    /// How an entry is called from where the walk began.
    pub fn relative<'a>(&self, entry: &'a DirEntry) -> &'a Path {
        entry.path().strip_prefix(&self.root).unwrap_or(entry.path())
    }

    /// How a model calls an entry: from the working directory on where it lies in there, else by its whole path.
    pub fn shown(&self, path: &Path, env: &Environment) -> String {
        visible(&path.strip_prefix(&env.working_directory).unwrap_or(path).to_string_lossy())
    }
}

fn is_worth_a_visit(entry: &DirEntry) -> bool {
    let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
    if !is_directory {
        return true;
    }
    let path = entry.path();
    entry.file_name() != ".git" && !KERNEL.iter().any(|of| path == Path::new(of)) && has_harmless_ignore_files(path)
}

/// Whether ignore files in this directory are files: a pipe of that name would hold the walk up for ever.
fn has_harmless_ignore_files(directory: &Path) -> bool {
    [".gitignore", ".ignore"].iter().all(|name| match fs::metadata(directory.join(name)) {
        Ok(found) => found.is_file() && found.len() <= LARGEST_IGNORE_FILE,
        Err(_) => true,
    })
}
