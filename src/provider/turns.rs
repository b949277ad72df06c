//! Turns a log of messages into a conversation that strict servers accept.
//!
//! A log may hold calls whose results were lost in a crash, results without a call, empty replies, two messages of the
//! user in a row, and identifiers as some model wrote them. Servers reject such a conversation. Here each call owns its
//! result, so that neither can exist without the other.
//!
//! The same log always gives the same turns, and a longer log the same ones and more, because providers cache by
//! prefix.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::domain::attachment::{Files, Piece, pieces};
use crate::domain::message::{Body, Message, Signature};
use crate::domain::tool::{ToolCall, ToolResult};

/// The result that a model gets for a call without one.
pub(super) const INTERRUPTED: &str = "[interrupted: this call has no result]";

/// The first message of a conversation that would begin with a reply: chat templates require the user first.
pub(super) const CUT_START: &str = "[earlier messages were left out]";

/// OpenAI refuses longer call identifiers ("Expected a string with maximum length 40").
const MAX_ID: usize = 40;

/// OpenAI refuses longer tool names, and characters other than `[a-zA-Z0-9_-]` in them.
const MAX_NAME: usize = 64;

/// One turn. User and assistant alternate, except that a reply with calls may follow another reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Turn<'a> {
    /// A message of the user; never empty.
    User(String),
    /// A reply: text, calls, or both.
    Assistant {
        /// Its text; empty only if there are calls.
        text: String,
        /// Its calls with their results, in order.
        calls: Vec<Call<'a>>,
        /// Its signatures, in order; empty if another model wrote the reply.
        signatures: Vec<&'a Signature>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call<'a> {
    /// Unique in the conversation, of `[a-zA-Z0-9_-]`, at most 40 long.
    pub id: String,
    /// The tool's name, of `[a-zA-Z0-9_-]`, at most 64 long.
    pub name: String,
    /// The text of a JSON object.
    pub arguments: &'a str,
    /// The id in the log, by which the result is found.
    logged_id: &'a str,
    result: Option<&'a ToolResult>,
}

impl Call<'_> {
    pub fn result_text(&self) -> Cow<'_, str> {
        self.result.map_or(Cow::Borrowed(INTERRUPTED), ToolResult::readable_text)
    }

    /// The text of a result with the files that it refers to, in order; `None` if there are none.
    pub fn result_pieces<'f>(&'f self, files: &'f Files) -> Option<Vec<Piece<'f>>> {
        let result = self.result.filter(|result| result.may_have_images())?;
        let pieces = pieces(&result.content, files);
        pieces.iter().any(|piece| matches!(piece, Piece::File(..))).then_some(pieces)
    }

    /// Whether it failed or has no result.
    pub fn is_error(&self) -> bool {
        self.result.is_none_or(|result| result.is_error)
    }
}

/// The turns of these messages for the model of this full name; empty without a message of the user.
pub(super) fn turns<'a>(messages: &[&'a Message], model: &str) -> Vec<Turn<'a>> {
    let mut writer = Writer::default();
    for message in messages {
        match &message.body {
            Body::User(text) => writer.user(text),
            // Chat templates allow a system message only at the beginning, where it must not change for the cache.
            Body::System(text) if !is_blank(text) => writer.user(&format!("[system] {text}")),
            Body::Compaction(compaction) => writer.user(&compaction.text()),
            Body::Assistant(reply) => {
                writer.reply(&reply.text, if reply.by == model { &reply.signatures } else { &[] })
            }
            Body::ToolCall(call) => writer.call(call),
            Body::ToolResult(result) => writer.result(result),
            _ => {}
        }
    }
    writer.finish()
}

#[derive(Default)]
struct Writer<'a> {
    turns: Vec<Turn<'a>>,
    ids: HashMap<String, u32>,
}

