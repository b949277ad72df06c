//! From the events of one message to ours: text, signed thinking, calls with our own indexes, usage; all of it limited.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::stream::{Finish, StreamEvent, Usage};
use crate::provider::anthropic::wire::{Block, Delta, Event, Message, WireUsage};
use crate::provider::error_object;
use crate::provider::limits::{self, ReplySize};
use crate::provider::request::json;
use crate::provider::response::{IsComplete, PartialReply, ReplyParser, empty_reply, incomplete};

/// Most blocks that are open at the same time; the API has one.
const MAX_OPEN: usize = 1024;

/// One reply, as far as it was received.
#[derive(Debug, Default)]
pub(super) struct Reply {
    has_begun: bool,
    /// Unfinished blocks, by their index in the message.
    open: BTreeMap<u64, Open>,
    /// Number of calls so far.
    calls: usize,
    size: ReplySize,
    finish: Option<Finish>,
    counted: Usage,
}

/// An unfinished block.
#[derive(Debug)]
enum Open {
    Text,
    Thinking {
        text: String,
        signature: String,
    },
    Redacted {
        data: String,
    },
    Call {
        index: usize,
        input: String,
        length: usize,
    },
    /// Types that are never requested, such as search results.
    Other,
}

/// A block of thinking in the form that is sent back.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum SignedThinking<'a> {
    Thinking { thinking: &'a str, signature: &'a str },
    RedactedThinking { data: &'a str },
}

impl ReplyParser for Reply {
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<IsComplete> {
        let data = data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(false);
        }
        let Ok(event) = serde_json::from_str::<Event>(data) else { return Err(error_object::of_event(data)) };
        let kind = if event.r#type.0.is_empty() { name.to_owned() } else { event.r#type.0.clone().into_owned() };
        match kind.as_str() {
            "error" => return Err(error_object::of_event(data)),
            "message_start" => self.begin(event.message.unwrap_or_default(), out),
            "content_block_start" => self.open(event.index, event.content_block.unwrap_or_default(), out)?,
            "content_block_delta" => self.go_on(event.index, event.delta.unwrap_or_default(), out)?,
            "content_block_stop" => self.close_block(event.index.unwrap_or(0), out),
            "message_delta" => self.stop(&event.delta.unwrap_or_default().stop_reason.0, event.usage, out),
            "message_stop" if self.has_begun || self.finish.is_some() => return Ok(true),
            "message_stop" => return Err(empty_reply()),
            // An object without a type comes from a proxy. Unknown types are skipped.
            "" => return Err(error_object::of_event(data)),
            _ => {}
        }
        Ok(false)
    }

    fn body(&mut self, body: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        match serde_json::from_str::<Message>(body) {
            Ok(message) if message.r#type.0 == "message" => self.take_whole(message, out),
            Err(error) if error.is_eof() && body.starts_with('{') => Err(incomplete()),
            _ => Err(error_object::of_body(body)),
        }
    }
}

impl PartialReply for Reply {
    fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    fn close(&mut self, out: &mut Vec<StreamEvent>) {
        while let Some((index, _)) = self.open.first_key_value() {
            self.close_block(*index, out);
        }
        limits::close(self.finish, self.calls > 0, out);
    }
}

impl Reply {
    fn begin(&mut self, message: Message<'_>, out: &mut Vec<StreamEvent>) {
        self.has_begun = true;
        self.count(message.usage, out);
    }

    fn take_whole(&mut self, message: Message<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        self.has_begun = true;
        for block in message.content.unwrap_or_default() {
            self.open(Some(0), block, out)?;
            self.close_block(0, out);
        }
        self.stop(&message.stop_reason.0, message.usage, out);
        Ok(())
    }

