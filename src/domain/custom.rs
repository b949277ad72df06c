//! Custom slash commands, defined in files.

use std::path::PathBuf;

/// One custom command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CustomCommand {
    /// The name without the slash: the file name without its extension.
    pub name: String,
    /// The description in one line.
    pub description: String,
    /// The message, with the placeholders `$1` .. `$9` and `$@` for arguments.
    pub body: String,
    /// The file that it was read from.
    pub source: PathBuf,
}
