//! Empty directories in place of protected names that do not exist, while a long-lived process runs: nothing can be
//! mounted on a missing path, and such a process could wait until somebody creates the name, and then change what is in
//! it.
//!
//! A cover has the sticky bit, which distinguishes it from a directory that somebody has made. Every process that needs
//! one holds a shared lock on it; the last one removes it, unless it is no longer empty.

use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

use crate::base::file::{COVER_MARK, is_cover};

const MODE: u32 = 0o755;
/// How often to try again when another process removes the cover at the same time.
const ATTEMPTS: usize = 16;

/// Whether a name can be covered: nothing is there, or a cover.
pub fn can_cover(path: &Path) -> bool {
    path.symlink_metadata().is_err() || is_cover(path)
}

/// Covers that exist until this is dropped.
pub struct Covers(Vec<(PathBuf, File)>);

impl Covers {
    /// Makes them. Where none can be made, no command can create the name either.
    pub fn hold(paths: &[PathBuf]) -> Self {
        Self(paths.iter().filter_map(|path| Some((path.clone(), cover(path)?))).collect())
    }
}

fn cover(path: &Path) -> Option<File> {
    for _ in 0..ATTEMPTS {
        // It may exist.
        let _ = DirBuilder::new().mode(COVER_MARK | MODE).create(path);
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = File::from(open(path, flags, Mode::empty()).ok()?);
        let is_locked = flock(&directory, FlockOperation::NonBlockingLockShared).is_ok();
        // The last one may have removed it before it was locked.
        let is_there = path.symlink_metadata().ok().zip(directory.metadata().ok());
        if is_locked && is_there.is_some_and(|(there, held)| (there.dev(), there.ino()) == (held.dev(), held.ino())) {
            return Some(directory);
        }
    }
    None
}

impl Drop for Covers {
    fn drop(&mut self) {
        for (path, directory) in &self.0 {
            let is_marked = directory.metadata().is_ok_and(|found| found.mode() & COVER_MARK != 0);
            if !is_marked || flock(directory, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            if fs::remove_dir(path).is_err() {
                // Somebody uses it. It stays marked if it belongs to another user by now.
                let _ = directory.set_permissions(Permissions::from_mode(MODE));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cover_goes_with_the_last_process_unless_something_is_in_it() {
        let top = tempfile::tempdir().unwrap();
        let paths = [".git", ".claude"].map(|name| top.path().join(name));
        let (one, other) = (Covers::hold(&paths), Covers::hold(&paths));
        drop(one);
        assert!(paths.iter().all(|path| is_cover(path) && can_cover(path)));
        fs::write(paths[0].join("HEAD"), "").unwrap();
        assert!(!is_cover(&paths[0]));
        drop(other);
        assert!(paths[0].is_dir() && !paths[1].exists());
        assert_eq!(paths[0].metadata().unwrap().mode() & 0o7777, MODE);
        // A directory that somebody has made stays.
        fs::create_dir(&paths[1]).unwrap();
        assert!(!can_cover(&paths[1]));
    }
}
