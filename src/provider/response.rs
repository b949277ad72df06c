//! From the bytes of a response to the events of a protocol: which kind of response it is, and how it ends.
//!
//! ```text
//!   status 300 and up ------------------> Body: an error, read at the end
//!   else, by its first bytes (the content type may be wrong):
//!     data: event: : ... ---------------> Stream: events until the reply is complete, an error, or the end
//!     anything else --------------------> Body: a complete reply, or an error
//! ```
//!
//! This is the same for every protocol over server-sent events. A [`ReplyParser`] interprets the events.

use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::http::HttpHead;
use crate::domain::stream::StreamEvent;
use crate::provider::sse::Sse;
use crate::provider::surrogates::{self, Halves};
use crate::provider::{Decoder, error_object};

/// Bytes that are read of an error's body.
const MAX_ERROR_BODY: usize = 64 << 10;
/// Bytes of a response that is not streamed: 16 MiB of text with escapes.
const MAX_BODY: usize = 32 << 20;

/// How a stream of events begins. `error` is sent by llama.cpp.
const STREAM_MARKS: &[&[u8]] = &[b"data:", b"event:", b"id:", b"retry:", b"error:", b":"];

pub(super) type IsComplete = bool;

/// The reply, as far as it was received.
pub(super) trait PartialReply: Default {
    /// Whether any part of the reply was received.
    fn has_begun(&self) -> bool;
    /// Whether the reason for the end was received: then the stream may end without its last event.
    fn is_finished(&self) -> bool;
    /// Ends a complete reply: appends data that was held back, the reason for the end, and `Done`.
    fn close(&mut self, out: &mut Vec<StreamEvent>);
}

/// A protocol's interpretation of one response.
pub(super) trait ReplyParser: PartialReply {
    /// Takes one event of a stream and appends the resulting events. An error ends the reply.
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<IsComplete>;
    /// Takes a response that is not a stream although one was requested. After `Ok` the reply is complete.
    fn body(&mut self, body: &str, out: &mut Vec<StreamEvent>) -> Result<()>;
    /// The error of a response with an error status. A `Retry-After` header counts before its own.
    fn error(status: u16, body: &str) -> Error {
        error_object::of_response(status, body)
    }
}

#[derive(Debug, Default)]
pub(super) struct ResponseDecoder<R> {
    head: HttpHead,
    phase: Phase,
    reply: Events<R>,
    /// Whether `Done` or `Error` was appended.
    is_over: bool,
}

/// A reply whose characters may be split between two events.
#[derive(Debug, Default)]
struct Events<R> {
    reply: R,
    halves: Halves,
}

impl<R: ReplyParser> Events<R> {
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<IsComplete> {
        self.take(data, out, |reply, data, out| reply.event(name, data, out)).map_err(|error| if_damaged(error, data))
    }

    fn body(&mut self, body: &str, out: &mut Vec<StreamEvent>) -> Result<IsComplete> {
        let outcome = self.take(body, out, |reply, body, out| reply.body(body, out).map(|()| true));
        // A web page is no damaged JSON.
        outcome.map_err(|error| if body.trim_start().starts_with('{') { if_damaged(error, body) } else { error })
    }

    fn take<T>(
        &mut self,
        json: &str,
        out: &mut Vec<StreamEvent>,
        parse: impl FnOnce(&mut R, &str, &mut Vec<StreamEvent>) -> Result<T>,
    ) -> Result<T> {
        let ((marked, has_markers), from) = (surrogates::mark(json), out.len());
        let outcome = parse(&mut self.reply, &marked, out);
        self.halves.join(out, from, has_markers);
        outcome
    }

    fn close(&mut self, out: &mut Vec<StreamEvent>) {
        self.halves.end(out);
        self.reply.close(out);
    }
}

/// Invalid JSON was damaged on the way: the next try may succeed.
fn if_damaged(error: Error, json: &str) -> Error {
    let is_damaged = || serde_json::from_str::<serde::de::IgnoredAny>(json).is_err();
    match error.kind {
        ErrorKind::Protocol if is_damaged() => Error { kind: ErrorKind::Network, ..error },
        _ => error,
    }
}

#[derive(Debug)]
enum Phase {
    /// The first bytes, too few to decide.
    Opening(Vec<u8>),
    Stream(Sse),
    Body(Vec<u8>),
}

impl Default for Phase {
    fn default() -> Self {
        Self::Opening(Vec::new())
    }
}

impl<R: ReplyParser> Decoder for ResponseDecoder<R> {
    fn head(&mut self, head: &HttpHead) {
        self.head = head.clone();
        if self.is_error_status() {
            self.phase = Phase::Body(Vec::new());
        }
    }

    fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>) {
        if self.is_over {
            return;
        }
        let outcome = match &mut self.phase {
            Phase::Opening(_) => return self.open(bytes, out),
            Phase::Stream(sse) => stream(sse, bytes, &mut self.reply, out),
            Phase::Body(_) => self.append_body(bytes),
        };
        self.conclude(outcome, out);
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) {
        if self.is_over {
            return;
        }
        let outcome = match std::mem::take(&mut self.phase) {
            Phase::Opening(bytes) if bytes.is_empty() => Err(empty_reply()),
            Phase::Stream(sse) => finish_stream(sse, &mut self.reply, out),
            Phase::Body(bytes) if self.is_error_status() => Err(self.error(&bytes)),
            Phase::Opening(bytes) | Phase::Body(bytes) => self.reply.body(&String::from_utf8_lossy(&bytes), out),
        };
        self.conclude(outcome, out);
    }
}

impl<R: ReplyParser> ResponseDecoder<R> {
    fn is_error_status(&self) -> bool {
        self.head.status >= 300
    }

    /// Ends the reply if it is complete or has failed.
    fn conclude(&mut self, outcome: Result<IsComplete>, out: &mut Vec<StreamEvent>) {
        match outcome {
            Ok(false) => return,
            Ok(true) => self.reply.close(out),
            Err(error) => {
                self.reply.halves.end(out);
                out.push(StreamEvent::Error(error));
            }
        }
        self.is_over = true;
        self.phase = Phase::default();
    }

    /// Decides the phase by the first bytes, and continues with all of them.
    fn open(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>) {
        let Phase::Opening(held) = &mut self.phase else { return };
        for (index, &byte) in bytes.iter().enumerate() {
            // White space decides nothing, nor does a byte order mark; servers may send it for hours to keep the
            // connection open.
            if held.is_empty() && (byte.is_ascii_whitespace() || b"\xEF\xBB\xBF".contains(&byte)) {
                continue;
            }
            held.push(byte);
            if STREAM_MARKS.iter().any(|mark| mark.len() > held.len() && mark.starts_with(held)) {
                continue;
            }
            let first = std::mem::take(held);
            let is_stream = STREAM_MARKS.contains(&first.as_slice());
            self.phase = if is_stream { Phase::Stream(Sse::default()) } else { Phase::Body(Vec::new()) };
            self.feed(&first, out);
            return self.feed(&bytes[index + 1..], out);
        }
    }

    fn append_body(&mut self, bytes: &[u8]) -> Result<IsComplete> {
        let is_error_status = self.is_error_status();
        let Phase::Body(body) = &mut self.phase else { return Ok(false) };
        let space = if is_error_status { MAX_ERROR_BODY } else { MAX_BODY }.saturating_sub(body.len());
        body.extend_from_slice(&bytes[..bytes.len().min(space)]);
        if bytes.len() <= space {
            return Ok(false);
        }
        let body = std::mem::take(body);
        Err(if is_error_status {
            self.error(&body)
        } else {
            Error::new(ErrorKind::Protocol, "the response exceeds 32 MiB")
        })
    }

    fn error(&self, body: &[u8]) -> Error {
        let error = R::error(self.head.status, &String::from_utf8_lossy(body));
        let whole_seconds = |wait: Duration| u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
        let exhausted_for = || self.head.exhausted_for().map(whole_seconds);
        Error { retry_after: self.head.retry_after.or(error.retry_after).or_else(exhausted_for), ..error }
    }
}

/// Events after the end of the reply are ignored.
fn stream<R: ReplyParser>(
    sse: &mut Sse,
    bytes: &[u8],
    reply: &mut Events<R>,
    out: &mut Vec<StreamEvent>,
) -> Result<IsComplete> {
    let mut outcome = Ok(false);
    let fed = sse.feed(bytes, |event| {
        if matches!(outcome, Ok(false)) {
            outcome = reply.event(event.name, &event.data, out);
        }
    });
    match outcome {
        Ok(false) => fed.map(|()| false),
        concluded => concluded,
    }
}

/// The transfer ended without the last event, which is an error unless the reason for the end was received.
fn finish_stream<R: ReplyParser>(
    mut sse: Sse,
    reply: &mut Events<R>,
    out: &mut Vec<StreamEvent>,
) -> Result<IsComplete> {
    let mut outcome = Ok(false);
    sse.end(|event| {
        // A last event without its blank line may be complete.
        if event.data.trim() == "[DONE]" || serde_json::from_str::<serde::de::IgnoredAny>(&event.data).is_ok() {
            outcome = reply.event(event.name, &event.data, out);
        }
    })?;
    match outcome? {
        true => Ok(true),
        false if reply.reply.is_finished() => Ok(true),
        false if reply.reply.has_begun() => Err(incomplete()),
        false => Err(empty_reply()),
    }
}

/// The transfer ended without an error in the middle of a reply.
pub(super) fn incomplete() -> Error {
    Error::new(ErrorKind::Network, "the reply ended before it was complete")
}

/// Whether this is `[DONE]`, which ends a stream of OpenAI's protocols.
pub(super) fn is_done_marker(reply: &impl PartialReply, data: &str) -> Result<IsComplete> {
    match data {
        "[DONE]" if reply.has_begun() || reply.is_finished() => Ok(true),
        "[DONE]" => Err(empty_reply()),
        _ => Ok(false),
    }
}

/// A reply without content and without a reason for its end.
pub(super) fn empty_reply() -> Error {
    Error::new(ErrorKind::Network, "the server sent an empty reply")
}
