//! Splits a byte stream into server-sent events (WHATWG HTML, section 9.2.6), wherever the stream is cut.
//!
//! Each byte is read once; a line is copied only if it is cut. Deviations from the standard that servers need:
//! [`Sse::end`] returns an event without its blank line; a field named `error` (llama.cpp before 2025) is an event of
//! that name with data; a line that begins with a brace is data up to the blank line (errors of Google).

use std::borrow::Cow;
use std::time::Duration;

use memchr::{memchr, memchr2};

use crate::base::error::{Error, ErrorKind, Result};

/// Maximum length of a line, and of the data of one event, in bytes: the arguments of a call fit, escaped twice.
pub const MAX_LINE: usize = 1 << 23;
/// A longer id is ignored, in bytes.
const MAX_ID: usize = 1 << 10;

/// A complete event.
#[derive(Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The value of its last `event` field, empty if none.
    pub name: &'a str,
    /// Its `data` lines, joined with line feeds. Invalid UTF-8 is replaced.
    pub data: Cow<'a, str>,
}

/// The state between two pieces of the stream.
#[derive(Debug, Default)]
pub struct Sse {
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    name: String,
    /// Whether the data is an object without a field name.
    is_bare: bool,
    /// Whether the last byte was a CR, to which a following LF belongs.
    after_cr: bool,
    /// Whether the first line is complete: a byte order mark counts only before.
    past_start: bool,
    /// The `id` field of the present event and of the last one that had any. Within it: the id, if it can be sent back in a
    /// header; one without a value takes back those before.
    id: Option<Option<String>>,
    last_id: Option<Option<String>>,
    /// The last `retry` field.
    retry: Option<Duration>,
}

