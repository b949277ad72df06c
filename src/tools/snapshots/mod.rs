//! Keeps the files that tools change, as they were before: by content, in the data directory.
//!
//! ```text
//!   DATA/snapshots/objects/ab/cdef…   the content of a file, named by its SHA-256; of a symbolic link, where it leads to
//!   DATA/snapshots/open/STEP.json     a step that is not in the database yet
//!   DATA/snapshots/trees/…            what git needs to compare a working tree before and after a command
//! ```

mod journal;
mod restore;
mod tree;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::digest::{Digest as _, Sha256, sha256};
use rustix::fs::{FileType, OFlags};

use crate::base::beneath::{open_directory, open_file, read_followed, stat};
use crate::base::text::hex;
use crate::domain::file_change::FileState;

pub use journal::{Journal, OpenStep, Recorder};
pub use restore::{Undo, UndoOutcome, check, finish_undo, revert_hunks, undo};
pub use tree::{MOST_IN_INDEX, Watched, watch};

/// The directory of all of it in the data directory.
pub const DIRECTORY: &str = "snapshots";

/// The content of larger files is not kept, in bytes.
pub const MOST_KEPT: u64 = 8 << 20;
/// Larger files are not even compared: a command can make one that takes hours to read.
const MOST_COMPARED: u64 = 1 << 30;

/// The kept contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshots {
    directory: PathBuf,
}

impl Snapshots {
    /// In this directory, which is created when it is needed.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The state of the file at an absolute path without symbolic links on the way.
    pub fn state(&self, path: &Path) -> io::Result<FileState> {
        Ok(self.look(path, None)?.0)
    }

    /// Like [`Snapshots::state`], and keeps the content. Says whether it was too large.
    pub fn keep(&self, path: &Path) -> io::Result<(FileState, bool)> {
        let mut content = Vec::new();
        let (state, is_whole) = self.look(path, Some(&mut content))?;
        if let Some((digest, _)) = state.content().filter(|_| is_whole) {
            self.put(digest, &content)?;
        }
        Ok((state, !is_whole))
    }

    /// Keeps a text that a file is to have.
    fn keep_text(&self, text: &str, mode: u32) -> io::Result<FileState> {
        let digest = sha256(text);
        self.put(&digest, text.as_bytes())?;
        Ok(FileState::File { mode, digest, size: text.len() as u64 })
    }

    /// The content of a file or link, if it was kept.
    pub fn content(&self, state: &FileState) -> Option<Vec<u8>> {
        let (digest, _) = state.content()?;
        let content = read_followed(&self.object(digest)?, MOST_KEPT).ok()?;
        // A power failure may have left other content.
        (sha256(&content) == digest).then_some(content)
    }

    /// The content of a state, if it was kept or the file is still in this state.
    pub fn content_at(&self, path: &Path, state: &FileState) -> Option<Vec<u8>> {
        let current = || {
            let mut content = Vec::new();
            let (now, is_whole) = self.look(path, Some(&mut content)).ok()?;
            (now == *state && is_whole).then_some(content)
        };
        self.content(state).or_else(current)
    }

    /// Whether the content of a state can be restored.
    fn has(&self, state: &FileState) -> bool {
        match state.content() {
            Some(_) => self.content(state).is_some(),
            None => *state != FileState::Other,
        }
    }

    /// Looks at a file, and gives its content, unless it is too large. Fails if it is too large to be compared.
    fn look(&self, path: &Path, content: Option<&mut Vec<u8>>) -> io::Result<(FileState, bool)> {
        let is_absent =
            |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
        let (parent, name) = split(path);
        let found = open_directory(parent).and_then(|directory| Ok((stat(&directory, name)?, directory)));
        let (found, directory) = match found {
            Ok(found) => found,
            Err(error) if is_absent(&error) => return Ok((FileState::Absent, true)),
            Err(error) => return Err(error),
        };
        let mode = found.st_mode & 0o7777;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => Ok((FileState::Directory { mode }, true)),
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&directory, name, Vec::new())?.into_bytes();
                let state = FileState::Link { digest: sha256(&target), size: target.len() as u64 };
                content.into_iter().for_each(|content| content.extend_from_slice(&target));
                Ok((state, true))
            }
            FileType::RegularFile => {
                let (file, found) = open_file(&directory, name, OFlags::RDONLY)?;
                if u64::try_from(found.st_size).is_ok_and(|size| size > MOST_COMPARED) {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                let (digest, size) = read(file, content)?;
                Ok((FileState::File { mode, digest, size }, size <= MOST_KEPT))
            }
            _ => Ok((FileState::Other, true)),
        }
    }

    fn object(&self, digest: &str) -> Option<PathBuf> {
        Some(self.directory.join("objects").join(digest.get(..2)?).join(digest.get(2..)?))
    }

    fn put(&self, digest: &str, content: &[u8]) -> io::Result<()> {
        let Some(path) = self.object(digest).filter(|path| !path.exists()) else { return Ok(()) };
        self.write(&path, content)
    }

    /// Writes a file of ours at once, readable by its owner only.
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let directory = path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let new = directory.join(format!(".{}-{count}.new", std::process::id()));
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(content)?;
        fs::rename(&new, path)
    }
}

/// The directory and the name of a file.
fn split(path: &Path) -> (&Path, &OsStr) {
    (path.parent().unwrap_or(Path::new("/")), path.file_name().unwrap_or(OsStr::from_bytes(b".")))
}

/// The digest and the size of a file; its content goes to `content`, if it is not too large.
fn read(mut file: impl io::Read, mut content: Option<&mut Vec<u8>>) -> io::Result<(String, u64)> {
    let (mut digest, mut size) = (Sha256::new(), 0);
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = match file.read(&mut buffer) {
            Ok(0) => return Ok((hex(digest.finalize()), size)),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        digest.update(&buffer[..count]);
        size += count as u64;
        if size > MOST_COMPARED {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if let Some(content) = content.as_deref_mut().filter(|_| size <= MOST_KEPT) {
            content.extend_from_slice(&buffer[..count]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn every_kind_of_file_has_a_state_and_content_is_kept_up_to_a_size() {
        let (top, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let top = top.path().canonicalize().unwrap();
        let snapshots = Snapshots::new(data.path().join("snapshots"));
        fs::write(top.join("f"), "text").unwrap();
        fs::set_permissions(top.join("f"), fs::Permissions::from_mode(0o750)).unwrap();
        symlink("f", top.join("link")).unwrap();
        fs::write(top.join("large"), vec![7; MOST_KEPT as usize + 1]).unwrap();
        let (file, is_large) = snapshots.keep(&top.join("f")).unwrap();
        assert!(matches!(&file, FileState::File { mode: 0o750, size: 4, .. }) && !is_large, "{file}");
        assert_eq!(snapshots.content(&file).unwrap(), b"text");
        let (link, _) = snapshots.keep(&top.join("link")).unwrap();
        assert_eq!(snapshots.content(&link).unwrap(), b"f");
        let (large, is_large) = snapshots.keep(&top.join("large")).unwrap();
        assert!(is_large && snapshots.content(&large).is_none() && !snapshots.has(&large));
        assert!(matches!(snapshots.state(&top).unwrap(), FileState::Directory { .. }));
        assert_eq!(snapshots.state(&top.join("none/deeper")).unwrap(), FileState::Absent);
        assert_eq!(snapshots.state(Path::new("/dev/null")).unwrap(), FileState::Other);
        assert!(snapshots.state(&top.join("link/x")).is_err() || !top.join("link/x").exists());
    }
}
