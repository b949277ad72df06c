//! Commands that a person has written: a file each, which becomes a message.

use std::path::PathBuf;

/// One custom command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CustomCommand {
    /// What is typed, without the slash: the file's name without its ending.
    pub name: String,
    /// What it does, in one line.
    pub description: String,
    /// The message, with `$1` .. `$9` and `$@` where arguments go.
    pub body: String,
    /// The file that it was read from.
    pub source: PathBuf,
}
