//! Walking through directories as a developer sees them: what ignore files name is left out, links are not followed, and
//! nothing that is met can hold the walk up or lead it in circles.
//!
//! Only the project's own ignore files count (`.gitignore`, `.ignore`): the same question has the same answer on every
//! machine. A directory that must be walked although it is ignored can be named as the place where to begin.

use std::fs::{self, FileType};
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

use super::ignoring::{GITIGNORE, IGNORE, Ignoring, LARGEST};
use super::opening::{cannot, is_of_a_process};
use super::{Environment, Job, visible};

/// Entries that one walk looks at, at most: somebody who begins at `/` is told to begin deeper.
const MOST_ENTRIES: usize = 500_000;

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

/// What a walk has come to: a file, a directory, a link or something else.
pub struct Entry {
    path: PathBuf,
    kind: FileType,
}

impl Entry {
    /// The whole path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is; a link is a link.
    pub fn kind(&self) -> FileType {
        self.kind
    }
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
    pub fn walk(&self, job: &Job, mut visit: impl FnMut(&Entry) -> Go) -> End {
        let mut visit = |entry: &Entry| if job.is_cancelled() { Some(End::Interrupted) } else { visit(entry).end() };
        match fs::metadata(&self.root).map(|found| found.file_type()) {
            Ok(kind) if kind.is_dir() => Walking::from(self).go(&mut visit),
            Ok(kind) => visit(&Entry { path: self.root.clone(), kind }).unwrap_or(End::Complete),
            Err(_) => End::Complete,
        }
    }

    /// How an entry is called from where the walk began.
    pub fn relative<'a>(&self, entry: &'a Entry) -> &'a Path {
        entry.path().strip_prefix(&self.root).unwrap_or(entry.path())
    }

    /// How a model calls an entry: from the working directory on where it lies in there, else by its whole path.
    pub fn shown(&self, path: &Path, env: &Environment) -> String {
        visible(&path.strip_prefix(&env.working_directory).unwrap_or(path).to_string_lossy())
    }
}

impl Go {
    fn end(self) -> Option<End> {
        (self == Self::Stop).then_some(End::Enough)
    }
}

/// A walk on its way.
struct Walking {
    /// What is left to be visited of each directory from the first one to where the walk is.
    open: Vec<IntoIter<Entry>>,
    /// What ignore files say here: one level for each of these directories, above those of the directories further up.
    ignoring: Ignoring,
    depth: Option<usize>,
    /// Entries that may still be looked at.
    left: usize,
    is_cut: bool,
}

impl Walking {
    fn from(start: &Start) -> Self {
        let ignoring = Ignoring::above(&start.root);
        let mut walking = Self { open: Vec::new(), ignoring, depth: start.depth, left: MOST_ENTRIES, is_cut: false };
        walking.enter(&start.root);
        walking
    }

    fn go(mut self, visit: &mut dyn FnMut(&Entry) -> Option<End>) -> End {
        while let Some(directory) = self.open.last_mut() {
            let Some(entry) = directory.next() else {
                self.open.pop();
                self.ignoring.leave();
                continue;
            };
            let is_directory = entry.kind.is_dir();
            if self.ignoring.is_ignored(&entry.path, is_directory) || is_directory && !is_worth_a_visit(&entry.path) {
                continue;
            }
            if let Some(end) = visit(&entry) {
                return end;
            }
            if is_directory && self.depth.is_none_or(|depth| self.open.len() < depth) {
                self.enter(&entry.path);
            }
        }
        if self.is_cut { End::TooMuch } else { End::Complete }
    }

    /// Begins with a directory. One that may not be read is as good as empty: a model that needs it will name it.
    fn enter(&mut self, directory: &Path) {
        self.ignoring.enter(directory);
        let mut found = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut entries: Vec<Entry> = found.by_ref().take(self.left).filter_map(|entry| as_entry(&entry)).collect();
        self.is_cut |= found.next().is_some();
        self.left -= entries.len();
        entries.sort_unstable_by(|one, other| one.path.file_name().cmp(&other.path.file_name()));
        self.open.push(entries.into_iter());
    }
}

fn as_entry(found: &fs::DirEntry) -> Option<Entry> {
    Some(Entry { path: found.path(), kind: found.file_type().ok()? })
}

fn is_worth_a_visit(directory: &Path) -> bool {
    directory.file_name().is_none_or(|name| name != ".git")
        && !KERNEL.iter().any(|of| directory == Path::new(of))
        && has_harmless_ignore_files(directory)
}

/// Whether ignore files in this directory are files: a pipe of that name would hold the walk up for ever.
fn has_harmless_ignore_files(directory: &Path) -> bool {
    [GITIGNORE, IGNORE].iter().all(|name| match fs::metadata(directory.join(name)) {
        Ok(found) => found.is_file() && found.len() <= LARGEST,
        Err(_) => true,
    })
}
