//! Lone surrogates in the JSON of servers that cut text between two UTF-16 units.
//!
//! `"\ud83d"` in one event and `"\ude00"` in the next are one character, and neither is valid JSON text. Such an escape is
//! replaced by a marker before the event is parsed; afterwards two halves that follow each other become their character, and
//! half of one becomes U+FFFD.

use std::borrow::Cow;

use memchr::memmem;

use crate::domain::stream::StreamEvent;

/// The first of 2,048 private characters, one for each surrogate.
const FIRST_MARKER: u32 = 0x10_F000;
const SURROGATES: std::ops::RangeInclusive<u32> = 0xD800..=0xDFFF;

/// Replaces the escapes of lone surrogates, where there are any. Tells whether the result contains markers, which it does
/// not if the text contains one itself.
pub(super) fn mark(json: &str) -> (Cow<'_, str>, bool) {
    if !memmem::find_iter(json.as_bytes(), b"\\u").any(|at| matches!(json.as_bytes().get(at + 2), Some(b'd' | b'D'))) {
        return (Cow::Borrowed(json), false);
    }
    let has_markers = json.chars().any(|c| half_of(c).is_some());
    let mut marked = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        marked.push_str(&rest[..at]);
        rest = &rest[at..];
        let (escape, replacement) = match (unit(rest), rest.get(6..).and_then(unit)) {
            (Some(high @ 0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) if !is_marker_pair(high) => (12, None),
            (Some(half), _) if SURROGATES.contains(&half) => {
                (6, Some(if has_markers { '\u{fffd}' } else { marker(half) }))
            }
            _ => (1 + rest[1..].chars().next().map_or(0, char::len_utf8), None),
        };
        match replacement {
            Some(replacement) => marked.push(replacement),
            None => marked.push_str(&rest[..escape]),
        }
        rest = &rest[escape..];
    }
    marked.push_str(rest);
    (Cow::Owned(marked), !has_markers)
}

/// The UTF-16 unit of an escape at the beginning of a text.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Whether a pair with this first half may be the escape of a marker.
fn is_marker_pair(high: u32) -> bool {
    (0xDBFC..=0xDBFD).contains(&high)
}

fn marker(half: u32) -> char {
    char::from_u32(FIRST_MARKER + half - SURROGATES.start()).expect("the markers are private characters")
}

fn half_of(c: char) -> Option<u32> {
    u32::from(c).checked_sub(FIRST_MARKER).map(|n| SURROGATES.start() + n).filter(|half| SURROGATES.contains(half))
}

/// The kinds of text in an event that may end in half a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Text,
    Thinking,
    Arguments(usize),
}

/// Joins the halves of characters in the events of one reply.
#[derive(Debug, Default)]
pub(super) struct Halves {
    /// The first half of a character at the end of the latest event.
    held: Option<(Part, u32)>,
}

impl Halves {
    /// Replaces the markers in the events from this position on, which come from one event of the server. `is_marked`
    /// tells whether that contained any.
    pub fn join(&mut self, out: &mut Vec<StreamEvent>, from: usize, is_marked: bool) {
        if !is_marked && self.held.is_none() {
            return;
        }
        for mut event in out.split_off(from.min(out.len())) {
            match parts(&mut event) {
                Some((part, text)) => {
                    let begun = self.continued(part, text, is_marked, out);
                    let replaced =
                        if is_marked { self.replaced(part, &text[begun.1..]) } else { text[begun.1..].into() };
                    *text = begun.0 + &replaced;
                    if !text.is_empty() || matches!(&event, StreamEvent::ToolCall { name, .. } if !name.is_empty()) {
                        out.push(event);
                    }
                }
                None => {
                    if !matches!(event, StreamEvent::Usage(_)) {
                        self.end(out);
                    }
                    if let StreamEvent::Signature(json) = &mut event {
                        *json = json
                            .chars()
                            .map(|c| if is_marked && half_of(c).is_some() { '\u{fffd}' } else { c })
                            .collect();
                    }
                    out.push(event);
                }
            }
        }
    }

