//! Definitions of agents: files that say with which prompt, tools, model and policy a child begins.

use std::path::PathBuf;

use crate::domain::approval::Policy;
use crate::domain::skill::Author;

/// One definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDefinition {
    /// The name.
    pub name: String,
    /// When it is used, in one line.
    pub description: String,
    /// The names of its built-in tools, which its environment may not have; `None`: those of its parent.
    pub tools: Option<Vec<String>>,
    /// Its model, as `provider/model`; that of its parent by default.
    pub model: Option<String>,
    /// It is allowed no more than this without a question, nor more than its parent.
    pub policy: Option<Policy>,
    /// The start of its system prompt.
    pub prompt: String,
    /// Whose it is.
    pub author: Author,
    /// The file.
    pub source: PathBuf,
    /// The project directory that it comes from; it applies to agents that work there or below, and in worktrees of it.
    pub project: Option<PathBuf>,
}

impl AgentDefinition {
    /// The model of a child whose parent has a model of this provider. A project cannot choose another provider.
    pub fn model_beside(&self, provider: &str) -> Option<&str> {
        let model = self.model.as_deref()?;
        let is_same = model.split('/').next() == Some(provider);
        (is_same || self.author == Author::Person).then_some(model)
    }
}
