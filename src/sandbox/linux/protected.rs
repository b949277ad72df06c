//! The protected files of a plan, as the supervisor sees them: before the call and after it. A mount keeps what exists;
//! what does not exist, or is a symbolic link, can only be compared.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::sandbox::Plan;

/// A git directory with a `commondir` takes its configuration from elsewhere. No command has a reason to create one.
const LEADS_ELSEWHERE: &str = "commondir";

#[derive(Default)]
pub struct Protected(Vec<(PathBuf, Option<Identity>)>);

/// Device, inode, length and time of the last change; those of a directory change with its content.
#[derive(PartialEq, Eq, Clone, Copy)]
struct Identity(u64, u64, u64, i64, i64);

impl Protected {
    pub fn of(plan: &Plan) -> Self {
        Self(plan.protected.iter().map(|path| (path.clone(), identity(path))).collect())
    }

    /// The paths that were created, replaced or changed. What leads git elsewhere is removed at once.
    pub fn changes(&self) -> Vec<String> {
        let changed = self.0.iter().filter(|(path, before)| identity(path) != *before);
        let describe = |(path, before): &(PathBuf, Option<Identity>)| {
            let is_file = path.symlink_metadata().is_ok_and(|found| !found.is_dir());
            if before.is_none() && path.ends_with(LEADS_ELSEWHERE) && is_file && fs::remove_file(path).is_ok() {
                return format!("{} was created, and is removed", path.display());
            }
            let what = if before.is_none() { "was created" } else { "was changed" };
            format!("{} {what}", path.display())
        };
        changed.map(describe).collect()
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let found = path.symlink_metadata().ok()?;
    Some(Identity(found.dev(), found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}

/// Creates an empty `hooks` in every git directory without one: a command could create it otherwise.
pub fn create_missing(plan: &Plan) {
    for hooks in plan.protected.iter().filter(|path| path.ends_with("hooks")) {
        if hooks.parent().is_some_and(|git| git.join("HEAD").is_file()) {
            // Fails if it exists, and where nothing can be written, the command cannot either.
            let _ = fs::create_dir(hooks);
        }
    }
}