    /// The text that the held half makes with the beginning of the next text, and how many bytes of that it uses.
    fn continued(&mut self, part: Part, text: &str, is_marked: bool, out: &mut Vec<StreamEvent>) -> (String, usize) {
        match self.held {
            Some((held, high)) if held == part => {
                if text.is_empty() {
                    return (String::new(), 0);
                }
                self.held = None;
                let next = text.chars().next().filter(|_| is_marked);
                let low = next.and_then(half_of).filter(|half| *half >= 0xDC00);
                match low.and_then(|low| char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00))) {
                    Some(whole) => (whole.into(), next.map_or(0, char::len_utf8)),
                    None => ("\u{fffd}".to_owned(), 0),
                }
            }
            _ => {
                self.end(out);
                (String::new(), 0)
            }
        }
    }

    /// The text without markers. A first half at its end is held.
    fn replaced(&mut self, part: Part, text: &str) -> String {
        let last = text.chars().next_back().and_then(half_of).filter(|half| *half < 0xDC00);
        let shown = match last {
            Some(high) => {
                self.held = Some((part, high));
                &text[..text.len() - marker(high).len_utf8()]
            }
            None => text,
        };
        shown.chars().map(|c| if half_of(c).is_some() { '\u{fffd}' } else { c }).collect()
    }

    /// The second half of the held character will not come.
    pub fn end(&mut self, out: &mut Vec<StreamEvent>) {
        let lost = "\u{fffd}".to_owned();
        match self.held.take() {
            Some((Part::Text, _)) => out.push(StreamEvent::Text(lost)),
            Some((Part::Thinking, _)) => out.push(StreamEvent::Thinking(lost)),
            Some((Part::Arguments(index), _)) => {
                let (id, name) = (String::new(), String::new());
                out.push(StreamEvent::ToolCall { index, id, name, arguments: lost });
            }
            None => {}
        }
    }
}

fn parts(event: &mut StreamEvent) -> Option<(Part, &mut String)> {
    match event {
        StreamEvent::Text(text) => Some((Part::Text, text)),
        StreamEvent::Thinking(text) => Some((Part::Thinking, text)),
        StreamEvent::ToolCall { index, arguments, .. } => Some((Part::Arguments(*index), arguments)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(pieces: &[&str]) -> String {
        let (mut halves, mut out) = (Halves::default(), Vec::new());
        for piece in pieces {
            let json = format!("\"{piece}\"");
            let (marked, has_markers) = mark(&json);
            let from = out.len();
            out.push(StreamEvent::Text(serde_json::from_str(&marked).unwrap()));
            halves.join(&mut out, from, has_markers);
        }
        halves.end(&mut out);
        out.iter().map(|event| if let StreamEvent::Text(text) = event { text.as_str() } else { "?" }).collect()
    }

    #[test]
    fn halves_are_joined_over_the_cut_and_lone_ones_cost_one_character() {
        for (pieces, expected) in [
            (&["a\\ud83d", "\\ude00b"][..], "a😀b"),
            (&["a\\ud83d\\ude00b"], "a😀b"),
            (&["a\\ud83d", "b"], "a\u{fffd}b"),
            (&["a\\ud83d", "", "\\uDE00"], "a😀"),
            (&["a\\ude00b\\uD83Dc"], "a\u{fffd}b\u{fffd}c"),
            (&["a\\ud83d"], "a\u{fffd}"),
            (&["a\\ud83d\\ud83d", "\\ude00\\ude00"], "a\u{fffd}😀\u{fffd}"),
            (&["\\\\ud83d and \\\" \\n"], "\\ud83d and \" \n"),
            (&["a 😀 \\u00e9 \\udbff\\udfff"], "a 😀 é \u{10ffff}"),
            (&["\u{10f03d}\\ud83d", "x\u{10f03d}"], "\u{10f03d}\u{fffd}x\u{10f03d}"),
        ] {
            assert_eq!(text_of(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn text_without_surrogates_is_not_copied() {
        assert!(matches!(mark(r#"{"a":"b\n\u00e9"}"#), (Cow::Borrowed(_), false)));
    }
}