    fn open(&mut self, index: Option<u64>, block: Block<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        let index = index.unwrap_or(0);
        self.has_begun = true;
        self.close_block(index, out);
        if self.open.len() == MAX_OPEN {
            return Err(limits::exceeded("more than 1024 open blocks in one reply"));
        }
        let open = match &*block.r#type.0 {
            "text" => Open::Text,
            "thinking" => Open::Thinking { text: String::new(), signature: String::new() },
            "redacted_thinking" => Open::Redacted { data: block.data.0.clone().into_owned() },
            "tool_use" => self.begin_call(&block, out)?,
            _ => Open::Other,
        };
        self.size.add(block.data.0.len())?;
        self.open.insert(index, open);
        // The first content of a block counts as a delta.
        let Block { text, thinking, signature, .. } = block;
        self.go_on(Some(index), Delta { text, thinking, signature, ..Delta::default() }, out)
    }

    /// The input of a call comes in deltas; the one in the start event counts only if no delta follows.
    fn begin_call(&mut self, block: &Block<'_>, out: &mut Vec<StreamEvent>) -> Result<Open> {
        limits::another_call(self.calls)?;
        let (index, input) = (self.calls, block.input.0.clone().into_owned());
        limits::arguments(input.len())?;
        self.calls += 1;
        let (id, name) = (block.id.0.clone().into_owned(), block.name.0.clone().into_owned());
        out.push(StreamEvent::ToolCall { index, id, name, arguments: String::new() });
        Ok(Open::Call { index, input, length: 0 })
    }

    fn go_on(&mut self, index: Option<u64>, delta: Delta<'_>, out: &mut Vec<StreamEvent>) -> Result<()> {
        self.has_begun = true;
        self.size.add(delta.text.0.len() + delta.thinking.0.len() + delta.signature.0.len())?;
        match self.open.get_mut(&index.unwrap_or(0)) {
            Some(Open::Text) => push(StreamEvent::Text, delta.text.0.into_owned(), out),
            Some(Open::Thinking { text, signature }) => {
                text.push_str(&delta.thinking.0);
                signature.push_str(&delta.signature.0);
                push(StreamEvent::Thinking, delta.thinking.0.into_owned(), out);
            }
            Some(Open::Call { index, length, .. }) if !delta.partial_json.0.is_empty() => {
                *length += delta.partial_json.0.len();
                limits::arguments(*length)?;
                push_arguments(*index, delta.partial_json.0.into_owned(), out);
            }
            Some(Open::Call { .. } | Open::Redacted { .. } | Open::Other) => {}
            None => return Err(Error::new(ErrorKind::Protocol, "the server sent a delta for an unknown block")),
        }
        Ok(())
    }

    /// Ends a block: appends its signature, or the arguments that did not come in deltas. Does nothing if it is not
    /// open.
    fn close_block(&mut self, index: u64, out: &mut Vec<StreamEvent>) {
        match self.open.remove(&index) {
            Some(Open::Thinking { text, signature }) if !signature.is_empty() => {
                let signature = SignedThinking::Thinking { thinking: &text, signature: &signature };
                out.push(StreamEvent::Signature(json(&signature)));
            }
            Some(Open::Redacted { data }) if !data.is_empty() => {
                out.push(StreamEvent::Signature(json(&SignedThinking::RedactedThinking { data: &data })));
            }
            Some(Open::Call { index, input, length: 0 }) => {
                push_arguments(index, if input.is_empty() { "{}".to_owned() } else { input }, out);
            }
            _ => {}
        }
    }

    fn stop(&mut self, reason: &str, usage: Option<WireUsage>, out: &mut Vec<StreamEvent>) {
        self.count(usage, out);
        self.finish = finish_of(reason).or(self.finish);
    }

    /// Counts are cumulative, and a missing or zero count does not replace an earlier one.
    fn count(&mut self, usage: Option<WireUsage>, out: &mut Vec<StreamEvent>) {
        let usage = usage.unwrap_or_default();
        let before = &self.counted;
        let plain = before.input - before.cached - before.written;
        let most = |count: Option<u64>, known: u64| count.unwrap_or(0).min(MAX_TOKENS).max(known);
        let cached = most(usage.cache_read_input_tokens, before.cached);
        let written = most(usage.cache_creation_input_tokens, before.written);
        let input = most(usage.input_tokens, plain) + cached + written;
        let output = most(usage.output_tokens, before.output);
        let counted = Usage { input, cached, written, output, ..Usage::default() };
        if counted != self.counted {
            out.push(StreamEvent::Usage(counted.clone()));
        }
        self.counted = counted;
    }
}

