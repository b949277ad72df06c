//! The objects of a Chat Completions answer, as far as they matter, with text borrowed from the stream.
//!
//! These types are lenient: what is absent, `null` or of an unexpected type is as good as empty, because
//! servers differ in all of that.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

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

/// One of the answers; only one is ever asked for.
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

/// More of the reply.
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
    #[serde(borrow)]
    pub refusal: Text<'a>,
    #[serde(borrow)]
    pub tool_calls: Option<Vec<CallDelta<'a>>>,
}

/// More of one tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta<'a> {
    pub index: Option<u64>,
    #[serde(borrow)]
    pub id: Text<'a>,
    #[serde(borrow)]
    pub function: Option<FunctionDelta<'a>>,
}

/// What is called, and with what.
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
    /// DeepSeek's name for the cached tokens.
    pub prompt_cache_hit_tokens: Option<u64>,
    /// US dollars, as OpenRouter tells them.
    pub cost: Option<f64>,
}

/// What became of the tokens of the request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PromptDetails {
    pub cached_tokens: Option<u64>,
}

/// A text that is borrowed where it holds no escapes. `Option<Cow<str>>` would always be copied by serde.
///
/// A list of parts (`[{"type":"text","text":"..."}]`, as Mistral sends them) is the text of its parts.
#[derive(Debug, Default, Clone)]
pub(super) struct Text<'a>(pub Cow<'a, str>);

/// The text of the arguments. Some servers send the object itself instead.
#[derive(Debug, Default, Clone)]
pub(super) struct Arguments<'a>(pub Cow<'a, str>);

#[derive(Default, Deserialize)]
#[serde(default)]
struct Part<'a> {
    #[serde(borrow)]
    text: Text<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader { keeps_objects: false }).map(Text)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Arguments<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader { keeps_objects: true }).map(Arguments)
    }
}

struct Reader {
    /// An object is given back as its JSON text, else as nothing.
    keeps_objects: bool,
}

impl<'de> Visitor<'de> for Reader {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(number.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(number.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let mut text = String::new();
        while let Some(part) = parts.next_element::<Part<'de>>()? {
            text.push_str(&part.text.0);
        }
        Ok(Cow::Owned(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        if self.keeps_objects {
            let object = serde_json::Value::deserialize(MapAccessDeserializer::new(object))?;
            return Ok(Cow::Owned(object.to_string()));
        }
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Cow::Borrowed(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(json: &str) -> String {
        let json = format!("{{\"content\":{json}}}");
        let delta: Delta = serde_json::from_str(&json).unwrap();
        delta.content.0.into_owned()
    }

    #[test]
    fn a_text_without_escapes_is_not_copied() {
        let delta: Delta = serde_json::from_str(r#"{"content":"plain"}"#).unwrap();
        assert!(matches!(delta.content.0, Cow::Borrowed("plain")));
    }

    #[test]
    fn what_is_no_text_is_read_as_far_as_it_has_a_meaning() {
        for (json, text) in [("null", ""), ("7", "7"), ("{\"a\":[1]}", ""), ("true", ""), ("\"\\n\"", "\n")] {
            assert_eq!(content(json), text, "{json}");
        }
        assert_eq!(content(r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#), "ab");
    }

    #[test]
    fn arguments_may_be_an_object() {
        let call: FunctionDelta = serde_json::from_str(r#"{"name":"f","arguments":{"a": 1}}"#).unwrap();
        assert_eq!(call.arguments.0, r#"{"a":1}"#);
    }
}
