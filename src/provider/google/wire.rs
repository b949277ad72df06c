//! The objects of a `GenerateContentResponse`, as far as they are used. Absent values and `null` are read as empty.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// One chunk of a stream, or a whole answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Chunk {
    pub candidates: Option<Vec<Candidate>>,
    pub prompt_feedback: Option<Feedback>,
    pub usage_metadata: Option<WireUsage>,
    /// Set if the chunk is an error instead.
    pub error: Option<IgnoredAny>,
}

/// One of the replies; only one is requested.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Candidate {
    pub index: Option<u64>,
    pub content: Option<Content>,
    pub finish_reason: Option<String>,
    /// A message about the reason, for some reasons.
    pub finish_message: Option<String>,
}

/// The verdict on the request's own content.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Feedback {
    /// Why nothing is answered at all.
    pub block_reason: Option<String>,
    pub block_reason_message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Content {
    pub parts: Option<Vec<Part>>,
}

/// A piece of text, of a thought, or a whole call; with a signature or without.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Part {
    pub text: Option<String>,
    /// The text is a summary of what the model thinks.
    pub thought: Option<bool>,
    pub thought_signature: Option<String>,
    pub function_call: Option<FunctionCall>,
}

/// A call, always whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionCall {
    /// Missing in models before Gemini 3.
    pub id: Option<String>,
    pub name: Option<String>,
    pub args: Option<Value>,
}

/// Tokens, as counted by the server; each count grows from chunk to chunk.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireUsage {
    /// Cached ones included.
    pub prompt_token_count: Option<u64>,
    pub cached_content_token_count: Option<u64>,
    /// Thoughts not included.
    pub candidates_token_count: Option<u64>,
    pub thoughts_token_count: Option<u64>,
    pub tool_use_prompt_token_count: Option<u64>,
}
