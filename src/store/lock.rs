//! The data directory: made private, and held by one process at a time.
//!
//! The lock is the kernel's (`flock`), so it goes away with its holder however that ends. The file stays: to delete it
//! would let two processes hold two files of the same name. The number inside says whom to ask, and decides nothing.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind as IoKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{Access, FlockOperation, access, flock};
use rustix::io::Errno;

use super::refusal;
use crate::base::error::{Error, Result};

const FILE: &str = "polylogue.lock";

/// Holds a data directory until dropped.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    /// To close the file is not enough: a process that is just being started has a copy of the descriptor until it has
    /// become another program, and would hold the lock for that long.
    fn drop(&mut self) {
        // Should this fail, the end of the last copy unlocks.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Makes the directory for its owner alone. One that is there already keeps its permissions: the files are private anyway.
///
/// # Errors
/// It cannot be made, with the way out.
pub fn make_directory(dir: &Path) -> Result<()> {
    if dir.exists() && !dir.is_dir() {
        return Err(refusal(format!("{} is a file: the store needs a directory", dir.display())));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| explain(dir, &error))
}

/// Opens a file that only its owner can read, and makes it so if it is not.
///
/// # Errors
/// It cannot be opened or made, with the way out.
pub fn private_file(path: &Path) -> Result<File> {
    // What it holds is decided after the lock is taken: opening must not cut it.
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = options.map_err(|error| explain(path, &error))?;
    let metadata = file.metadata().map_err(|error| explain(path, &error))?;
    if metadata.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600)).map_err(|error| explain(path, &error))?;
    }
    Ok(file)
}

/// Takes the lock and writes down who has it.
pub(super) fn acquire(dir: &Path) -> Result<Lock> {
    let path = dir.join(FILE);
    // The files may be there and ours, and those that SQLite makes beside them could still not be made.
    access(dir, Access::WRITE_OK).map_err(|error| explain(&path, &error.into()))?;
    let mut file = private_file(&path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(held(dir)),
        Err(error) => return Err(explain(&path, &error.into())),
    }
    let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(|error| explain(&path, &error))?;
    Ok(Lock(file))
}

/// The process that holds the store in `dir` now, if one does and has written down its number. To be asked after
/// [`super::Store::open`] failed: the question itself touches the lock for an instant.
pub fn holder(dir: &Path) -> Option<u32> {
    let file = File::open(dir.join(FILE)).ok()?;
    let is_held = flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK);
    if is_held { read_pid(dir) } else { None }
}

fn read_pid(dir: &Path) -> Option<u32> {
    std::fs::read_to_string(dir.join(FILE)).ok()?.trim().parse().ok()
}

fn held(dir: &Path) -> Error {
    let agent_id = read_pid(dir).map_or_else(String::new, |pid| format!(" (process {pid})"));
    refusal(format!(
        "the store in {} is held by another polylogue{agent_id}: if that is a server, `polylogue attach` and `send` go there; else go \
         on in its terminal, look at it with --read-only, or choose another directory with --data-dir",
        dir.display()
    ))
}

/// An error of the operating system with the path and, for the usual ones, what to do.
fn explain(path: &Path, error: &std::io::Error) -> Error {
    let words = match error.kind() {
        IoKind::PermissionDenied => "you may not write here: choose another directory or change its permissions".into(),
        IoKind::ReadOnlyFilesystem => "the file system is read-only: choose another directory".into(),
        IoKind::StorageFull | IoKind::QuotaExceeded => "the disk is full: free some space and try again".into(),
        IoKind::NotADirectory | IoKind::AlreadyExists => {
            "a file is where a directory should be: choose another path".into()
        }
        _ => error.to_string(),
    };
    refusal(format!("{}: {words}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let copy = lock.0.try_clone().unwrap();
        drop(lock);
        acquire(dir.path()).unwrap();
        drop(copy);
    }

    #[test]
    fn each_cause_of_the_system_gets_its_own_way_out() {
        let path = Path::new("/data");
        for (cause, words) in [
            (Errno::ACCESS, "may not write"),
            (Errno::ROFS, "read-only"),
            (Errno::NOSPC, "disk is full"),
            (Errno::NOTDIR, "a file is where"),
        ] {
            let error = explain(path, &cause.into());
            assert!(error.message.starts_with("/data: ") && error.message.contains(words), "{error}");
        }
    }
}
