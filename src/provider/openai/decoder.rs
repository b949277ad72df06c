//! Bytes of an answer -> events: which kind of answer it is, and how it ends.
//!
//! ```text
//!   status 300 and up ------------------> Body: an error, explained at the end
//!   else, by its first bytes (the content type may lie):
//!     data: event: : ... ---------------> Stream: chunks until [DONE], an error, or the end
//!     anything else --------------------> Body: a whole completion, or no reply at all
//! ```

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::http::HttpHead;
use crate::domain::stream::StreamEvent;
use crate::provider::Decode;
use crate::provider::openai::refusal;
use crate::provider::openai::reply::Reply;
use crate::provider::openai::wire::Chunk;
use crate::provider::sse::Sse;

/// So much of an error's body is read, in bytes; the rest says nothing more.
const MAX_ERROR_BODY: usize = 64 << 10;
/// The longest answer that is not streamed, in bytes: 16 MiB of text and its escapes.
const MAX_BODY: usize = 32 << 20;

/// How a stream of events begins. `error` is llama.cpp's.
const STREAM_MARKS: &[&[u8]] = &[b"data:", b"event:", b"id:", b"retry:", b"error:", b":"];

/// Decodes one answer of a Chat Completions server.
#[derive(Debug, Default)]
pub(super) struct ChatDecoder {
    head: HttpHead,
    phase: Phase,
    reply: Reply,
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

impl Decode for ChatDecoder {
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
            Phase::Opening(bytes) | Phase::Body(bytes) => self.whole(&bytes, out),
        };
        self.conclude(outcome, out);
    }
}

/// Whether the reply is whole.
type IsWhole = bool;

impl ChatDecoder {
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
        refusal::of_response(&self.head, &String::from_utf8_lossy(body))
    }

    /// An answer that is no stream although one was asked for.
    fn whole(&mut self, body: &[u8], out: &mut Vec<StreamEvent>) -> Result<IsWhole> {
        let text = String::from_utf8_lossy(body);
        match serde_json::from_str::<Chunk>(&text) {
            Ok(chunk) if chunk.choices.as_ref().is_some_and(|choices| !choices.is_empty()) => {
                self.reply.take(chunk, out)?;
                Ok(true)
            }
            Err(error) if error.is_eof() && text.starts_with('{') => Err(cut()),
            _ => Err(refusal::of_body(&text)),
        }
    }
}

/// Feeds a stream; events after its end are ignored.
fn stream(sse: &mut Sse, bytes: &[u8], reply: &mut Reply, out: &mut Vec<StreamEvent>) -> Result<IsWhole> {
    let mut outcome = Ok(false);
    let fed = sse.feed(bytes, |event| {
        if matches!(outcome, Ok(false)) {
            outcome = take_event(event.name, &event.data, reply, out);
        }
    });
    match outcome {
        Ok(false) => fed.map(|()| false),
        concluded => concluded,
    }
}

/// The transfer ended without `[DONE]`: that is fine if the model had said why it stopped.
fn finish_stream(mut sse: Sse, reply: &mut Reply, out: &mut Vec<StreamEvent>) -> Result<IsWhole> {
    let mut outcome = Ok(false);
    sse.end(|event| {
        // A last event without its blank line may be complete; if it is not, the stream was cut within it.
        if event.data.trim() == "[DONE]" || serde_json::from_str::<serde::de::IgnoredAny>(&event.data).is_ok() {
            outcome = take_event(event.name, &event.data, reply, out);
        }
    })?;
    match outcome? {
        true => Ok(true),
        false if reply.is_finished() => Ok(true),
        false if reply.has_begun() => Err(cut()),
        false => Err(silence()),
    }
}

