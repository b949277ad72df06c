//! What standard output has of the reply that is being received. It can only be added to: the reply that replaces a broken
//! one is held back while it begins with the same text, and goes on where that ends.

use crate::domain::chunk::Chunk;

pub const REPLACED: &str =
    "the reply broke off, and the next one differs: standard output has the incomplete text, then the whole reply";

#[derive(Debug, Default)]
pub struct Written {
    text: String,
    /// The reply that replaces the text, while it is a beginning of it.
    held: Option<String>,
}

impl Written {
    /// What is to be written for a chunk that adds this text, and whether that replaces what was written.
    pub fn on_chunk(&mut self, chunk: &Chunk, added: &str) -> (String, bool) {
        match chunk {
            Chunk::Replaced(_) => self.held = Some(String::new()),
            Chunk::Text(text) => return self.on_text(text),
            Chunk::ToolCall { .. } | Chunk::Finish { .. } => {
                let (mut rest, is_replacement) = self.end();
                rest.push_str(added);
                if matches!(chunk, Chunk::ToolCall { .. }) {
                    self.text.clear();
                }
                return (rest, is_replacement);
            }
            // The turn has failed: nothing replaces the text.
            Chunk::Status(_) if self.held.take().is_some() => return (self.line_end().to_owned(), false),
            Chunk::User(_) => *self = Self::default(),
            _ => {}
        }
        (added.to_owned(), false)
    }

    fn on_text(&mut self, text: &str) -> (String, bool) {
        let Some(mut held) = self.held.take() else {
            self.text.push_str(text);
            return (text.to_owned(), false);
        };
        held.push_str(text);
        if let Some(rest) = held.strip_prefix(&self.text) {
            let rest = rest.to_owned();
            self.text = held;
            (rest, false)
        } else if self.text.starts_with(&held) {
            self.held = Some(held);
            (String::new(), false)
        } else {
            (self.replace_by(held), true)
        }
    }

    /// The reply is complete: a shorter one than what was written is another one.
    fn end(&mut self) -> (String, bool) {
        let held = self.held.take().filter(|held| *held != self.text);
        held.map_or_else(Default::default, |held| (self.replace_by(held), true))
    }

    fn replace_by(&mut self, reply: String) -> String {
        let replacement = format!("{}{reply}", self.line_end());
        self.text = reply;
        replacement
    }

    fn line_end(&self) -> &'static str {
        if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::chunk::{Status, StopReason};

    /// What is written for these texts, a reply that broke off behind each `|`; and how often one was replaced.
    fn written(replies: &str) -> (String, usize) {
        let (mut written, mut output, mut count) = (Written::default(), String::new(), 0);
        let mut add = |chunk: &Chunk| {
            let (text, is_replacement) = written.on_chunk(chunk, "");
            output.push_str(&text);
            count += usize::from(is_replacement);
        };
        for (at, reply) in replies.split('|').enumerate() {
            if at > 0 {
                add(&Chunk::Replaced(String::new()));
            }
            reply.chars().for_each(|c| add(&Chunk::Text(c.into())));
        }
        add(&Chunk::Finish { stop_reason: StopReason::Stop });
        (output, count)
    }

    #[test]
    fn a_reply_that_nothing_replaces_ends_its_line() {
        for (text, end) in [("half", "\n"), ("half\n", ""), ("", "")] {
            let mut written = Written::default();
            assert_eq!(written.on_chunk(&Chunk::Text(text.into()), text), (text.to_owned(), false));
            written.on_chunk(&Chunk::Replaced(String::new()), "");
            assert_eq!(written.on_chunk(&Chunk::Status(Status::Failed), ""), (end.to_owned(), false));
        }
    }

    #[test]
    fn a_reply_goes_on_where_the_broken_one_ended_or_is_written_whole() {
        for (replies, output, count) in [
            ("abc", "abc", 0),
            ("|abc", "abc", 0),
            ("ab|abc", "abc", 0),
            ("abc|abc", "abc", 0),
            ("abc|a|ab|abcd", "abcd", 0),
            ("abc|xyz", "abc\nxyz", 1),
            ("abc|abx", "abc\nabx", 1),
            ("abc|ab", "abc\nab", 1),
            ("abc\n|x", "abc\nx", 1),
            ("abc|", "abc\n", 1),
            ("abc|xy|xyz|xq", "abc\nxyz\nxq", 2),
        ] {
            assert_eq!(written(replies), (output.into(), count), "{replies}");
        }
    }
}
