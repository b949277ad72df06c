//! Replaces files atomically: a reader sees the old content or the new, never a part.
//!
//! The new content is written to a temporary file in the same directory, synced, and renamed over the old file. A
//! symbolic link is followed and stays a link. The permission bits are kept; other hard links to the old file keep the
//! old content.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::Access;

use super::Environment;
use super::file_access::reason;
use super::file_versions::{FileVersion, KnownFiles};

/// As many as the kernel follows (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// A file to be written, symbolic links resolved.
pub struct Target {
    pub path: PathBuf,
    /// Of the file that exists there now.
    pub old: Option<fs::Metadata>,
}

impl Target {
    /// # Errors
    /// A message for the model: the path is not that of a file, or the file may not be written.
    pub fn find(path: &str, env: &Environment) -> Result<Self, String> {
        if path.is_empty() || path.contains('\0') {
            return Err("`file_path` must not be empty or contain a NUL character".into());
        }
        if path.ends_with('/') || path.ends_with("/.") || path.ends_with("..") {
            return Err(format!("{path}: names a directory, not a file"));
        }
        let end = resolve_links(env.resolve(path)).map_err(|error| format!("{path}: {}", reason(&error)))?;
        match fs::symlink_metadata(&end) {
            Ok(old) => Self::over(path, end, old),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self { path: end, old: None }),
            Err(error) => Err(format!("{path}: cannot be written: {}", reason(&error))),
        }
    }

    fn over(path: &str, end: PathBuf, old: fs::Metadata) -> Result<Self, String> {
        if old.is_dir() {
            return Err(format!("{path}: is a directory"));
        }
        if !old.is_file() {
            return Err(format!("{path}: not a regular file"));
        }
        // The rename needs permission for the directory only and would replace a read-only file.
        let writable = rustix::fs::access(&end, Access::WRITE_OK).map_err(io::Error::from);
        writable.map_err(|error| format!("{path}: cannot be written: {}", reason(&error)))?;
        Ok(Self { path: end, old: Some(old) })
    }

    /// Writes the file, if it is still the version that the user was shown, and records the new version.
    ///
    /// # Errors
    /// A message for the model: the file has changed, or cannot be written. It is unchanged then.
    pub fn write(&self, content: &str, expected: Option<FileVersion>, known: &KnownFiles) -> Result<(), String> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let message = |what: &str, error: io::Error| format!("{}: {what}: {}", self.path.display(), reason(&error));
        fs::create_dir_all(directory).map_err(|error| message("cannot create the directory", error))?;
        let new = NewFile::beside(&self.path).map_err(|error| message("cannot be written", error))?;
        new.fill(content, self.old.as_ref()).map_err(|error| message("cannot be written", error))?;
        // As late as possible: a change between this check and the rename is lost.
        if expected.is_some_and(|expected| FileVersion::of(&self.path).ok() != Some(expected)) {
            return Err(format!("{}: file changed since the call was made; read it again", self.path.display()));
        }
        new.replace(&self.path).map_err(|error| message("cannot be replaced", error))?;
        // Only makes the rename survive a power failure, and some file systems cannot; the content is synced already.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
        known.record(&self.path, FileVersion::of_bytes(content.as_bytes()));
        Ok(())
    }
}

/// The end of a chain of symbolic links, which need not exist.
fn resolve_links(mut path: PathBuf) -> io::Result<PathBuf> {
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("/")).join(next),
            // Not a link, or does not exist: the end of the chain.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => {
                return Ok(path);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// A temporary file, removed on drop unless it has replaced the target.
struct NewFile {
    file: File,
    path: PathBuf,
    is_renamed: std::cell::Cell<bool>,
}

impl NewFile {
    fn beside(target: &Path) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // Does not contain the target's name, which may have the maximum length already.
        let path = target.with_file_name(format!(".polylogue-{}-{count}.new", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o666).open(&path)?;
        Ok(Self { file, path, is_renamed: false.into() })
    }

    /// Sets the old file's owner and mode before the content, so that it is never more readable than the old file.
    fn fill(&self, content: &str, old: Option<&fs::Metadata>) -> io::Result<()> {
        if let Some(old) = old {
            self.file.set_permissions(Permissions::from_mode(0o600))?;
            let new = self.file.metadata()?;
            if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
                std::os::unix::fs::fchown(&self.file, Some(old.uid()), Some(old.gid()))?;
            }
            self.file.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
        }
        (&self.file).write_all(content.as_bytes())?;
        self.file.sync_all()
    }

    fn replace(&self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.is_renamed.set(true);
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_renamed.get() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_that_cannot_be_renamed_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let occupied = directory.path().join("d");
        fs::create_dir(&occupied).unwrap();
        let new = NewFile::beside(&occupied).unwrap();
        new.fill("new", None).unwrap();
        assert!(new.replace(&occupied).is_err());
        drop(new);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_new_file_is_never_more_readable_than_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let old = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
        let new = NewFile::beside(&path).unwrap();
        new.fill("new", Some(&old.metadata().unwrap())).unwrap();
        assert_eq!(fs::metadata(&new.path).unwrap().mode() & 0o777, 0o600);
    }
}