fn take_event(name: &str, data: &str, reply: &mut Reply, out: &mut Vec<StreamEvent>) -> Result<IsWhole> {
    let data = data.trim();
    match data {
        "" => return Ok(false),
        "[DONE]" if reply.has_begun() || reply.is_finished() => return Ok(true),
        "[DONE]" => return Err(silence()),
        _ => {}
    }
    match serde_json::from_str::<Chunk>(data) {
        Ok(chunk) if chunk.error.is_none() && chunk.object.0 != "error" && name != "error" => {
            reply.take(chunk, out)?;
            Ok(false)
        }
        _ => Err(refusal::of_event(data)),
    }
}

/// A transfer that ended as if all were well, in the middle of a reply.
fn cut() -> Error {
    Error::new(ErrorKind::Network, "the stream was cut in the middle of the reply")
}

fn silence() -> Error {
    Error::new(ErrorKind::Network, "the server ended the reply without a word")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(head: HttpHead, pieces: &[&[u8]]) -> Vec<StreamEvent> {
        let (mut decoder, mut out) = (ChatDecoder::default(), Vec::new());
        decoder.head(&head);
        for piece in pieces {
            decoder.feed(piece, &mut out);
        }
        decoder.end(&mut out);
        out
    }

    fn ok() -> HttpHead {
        HttpHead { status: 200, content_type: "text/event-stream".into(), retry_after: None }
    }

    fn only_error(events: &[StreamEvent]) -> &Error {
        match events {
            [StreamEvent::Error(error)] => error,
            other => panic!("not one error alone: {other:?}"),
        }
    }

    #[test]
    fn nothing_is_given_after_the_end_of_a_reply() {
        let stream = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
        let once = decode(ok(), &[stream]);
        assert_eq!(once.last(), Some(&StreamEvent::Done));
        assert_eq!(decode(ok(), &[stream, stream, b"data: {bad\n\n"]), once);
        assert_eq!(decode(ok(), &[&[stream.as_slice(), stream].concat()]), once);
    }

    #[test]
    fn a_big_error_page_is_still_the_error_of_its_status() {
        let page = vec![b'x'; MAX_ERROR_BODY + 1];
        let head = HttpHead { status: 503, content_type: "text/html".into(), retry_after: Some(7) };
        let events = decode(head, &[&page, &page]);
        let error = only_error(&events);
        assert_eq!((error.kind, error.retry_after), (ErrorKind::Overloaded, Some(7)));
        assert!(error.message.len() < 700);
    }

    #[test]
    fn an_endless_answer_that_is_no_stream_is_a_protocol_error() {
        let piece = vec![b' '; 1 << 20];
        let (mut decoder, mut out) = (ChatDecoder::default(), Vec::new());
        decoder.head(&ok());
        decoder.feed(b"{", &mut out);
        for _ in 0..33 {
            decoder.feed(&piece, &mut out);
        }
        assert_eq!(only_error(&out).kind, ErrorKind::Protocol);
    }

    #[test]
    fn a_line_without_end_is_a_protocol_error() {
        let piece = vec![b'x'; 1 << 22];
        let events = decode(ok(), &[b"data: ", &piece, &piece, &piece]);
        assert_eq!(only_error(&events).kind, ErrorKind::Protocol);
    }

    #[test]
    fn random_bytes_end_in_exactly_one_done_or_error() {
        let mut seed = 7_u64;
        let alphabet = b"data: {}[]\"\n\r:,choices0delta\\\xFF\xEF<";
        for _ in 0..2000 {
            let mut bytes = b"data: ".to_vec();
            for _ in 0..60 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                bytes.push(alphabet[usize::try_from(seed >> 40).unwrap() % alphabet.len()]);
            }
            let events = decode(ok(), &[&bytes]);
            let ends = events.iter().filter(|e| matches!(e, StreamEvent::Done | StreamEvent::Error(_))).count();
            assert_eq!(ends, 1, "{:?}", String::from_utf8_lossy(&bytes));
            assert!(matches!(events.last(), Some(StreamEvent::Done | StreamEvent::Error(_))));
        }
    }
}
