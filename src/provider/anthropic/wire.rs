//! The objects of a Messages answer, as far as they are used, with text borrowed from the stream.
//!
//! Like [`Text`] they are lenient: absent values and `null` are read as empty.

use serde::Deserialize;

use crate::provider::text::{Arguments, Text};

/// One event of a stream, or a whole message: which fields are set depends on `type`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow)]
    pub r#type: Text<'a>,
    /// Of `message_start`.
    #[serde(borrow)]
    pub message: Option<Message<'a>>,
    /// Which block a `content_block_...` is about.
    pub index: Option<u64>,
    #[serde(borrow)]
    pub content_block: Option<Block<'a>>,
    /// Of `content_block_delta` and `message_delta`.
    #[serde(borrow)]
    pub delta: Option<Delta<'a>>,
    /// Of `message_delta`.
    pub usage: Option<WireUsage>,
}

/// A whole message; the one of `message_start` is empty yet.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub r#type: Text<'a>,
    #[serde(borrow)]
    pub content: Option<Vec<Block<'a>>>,
    #[serde(borrow)]
    pub stop_reason: Text<'a>,
    pub usage: Option<WireUsage>,
}

/// A content block as it begins, or whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(borrow)]
    pub r#type: Text<'a>,
    #[serde(borrow)]
    pub text: Text<'a>,
    #[serde(borrow)]
    pub thinking: Text<'a>,
    #[serde(borrow)]
    pub signature: Text<'a>,
    /// Of `redacted_thinking`.
    #[serde(borrow)]
    pub data: Text<'a>,
    #[serde(borrow)]
    pub id: Text<'a>,
    #[serde(borrow)]
    pub name: Text<'a>,
    /// `{}` where it is streamed.
    #[serde(borrow)]
    pub input: Arguments<'a>,
}

/// More of a block, or the end of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub text: Text<'a>,
    #[serde(borrow)]
    pub thinking: Text<'a>,
    #[serde(borrow)]
    pub signature: Text<'a>,
    #[serde(borrow)]
    pub partial_json: Text<'a>,
    #[serde(borrow)]
    pub stop_reason: Text<'a>,
}

/// Tokens, as counted by the server so far.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    /// Those that neither came from the cache nor were written to it.
    pub input_tokens: Option<u64>,
    pub cache_creation_input_tokens: Option<u64>,
    pub cache_read_input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
}
