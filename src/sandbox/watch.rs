//! Compares what later programs obey before and after a command. A mount keeps what exists from being changed; what a
//! command creates, what is too much to be mounted, and everything where there are no mounts can only be compared.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Level;
use super::plan::Plan;
use super::search::{Index, Search, TIME_LIMIT};
use crate::domain::places::PROTECTED;

/// A git directory with a `commondir` takes its configuration from elsewhere. No command has a reason to create one.
const LEADS_ELSEWHERE: &str = "commondir";
/// How many changes are listed.
const MAX_LISTED: usize = 8;
/// How many files in one protected directory are compared.
const MAX_FILES: usize = 1_000;

/// The protected files as they were before a command.
pub struct Watch {
    workspace: PathBuf,
    roots: Vec<PathBuf>,
    protected: Vec<PathBuf>,
    before: BTreeMap<PathBuf, State>,
    is_partial: bool,
    index: Index,
}

/// What a path was: a directory, or a file with its device, inode, length and time of the last change (which no command can
/// set).
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

    /// What was created or changed, one line each for the user and the model. What leads git elsewhere is removed at once.
    pub fn changes(self) -> Vec<String> {
        let search = self.index.search(&self.roots, TIME_LIMIT);
        let after = states(&self.protected, &search);
        let mut lines = Vec::new();
        let mut created: Option<&PathBuf> = None;
        for (path, state) in &after {
            let before = self.before.get(path);
            if before == Some(state) || before.is_none() && created.is_some_and(|above| path.starts_with(above)) {
                continue;
            }
            created = before.is_none().then_some(path).or(created);
            lines.push(self.line(path, before.is_some()));
        }
        if lines.len() > MAX_LISTED {
            let more = lines.len() - MAX_LISTED;
            lines.truncate(MAX_LISTED);
            lines.push(format!("{more} more protected files were created or changed"));
        }
        if self.is_partial || search.is_partial {
            lines.push(format!("the workspace is too large to be searched whole in {TIME_LIMIT:?}"));
        }
        lines
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
    let row = |part: &std::ffi::OsStr| PROTECTED.iter().find(|(name, _)| part.eq_ignore_ascii_case(name));
    let about = path.components().rev().find_map(|part| row(part.as_os_str()));
    about.map_or("git or a hook obeys it", |(_, about)| about)
}

/// What matters in a git directory is protected by itself.
fn states(protected: &[PathBuf], search: &Search) -> BTreeMap<PathBuf, State> {
    let mut states = BTreeMap::new();
    for path in protected.iter().chain(&search.protected) {
        add(path, &mut MAX_FILES.clone(), &mut states);
    }
    states.extend(search.repositories.iter().map(|path| (path.clone(), State::Directory)));
    states
}

fn add(path: &Path, left: &mut usize, states: &mut BTreeMap<PathBuf, State>) {
    let Ok(found) = path.symlink_metadata() else { return };
    let file = || State::File(found.dev(), found.ino(), found.len(), found.ctime(), found.ctime_nsec());
    states.insert(path.to_owned(), if found.is_dir() { State::Directory } else { file() });
    if !found.is_dir() {
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let Some(fewer) = left.checked_sub(1) else { return };
        *left = fewer;
        add(&entry.path(), left, states);
    }
}
