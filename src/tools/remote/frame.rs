//! Finds the output of a script between the output of a login shell before it and the word that ends it.
//!
//! ```text
//!   noise of the login shell  NONCE<\n  output  \nNONCE:STATUS\n
//! ```
//!
//! The nonce is made for one call and reaches the other side on standard input, so that no command has seen it.

use memchr::memmem;

pub struct Frame {
    start: Vec<u8>,
    end: Vec<u8>,
    state: State,
    buffer: Vec<u8>,
}

#[derive(PartialEq, Eq)]
enum State {
    Before,
    Inside,
    /// The end was found; its word may not be complete.
    After,
}

impl Frame {
    pub fn new(nonce: &str) -> Self {
        let (start, end) = (format!("{nonce}<\n").into_bytes(), format!("\n{nonce}:").into_bytes());
        Self { start, end, state: State::Before, buffer: Vec::new() }
    }

    /// Whether the script has begun.
    pub fn has_begun(&self) -> bool {
        self.state != State::Before
    }

    /// Takes bytes, and hands on those of the output. Returns the word once it is complete.
    pub fn push(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8])) -> Option<String> {
        self.buffer.extend_from_slice(bytes);
        if self.state == State::Before {
            match memmem::find(&self.buffer, &self.start) {
                Some(at) => {
                    self.buffer.drain(..at + self.start.len());
                    self.state = State::Inside;
                }
                None => {
                    let surplus = self.buffer.len().saturating_sub(self.start.len());
                    self.buffer.drain(..surplus);
                }
            }
        }
        if self.state == State::Inside {
            let found = memmem::find(&self.buffer, &self.end);
            let length = found.unwrap_or_else(|| self.buffer.len() - begun(&self.buffer, &self.end));
            if length > 0 {
                take(&self.buffer[..length]);
            }
            self.buffer.drain(..length + found.map_or(0, |_| self.end.len()));
            if found.is_some() {
                self.state = State::After;
            }
        }
        let end = self.buffer.iter().position(|byte| *byte == b'\n').filter(|_| self.state == State::After)?;
        Some(String::from_utf8_lossy(&self.buffer[..end]).into_owned())
    }
}

/// How many of the last bytes may be the beginning of `word`.
fn begun(bytes: &[u8], word: &[u8]) -> usize {
    let most = bytes.len().min(word.len() - 1);
    (1..=most).rev().find(|length| bytes.ends_with(&word[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_found_however_it_is_cut() {
        let whole = b"Welcome!\nab<\nn1<\nfirst\n\nn1 \0\nn\n\nn1:7\nrest";
        for size in 1..whole.len() {
            let (mut frame, mut output, mut status) = (Frame::new("n1"), Vec::new(), None);
            for part in whole.chunks(size) {
                status = status.or(frame.push(part, |bytes| output.extend_from_slice(bytes)));
            }
            assert_eq!((output.as_slice(), status.as_deref()), (&b"first\n\nn1 \0\nn\n"[..], Some("7")), "{size}");
        }
    }

    #[test]
    fn a_script_that_never_begins_has_no_output() {
        let mut frame = Frame::new("n1");
        assert_eq!(frame.push(&[b'x'; 10_000], |_| panic!("no output")), None);
        assert!(!frame.has_begun() && frame.buffer.len() < 10);
    }
}
