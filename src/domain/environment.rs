//! Environments as a person defines them: which tools an agent has, where they work, and what it is told about itself.

use std::path::PathBuf;

/// One environment of the configuration (`[environments.NAME]`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvironmentEntry {
    /// What people call it.
    pub name: String,
    /// Names of tools, or of other environments whose tools it has.
    pub tools: Vec<String>,
    /// Where its tools work; `None`: where the agent works that asks for it.
    pub directory: Option<PathBuf>,
    /// What the model is told in place of the usual instructions.
    pub system: Option<String>,
}
