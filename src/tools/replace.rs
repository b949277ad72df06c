//! Writing a file so that a reader sees the old content or the new, never a part.
//!
//! The new content goes into a file beside the old one, reaches the disk, and takes the old one's place by a rename. Through
//! a symbolic link the file at its end is replaced and the link stays. Mode bits for reading, writing and running are kept;
//! other hard links to the old file keep the old content.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::Access;

use super::Environment;
use super::seen::{Seen, Stamp};

/// How many links are followed (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Where a file is to be written, links followed, and what is there now.
pub struct Target {
    /// The file itself.
    pub path: PathBuf,
    /// What is there.
    pub old: Option<fs::Metadata>,
}

impl Target {
    /// Follows a path that a model wrote.
    ///
    /// # Errors
    /// Words for the model: the path leads to what cannot be a file, or must not be written.
    pub fn find(path: &str, env: &Environment) -> Result<Self, String> {
        if path.is_empty() || path.contains('\0') {
            return Err("`path` must be the path of a file: it is empty or contains a NUL character.".into());
        }
        if path.ends_with('/') || path.ends_with("/.") || path.ends_with("..") {
            return Err(format!("{path} is the path of a directory, not of a file."));
        }
        let end = follow(env.resolve(path)).map_err(|error| format!("{path} leads nowhere: {error}."))?;
        match fs::symlink_metadata(&end) {
            Ok(old) => Self::over(path, end, old),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self { path: end, old: None }),
            Err(error) => Err(format!("{path} cannot be written: {error}.")),
        }
    }

    fn over(path: &str, end: PathBuf, old: fs::Metadata) -> Result<Self, String> {
        if old.is_dir() {
            return Err(format!("{path} is a directory."));
        }
        if !old.is_file() {
            return Err(format!("{path} is no regular file but a device, pipe or socket."));
        }
        // A rename would ask only the directory, and so write over what its owner made read-only.
        rustix::fs::access(&end, Access::WRITE_OK).map_err(|error| format!("{path} may not be written: {error}."))?;
        Ok(Self { path: end, old: Some(old) })
    }

    /// Writes the file if it is still what the question was about, and notes that its content is known.
    ///
    /// # Errors
    /// Words for the model: the file has changed, or cannot be written. It is as it was then.
    pub fn write(&self, content: &str, basis: Option<Stamp>, seen: &Seen) -> Result<(), String> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let words = |what: &str, error: io::Error| format!("{} {what}: {error}.", self.path.display());
        fs::create_dir_all(directory).map_err(|error| words("has no directory, and none can be made", error))?;
        let fresh = Fresh::beside(&self.path).map_err(|error| words("cannot be written", error))?;
        fresh.fill(content, self.old.as_ref()).map_err(|error| words("cannot be written", error))?;
        // As late as possible: what happens between this look and the rename is lost.
        if basis.is_some_and(|basis| Stamp::of(&self.path).ok() != Some(basis)) {
            return Err(format!("{} has changed since the change was put together.", self.path.display()));
        }
        fresh.take_place_of(&self.path).map_err(|error| words("cannot be replaced", error))?;
        // The content is safe by now; that its name survives a power cut too is the directory's affair, where it can.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
        seen.note(&self.path, Stamp::of_bytes(content.as_bytes()));
        Ok(())
    }
}

/// The end of a chain of links, which need not be there.
fn follow(mut path: PathBuf) -> io::Result<PathBuf> {
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("/")).join(next),
            // What is no link, or not there, is where the chain ends.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => {
                return Ok(path);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// A file that is to take another's place; removed if it does not come to that.
struct Fresh {
    file: File,
    path: PathBuf,
    is_in_place: std::cell::Cell<bool>,
}

impl Fresh {
    fn beside(target: &Path) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // Without the target's name, which may be as long as a name can be.
        let path = target.with_file_name(format!(".polylogue-{}-{count}.new", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o666).open(&path)?;
        Ok(Self { file, path, is_in_place: false.into() })
    }

    /// Gives it the old file's owner and mode, then the content: nobody may read it who may not read the old one.
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

    fn take_place_of(&self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.is_in_place.set(true);
        Ok(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.is_in_place.get() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_come_to_take_its_place_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let in_the_way = directory.path().join("d");
        fs::create_dir(&in_the_way).unwrap();
        let fresh = Fresh::beside(&in_the_way).unwrap();
        fresh.fill("new", None).unwrap();
        assert!(fresh.take_place_of(&in_the_way).is_err());
        drop(fresh);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_fresh_file_is_never_more_open_than_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let old = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
        let fresh = Fresh::beside(&path).unwrap();
        fresh.fill("new", Some(&old.metadata().unwrap())).unwrap();
        assert_eq!(fs::metadata(&fresh.path).unwrap().mode() & 0o777, 0o600);
    }
}