/// A greater count is an error of the server.
const MAX_TOKENS: u64 = 1 << 40;

fn push(event: fn(String) -> StreamEvent, text: String, out: &mut Vec<StreamEvent>) {
    if !text.is_empty() {
        out.push(event(text));
    }
}

fn push_arguments(index: usize, arguments: String, out: &mut Vec<StreamEvent>) {
    out.push(StreamEvent::ToolCall { index, id: String::new(), name: String::new(), arguments });
}

/// `None` while the model has not stopped. `pause_turn` is for server tools, which are never requested.
fn finish_of(reason: &str) -> Option<Finish> {
    match reason {
        "" => None,
        "max_tokens" | "model_context_window_exceeded" => Some(Finish::Length),
        "refusal" | "content_filter" => Some(Finish::ContentFilter),
        "tool_use" => Some(Finish::ToolCalls),
        _ => Some(Finish::Stop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(reply: &mut Reply, event: &str) -> Result<Vec<StreamEvent>> {
        let mut out = Vec::new();
        reply.event("", event, &mut out).map(|_| out)
    }

    fn start(index: usize, block: &str) -> String {
        format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
    }

    fn delta(index: usize, delta: &str) -> String {
        format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
    }

    fn is_refused(outcome: Result<Vec<StreamEvent>>) -> bool {
        matches!(outcome, Err(Error { kind: ErrorKind::Protocol, .. }))
    }

    const CALL: &str = r#"{"type":"tool_use","id":"a","name":"f","input":{}}"#;

    #[test]
    fn text_thinking_and_signatures_together_are_limited() {
        let megabyte = "x".repeat(1 << 20);
        for (block, field) in [("text", "text"), ("thinking", "thinking"), ("thinking", "signature")] {
            let mut reply = Reply::default();
            take(&mut reply, &start(0, &format!(r#"{{"type":"{block}"}}"#))).unwrap();
            let more = delta(0, &format!(r#"{{"type":"x","{field}":"{megabyte}"}}"#));
            assert!((0..16).all(|_| take(&mut reply, &more).is_ok()), "{field}");
            assert!(is_refused(take(&mut reply, &more)), "{field}");
        }
        let mut reply = Reply::default();
        let redacted = start(0, &format!(r#"{{"type":"redacted_thinking","data":"{megabyte}"}}"#));
        assert!((0..16).all(|_| take(&mut reply, &redacted).is_ok()));
        assert!(is_refused(take(&mut reply, &redacted)));
    }

    #[test]
    fn arguments_calls_and_open_blocks_are_limited() {
        let mut reply = Reply::default();
        take(&mut reply, &start(0, CALL)).unwrap();
        let half = delta(0, &format!(r#"{{"partial_json":"{}"}}"#, "x".repeat(limits::MAX_ARGUMENTS / 2 + 1)));
        assert!(take(&mut reply, &half).is_ok());
        assert!(is_refused(take(&mut reply, &half)));
        let whole = format!(r#"{{"type":"tool_use","input":{{"a":"{}"}}}}"#, "x".repeat(limits::MAX_ARGUMENTS));
        assert!(is_refused(take(&mut Reply::default(), &start(0, &whole))));

        let mut reply = Reply::default();
        assert!((0..limits::MAX_CALLS).all(|_| take(&mut reply, &start(0, CALL)).is_ok()));
        assert!(is_refused(take(&mut reply, &start(0, CALL))));

        let mut reply = Reply::default();
        assert!((0..MAX_OPEN).all(|index| take(&mut reply, &start(index, "{}")).is_ok()));
        assert!(is_refused(take(&mut reply, &start(MAX_OPEN, "{}"))));
    }

    #[test]
    fn an_absurd_count_does_not_overflow() {
        let usage = format!(r#"{{"input_tokens":{0},"cache_read_input_tokens":{0},"output_tokens":{0}}}"#, u64::MAX);
        let mut reply = Reply::default();
        let out = take(&mut reply, &format!(r#"{{"type":"message_delta","usage":{usage}}}"#)).unwrap();
        assert!(matches!(&out[..], [StreamEvent::Usage(usage)] if usage.input == 2 * MAX_TOKENS));
    }
}
