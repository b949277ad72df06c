//! Tools as declared to a model, tool calls and their results.

use std::time::Duration;

/// A tool as declared to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolDeclaration {
    /// The name that the model calls.
    pub name: &'static str,
    /// The description for the model.
    pub description: &'static str,
    /// JSON schema of the arguments, as JSON text.
    pub parameters: &'static str,
}

/// A call as the model made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's id for this call, or a generated one if it gave none.
    pub id: String,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// JSON text of the arguments, as the model wrote it; may be invalid.
    pub arguments: String,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The id of the call that this answers.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The text for the model.
    pub content: String,
    /// The call failed, was refused or was interrupted.
    pub is_error: bool,
    /// How long it ran.
    pub duration: Duration,
}

/// The side effects of a tool: whether it needs approval and what it may run in parallel with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Only reads: runs at once, in parallel with others that only read.
    Reads,
    /// Writes or runs something: needs approval and runs alone, in order.
    Writes,
}
