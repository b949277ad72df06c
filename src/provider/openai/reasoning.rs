//! Reasoning that a server may require back with the reply. It is collected from the deltas, stored with the reply as one
//! JSON object, and written into later requests to the same model.
//!
//! | field | of a reply by | in requests |
//! |---|---|---|
//! | `reasoning_content` | DeepSeek, Moonshot, llama.cpp, vLLM | with the replies of turns with calls; DeepSeek requires it there (api-docs.deepseek.com/guides/thinking_mode) |
//! | `reasoning` | Ollama, Groq, newer vLLM | the same |
//! | `reasoning_details` | OpenRouter | with all replies (openrouter.ai/docs/guides/best-practices/reasoning-tokens) |
//! | `thinking_blocks` | LiteLLM | with all replies (docs.litellm.ai/docs/reasoning_content) |
//! | `extra_content` of a call | Google | with the call (ai.google.dev/gemini-api/docs/thought-signatures) |
//! | `provider_specific_fields` of a call | LiteLLM, of Google's models | with the call |

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::base::error::Result;
use crate::domain::message::Signature;
use crate::domain::reasoning::SendReasoning;
use crate::domain::stream::StreamEvent;
use crate::provider::limits::ReplySize;
use crate::provider::openai::wire::{CallDelta, Delta};
use crate::provider::request::json;

pub(super) type Object = Map<String, Value>;

/// The fields of a call that go back with it.
const CALL_FIELDS: &[&str] = &["extra_content", "provider_specific_fields"];

/// The reasoning of one reply, as far as it was received; also the stored form.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Reasoning {
    #[serde(skip_serializing_if = "String::is_empty")]
    reasoning_content: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reasoning: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasoning_details: Vec<Object>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    thinking_blocks: Vec<Object>,
    /// The fields of each call, in order; those of the last ones may be missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Object>,
}

impl Reasoning {
    /// Takes the reasoning of a delta; returns the part to show.
    pub fn take(&mut self, delta: &mut Delta<'_>, size: &mut ReplySize) -> Result<String> {
        let (details, blocks) = (objects(delta.reasoning_details.take()), objects(delta.thinking_blocks.take()));
        for object in details.iter().chain(&blocks) {
            size.add(json(object).len())?;
        }
        let has_content = !delta.reasoning_content.0.is_empty();
        let plain = std::mem::take(if has_content { &mut delta.reasoning_content } else { &mut delta.reasoning });
        let mut shown = plain.0.into_owned();
        size.add(shown.len())?;
        (if has_content { &mut self.reasoning_content } else { &mut self.reasoning }).push_str(&shown);
        if shown.is_empty() {
            shown = details.iter().chain(&blocks).filter_map(text_of).collect();
        }
        details.into_iter().for_each(|detail| push_detail(&mut self.reasoning_details, detail));
        blocks.into_iter().for_each(|block| push_block(&mut self.thinking_blocks, block));
        Ok(shown)
    }

    /// Ends the reply: appends what has to be stored, if anything.
    pub fn end(&mut self, calls: Vec<Object>, out: &mut Vec<StreamEvent>) {
        let mut reasoning = std::mem::take(self);
        // Anthropic refuses thinking without its signature.
        reasoning.thinking_blocks.retain(|block| is_text(block, "signature") || is_text(block, "data"));
        reasoning.calls = calls;
        while reasoning.calls.pop_if(|fields| fields.is_empty()).is_some() {}
        // Their text is that of the plain fields.
        if reasoning.of_objects().next().is_some() {
            (reasoning.reasoning_content, reasoning.reasoning) = Default::default();
        }
        let stored = json(&reasoning);
        if stored != "{}" {
            out.push(StreamEvent::Signature(stored));
        }
    }

    /// The reasoning that was stored with a reply.
    pub fn of(signatures: &[&Signature]) -> Self {
        signatures.iter().find_map(|signature| serde_json::from_str(&signature.json).ok()).unwrap_or_default()
    }

    /// The setting with which the server expects this back.
    pub fn field(&self) -> SendReasoning {
        match self {
            _ if !self.reasoning_details.is_empty() => SendReasoning::ReasoningDetails,
            _ if !self.thinking_blocks.is_empty() => SendReasoning::ThinkingBlocks,
            _ if !self.reasoning_content.is_empty() => SendReasoning::ReasoningContent,
            _ if !self.reasoning.is_empty() => SendReasoning::Reasoning,
            _ => SendReasoning::Off,
        }
    }

