//! Tool calls as plain data: what a model may ask for, asks for, and is told.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A tool as a model is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolDeclaration {
    /// The name that the model calls.
    pub name: &'static str,
    /// What it does, in words for the model.
    pub description: &'static str,
    /// JSON schema of the arguments, as JSON text.
    pub parameters: &'static str,
}

/// A call as the model made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's id for this call; made up where the provider gave none.
    pub id: String,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// JSON text of the arguments, as the model wrote it: may be malformed.
    pub arguments: String,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call that this answers.
    #[serde(rename = "id")]
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// What the model is told.
    #[serde(rename = "text")]
    pub content: String,
    /// The call failed, was refused or was cut.
    pub is_error: bool,
    /// How long it ran.
    #[serde(rename = "ms", with = "milliseconds")]
    pub duration: Duration,
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

/// What a tool may do to the world; decides whether a person is asked and what may run beside what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Only looks: runs at once and side by side with others that only look.
    Reads,
    /// Writes or runs something: a person is asked, and it runs alone and in order.
    Writes,
}
