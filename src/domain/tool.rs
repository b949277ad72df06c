//! Tools as declared to a model, tool calls and their results.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::attachment;
use crate::domain::mcp::PREFIX;

/// A tool as declared to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolDeclaration<'a> {
    /// The name that the model calls.
    pub name: &'a str,
    /// The description for the model.
    pub description: &'a str,
    /// JSON schema of the arguments, as JSON text.
    pub parameters: &'a str,
}

/// A call as the model made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's id for this call, or a generated one.
    pub id: String,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// JSON text of the arguments, as the model wrote it; may be invalid.
    pub arguments: String,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call that this answers.
    #[serde(rename = "id")]
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The text for the model.
    #[serde(rename = "text")]
    pub content: String,
    /// The call failed, was refused or was interrupted.
    pub is_error: bool,
    /// How long it ran.
    #[serde(rename = "ms", with = "milliseconds")]
    pub duration: Duration,
}

impl ToolResult {
    /// Whether markers of images in its text are images: only the loop writes them, into results of MCP servers.
    pub fn may_have_images(&self) -> bool {
        self.name.starts_with(PREFIX)
    }

    /// The text as a reader sees it.
    pub fn readable_text(&self) -> Cow<'_, str> {
        if self.may_have_images() { attachment::readable_text(&self.content) } else { Cow::Borrowed(&self.content) }
    }
}

/// Gives the results of tool calls in place of the tools, which then do not run: for a replay.
pub trait ScriptedTools: std::fmt::Debug + Send + Sync {
    /// Whether the person is asked about this call, if that is known.
    fn asks(&self, name: &str, arguments: &serde_json::Value) -> Option<bool>;

    /// Blocks the thread of the call until its result is due or the call is cancelled.
    fn run(&self, name: &str, arguments: &serde_json::Value, is_cancelled: &dyn Fn() -> bool)
    -> Result<String, String>;
}

mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// The side effects of a tool: whether it needs approval and what it may run in parallel with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Only reads: runs at once, in parallel with others that only read.
    Reads,
    /// Writes or runs something: needs approval and runs alone, in order.
    Writes,
}
