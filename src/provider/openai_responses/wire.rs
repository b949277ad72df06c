//! The objects of a Responses answer, as far as they are used, with text borrowed from the stream.
//!
//! As in Chat Completions, an absent value, `null` and an unexpected type are read as empty. Events and
//! items of unknown types are read and skipped.

use serde::Deserialize;
use serde_json::Value;

use crate::provider::text::{Arguments, Text};

/// One event of the stream: the fields of all kinds together.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    pub output_index: Option<u64>,
    pub summary_index: Option<u64>,
    /// The item, at its beginning and its end.
    #[serde(borrow)]
    pub item: Option<Item<'a>>,
    #[serde(borrow)]
    pub delta: Text<'a>,
    #[serde(borrow)]
    pub arguments: Arguments<'a>,
    /// The response, at its beginning and its end.
    #[serde(borrow)]
    pub response: Option<Response<'a>>,
}

/// A response, complete or as far as it is generated.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response<'a> {
    #[serde(borrow)]
    pub object: Text<'a>,
    /// `completed`, `incomplete`, `failed`, `in_progress`, ...
    #[serde(borrow)]
    pub status: Text<'a>,
    #[serde(borrow)]
    pub output: Option<Vec<Item<'a>>>,
    pub usage: Option<WireUsage>,
    #[serde(borrow)]
    pub incomplete_details: Option<Incomplete<'a>>,
    pub error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Incomplete<'a> {
    #[serde(borrow)]
    pub reason: Text<'a>,
}

/// One item of the output: a message, a call, or reasoning.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Item<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub id: Text<'a>,
    /// The id that the result of a call refers to; `id` is that of the item.
    #[serde(borrow)]
    pub call_id: Text<'a>,
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub arguments: Arguments<'a>,
    /// The parts of a message, or reasoning in clear text.
    pub content: Option<Value>,
    pub summary: Option<Value>,
    #[serde(borrow)]
    pub encrypted_content: Text<'a>,
    /// Of a message: `commentary` if the model continues after it, or `final_answer`.
    #[serde(borrow)]
    pub phase: Text<'a>,
}

/// Tokens, as counted by the server.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    pub input_tokens: Option<u64>,
    pub input_tokens_details: Option<InputDetails>,
    pub output_tokens: Option<u64>,
    pub output_tokens_details: Option<ReplyDetails>,
    /// US dollars, as OpenRouter reports them.
    pub cost: Option<f64>,
}

/// Details of the request's tokens.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InputDetails {
    pub cached_tokens: Option<u64>,
    /// Those of Anthropic's models, as OpenRouter reports them.
    pub cache_write_tokens: Option<u64>,
}

/// How the tokens of the reply were used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReplyDetails {
    pub reasoning_tokens: Option<u64>,
}
