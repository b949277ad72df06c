//! From turns to the contents of a request: roles, parts, and each signature on its own part.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::domain::attachment::{Files, LoadedFile, Piece, pieces, readable_text};
use crate::domain::message::Signature;
use crate::provider::google::signature::ThoughtSignature;
use crate::provider::turns::{Call, Turn};

/// Replaces the signature of another model's call, as Google documents it
/// (ai.google.dev/gemini-api/docs/thought-signatures, frequently asked questions).
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Appended to a conversation that ends with a reply, which newer models reject.
const CONTINUE: &str = "[continue]";

/// Maximum length of a function name.
const MAX_NAME: usize = 64;

#[derive(Debug, Serialize)]
pub(super) struct Content<'a> {
    role: &'static str,
    parts: Vec<Part<'a>>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<InlineData>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<CallPart<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<ResultPart<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData {
    mime_type: String,
    data: String,
}

#[derive(Debug, Serialize)]
struct CallPart<'a> {
    id: &'a str,
    name: String,
    args: Map<String, Value>,
}

#[derive(Debug, Serialize)]
struct ResultPart<'a> {
    id: &'a str,
    name: String,
    response: Outcome<'a>,
}

/// The two keys that the API documents (ai.google.dev/api/caching#FunctionResponse).
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome<'a> {
    Output(Cow<'a, str>),
    Error(Cow<'a, str>),
}

/// The contents for these turns. A model that requires signatures gets a substitute on the first call of each reply
/// since the user's last message, because it validates only those.
pub(super) fn contents<'a>(turns: &'a [Turn<'a>], files: &Files, requires_signatures: bool) -> Vec<Content<'a>> {
    let current = turns.iter().rposition(|turn| matches!(turn, Turn::User(_))).unwrap_or(0);
    let mut contents = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        match turn {
            Turn::User(text) => contents.push(user_content(text, files)),
            Turn::Assistant { text, calls, signatures } => {
                let mut parts = Writer { text, calls, parts: Vec::new() }.write(signatures);
                if requires_signatures && index > current {
                    sign_first_call(&mut parts);
                }
                contents.push(Content { role: "model", parts });
                if !calls.is_empty() {
                    let results = calls.iter().map(result_part);
                    let images =
                        calls.iter().filter_map(|call| call.result_pieces(files)).flatten().filter_map(image_part);
                    contents.push(Content { role: "user", parts: results.chain(images).collect() });
                }
            }
        }
    }
    if contents.last().is_some_and(|last| last.role == "model") {
        contents.push(text_content("user", CONTINUE));
    }
    contents
}

/// The names of all tools that were called, each once.
pub(super) fn called_tools<'a>(turns: &'a [Turn<'a>]) -> Vec<String> {
    let mut names = Vec::new();
    for turn in turns {
        let Turn::Assistant { calls, .. } = turn else { continue };
        for name in calls.iter().map(|call| name_of(&call.name)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The message of a user (ai.google.dev/gemini-api/docs/image-understanding, .../document-processing).
fn user_content(text: &str, files: &Files) -> Content<'static> {
    let pieces = pieces(text, files);
    if !pieces.iter().any(|piece| matches!(piece, Piece::File(..))) {
        return text_content("user", &readable_text(text));
    }
    let part = |piece: Piece<'_>| match piece {
        Piece::Text(text) => Part { text: Some(text), ..Part::default() },
        Piece::File(_, file) => file_part(file),
    };
    Content { role: "user", parts: pieces.into_iter().map(part).collect() }
}

fn file_part<'p>(file: &LoadedFile) -> Part<'p> {
    let (mime_type, data) = (file.media_type.clone(), file.base64.clone());
    Part { inline_data: Some(InlineData { mime_type, data }), ..Part::default() }
}

/// The images of results follow the results, in the same message.
fn image_part<'p>(piece: Piece<'_>) -> Option<Part<'p>> {
    if let Piece::File(_, file) = piece { Some(file_part(file)) } else { None }
}

fn text_content(role: &'static str, text: &str) -> Content<'static> {
    Content { role, parts: vec![Part { text: Some(text.to_owned()), ..Part::default() }] }
}

fn sign_first_call(parts: &mut [Part<'_>]) {
    if let Some(first) = parts.iter_mut().find(|part| part.function_call.is_some()) {
        first.thought_signature.get_or_insert_with(|| NO_SIGNATURE.to_owned());
    }
}

fn result_part<'a>(call: &'a Call<'a>) -> Part<'a> {
    let response =
        if call.is_error() { Outcome::Error(call.result_text()) } else { Outcome::Output(call.result_text()) };
    let result = ResultPart { id: &call.id, name: name_of(&call.name), response };
    Part { function_response: Some(result), ..Part::default() }
}

/// A name begins with a letter or an underscore.
fn name_of(name: &str) -> String {
    match name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        true => name.to_owned(),
        false => format!("_{name}").chars().take(MAX_NAME).collect(),
    }
}

struct Writer<'a> {
    text: &'a str,
    calls: &'a [Call<'a>],
    parts: Vec<Part<'a>>,
}

