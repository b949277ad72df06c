//! Reasoning that a server leaves in the text, between `<think>` and `</think>` at its beginning: models of the DeepSeek R1
//! and Qwen kind write it so, and a server without a parser for it passes it on.

use crate::domain::stream::StreamEvent;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Tells reasoning from text, however both are cut.
#[derive(Debug, Default)]
pub(super) struct ThinkTags {
    state: State,
    /// Text that may be the beginning of a tag.
    held: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Only white space came so far.
    #[default]
    Start,
    Thinking,
    /// The tag is closed; the white space after it is dropped.
    Closed,
    Text,
}

impl ThinkTags {
    /// Takes more text and appends its events.
    pub fn push(&mut self, text: String, out: &mut Vec<StreamEvent>) {
        if self.state == State::Text {
            return out.push(StreamEvent::Text(text));
        }
        self.held.push_str(&text);
        if self.state == State::Start {
            let begun = self.held.trim_start();
            if OPEN.starts_with(begun) && begun.len() < OPEN.len() {
                return;
            }
            match begun.strip_prefix(OPEN).map(str::to_owned) {
                Some(rest) => (self.state, self.held) = (State::Thinking, rest),
                None => return self.end(out),
            }
        }
        if self.state == State::Thinking {
            self.think(out);
        }
        if self.state == State::Closed {
            let text = self.held.trim_start();
            if !text.is_empty() {
                out.push(StreamEvent::Text(text.to_owned()));
                (self.state, self.held) = (State::Text, String::new());
            }
        }
    }

    fn think(&mut self, out: &mut Vec<StreamEvent>) {
        let (thinking, rest) = match self.held.split_once(CLOSE) {
            Some((thinking, rest)) => {
                self.state = State::Closed;
                (thinking, rest.to_owned())
            }
            None => {
                let is_begun = |at: &usize| CLOSE.starts_with(&self.held[*at..]);
                let tags = self.held.char_indices().map(|(at, _)| at).rev().take(CLOSE.len());
                let (thinking, tag) = self.held.split_at(tags.filter(is_begun).last().unwrap_or(self.held.len()));
                (thinking, tag.to_owned())
            }
        };
        if !thinking.is_empty() {
            out.push(StreamEvent::Thinking(thinking.to_owned()));
        }
        self.held = rest;
    }

    /// No more text will come: what was held back is not a tag.
    pub fn end(&mut self, out: &mut Vec<StreamEvent>) {
        let held = std::mem::take(&mut self.held);
        let is_thinking = self.state == State::Thinking;
        let is_lost = held.is_empty() || self.state == State::Closed;
        self.state = State::Text;
        if !is_lost {
            out.push(if is_thinking { StreamEvent::Thinking(held) } else { StreamEvent::Text(held) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reasoning and text of a reply that comes in pieces of this many bytes.
    fn split(reply: &str, size: usize) -> (String, String) {
        let (mut tags, mut out) = (ThinkTags::default(), Vec::new());
        for piece in reply.as_bytes().chunks(size) {
            tags.push(String::from_utf8(piece.to_vec()).unwrap(), &mut out);
        }
        tags.end(&mut out);
        let (mut thinking, mut text) = (String::new(), String::new());
        for event in out {
            match event {
                StreamEvent::Thinking(more) => thinking.push_str(&more),
                StreamEvent::Text(more) => text.push_str(&more),
                other => panic!("{other:?}"),
            }
        }
        (thinking, text)
    }

    #[test]
    fn reasoning_is_told_from_text_however_it_is_cut() {
        for (reply, thinking, text) in [
            ("<think>a < b</think>\n\nc", "a < b", "c"),
            ("\n<think>\na</thin</think>c <think>d</think>", "\na</thin", "c <think>d</think>"),
            ("<think>cut </thi", "cut </thi", ""),
            ("<think></think>x", "", "x"),
            ("<thin air", "", "<thin air"),
            ("  plain <think>text</think>", "", "  plain <think>text</think>"),
            ("<thi", "", "<thi"),
            ("", "", ""),
        ] {
            for size in 1..=reply.len().max(1) {
                assert_eq!(split(reply, size), (thinking.to_owned(), text.to_owned()), "{reply:?} by {size}");
            }
        }
    }
}
