//! The content of files when an agent last read or wrote them, shared by all agents: an edit is refused if the file has
//! changed since.
//!
//! Files are compared by content, not by modification time: `touch` changes nothing, and two writes within one tick of
//! the clock are distinguished. Files too large for that are compared by their metadata.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::base::file::{Links, open_regular};

/// The largest file that is compared by content and can be edited, in bytes. Both happen on the loop's thread.
pub const MAX_FILE_SIZE: u64 = 1 << 20;

/// The content of a file at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileVersion {
    /// The file did not exist.
    Absent,
    /// A hash of the content.
    Content(u64),
    /// Larger than [`MAX_FILE_SIZE`]: device, inode, size, modification and change time (seconds, nanoseconds).
    Large(u64, u64, u64, (i64, i64), (i64, i64)),
}

impl FileVersion {
    /// The file as it is now. Symbolic links are followed; only regular files are opened.
    ///
    /// # Errors
    /// It is not a regular file, or cannot be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        match content(path) {
            Ok(Some(content)) => Ok(Self::of_bytes(&content)),
            Ok(None) => Ok(Self::of_large(&fs::metadata(path)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Absent),
            Err(error) => Err(error),
        }
    }

    /// The version of a file with this content.
    pub fn of_bytes(content: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(content);
        Self::Content(hasher.finish())
    }

    fn of_large(file: &fs::Metadata) -> Self {
        let (modified, changed) = ((file.mtime(), file.mtime_nsec()), (file.ctime(), file.ctime_nsec()));
        Self::Large(file.dev(), file.ino(), file.size(), modified, changed)
    }
}

/// The content of a regular file, or `None` if it is larger than [`MAX_FILE_SIZE`].
///
/// # Errors
/// It cannot be read.
pub fn content(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    open_regular(path, Links::Followed)?.take(MAX_FILE_SIZE + 1).read_to_end(&mut content)?;
    Ok((content.len() as u64 <= MAX_FILE_SIZE).then_some(content))
}

/// The versions of files that agents have read or written.
#[derive(Debug, Default)]
pub struct KnownFiles(Mutex<HashMap<PathBuf, FileVersion>>);

impl KnownFiles {
    /// Records the file as it is now, before it is shown to an agent.
    pub fn record_current(&self, path: &Path) {
        // A file that cannot be read cannot be edited either.
        if let Ok(version) = FileVersion::of(path) {
            self.record(path, version);
        }
    }

    /// Remembers which version of a file the model has seen.
    pub fn record(&self, path: &Path, version: FileVersion) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(key(path), version);
    }

    /// The version that an agent last read or wrote.
    pub fn get(&self, path: &Path) -> Option<FileVersion> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key(path)).copied()
    }
}

/// The same for all paths of one file.
fn key(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_compared_by_content_and_a_large_one_by_metadata() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        assert_eq!(FileVersion::of(&path).unwrap(), FileVersion::Absent);
        fs::write(&path, "a").unwrap();
        let first = FileVersion::of(&path).unwrap();
        fs::write(&path, "b").unwrap();
        assert_ne!(FileVersion::of(&path).unwrap(), first);
        fs::write(&path, "a").unwrap();
        assert_eq!(FileVersion::of(&path).unwrap(), first);
        fs::write(&path, vec![0; MAX_FILE_SIZE as usize + 1]).unwrap();
        let large = FileVersion::of(&path).unwrap();
        assert!(matches!(large, FileVersion::Large(..)));
        fs::write(&path, vec![1; MAX_FILE_SIZE as usize + 2]).unwrap();
        assert_ne!(FileVersion::of(&path).unwrap(), large);
    }

    #[test]
    fn a_file_has_one_entry_whatever_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        fs::write(&path, "a").unwrap();
        let known = KnownFiles::default();
        known.record_current(&path);
        std::os::unix::fs::symlink("f", directory.path().join("link")).unwrap();
        assert_eq!(known.get(&directory.path().join("link")), Some(FileVersion::of_bytes(b"a")));
        assert_eq!(known.get(&directory.path().join("none")), None);
    }
}
