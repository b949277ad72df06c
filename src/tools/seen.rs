//! What files were like when an agent last read or wrote them: one register for all agents, so that an edit never lands on
//! a text that nobody here has seen.
//!
//! A file is known by its content, not by its times: touching it changes nothing, and two writes within one tick of the
//! clock are told apart. Only of files too large for that is the inode believed.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::base::file::{Links, open_regular};

/// How large a file may be to be known by its content, and to be edited, in bytes: both happen on the loop's thread too.
pub const LARGEST: u64 = 1 << 20;

/// What a file was like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// There was none.
    Absent,
    /// It contained what hashes to this.
    Content(u64),
    /// It was too large to look into: device, inode, size, and when it and its inode changed (seconds, nanoseconds).
    Large(u64, u64, u64, (i64, i64), (i64, i64)),
}

impl Stamp {
    /// What the file at this path is like now. Links are followed; nothing but a regular file is opened.
    ///
    /// # Errors
    /// It is no regular file, or cannot be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        match content(path) {
            Ok(Some(content)) => Ok(Self::of_bytes(&content)),
            Ok(None) => Ok(Self::of_large(&fs::metadata(path)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Absent),
            Err(error) => Err(error),
        }
    }

    /// What a file with this content is like.
    pub fn of_bytes(content: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(content);
        Self::Content(hasher.finish())
    }

    fn of_large(found: &fs::Metadata) -> Self {
        let (modified, changed) = ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
        Self::Large(found.dev(), found.ino(), found.size(), modified, changed)
    }
}

/// All that a regular file contains, if that is not too much.
///
/// # Errors
/// It cannot be read.
pub fn content(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    open_regular(path, Links::Followed)?.take(LARGEST + 1).read_to_end(&mut content)?;
    Ok((content.len() as u64 <= LARGEST).then_some(content))
}

/// What agents have seen of files.
#[derive(Debug, Default)]
pub struct Seen(Mutex<HashMap<PathBuf, Stamp>>);

impl Seen {
    /// An agent is about to be told what is in this file.
    pub fn look(&self, path: &Path) {
        // What cannot be read now cannot be edited either.
        if let Ok(stamp) = Stamp::of(path) {
            self.note(path, stamp);
        }
    }

    /// An agent knows that this file is like this.
    pub fn note(&self, path: &Path, stamp: Stamp) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(key(path), stamp);
    }

    /// What the file was like when an agent last saw it.
    pub fn last(&self, path: &Path) -> Option<Stamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key(path)).copied()
    }
}

/// However a file is called, links followed.
fn key(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_content_and_a_large_one_by_its_inode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        assert_eq!(Stamp::of(&path).unwrap(), Stamp::Absent);
        fs::write(&path, "a").unwrap();
        let first = Stamp::of(&path).unwrap();
        fs::write(&path, "b").unwrap();
        assert_ne!(Stamp::of(&path).unwrap(), first);
        fs::write(&path, "a").unwrap();
        assert_eq!(Stamp::of(&path).unwrap(), first);
        fs::write(&path, vec![0; LARGEST as usize + 1]).unwrap();
        let large = Stamp::of(&path).unwrap();
        assert!(matches!(large, Stamp::Large(..)));
        fs::write(&path, vec![1; LARGEST as usize + 2]).unwrap();
        assert_ne!(Stamp::of(&path).unwrap(), large);
    }

    #[test]
    fn a_file_has_one_entry_however_it_is_called() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        fs::write(&path, "a").unwrap();
        let seen = Seen::default();
        seen.look(&path);
        std::os::unix::fs::symlink("f", directory.path().join("link")).unwrap();
        assert_eq!(seen.last(&directory.path().join("link")), Some(Stamp::of_bytes(b"a")));
        assert_eq!(seen.last(&directory.path().join("none")), None);
    }
}