impl<'a> Writer<'a> {
    fn user(&mut self, message: &str) {
        if is_blank(message) {
            return;
        }
        self.drop_empty_reply();
        match self.turns.last_mut() {
            Some(Turn::User(text)) => join(text, message),
            _ => self.turns.push(Turn::User(message.to_owned())),
        }
    }

    /// An empty reply is dropped only at the end, because calls may follow.
    fn reply(&mut self, content: &str, own: &'a [Signature]) {
        let content = if is_blank(content) { "" } else { content };
        match self.turns.last_mut() {
            // Signatures have positions in a text, and two replies that become one have none.
            Some(Turn::Assistant { text, calls, signatures }) if calls.is_empty() => {
                if text.is_empty() {
                    *signatures = own.iter().collect();
                } else if !content.is_empty() {
                    signatures.clear();
                }
                join(text, content);
            }
            _ => self.push_reply(content, own),
        }
    }

    fn push_reply(&mut self, content: &str, signatures: &'a [Signature]) {
        if self.turns.is_empty() {
            self.turns.push(Turn::User(CUT_START.to_owned()));
        }
        self.turns.push(Turn::Assistant {
            text: content.to_owned(),
            calls: Vec::new(),
            signatures: signatures.iter().collect(),
        });
    }

    /// A call belongs to the reply before it, unless that one's calls have results already.
    fn call(&mut self, call: &'a ToolCall) {
        let is_open =
            |turn: &Turn| matches!(turn, Turn::Assistant { calls, .. } if calls.iter().all(|c| c.result.is_none()));
        if !self.turns.last().is_some_and(is_open) {
            self.push_reply("", &[]);
        }
        let id = self.unique_id(&call.id);
        if let Some(Turn::Assistant { calls, .. }) = self.turns.last_mut() {
            let (name, arguments) = (name_of(&call.name), object_or_empty(&call.arguments));
            calls.push(Call { id, name, arguments, logged_id: &call.id, result: None });
        }
    }

    /// A result belongs to one of the newest calls; otherwise its call was lost.
    fn result(&mut self, result: &'a ToolResult) {
        let newest = self.turns.iter_mut().rev().find_map(|turn| match turn {
            Turn::Assistant { calls, .. } if !calls.is_empty() => Some(calls),
            _ => None,
        });
        let open = newest.into_iter().flatten().find(|c| c.logged_id == result.call_id && c.result.is_none());
        if let Some(call) = open {
            call.result = Some(result);
        }
    }

    fn finish(mut self) -> Vec<Turn<'a>> {
        self.drop_empty_reply();
        if self.turns == [Turn::User(CUT_START.to_owned())] {
            self.turns.clear();
        }
        self.turns
    }

    fn drop_empty_reply(&mut self) {
        self.turns
            .pop_if(|turn| matches!(turn, Turn::Assistant { text, calls, .. } if text.is_empty() && calls.is_empty()));
    }

    /// The logged id in a form that every server accepts; a number is added to a duplicate.
    fn unique_id(&mut self, logged: &str) -> String {
        let mut id = fit(logged, MAX_ID);
        if id.is_empty() {
            id.push_str("call");
        }
        let base = id.clone();
        while let Some(times) = self.ids.get_mut(&id) {
            *times += 1;
            let suffix = format!("-{times}");
            id = format!("{}{suffix}", fit(&base, MAX_ID - suffix.len()));
        }
        self.ids.insert(id.clone(), 1);
        id
    }
}

fn name_of(logged: &str) -> String {
    let name = fit(logged, MAX_NAME);
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// The first `max` characters with everything outside `[a-zA-Z0-9_-]` replaced.
fn fit(text: &str, max: usize) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.chars().take(max).map(|c| if fits(c) { c } else { '_' }).collect()
}

/// The arguments if they are a valid JSON object, else an empty one, because invalid JSON would make every later
/// request invalid. The result says what was wrong.
fn object_or_empty(arguments: &str) -> &str {
    let is_object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(arguments).is_ok();
    if is_object { arguments } else { "{}" }
}

fn join(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(more);
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}
