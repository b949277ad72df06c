//! A thought signature and its part, as stored with a reply.
//!
//! A signature belongs to one part and may not be moved to another, nor may its part be joined with one that has none
//! (ai.google.dev/gemini-api/docs/thought-signatures). A stream cuts a text into many parts, so a signature on a text
//! holds the length of its part.

use serde::{Deserialize, Serialize};

use crate::domain::message::Signature;
use crate::provider::request::json;

/// A signature and its part. Without `bytes` and `thought` it belongs to the next call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThoughtSignature {
    pub thought_signature: String,
    /// It belongs to this many bytes of the text that follows; 0 for an empty part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<String>,
}

impl ThoughtSignature {
    pub fn on_call(signature: String) -> Self {
        Self { thought_signature: signature, bytes: None, thought: None }
    }

    pub fn on_text(signature: String, bytes: usize) -> Self {
        Self { bytes: Some(bytes), ..Self::on_call(signature) }
    }

    pub fn on_thought(signature: String, thought: String) -> Self {
        Self { thought: Some(thought), ..Self::on_call(signature) }
    }

    pub fn to_json(&self) -> String {
        json(self)
    }

    /// `None` if it is not one of Google's.
    pub fn parse(signature: &Signature) -> Option<Self> {
        serde_json::from_str::<Self>(&signature.json).ok().filter(|signature| !signature.thought_signature.is_empty())
    }
}
