//! The content of files when an agent last read or wrote them: an edit is refused if the file has changed since.
//!
//! Files are compared by content, not by modification time: `touch` changes nothing, and two writes within one tick of
//! the clock are distinguished. Files too large for that are compared by their metadata.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;

use super::Environment;
use super::agents::WAIT;
use crate::base::beneath::open_path;
use crate::base::digest::{Digest as _, Sha256};
use crate::base::id::AgentId;
use crate::base::text::hex;
use crate::domain::file_change::{FileChange, FileStep};

/// The largest file that is compared by content and can be edited, in bytes. Both happen on the loop's thread.
pub const MAX_FILE_SIZE: u64 = 1 << 20;
/// Files whose last writer is known; beyond that all are forgotten.
const MAX_WRITERS: usize = 10_000;

/// The content of a file at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileVersion {
    /// The file did not exist.
    Absent,
    /// SHA-256 of the content.
    Content([u8; 32]),
    /// Larger than [`MAX_FILE_SIZE`]: device, inode, size, modification and change time (seconds, nanoseconds).
    Large(u64, u64, u64, (i64, i64), (i64, i64)),
}

impl FileVersion {
    /// The file at a canonical path as it is now. Only regular files are opened.
    pub fn of(path: &Path) -> io::Result<Self> {
        match open_path(path).and_then(|(file, _)| read(file)) {
            Ok((version, _)) => Ok(version),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Absent),
            Err(error) => Err(error),
        }
    }

    /// The version of a file with this content.
    pub fn of_bytes(content: &[u8]) -> Self {
        Self::Content(Sha256::digest(content).into())
    }

    fn of_large(file: &fs::Metadata) -> Self {
        let (modified, changed) = ((file.mtime(), file.mtime_nsec()), (file.ctime(), file.ctime_nsec()));
        Self::Large(file.dev(), file.ino(), file.size(), modified, changed)
    }
}

/// The version of an open file, and its content unless it is larger than [`MAX_FILE_SIZE`].
pub fn read(file: File) -> io::Result<(FileVersion, Option<Vec<u8>>)> {
    let mut content = Vec::new();
    (&file).take(MAX_FILE_SIZE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE_SIZE {
        return Ok((FileVersion::of_large(&file.metadata()?), None));
    }
    Ok((FileVersion::of_bytes(&content), Some(content)))
}

/// The versions of the files that one agent has read or written, by canonical path.
#[derive(Debug, Default)]
pub struct KnownFiles {
    files: Mutex<Arc<HashMap<PathBuf, FileVersion>>>,
    /// A file that is asked for becomes known as it is now.
    learns: bool,
}

impl KnownFiles {
    /// For calls that are planned again after a restart, when it is no longer known what the agent has read.
    pub fn learning() -> Self {
        Self { learns: true, ..Self::default() }
    }

    /// For a child: it has read the same as its parent.
    pub fn fork(&self) -> Self {
        let files = Arc::clone(&self.files.lock().unwrap_or_else(PoisonError::into_inner));
        Self { files: Mutex::new(files), learns: false }
    }

    /// Records the file as it is now, before it is shown to an agent.
    pub fn record_current(&self, path: &Path) {
        // A file that cannot be read cannot be edited either.
        if let Ok(version) = FileVersion::of(path) {
            self.record(path, version);
        }
    }

    /// Remembers which version of a file the model has seen.
    pub fn record(&self, path: &Path, version: FileVersion) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut files).insert(path.into(), version);
    }

    /// The version that the agent last read or wrote.
    pub fn get(&self, path: &Path) -> Option<FileVersion> {
        let known = |files: &Self| files.files.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied();
        if self.learns && known(self).is_none() {
            self.record_current(path);
        }
        known(self)
    }
}

/// Which agent has changed a file last, since this process began.
#[derive(Debug, Default)]
pub struct LastWriters(Mutex<HashMap<PathBuf, Writer>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Writer {
    agent: AgentId,
    label: String,
    tool: String,
    /// The file as it was then, by its digest.
    digest: Option<String>,
    is_compared: bool,
    /// In milliseconds since 1970.
    ended_at: i64,
}

impl LastWriters {
    /// An agent, which is called so, has changed files with a tool.
    pub fn record(&self, step: &FileStep, label: &str) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() > MAX_WRITERS {
            files.clear();
        }
        for FileChange { path, after, .. } in &step.changes {
            // What others wrote during a command is among its changes.
            let other = files.get(path).filter(|known| step.is_compared && known.ended_at >= step.began_at);
            if other.is_some_and(|other| !other.is_compared) {
                continue;
            }
            if other.is_some_and(|other| other.agent != step.agent) {
                // It may be of either.
                files.remove(path);
                continue;
            }
            let writer = Writer {
                agent: step.agent,
                label: label.to_owned(),
                tool: step.tool.clone(),
                digest: after.content().map(|(digest, _)| digest.to_owned()),
                is_compared: step.is_compared,
                ended_at: step.ended_at,
            };
            files.insert(path.clone(), writer);
        }
    }

    /// The name of the agent that has changed a file, and its tool, if it is not this agent and nobody has changed it since.
    fn other_than(&self, agent: AgentId, path: &Path) -> Option<(String, String)> {
        let FileVersion::Content(now) = FileVersion::of(path).ok()? else { return None };
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = files.get(path).filter(|writer| writer.agent != agent)?;
        writer.digest.as_ref().filter(|digest| **digest == hex(now))?;
        Some((writer.label.clone(), writer.tool.clone()))
    }
}

/// Why an agent may not write a file that it has read. `shown` is the path as the model has written it.
pub fn changed_since_read(shown: &str, path: &Path, env: &Environment) -> String {
    let message = format!("{shown}: file changed since it was last read");
    let Some((name, tool)) = env.agent.and_then(|agent| env.last_writers.other_than(agent, path)) else {
        return format!("{message}; read it again");
    };
    let mut message = format!("{message}: {name} has changed it with {tool}; read it again");
    if env.tools.iter().any(|tool| tool.declaration.name == WAIT.declaration.name) {
        message.push_str(&format!(", or first let {name} finish: wait {}", json!({ "from": [name] })));
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_compared_by_content_and_a_large_one_by_metadata() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("f");
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
    fn a_child_knows_what_its_parent_knew_and_nothing_that_follows() {
        let (path, known) = (Path::new("/f"), KnownFiles::default());
        known.record(path, FileVersion::of_bytes(b"a"));
        let child = known.fork();
        known.record(path, FileVersion::of_bytes(b"b"));
        assert_eq!(child.get(path), Some(FileVersion::of_bytes(b"a")));
        assert_eq!(known.get(path), Some(FileVersion::of_bytes(b"b")));
        assert_eq!(child.get(Path::new("/none")), None);
    }

    #[test]
    fn what_is_learned_stays_known_and_nothing_more_is_learned_later() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("f");
        fs::write(&path, "a").unwrap();
        let learning = KnownFiles::learning();
        assert_eq!(learning.get(&path), Some(FileVersion::of_bytes(b"a")));
        fs::write(&path, "b").unwrap();
        assert_eq!(learning.get(&path), Some(FileVersion::of_bytes(b"a")));
        let known = learning.fork();
        assert_eq!(known.get(&path), Some(FileVersion::of_bytes(b"a")));
        assert_eq!(known.get(&path.with_file_name("g")), None);
    }
}
