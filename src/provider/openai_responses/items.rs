//! From turns to the items of `input`: messages, calls, results, and reasoning at its position.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;

use crate::domain::attachment::{Files, PDF, Piece, pieces, readable_text};
use crate::domain::message::Signature;
use crate::provider::request::json;
use crate::provider::turns::{Call, Turn};

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        role: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a str>,
        content: Vec<Part<'a>>,
    },
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: Output<'a>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: Cow<'a, str> },
    InputImage { image_url: String, detail: &'static str },
    InputFile { filename: &'a str, file_data: String },
    OutputText { text: &'a str, annotations: [(); 0] },
}

/// The result of a call: a text, or parts if it has images.
#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

/// The message of a user (platform.openai.com/docs/api-reference/responses/create, input_image and input_file).
fn user_content<'a>(text: &'a str, files: &'a Files) -> Vec<Part<'a>> {
    let pieces = pieces(text, files);
    if !pieces.iter().any(|piece| matches!(piece, Piece::File(..))) {
        return vec![Part::InputText { text: readable_text(text) }];
    }
    pieces.into_iter().map(part).collect()
}

fn part(piece: Piece<'_>) -> Part<'_> {
    match piece {
        Piece::Text(text) => Part::InputText { text: text.into() },
        Piece::File(name, file) => {
            let data = format!("data:{};base64,{}", file.media_type, file.base64);
            match file.media_type.as_str() {
                PDF => Part::InputFile { filename: name, file_data: data },
                _ => Part::InputImage { image_url: data, detail: "auto" },
            }
        }
    }
}

/// The items of a conversation, each as JSON text.
#[derive(Default)]
pub(super) struct Items {
    texts: Vec<String>,
    /// Number of reasoning items at the end, which need an item after them.
    trailing: usize,
    /// Reasoning so far. OpenAI rejects duplicates ("Duplicate item found").
    reasoning: HashSet<String>,
}

impl Items {
    pub fn turn(&mut self, turn: &Turn<'_>, files: &Files) {
        match turn {
            Turn::User(text) => {
                let content = user_content(text, files);
                self.push(&Item::Message { id: None, role: "user", status: None, phase: None, content });
            }
            Turn::Assistant { text, calls, signatures } => self.reply(text, calls, signatures, files),
        }
    }

    pub fn join(&self) -> String {
        self.texts.join(",")
    }

    /// A reply is cut at the positions of reasoning and at the ends of messages with a phase. Positions outside of the
    /// reply, from a damaged row, are clamped.
    fn reply(&mut self, text: &str, calls: &[Call<'_>], signatures: &[&Signature], files: &Files) {
        let (mut text_start, mut calls_start) = (0, 0);
        for signature in signatures {
            let position = (
                text.floor_char_boundary(signature.text).max(text_start),
                signature.calls.clamp(calls_start, calls.len()),
            );
            let stored = serde_json::from_str::<Value>(&signature.json).unwrap_or_default();
            let phase = stored["phase"].as_str();
            self.push_reply(&text[text_start..position.0], phase, &calls[calls_start..position.1]);
            (text_start, calls_start) = position;
            if phase.is_some() {
                // The empty line between two messages was inserted.
                text_start += if text[text_start..].starts_with("\n\n") { 2 } else { 0 };
            } else {
                self.push_reasoning(&stored, &signature.json);
            }
        }
        self.push_reply(&text[text_start..], None, &calls[calls_start..]);
        // "Item of type 'reasoning' was provided without its required following item": the item after it was lost.
        self.texts.truncate(self.texts.len() - std::mem::take(&mut self.trailing));
        for call in calls {
            let pieces = call.result_pieces(files);
            let parts = pieces.map(|pieces| Output::Parts(pieces.into_iter().map(part).collect()));
            let output = parts.unwrap_or_else(|| Output::Text(call.result_text()));
            self.push(&Item::FunctionCallOutput { call_id: &call.id, output });
        }
    }

    fn push_reply(&mut self, text: &str, phase: Option<&str>, calls: &[Call<'_>]) {
        if !text.trim().is_empty() {
            let content = vec![Part::OutputText { text, annotations: [] }];
            // The type of the official SDKs requires an id, a status and annotations (`ResponseOutputMessageParam`), and
            // strict servers check it. The id only has to be unique, because nothing is stored.
            let id = Some(format!("msg_{}", self.texts.len()));
            self.push(&Item::Message { id, role: "assistant", status: Some("completed"), phase, content });
        }
        for call in calls {
            self.push(&Item::FunctionCall { call_id: &call.id, name: &call.name, arguments: call.arguments });
        }
    }

    /// Reasoning as it was received. Anything else is left out, because it would make the whole body invalid.
    fn push_reasoning(&mut self, item: &Value, stored: &str) {
        let name = item["id"].as_str().unwrap_or(stored);
        if item["type"] == "reasoning" && self.reasoning.insert(name.to_owned()) {
            self.texts.push(stored.to_owned());
            self.trailing += 1;
        }
    }

    fn push(&mut self, item: &Item<'_>) {
        self.texts.push(json(item));
        self.trailing = 0;
    }
}
