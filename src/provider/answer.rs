//! Bytes of an answer -> a protocol's own pieces: which kind of answer it is, and how it ends.
//!
//! ```text
//!   status 300 and up ------------------> Body: an error, explained at the end
//!   else, by its first bytes (the content type may lie):
//!     data: event: : ... ---------------> Stream: events until the reply is whole, an error, or the end
//!     anything else --------------------> Body: a whole reply, or none at all
//! ```
//!
//! This is the same for every protocol over server-sent events; what the pieces mean is a [`Read`]'s business.

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::http::HttpHead;
use crate::domain::stream::StreamEvent;
use crate::provider::sse::Sse;
use crate::provider::{Decoder, refusal};

/// So much of an error's body is read, in bytes; the rest says nothing more.
const MAX_ERROR_BODY: usize = 64 << 10;
/// The longest answer that is not streamed, in bytes: 16 MiB of text and its escapes.
const MAX_BODY: usize = 32 << 20;

/// How a stream of events begins. `error` is llama.cpp's.
const STREAM_MARKS: &[&[u8]] = &[b"data:", b"event:", b"id:", b"retry:", b"error:", b":"];

/// Whether the reply is whole.
pub(super) type IsWhole = bool;

/// What a protocol makes of the pieces of one answer. It keeps the reply as far as it came.
pub(super) trait Read: Default {
    /// Takes one event of a stream and appends what it adds. An error ends the reply.
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<IsWhole>;
    /// Takes an answer that is no stream although one was asked for. After `Ok` the reply is whole.
    fn whole(&mut self, body: &str, out: &mut Vec<StreamEvent>) -> Result<()>;
    /// The error of a response whose status is no success. A time to wait that the headers name counts before its own.
    fn refusal(status: u16, body: &str) -> Error {
        refusal::of_response(status, body)
    }
    /// Whether any part of a reply came.
    fn has_begun(&self) -> bool;
    /// Whether the model has said why it stopped: then a stream may end without its last event.
    fn is_finished(&self) -> bool;
    /// The reply is whole: gives what was held back until now, and `Done`.
    fn close(&mut self, out: &mut Vec<StreamEvent>);
}

/// Decodes one answer.
#[derive(Debug, Default)]
pub(super) struct Answer<R> {
    head: HttpHead,
    phase: Phase,
    reply: R,
    /// `Done` or `Error` was given.
    is_over: bool,
}

#[derive(Debug)]
enum Phase {
    /// The first bytes, too few to tell.
    Opening(Vec<u8>),
    Stream(Sse),
    Body(Vec<u8>),
}

impl Default for Phase {
    fn default() -> Self {
        Self::Opening(Vec::new())
    }
}

impl<R: Read> Decoder for Answer<R> {
    fn head(&mut self, head: &HttpHead) {
        self.head = head.clone();
        if self.is_refused() {
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
            Phase::Body(_) => self.keep(bytes),
        };
        self.conclude(outcome, out);
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) {
        if self.is_over {
            return;
        }
        let outcome = match std::mem::take(&mut self.phase) {
            Phase::Opening(bytes) if bytes.is_empty() => Err(silence()),
            Phase::Stream(sse) => finish_stream(sse, &mut self.reply, out),
            Phase::Body(bytes) if self.is_refused() => Err(self.refusal(&bytes)),
            Phase::Opening(bytes) | Phase::Body(bytes) => {
                self.reply.whole(&String::from_utf8_lossy(&bytes), out).map(|()| true)
            }
        };
        self.conclude(outcome, out);
    }
}

impl<R: Read> Answer<R> {
    fn is_refused(&self) -> bool {
        self.head.status >= 300
    }

    /// Ends the reply if it is whole or has failed.
    fn conclude(&mut self, outcome: Result<IsWhole>, out: &mut Vec<StreamEvent>) {
        match outcome {
            Ok(false) => return,
            Ok(true) => self.reply.close(out),
            Err(error) => out.push(StreamEvent::Error(error)),
        }
        self.is_over = true;
        self.phase = Phase::default();
    }

    /// Decides by the first bytes what this is, and goes on with all of them.
    fn open(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>) {
        let Phase::Opening(held) = &mut self.phase else { return };
        for (place, &byte) in bytes.iter().enumerate() {
            // White space and a byte order mark say nothing, and may come as a sign of life for hours.
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
            return self.feed(&bytes[place + 1..], out);
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<IsWhole> {
        let is_refused = self.is_refused();
        let Phase::Body(body) = &mut self.phase else { return Ok(false) };
        let room = if is_refused { MAX_ERROR_BODY } else { MAX_BODY }.saturating_sub(body.len());
        body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() <= room {
            return Ok(false);
        }
        let body = std::mem::take(body);
        Err(if is_refused {
            self.refusal(&body)
        } else {
            Error::new(ErrorKind::Protocol, "the server sent an answer of more than 32 MiB")
        })
    }

    fn refusal(&self, body: &[u8]) -> Error {
        let error = R::refusal(self.head.status, &String::from_utf8_lossy(body));
        Error { retry_after: self.head.retry_after.or(error.retry_after), ..error }
    }
}

/// Feeds a stream; events after its end are ignored.
fn stream(sse: &mut Sse, bytes: &[u8], reply: &mut impl Read, out: &mut Vec<StreamEvent>) -> Result<IsWhole> {
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

/// The transfer ended without the event that ends a reply: that is fine if the model had said why it stopped.
fn finish_stream(mut sse: Sse, reply: &mut impl Read, out: &mut Vec<StreamEvent>) -> Result<IsWhole> {
    let mut outcome = Ok(false);
    sse.end(|event| {
        // A last event without its blank line may be complete; if it is not, the stream was cut within it.
        if event.data.trim() == "[DONE]" || serde_json::from_str::<serde::de::IgnoredAny>(&event.data).is_ok() {
            outcome = reply.event(event.name, &event.data, out);
        }
    })?;
    match outcome? {
        true => Ok(true),
        false if reply.is_finished() => Ok(true),
        false if reply.has_begun() => Err(cut()),
        false => Err(silence()),
    }
}

/// A transfer that ended as if all were well, in the middle of a reply.
pub(super) fn cut() -> Error {
    Error::new(ErrorKind::Network, "the stream was cut in the middle of the reply")
}

/// A reply in which nothing was said and no reason was given for that.
pub(super) fn silence() -> Error {
    Error::new(ErrorKind::Network, "the server ended the reply without a word")
}
