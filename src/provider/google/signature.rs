//! A thought signature with the part that it stands on, as it is kept with a reply.
//!
//! A signature belongs to one part and may not be moved to another, nor may its part be joined with one that has none
//! (ai.google.dev/gemini-api/docs/thought-signatures). A stream cuts a text into many parts; so a signature on a text
//! remembers how long its part was.

use serde::{Deserialize, Serialize};

use crate::domain::message::Signature;
use crate::provider::request::json;

/// A signature and its part. Without `bytes` and `thought` it stands on the call that comes next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThoughtSignature {
    /// As the model gave it.
    pub thought_signature: String,
    /// It stands on so many bytes of the text that comes next; on an empty part if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// It stands on a thought, which is this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<String>,
}

impl ThoughtSignature {
    /// One on a call.
    pub fn on_call(signature: String) -> Self {
        Self { thought_signature: signature, bytes: None, thought: None }
    }

    /// One on a piece of the text.
    pub fn on_text(signature: String, bytes: usize) -> Self {
        Self { bytes: Some(bytes), ..Self::on_call(signature) }
    }

    /// One on a thought.
    pub fn on_thought(signature: String, thought: String) -> Self {
        Self { thought: Some(thought), ..Self::on_call(signature) }
    }

    /// What is kept with the reply.
    pub fn to_json(&self) -> String {
        json(self)
    }

    /// What was kept; `None` if it is none of ours.
    pub fn parse(signature: &Signature) -> Option<Self> {
        serde_json::from_str::<Self>(&signature.json).ok().filter(|signature| !signature.thought_signature.is_empty())
    }
}
