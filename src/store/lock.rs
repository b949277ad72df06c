//! The data directory: private to its owner, and held by one process at a time.
//!
//! The lock is `flock`, so it ends with its holder, however that ends. The file stays: deleting it would let two
//! processes hold two files with the same name. The process id inside is for messages; a process that ended cleanly has
//! emptied the file.

use std::fs::{DirBuilder, File};
use std::io::{ErrorKind as IoKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{Access, FlockOperation, access, flock};
use rustix::io::Errno;

use super::error::store_error;
use crate::base::error::{Error, ErrorKind, Result, system_message};
use crate::base::file::{open_private, open_regular};

const FILE: &str = "polylogue.lock";

/// Holds a data directory until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    /// The previous holder did not end cleanly.
    is_after_crash: bool,
    /// There was a previous holder.
    is_found: bool,
}

impl Lock {
    pub(super) fn is_after_crash(&self) -> bool {
        self.is_after_crash
    }

    /// Whether all that a previous holder wrote is on the disk.
    pub(super) fn is_after_clean_end(&self) -> bool {
        self.is_found && !self.is_after_crash
    }

    /// Records that everything this process wrote is on the disk.
    pub(super) fn note_clean_end(&self) {
        // If this fails, the next start does what it does after a crash.
        let _ = self.file.set_len(0);
    }
}

impl Drop for Lock {
    /// Closing the file is not enough: a child between fork and exec has a copy of the descriptor, which would hold the
    /// lock for that time.
    fn drop(&mut self) {
        // If this fails, closing the last copy unlocks.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Creates the directory, accessible only by its owner. An existing one may be readable by others, because the files in it
/// are private anyway; but who can write in it could replace them.
pub fn make_directory(dir: &Path) -> Result<()> {
    if dir.exists() && !dir.is_dir() {
        return Err(store_error(format!("{} is a file: the data directory must be a directory", dir.display())));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| {
        let error = io_error(dir, &error).context("cannot create the data directory");
        Error {
            message: format!("{}; --data-dir DIR chooses another one, --ephemeral stores nothing", error.message),
            ..error
        }
    })?;
    let mode = dir.metadata().map_err(|error| io_error(dir, &error))?.mode() & 0o777;
    if mode & 0o022 != 0 {
        let message = format!("other users can write in {0} (mode {mode:03o}): run chmod go-w '{0}'", dir.display());
        return Err(store_error(message));
    }
    Ok(())
}

/// Opens or creates a file that only its owner can read, and corrects its permissions.
pub fn private_file(path: &Path) -> Result<File> {
    open_private(path).map_err(|error| io_error(path, &error))
}

/// Takes the lock and writes the process id into the file.
pub(super) fn acquire(dir: &Path) -> Result<Lock> {
    let path = dir.join(FILE);
    // The database may be writable although the directory is not, and SQLite creates files beside it.
    access(dir, Access::WRITE_OK).map_err(|error| io_error(&path, &error.into()))?;
    let is_found = path.exists();
    let mut file = private_file(&path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(error_in_use(dir)),
        Err(error) => return Err(io_error(&path, &error.into())),
    }
    let is_after_crash = file.metadata().map_or(true, |found| found.len() > 0);
    let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(|error| io_error(&path, &error))?;
    Ok(Lock { file, is_after_crash, is_found })
}

/// The id of the process that holds the store in `dir`. Call it after [`super::Store::open`] failed: it takes the lock
/// for an instant itself.
pub fn holder(dir: &Path) -> Option<u32> {
    let file = open_regular(&dir.join(FILE)).ok()?;
    let is_held = flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK);
    if is_held { read_pid(dir) } else { None }
}

fn read_pid(dir: &Path) -> Option<u32> {
    let mut text = String::new();
    open_regular(&dir.join(FILE)).ok()?.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn error_in_use(dir: &Path) -> Error {
    let process = read_pid(dir).map_or_else(String::new, |pid| format!(" (process {pid})"));
    let message = format!(
        "the store in {} is in use by another polylogue{process}: if that is a chat or a server, use `polylogue attach`; \
         otherwise wait until it has ended, open the store with --read-only, or choose another directory with --data-dir",
        dir.display()
    );
    Error::new(ErrorKind::Held, message)
}

/// An error of the operating system with the path and, for the common ones, what to do.
pub(super) fn io_error(path: &Path, error: &std::io::Error) -> Error {
    let message = match error.kind() {
        IoKind::PermissionDenied => {
            "no permission to write here: choose another directory or change its permissions".into()
        }
        IoKind::ReadOnlyFilesystem => "the file system is read-only: choose another directory".into(),
        IoKind::StorageFull | IoKind::QuotaExceeded => "the disk is full: free some space and try again".into(),
        IoKind::NotADirectory | IoKind::AlreadyExists => {
            "a part of the path is not a directory: choose another path".into()
        }
        _ => system_message(error),
    };
    store_error(format!("{}: {message}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_directory_that_cannot_be_created_is_named_with_what_to_do() {
        let refused = make_directory(Path::new("/proc/polylogue")).unwrap_err().message;
        assert!(refused.starts_with("cannot create the data directory: /proc/polylogue: "), "{refused}");
        assert!(refused.ends_with("; --data-dir DIR chooses another one, --ephemeral stores nothing"), "{refused}");
    }

    #[test]
    fn a_directory_in_which_others_can_write_is_refused_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let set = |mode| std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        for mode in [0o777, 0o770, 0o702] {
            set(mode);
            let refused = make_directory(dir.path()).unwrap_err().message;
            assert!(refused.contains(&format!("(mode {mode:03o}): run chmod go-w '")), "{refused}");
        }
        set(0o755);
        assert_eq!(make_directory(dir.path()), Ok(()));
    }

    #[test]
    fn the_lock_has_one_holder_who_is_named_and_is_free_when_dropped() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(holder(dir.path()), None);
        let lock = acquire(dir.path()).unwrap();
        assert_eq!(holder(dir.path()), Some(std::process::id()));
        let refused = acquire(dir.path()).unwrap_err();
        assert!(refused.message.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(lock);
        assert_eq!(holder(dir.path()), None);
        acquire(dir.path()).unwrap();
    }

    #[test]
    fn a_copy_of_the_descriptor_in_a_process_just_being_started_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let lock = acquire(dir.path()).unwrap();
        let copy = lock.file.try_clone().unwrap();
        drop(lock);
        acquire(dir.path()).unwrap();
        drop(copy);
    }

    #[test]
    fn common_system_errors_say_what_to_do() {
        let path = Path::new("/data");
        for (cause, expected) in [
            (Errno::ACCESS, "no permission to write"),
            (Errno::ROFS, "read-only"),
            (Errno::NOSPC, "disk is full"),
            (Errno::NOTDIR, "not a directory"),
        ] {
            let error = io_error(path, &cause.into());
            assert!(error.message.starts_with("/data: ") && error.message.contains(expected), "{error}");
        }
    }
}
