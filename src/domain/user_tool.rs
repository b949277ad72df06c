//! Tools that are programs of the person or of a trusted project: they print their schema for `--schema`, and take the
//! arguments of a call as JSON on standard input.

use std::path::PathBuf;
use std::time::Duration;

use crate::domain::host::HostPattern;
use crate::domain::tool::ToolDeclaration;

/// A tool as the configuration declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserToolEntry {
    /// The name that models call and that rules have: letters, digits, `-` and `_`.
    pub name: String,
    /// The program and its first arguments; not empty.
    pub command: Vec<String>,
    /// Its environment variables besides those of every command, with their values, which may be secrets.
    pub env: Vec<(String, String)>,
    /// The hosts that it may reach.
    pub net: Vec<HostPattern>,
    /// How long a call may take; as long as a command, if not given.
    pub timeout: Option<Duration>,
    /// It comes from a project in this directory; only agents that work there or in worktrees of it get it.
    pub project: Option<PathBuf>,
    /// The file and line of the declaration.
    pub source: String,
}

/// A tool whose schema is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserTool {
    /// Its declaration.
    pub entry: UserToolEntry,
    /// Its description, in its own words.
    pub description: String,
    /// JSON schema of the arguments in a form that all providers take, as JSON text.
    pub parameters: String,
    /// The files of its command as they were when the schema was read.
    pub files: Vec<FileIdentity>,
}

impl UserTool {
    /// The declaration that models get.
    pub fn declaration(&self) -> ToolDeclaration<'_> {
        ToolDeclaration { name: &self.entry.name, description: &self.description, parameters: &self.parameters }
    }
}

/// A file at a moment: another file at the same path, or a changed one, is not equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileIdentity {
    /// Without symbolic links.
    pub path: PathBuf,
    /// Device and inode.
    pub file: (u64, u64),
    /// In bytes.
    pub size: u64,
    /// The last changes of the content and of the inode, in seconds and nanoseconds.
    pub changed: [(i64, i64); 2],
}