impl<'a> Writer<'a> {
    /// Each signature says how much text and how many calls are before it, which may be more than the log still has.
    fn write(mut self, signatures: &[&Signature]) -> Vec<Part<'a>> {
        let (text, calls) = (self.text.len(), self.calls.len());
        for stored in signatures {
            let Some(signature) = ThoughtSignature::parse(stored) else { continue };
            self.push_text(stored.text.saturating_sub(text - self.text.len()), None);
            self.push_calls(stored.calls.saturating_sub(calls - self.calls.len()));
            self.push_signed(signature);
        }
        self.push_text(usize::MAX, None);
        self.push_calls(usize::MAX);
        self.parts
    }

    fn push_signed(&mut self, ThoughtSignature { thought_signature, bytes, thought }: ThoughtSignature) {
        match (bytes, thought) {
            (_, Some(thought)) => {
                let thought_signature = Some(thought_signature);
                self.parts.push(Part { text: Some(thought), thought: true, thought_signature, ..Part::default() });
            }
            // A signature is valid only on its complete part.
            (Some(bytes), None) if self.text.is_char_boundary(bytes) => self.push_text(bytes, Some(thought_signature)),
            (Some(_), None) => {}
            (None, None) => {
                let signed = self.parts.len();
                self.push_calls(1);
                if let Some(part) = self.parts.get_mut(signed) {
                    part.thought_signature = Some(thought_signature);
                }
            }
        }
    }

    fn push_text(&mut self, bytes: usize, thought_signature: Option<String>) {
        let (piece, rest) = self.text.split_at(self.text.floor_char_boundary(bytes));
        self.text = rest;
        if !piece.is_empty() || thought_signature.is_some() {
            self.parts.push(Part { text: Some(piece.to_owned()), thought_signature, ..Part::default() });
        }
    }

    fn push_calls(&mut self, count: usize) {
        let (these, rest) = self.calls.split_at(count.min(self.calls.len()));
        self.calls = rest;
        self.parts.extend(these.iter().map(call_part));
    }
}

fn call_part<'a>(call: &'a Call<'a>) -> Part<'a> {
    let args = serde_json::from_str(call.arguments).unwrap_or_default();
    let call = CallPart { id: &call.id, name: name_of(&call.name), args };
    Part { function_call: Some(call), ..Part::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::MessageId;
    use crate::domain::message::{Body, Message, Reply};
    use crate::domain::tool::ToolCall;
    use crate::provider::request::json;
    use crate::provider::turns::turns;

    /// The parts of a reply with this text, two calls, and signatures at these positions.
    fn reply(text: &str, signatures: &[(usize, usize, &str)], requires_signatures: bool) -> String {
        let signature =
            |(text, calls, json): &(usize, usize, &str)| Signature { text: *text, calls: *calls, json: (*json).into() };
        let signatures = signatures.iter().map(signature).collect();
        let call = |id: &str| ToolCall { id: id.into(), name: "f".into(), arguments: "{}".into() };
        let bodies = [
            Body::User("go".into()),
            Body::Assistant(Reply { text: text.into(), signatures, by: "google/m".into(), ..Reply::default() }),
            Body::ToolCall(call("a")),
            Body::ToolCall(call("b")),
        ];
        let log = bodies.map(|body| Message { id: MessageId(0), body, created_at: 0 });
        let turns = turns(&log.iter().collect::<Vec<_>>(), "google/m");
        let reply = json(&contents(&turns, &Files::default(), requires_signatures)[1].parts);
        reply.replace("\"args\":{}", "").replace("thoughtSignature", "sig").replace(",}", "}")
    }

    #[test]
    fn each_signature_goes_back_on_its_own_part() {
        let signatures = [
            (0, 0, r#"{"thoughtSignature":"s","thought":"hm"}"#),
            (2, 0, r#"{"thoughtSignature":"t","bytes":3}"#),
            (5, 0, r#"{"thoughtSignature":"c"}"#),
            (5, 2, r#"{"thoughtSignature":"e","bytes":0}"#),
        ];
        let expected = concat!(
            r#"[{"text":"hm","thought":true,"sig":"s"},{"text":"ab"},{"text":"cde","sig":"t"},"#,
            r#"{"functionCall":{"id":"a","name":"f"},"sig":"c"},{"functionCall":{"id":"b","name":"f"}},"#,
            r#"{"text":"","sig":"e"}]"#
        );
        assert_eq!(reply("abcde", &signatures, true), expected);
    }

    #[test]
    fn a_signature_beyond_the_reply_is_left_out() {
        let calls = r#"{"functionCall":{"id":"a","name":"f"}},{"functionCall":{"id":"b","name":"f"}}"#;
        for json in [r#"{"thoughtSignature":"x"}"#, r#"{"thoughtSignature":""}"#, "{}", "no JSON"] {
            let expected = format!("[{{\"text\":\"é\"}},{calls}]");
            assert_eq!(reply("é", &[(9, 9, json)], false), expected, "{json}");
        }
        let within = reply("é", &[(1, 0, r#"{"thoughtSignature":"x","bytes":1}"#)], false);
        assert_eq!(within, format!("[{{\"text\":\"é\"}},{calls}]"), "the signature's part is cut");
    }

    #[test]
    fn only_the_first_call_without_a_signature_gets_the_substitute() {
        let first = r#"{"functionCall":{"id":"a","name":"f"},"sig":"skip_thought_signature_validator"}"#;
        let second = r#"{"functionCall":{"id":"b","name":"f"}}"#;
        assert_eq!(reply("", &[], true), format!("[{first},{second}]"));
        let own = reply("", &[(0, 0, r#"{"thoughtSignature":"mine"}"#)], true);
        assert!(own.contains("mine") && !own.contains("skip"), "{own}");
    }
}
