//! Files of a project with instructions for agents.

use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use crate::base::text::hex;

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
        Some(hex(Sha256::digest(content)))
    }
}