impl Sse {
    /// Takes more bytes and passes complete events to `on_event`.
    ///
    /// # Errors
    /// `Protocol` if a line or an event is longer than [`MAX_LINE`]. Nothing may be fed afterwards.
    pub fn feed(&mut self, bytes: &[u8], mut on_event: impl FnMut(Event<'_>)) -> Result<()> {
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                return self.begin_line(rest);
            };
            self.after_cr = rest[end] == b'\r';
            self.take_line(&rest[..end], &mut on_event)?;
            rest = &rest[end + 1..];
        }
        Ok(())
    }

    /// Ends the stream: passes an event without its line end or blank line to `on_event`.
    pub fn end(&mut self, mut on_event: impl FnMut(Event<'_>)) -> Result<()> {
        if !self.line.is_empty() {
            self.take_line(&[], &mut on_event)?;
        }
        self.id = None;
        self.dispatch(&mut on_event);
        Ok(())
    }

    /// The id of the last event that had one, by which a stream can be resumed.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_ref()?.as_deref()
    }

    /// Whether any event had an id, perhaps one that takes back those before.
    pub fn has_ids(&self) -> bool {
        self.last_id.is_some()
    }

    /// How long the server wants a client to wait before it resumes the stream.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    fn begin_line(&mut self, part: &[u8]) -> Result<()> {
        check_length(self.line.len() + part.len())?;
        self.line.extend_from_slice(part);
        Ok(())
    }

    /// Handles a line that ends with `tail`.
    fn take_line(&mut self, tail: &[u8], on_event: &mut impl FnMut(Event<'_>)) -> Result<()> {
        check_length(self.line.len() + tail.len())?;
        if self.line.is_empty() {
            return self.on_line(tail, on_event);
        }
        let mut whole = std::mem::take(&mut self.line);
        whole.extend_from_slice(tail);
        let outcome = self.on_line(&whole, on_event);
        // The allocation is reused for the next cut line.
        whole.clear();
        self.line = whole;
        outcome
    }

    fn on_line(&mut self, line: &[u8], on_event: &mut impl FnMut(Event<'_>)) -> Result<()> {
        let mut line = line;
        if !std::mem::replace(&mut self.past_start, true) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            self.dispatch(on_event);
            return Ok(());
        }
        if self.is_bare && line.starts_with(b"data:") {
            self.dispatch(on_event);
        }
        if self.is_bare || !self.has_data && line[0] == b'{' {
            self.is_bare = true;
            return self.add_data(line);
        }
        let (field, value) = match memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        self.on_field(field, value.strip_prefix(b" ").unwrap_or(value))
    }

    /// A comment is a field without a name; it and unknown fields are ignored.
    fn on_field(&mut self, field: &[u8], value: &[u8]) -> Result<()> {
        match field {
            b"data" => self.add_data(value),
            b"event" => {
                self.name = String::from_utf8_lossy(value).into_owned();
                Ok(())
            }
            b"id" => {
                let is_fine = (1..=MAX_ID).contains(&value.len()) && value.iter().all(u8::is_ascii_graphic);
                self.id = Some(is_fine.then(|| String::from_utf8_lossy(value).into_owned()));
                Ok(())
            }
            b"retry" => {
                let milliseconds = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                self.retry = milliseconds.map(Duration::from_millis).or(self.retry);
                Ok(())
            }
            b"error" => {
                self.name = "error".into();
                self.add_data(value)
            }
            _ => Ok(()),
        }
    }

    fn add_data(&mut self, value: &[u8]) -> Result<()> {
        check_length(self.data.len() + value.len())?;
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
        Ok(())
    }

    fn dispatch(&mut self, on_event: &mut impl FnMut(Event<'_>)) {
        self.last_id = self.id.take().or_else(|| self.last_id.take());
        if self.has_data {
            on_event(Event { name: &self.name, data: String::from_utf8_lossy(&self.data) });
        }
        self.data.clear();
        self.name.clear();
        (self.has_data, self.is_bare) = (false, false);
    }
}

fn check_length(length: usize) -> Result<()> {
    if length <= MAX_LINE {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Protocol, "a line of the stream exceeds 8 MiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut sse = Sse::default();
        let mut events = Vec::new();
        let mut on_event = |event: Event<'_>| events.push((event.name.to_owned(), event.data.into_owned()));
        for piece in pieces {
            sse.feed(piece, &mut on_event).unwrap();
        }
        sse.end(&mut on_event).unwrap();
        events
    }

    fn datas(stream: &str) -> Vec<String> {
        split(&[stream.as_bytes()]).into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn lines_may_end_with_lf_crlf_or_cr() {
        for end in ["\n", "\r\n", "\r"] {
            let stream = ["data: a", "data:b", "", "data: c", "", ""].join(end);
            assert_eq!(datas(&stream), ["a\nb", "c"], "{end:?}");
        }
    }

    #[test]
    fn comments_unknown_fields_and_a_byte_order_mark_are_no_data() {
        assert_eq!(datas("\u{FEFF}data: a\n: ping\nretry: 5\nid\n\n: only\n\n"), ["a"]);
        assert_eq!(datas("data: a\n\n\u{FEFF}data: b\n\n"), ["a"], "a mark in the middle is part of a name");
    }

    #[test]
    fn only_one_space_after_the_colon_is_taken_away() {
        assert_eq!(datas("data:  a \n\ndata\n\ndata:\n\n"), [" a ", "", ""]);
    }

    #[test]
    fn the_name_of_an_event_does_not_carry_over_to_the_next() {
        let events = split(&[b"event: error\ndata: x\n\ndata: y\n\nerror: z\n\n"]);
        let names: Vec<_> = events.iter().map(|(name, data)| (name.as_str(), data.as_str())).collect();
        assert_eq!(names, [("error", "x"), ("", "y"), ("error", "z")]);
    }

    #[test]
    fn an_object_without_a_field_name_is_data() {
        assert_eq!(datas("data: a\n\n{\n \"error\": 1\n}\n\ndata: b\n\n"), ["a", "{\n \"error\": 1\n}", "b"]);
        assert_eq!(datas("{}\ndata: b\n{}\n\n{"), ["{}", "b", "{"]);
    }

    #[test]
    fn a_stream_cut_anywhere_gives_the_same_events() {
        let stream = "\u{FEFF}data: é€😀\r\ndata: b\r\n\r\n:x\rdata: c\r\revent: e\ndata: d".as_bytes();
        let whole = split(&[stream]);
        assert_eq!(whole.len(), 3);
        for cut in 0..=stream.len() {
            assert_eq!(split(&[&stream[..cut], &stream[cut..]]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(split(&bytes), whole);
    }

    #[test]
    fn what_a_stream_is_resumed_by_is_kept() {
        let mut stream = Sse::default();
        stream.feed(b"id: a-1\nretry: 500\ndata: \n\n", |_| ()).unwrap();
        assert_eq!((stream.last_id(), stream.retry()), (Some("a-1"), Some(Duration::from_millis(500))));
        stream.feed(b"id: a\x01b\nretry: x\ndata: \n\n", |_| ()).unwrap();
        assert_eq!((stream.last_id(), stream.retry()), (None, Some(Duration::from_millis(500))));
    }

    #[test]
    fn a_too_long_line_is_an_error_whole_or_in_pieces() {
        let line = vec![b'x'; MAX_LINE + 1];
        let mut whole = Sse::default();
        assert_eq!(whole.feed(&[&line[..], b"\n"].concat(), |_| ()).unwrap_err().kind, ErrorKind::Protocol);
        let mut pieces = Sse::default();
        assert!(line.chunks(1000).any(|piece| pieces.feed(piece, |_| ()).is_err()));
    }

    #[test]
    fn an_event_of_endless_data_lines_is_an_error() {
        let mut sse = Sse::default();
        let piece = [b"data: ".as_slice(), &vec![b'x'; 1000], b"\n"].concat();
        assert!((0..10_000).any(|_| sse.feed(&piece, |_| ()).is_err()));
    }
}
