//! Reads one remote file, with the target of its path.

use std::path::{Path, PathBuf};

use super::call::Request;
use super::place::LOOK_LIMIT;
use super::{Remote, script};
use crate::policy::paths::Access;
use crate::tools::Job;
use crate::tools::file_versions::MAX_FILE_SIZE;

/// A block of the scripts, in bytes.
const BLOCK: u64 = 64 << 10;

/// How much of a file is read.
pub const MAX_READ: u64 = 8 << 20;

#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Other,
    Absent,
}

/// The target of a path.
#[derive(Debug)]
pub struct Fetched {
    pub path: PathBuf,
    pub kind: Kind,
    /// In bytes.
    pub size: u64,
    /// Its version as the remote side computes it: for the check that it is unchanged.
    pub checksum: String,
    /// The start of a file.
    pub content: Vec<u8>,
}

impl Fetched {
    /// Whether all of the file was read.
    pub fn is_whole(&self) -> bool {
        self.content.len() as u64 == self.size
    }
}

impl Remote {
    /// Looks up a path that was judged for this access, and reads the file there.
    ///
    /// # Errors
    /// A message for the model that follows the path and `: `.
    pub fn fetch(&self, judged: &Path, access: Access, job: &Job) -> Result<Fetched, String> {
        let script = script::read(judged, &self.directory, MAX_FILE_SIZE, MAX_READ / BLOCK);
        let request = Request { script: &script, data: None, limit: LOOK_LIMIT };
        let most = usize::try_from(MAX_READ).unwrap_or(usize::MAX) + (64 << 10);
        let found = self.collect(&request, most, job)?;
        match found.status.as_deref() {
            Some("ok") => {}
            Some(word) => return Err(problem(word)),
            None => return Err("more was read than it should have".into()),
        }
        let (home, workspace, fetched) = parse(found.output).ok_or("unexpected answer of the shell there")?;
        self.require_workspace(&workspace)?;
        self.check(judged, &fetched.path, access, &home)?;
        Ok(fetched)
    }
}

fn parse(output: Vec<u8>) -> Option<(PathBuf, PathBuf, Fetched)> {
    let mut rest = output.as_slice();
    let mut field = || {
        let end = rest.iter().position(|byte| *byte == 0)?;
        let field = String::from_utf8(rest[..end].to_vec()).ok()?;
        rest = &rest[end + 1..];
        Some(field)
    };
    let (home, workspace, path, kind) = (field()?, field()?, field()?, field()?);
    let (size, checksum) = (field()?.parse().ok()?, field()?);
    let kind = match kind.as_str() {
        "f" => Kind::File,
        "d" => Kind::Directory,
        "a" => Kind::Absent,
        _ => Kind::Other,
    };
    let content = rest.to_vec();
    Some((home.into(), workspace.into(), Fetched { path: path.into(), kind, size, checksum, content }))
}

/// The meaning of the last word of a script.
pub fn problem(word: &str) -> String {
    match word {
        "denied" => "permission denied".into(),
        "directory" => "a part of the path is not a directory".into(),
        "links" => "too many symbolic links, or no readlink there".into(),
        "moved" => "the path leads elsewhere now; call again".into(),
        "changed" => "file changed since it was last read; read it again".into(),
        "kind" => "not a regular file".into(),
        "full" => "it cannot be written (no space left, or a limit)".into(),
        "cut" => "the connection was cut before all of it had arrived".into(),
        word => format!("unexpected answer of the shell there ({word:?})"),
    }
}
