//! Strings in the JSON of servers, borrowed where possible. An absent value, `null` and an unexpected type are read as
//! empty, because servers differ in this.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A string that is borrowed if it has no escapes; serde would always copy an `Option<Cow<str>>`.
///
/// A list of parts (`[{"type":"text","text":"..."}]`, as Mistral sends it) is read as the text of its parts.
#[derive(Debug, Default, Clone)]
pub(super) struct Text<'a>(pub Cow<'a, str>);

/// Arguments as JSON text. Some servers send the object itself instead of a string.
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
    /// Whether an object is read as its JSON text; otherwise as empty.
    keeps_objects: bool,
}

impl<'de> Visitor<'de> for Reader {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
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
        let text: Text = serde_json::from_str(json).unwrap();
        text.0.into_owned()
    }

    #[test]
    fn a_text_without_escapes_is_not_copied() {
        let text: Text = serde_json::from_str("\"plain\"").unwrap();
        assert!(matches!(text.0, Cow::Borrowed("plain")));
    }

    #[test]
    fn other_types_are_read_as_text_or_as_empty() {
        for (json, text) in [("null", ""), ("7", "7"), ("{\"a\":[1]}", ""), ("true", ""), ("\"\\n\"", "\n")] {
            assert_eq!(content(json), text, "{json}");
        }
        assert_eq!(content(r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#), "ab");
    }

    #[test]
    fn arguments_may_be_an_object() {
        let arguments: Arguments = serde_json::from_str(r#"{"a": 1}"#).unwrap();
        assert_eq!(arguments.0, r#"{"a":1}"#);
    }
}
