//! Files of a project with instructions for agents.

use std::path::PathBuf;

use crate::base::digest::sha256;

/// A file with instructions of a project.
#[derive(Debug, Clone)]
pub struct InstructionFile {
    pub path: PathBuf,
    /// Its beginning, one byte more than is used; an error if it is not a regular file. A link could lead outside of the
    /// project, and a pipe or device might never end.
    pub content: Result<Vec<u8>, ()>,
}

impl InstructionFile {
    /// SHA-256 of the content, in hexadecimal.
    pub fn digest(&self) -> Option<String> {
        let content = self.content.as_ref().ok()?;
        Some(sha256(content))
    }
}

/// Instructions of a project for agents. In each directory the first that exists counts.
pub const FILES: [&str; 3] = ["AGENTS.override.md", AGENTS_FILE, IMPORTER];

/// The file that is written where a directory has none.
pub const AGENTS_FILE: &str = "AGENTS.md";

/// The one that knows imports.
pub const IMPORTER: &str = "CLAUDE.md";

/// Files that are read for one directory, imported ones included.
pub const MAX_FILES: usize = 32;
/// Of imports in imported files.
pub const MAX_DEPTH: usize = 4;

/// The most bytes of all these files together.
pub const MAX_BYTES: usize = 32 << 10;

/// The paths after an `@`, outside of code. A word without a dot or slash is the name of a person.
pub fn imports(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        let outside = line.split('`').step_by(2).filter(|_| !is_code);
        let words = outside.flat_map(str::split_whitespace).filter_map(|word| word.strip_prefix('@'));
        let paths = words.map(|word| word.trim_end_matches(['.', ',', ';', ':', ')']));
        found.extend(paths.filter(|path| path.contains(['.', '/']) && !path.starts_with(['/', '~'])));
    }
    found
}
