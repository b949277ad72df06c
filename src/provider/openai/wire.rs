//! The objects of a Chat Completions answer, as far as they are used, with text borrowed from the stream.
//!
//! These types are lenient: an absent value, `null` and an unexpected type are read as empty, because
//! servers differ in all of that.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::provider::text::{Arguments, Text};

/// A `chat.completion.chunk`, or a whole `chat.completion`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub choices: Option<Vec<Choice<'a>>>,
    pub usage: Option<WireUsage>,
    /// Set if the chunk is an error instead.
    pub error: Option<IgnoredAny>,
    /// `error` in those of vLLM.
    #[serde(borrow)]
    pub object: Text<'a>,
}

/// One of the replies; only one is requested.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    pub index: Option<u64>,
    #[serde(borrow)]
    pub delta: Option<Delta<'a>>,
    /// In place of `delta` where the answer is not streamed.
    #[serde(borrow)]
    pub message: Option<Delta<'a>>,
    #[serde(borrow)]
    pub finish_reason: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub content: Text<'a>,
    /// DeepSeek, llama.cpp, vLLM.
    #[serde(borrow)]
    pub reasoning_content: Text<'a>,
    /// OpenRouter, Ollama, and newer vLLM, which may send both.
    #[serde(borrow)]
    pub reasoning: Text<'a>,
    /// OpenRouter, beside `reasoning`.
    pub reasoning_details: Option<Value>,
    /// LiteLLM, beside `reasoning_content`.
    pub thinking_blocks: Option<Value>,
    #[serde(borrow)]
    pub refusal: Text<'a>,
    #[serde(borrow)]
    pub tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta<'a> {
    pub index: Option<u64>,
    #[serde(borrow)]
    pub id: Text<'a>,
    #[serde(borrow)]
    pub function: Option<FunctionDelta<'a>>,
    /// Google: signatures of its models.
    pub extra_content: Option<Value>,
    /// LiteLLM: the same.
    pub provider_specific_fields: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub arguments: Arguments<'a>,
}

/// Tokens, as counted by the server.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    pub prompt_tokens_details: Option<PromptDetails>,
    pub completion_tokens_details: Option<ReplyDetails>,
    /// DeepSeek's name for the cached tokens.
    pub prompt_cache_hit_tokens: Option<u64>,
    /// US dollars, as OpenRouter reports them.
    pub cost: Option<f64>,
}

/// How the tokens of the request were used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PromptDetails {
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
