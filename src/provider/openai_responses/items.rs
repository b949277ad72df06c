//! Turns become the items of `input`: messages, calls, results, and reasoning in the place where it was thought.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;

use crate::domain::message::Signature;
use crate::provider::request::json;
use crate::provider::turns::{Call, Turn};

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a str>,
        content: [Part<'a>; 1],
    },
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: &'a str,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: &'a str },
    OutputText { text: &'a str },
}

/// The items of a conversation, each as JSON text.
#[derive(Default)]
pub(super) struct Items {
    texts: Vec<String>,
    /// How many of the last ones are reasoning: it belongs to what follows it.
    trailing: usize,
    /// Reasoning that the conversation has already. OpenAI refuses an item that comes twice ("Duplicate item found").
    thoughts: HashSet<String>,
}

impl Items {
    /// Adds a turn.
    pub fn turn(&mut self, turn: &Turn<'_>) {
        match turn {
            Turn::User(text) => {
                self.push(&Item::Message { role: "user", phase: None, content: [Part::InputText { text }] });
            }
            Turn::Assistant { text, calls, signatures } => self.reply(text, calls, signatures),
        }
    }

    /// All of them, as the inside of a JSON list.
    pub fn join(&self) -> String {
        self.texts.join(",")
    }

    /// A reply is cut where reasoning stood and where a message with a phase ended. Places that a damaged row names outside of it are brought inside.
    fn reply(&mut self, text: &str, calls: &[Call<'_>], signatures: &[&Signature]) {
        let (mut text_at, mut calls_at) = (0, 0);
        for signature in signatures {
            let place = (place_in(text, signature.text).max(text_at), signature.calls.clamp(calls_at, calls.len()));
            let stored = serde_json::from_str::<Value>(&signature.json).unwrap_or_default();
            let phase = stored["phase"].as_str();
            self.said(&text[text_at..place.0], phase, &calls[calls_at..place.1]);
            (text_at, calls_at) = place;
            if phase.is_some() {
                // The empty line between two messages belongs to neither.
                text_at += if text[text_at..].starts_with("\n\n") { 2 } else { 0 };
            } else {
                self.thought(&stored, &signature.json);
            }
        }
        self.said(&text[text_at..], None, &calls[calls_at..]);
        // "Item of type 'reasoning' was provided without its required following item": what followed it was cut away.
        self.texts.truncate(self.texts.len() - std::mem::take(&mut self.trailing));
        for call in calls {
            self.push(&Item::FunctionCallOutput { call_id: &call.id, output: call.answer() });
        }
    }

    fn said(&mut self, text: &str, phase: Option<&str>, calls: &[Call<'_>]) {
        if !text.trim().is_empty() {
            self.push(&Item::Message { role: "assistant", phase, content: [Part::OutputText { text }] });
        }
        for call in calls {
            self.push(&Item::FunctionCall { call_id: &call.id, name: &call.name, arguments: call.arguments });
        }
    }

    /// Reasoning as it came. What is none is left out: it would make the whole body useless.
    fn thought(&mut self, item: &Value, stored: &str) {
        let name = item["id"].as_str().unwrap_or(stored);
        if item["type"] == "reasoning" && self.thoughts.insert(name.to_owned()) {
            self.texts.push(stored.to_owned());
            self.trailing += 1;
        }
    }

    fn push(&mut self, item: &Item<'_>) {
        self.texts.push(json(item));
        self.trailing = 0;
    }
}

/// The place in a text, or the nearest before it that is one.
fn place_in(text: &str, place: usize) -> usize {
    (0..=place.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}