    /// The field of the reply in a request: text only within a turn with calls. With `is_required` it is
    /// `reasoning_content` there even if its model sent none.
    pub fn in_request(&self, setting: SendReasoning, is_among_calls: bool, is_required: bool) -> Object {
        let field = if setting == SendReasoning::Auto { self.field() } else { setting };
        let list = |list: &[Object]| {
            (!list.is_empty()).then(|| Value::Array(list.iter().cloned().map(Value::Object).collect()))
        };
        let value = match field {
            SendReasoning::Auto | SendReasoning::Off => None,
            SendReasoning::ReasoningContent | SendReasoning::Reasoning => {
                Some(self.text()).filter(|text| is_among_calls && !text.is_empty()).map(Value::String)
            }
            SendReasoning::ReasoningDetails => list(&self.reasoning_details),
            SendReasoning::ThinkingBlocks => list(&self.thinking_blocks),
        };
        match value {
            Some(value) => [(field.name().to_owned(), value)].into_iter().collect(),
            None if is_required && is_among_calls => [(REQUIRED.to_owned(), "".into())].into_iter().collect(),
            None => Object::new(),
        }
    }

    /// The fields of a call.
    pub fn of_call(&self, index: usize) -> Object {
        let fields = self.calls.get(index).cloned().unwrap_or_default();
        fields.into_iter().filter(|(name, _)| CALL_FIELDS.contains(&name.as_str())).collect()
    }

    /// The texts of details and blocks.
    fn of_objects(&self) -> impl Iterator<Item = &str> {
        self.reasoning_details.iter().chain(&self.thinking_blocks).filter_map(text_of)
    }

    fn text(&self) -> String {
        match (self.reasoning_content.as_str(), self.reasoning.as_str()) {
            ("", "") => self.of_objects().collect(),
            ("", text) | (text, _) => text.to_owned(),
        }
    }
}

const REQUIRED: &str = SendReasoning::ReasoningContent.name();

fn objects(value: Option<Value>) -> Vec<Object> {
    let list = if let Some(Value::Array(list)) = value { list } else { Vec::new() };
    list.into_iter().filter_map(|item| if let Value::Object(object) = item { Some(object) } else { None }).collect()
}

/// The readable text of a detail or a block.
fn text_of(object: &Object) -> Option<&str> {
    ["text", "summary", "thinking"].iter().find_map(|name| object.get(*name)?.as_str())
}

fn is_text(object: &Object, name: &str) -> bool {
    object.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
}

/// Appends a detail, or continues the one of the same type and index.
fn push_detail(details: &mut Vec<Object>, detail: Object) {
    let key = |object: &Object| (object.get("type").cloned(), object.get("index").cloned());
    let is_piece = is_plain(&detail, "text") || is_plain(&detail, "summary");
    match details.iter_mut().rfind(|other| key(other) == key(&detail)) {
        // A signature ends a text.
        Some(begun) if is_piece && !is_text(begun, "signature") => continue_object(begun, detail, &["text", "summary"]),
        _ => details.push(detail),
    }
}

/// Appends a block, or continues the last one: text comes before the signature, and both may come in pieces.
fn push_block(blocks: &mut Vec<Object>, block: Object) {
    let is_thinking = |block: &Object| block.get("type").is_some_and(|kind| kind == "thinking");
    let begins = is_text(&block, "thinking");
    match blocks.last_mut() {
        Some(begun) if is_thinking(begun) && is_thinking(&block) && !(begins && is_text(begun, "signature")) => {
            continue_object(begun, block, &["thinking", "signature"]);
        }
        _ => blocks.push(block),
    }
}

fn is_plain(object: &Object, name: &str) -> bool {
    object.get("type").and_then(Value::as_str).is_some_and(|kind| kind.strip_prefix("reasoning.") == Some(name))
}

/// Joins these texts; other fields are replaced where they have a value.
fn continue_object(begun: &mut Object, more: Object, texts: &[&str]) {
    for (name, value) in more {
        match (begun.get_mut(&name), value) {
            (Some(Value::String(text)), Value::String(more)) if texts.contains(&&*name) => {
                text.push_str(&more);
            }
            (Some(_), Value::Null) => {}
            (_, value) => drop(begun.insert(name, value)),
        }
    }
}

/// The fields of a call's delta that go back with it.
pub(super) fn call_fields(delta: &mut CallDelta<'_>) -> Object {
    let values = [delta.extra_content.take(), delta.provider_specific_fields.take()];
    let fields = CALL_FIELDS.iter().map(|name| (*name).to_owned()).zip(values);
    fields.filter_map(|(name, value)| Some((name, value.filter(Value::is_object)?))).collect()
}
