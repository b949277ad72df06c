//! Bedrock's framing of a stream (docs.aws.amazon.com, "event stream encoding"): each event of the Messages API comes in
//! base64 in a binary message. A response without it passes through.
//!
//! ```text
//!   length (4) | length of headers (4) | CRC32 of these (4) | headers | payload | CRC32 of all before (4)
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::http::HttpHead;
use crate::domain::stream::StreamEvent;
use crate::provider::Decoder;

const CONTENT_TYPE: &str = "application/vnd.amazon.eventstream";
const PRELUDE: usize = 12;
/// A message has the prelude and a checksum at least.
const SHORTEST: usize = PRELUDE + 4;
const LONGEST: usize = 16 << 20;

pub(super) struct FramedDecoder {
    inner: Box<dyn Decoder>,
    /// Bytes of an incomplete message; `None` if the response has no frames.
    buffer: Option<Vec<u8>>,
    is_over: bool,
}

impl FramedDecoder {
    pub fn new(inner: Box<dyn Decoder>) -> Self {
        Self { inner, buffer: None, is_over: false }
    }

    fn fail(&mut self, message: &str, out: &mut Vec<StreamEvent>) {
        self.is_over = true;
        out.push(StreamEvent::Error(Error::new(ErrorKind::Protocol, format!("unexpected response: {message}"))));
    }
}

impl Decoder for FramedDecoder {
    fn head(&mut self, head: &HttpHead) {
        if head.status < 300 && head.content_type.starts_with(CONTENT_TYPE) {
            self.buffer = Some(Vec::new());
        }
        self.inner.head(head);
    }

    fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>) {
        let Some(buffer) = &mut self.buffer else { return self.inner.feed(bytes, out) };
        if self.is_over {
            return;
        }
        buffer.extend_from_slice(bytes);
        loop {
            let buffer = self.buffer.as_mut().expect("it has frames");
            match take_message(buffer) {
                Ok(None) => return,
                Ok(Some(event)) => self.inner.feed(event.as_bytes(), out),
                Err(message) => return self.fail(message, out),
            }
            self.is_over |= out.iter().any(|event| matches!(event, StreamEvent::Done | StreamEvent::Error(_)));
            if self.is_over {
                return;
            }
        }
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) {
        if !self.is_over {
            self.inner.end(out);
        }
    }
}

/// Takes the first whole message as a server-sent event.
fn take_message(buffer: &mut Vec<u8>) -> std::result::Result<Option<String>, &'static str> {
    let Some(prelude) = buffer.get(..PRELUDE) else { return Ok(None) };
    let (length, headers) = (number(prelude, 0), number(prelude, 4));
    if number(prelude, 8) != crc32fast::hash(&prelude[..8]) as usize {
        return Err("a checksum does not match");
    }
    if !(SHORTEST..=LONGEST).contains(&length) || headers > length - SHORTEST {
        return Err("the length of a message is invalid");
    }
    if buffer.len() < length {
        return Ok(None);
    }
    let message: Vec<u8> = buffer.drain(..length).collect();
    let (content, checksum) = message.split_at(length - 4);
    if number(checksum, 0) != crc32fast::hash(content) as usize {
        return Err("a checksum does not match");
    }
    let (headers, payload) = content[PRELUDE..].split_at(headers);
    event_of(headers, payload).map(Some).map_err(|_| "a message is malformed")
}

fn number(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + 4].iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// The event in a payload, or the error that it is.
fn event_of(headers: &[u8], payload: &[u8]) -> Result<String> {
    let malformed = || Error::new(ErrorKind::Protocol, "malformed");
    let payload: Value = serde_json::from_slice(payload).unwrap_or_default();
    let headers = text_headers(headers).ok_or_else(malformed)?;
    let header = |name: &str| headers.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
    if let Some(kind) = header(":exception-type").or(header(":error-code")) {
        let message = payload["message"].as_str().or(header(":error-message")).unwrap_or(kind);
        let error = json!({"type": "error", "error": {"type": error_type(kind), "message": message}});
        return Ok(format!("event: error\ndata: {error}\n\n"));
    }
    let Some(bytes) = payload["bytes"].as_str() else { return Ok(": other event\n\n".to_owned()) };
    let event = BASE64.decode(bytes).map_err(|_| malformed())?;
    let event: Value = serde_json::from_slice(&event).map_err(|_| malformed())?;
    Ok(format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("unknown")))
}

/// Anthropic's name of an error of Bedrock.
fn error_type(kind: &str) -> &'static str {
    match kind.to_ascii_lowercase().as_str() {
        "throttlingexception" => "rate_limit_error",
        "serviceunavailableexception" | "modelnotreadyexception" => "overloaded_error",
        "modeltimeoutexception" | "internalserverexception" | "modelstreamerrorexception" => "api_error",
        "accessdeniedexception" => "permission_error",
        _ => "invalid_request_error",
    }
}

/// The headers that are texts; other types are skipped. `None` if they are malformed.
fn text_headers(mut bytes: &[u8]) -> Option<Vec<(&str, &str)>> {
    let mut headers = Vec::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let (kind, rest) = rest.split_first()?;
        let (size, rest) = match kind {
            0 | 1 => (0, rest),
            2 => (1, rest),
            3 => (2, rest),
            4 => (4, rest),
            5 | 8 => (8, rest),
            9 => (16, rest),
            6 | 7 => {
                let (size, rest) = rest.split_at_checked(2)?;
                (usize::from(size[0]) << 8 | usize::from(size[1]), rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(size)?;
        if *kind == 7 {
            headers.push((std::str::from_utf8(name).ok()?, std::str::from_utf8(value).ok()?));
        }
        bytes = rest;
    }
    Some(headers)
}
