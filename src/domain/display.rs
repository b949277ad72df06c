//! What a person chooses about the screen around the conversation.

use std::path::PathBuf;

/// The settings of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisplaySettings {
    /// The fields of the status line, from the left. On a narrow terminal the last ones are left out.
    pub status: Vec<StatusField>,
    /// The person's home directory, which is shown as `~`.
    pub home: Option<PathBuf>,
}

impl Default for DisplaySettings {
    fn default() -> Self {
        Self { status: StatusField::ALL.map(|(field, ..)| field).into(), home: None }
    }
}

/// A part of the status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusField {
    Directory,
    Branch,
    Approval,
    Model,
    Thinking,
    Context,
    Environment,
    Tokens,
    Connection,
}

impl StatusField {
    /// All fields in their usual order, with the names that a person types and what they show.
    pub const ALL: [(Self, &'static str, &'static str); 9] = [
        (Self::Directory, "directory", "Working directory"),
        (Self::Branch, "branch", "Branch of its git repository"),
        (Self::Approval, "approval", "What the agent may do without a question"),
        (Self::Model, "model", "Provider and model"),
        (Self::Thinking, "thinking", "Thinking level, if one is set"),
        (Self::Context, "context", "How much of the model's context is used"),
        (Self::Environment, "environment", "Environment, if it is not the default one"),
        (Self::Tokens, "tokens", "Tokens used since the program started"),
        (Self::Connection, "connection", "Whether the agents run in this program or in a server"),
    ];

    /// The field of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, other, _)| *other == name).map(|(field, ..)| *field)
    }

    /// The name that a person types.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(field, ..)| *field == self).map_or("", |(_, name, _)| name)
    }
}
