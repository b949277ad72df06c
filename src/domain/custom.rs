//! Custom slash commands, templates and workflows, defined in files.

use std::path::PathBuf;

/// One custom command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CustomCommand {
    /// The name without the slash: the file name without its extension.
    pub name: String,
    /// The description in one line.
    pub description: String,
    /// The message, with the placeholders `$1` .. `$9`, `$@` and `$ARGUMENTS`.
    pub body: String,
    /// The file that it was read from.
    pub source: PathBuf,
}

/// The file of a template or workflow, which is parsed when it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamFile {
    /// Where it is.
    pub path: PathBuf,
    /// It is the file of a workflow.
    pub is_workflow: bool,
    /// Its contents, or why they cannot be read.
    pub text: Result<String, String>,
}

impl TeamFile {
    /// The name of a template or workflow whose file contains none.
    pub fn stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}
