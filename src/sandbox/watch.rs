//! Compares files that later programs obey before and after a command. A mount keeps existing files from being changed;
//! files that a command creates, those beyond the limit of mounts, and all files where mounts are not possible can only
//! be compared.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Level;
use super::plan::Plan;
use super::search::{self, Index, Search, TIME_LIMIT};
use crate::base::file::is_cover;
use crate::domain::places::PROTECTED;

/// A git directory with a `commondir` takes its configuration from elsewhere. No command has a reason to create one.
const LEADS_ELSEWHERE: &str = "commondir";
/// How many files in one protected directory are compared; with more, commands ask.
const MAX_FILES: usize = 10_000;

/// The protected files as they were before a command.
pub struct Watch {
    workspace: PathBuf,
    roots: Vec<PathBuf>,
    protected: Vec<PathBuf>,
    before: BTreeMap<PathBuf, State>,
    is_partial: bool,
    index: Index,
}

/// The state of a path: a directory, or a file with its device, inode, length and time of the last change (which no
/// command can set).
#[derive(PartialEq, Eq, Clone, Copy)]
enum State {
    Directory,
    File(u64, u64, u64, i64, i64),
}

impl Watch {
    /// Looks at the protected files of a plan. Where a repository has no `hooks`, creates an empty directory: a command
    /// could create it otherwise.
    pub fn start(plan: &Plan) -> Option<Self> {
        if plan.level == Level::None || plan.protected.is_empty() {
            return None;
        }
        for hooks in plan.protected.iter().filter(|path| path.ends_with("hooks")) {
            if hooks.parent().is_some_and(|git| git.join("HEAD").is_file()) {
                // Fails if it exists, and where nothing can be written, the command cannot either.
                let _ = fs::create_dir(hooks);
            }
        }
        let links = plan.kept_links.iter().map(|(link, _)| link);
        let protected: Vec<PathBuf> = plan.protected.iter().chain(links).cloned().collect();
        Some(Self {
            workspace: plan.workspace().to_owned(),
            roots: plan.searched.clone(),
            before: states(&protected, &plan.search),
            protected,
            is_partial: plan.search.is_partial,
            index: plan.index.clone(),
        })
    }

    /// Creations and changes since the last look, one line each for the user and the model, changes first; before them,
    /// whether some may be missing. Files that lead git elsewhere are removed at once.
    pub fn changes(&mut self) -> Vec<String> {
        let search = self.index.search(&self.roots, TIME_LIMIT);
        let after = states(&self.protected, &search);
        let mut lines = self.compare(&after);
        self.before = after;
        if self.is_partial || search.is_partial {
            lines.insert(0, search::partial_search_warning());
        }
        lines
    }

    /// The same for the protected files that were known at the start and the usual names at the top, which needs no
    /// search.
    pub fn glance(&mut self) -> Vec<String> {
        let after = states(&self.protected, &Search::default());
        let lines = self.compare(&after);
        self.before.extend(after);
        lines
    }

    fn compare(&self, after: &BTreeMap<PathBuf, State>) -> Vec<String> {
        let (mut changed, mut created) = (Vec::new(), Vec::new());
        let mut above: Option<&PathBuf> = None;
        for (path, state) in after {
            match self.before.get(path) {
                Some(before) if before == state => {}
                Some(_) => changed.push(self.line(path, true)),
                None if above.is_some_and(|above| path.starts_with(above)) => {}
                None => {
                    above = Some(path);
                    created.push(self.line(path, false));
                }
            }
        }
        changed.extend(created);
        changed
    }

    fn line(&self, path: &Path, was_there: bool) -> String {
        let below = path.strip_prefix(&self.workspace).ok().filter(|below| !below.as_os_str().is_empty());
        let shown = below.unwrap_or(path).display();
        let is_file = path.symlink_metadata().is_ok_and(|found| !found.is_dir());
        if !was_there && path.ends_with(LEADS_ELSEWHERE) && is_file && fs::remove_file(path).is_ok() {
            return format!("{shown} was created during this command, and is removed");
        }
        let what = if was_there { "changed" } else { "created" };
        format!("{shown} was {what} during this command: {}", about(path))
    }
}

/// Why it matters.
fn about(path: &Path) -> &'static str {
    let row = |part: &std::ffi::OsStr| PROTECTED.iter().find(|row| part.eq_ignore_ascii_case(row.name));
    let row = path.components().rev().find_map(|part| row(part.as_os_str()));
    row.map_or("git or a hook obeys it", |row| row.about)
}

/// The important files in a git directory are protected by themselves. Covers are ignored.
fn states(protected: &[PathBuf], search: &Search) -> BTreeMap<PathBuf, State> {
    let mut states = BTreeMap::new();
    for path in protected.iter().chain(&search.protected) {
        add(path, &mut MAX_FILES.clone(), &mut states);
    }
    let repositories = search.repositories.iter().filter(|path| !is_cover(path));
    states.extend(repositories.map(|path| (path.clone(), State::Directory)));
    states
}

fn add(path: &Path, left: &mut usize, states: &mut BTreeMap<PathBuf, State>) {
    let Ok(found) = path.symlink_metadata() else { return };
    if found.is_dir() && is_cover(path) {
        return;
    }
    let file = || State::File(found.dev(), found.ino(), found.len(), found.ctime(), found.ctime_nsec());
    states.insert(path.to_owned(), if found.is_dir() { State::Directory } else { file() });
    if !found.is_dir() || path.ends_with(".git") {
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let Some(fewer) = left.checked_sub(1) else { return };
        *left = fewer;
        add(&entry.path(), left, states);
    }
}
