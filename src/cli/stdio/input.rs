//! Standard input: bounded, and read without blocking the event loop.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::Value;

use super::output::{poll_now, reopen_nonblocking};
use crate::base::error::{Error, Result};

/// The longest text and the longest line that is read, in bytes; no model takes that much.
pub const MAX_BYTES: usize = 16 << 20;
const BLOCK_BYTES: usize = 64 * 1024;
/// After this long, a note says that the end of the input is awaited.
const PATIENCE: Duration = Duration::from_secs(2);
const BLOCKS_PER_TURN: usize = 4;

pub struct Input {
    fd: OwnedFd,
    is_pollable: bool,
    /// What was read and not used yet.
    buffer: Vec<u8>,
    has_ended: bool,
}

/// The result of reading standard input to its end.
#[derive(Debug, PartialEq, Eq)]
pub enum WholeInput {
    Complete(Vec<u8>),
    /// More than [`MAX_BYTES`].
    TooLong,
    /// The deadline passed before the end.
    TimedOut,
}

impl Input {
    pub fn new(fd: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        let (is_pollable, reopened) = reopen_nonblocking(fd, OFlags::RDONLY);
        let fd = reopened.map_or_else(|| rustix::io::fcntl_dupfd_cloexec(fd, 0), Ok)?;
        Ok(Self { fd, is_pollable, buffer: Vec::new(), has_ended: false })
    }

    /// The standard input of this process.
    pub fn of_process() -> Result<Self> {
        Ok(Self::new(std::io::stdin().as_fd()).map_err(std::io::Error::from)?)
    }

    /// Waits for the end of the input. Calls `on_late` once if that takes long.
    pub fn read_whole(mut self, deadline: Option<Instant>, on_late: impl FnOnce()) -> Result<WholeInput> {
        let mut late = Some((Instant::now() + PATIENCE, on_late));
        while !self.has_ended {
            let first = late.as_ref().map(|(late, _)| *late).into_iter().chain(deadline).min();
            if !self.wait(first)? {
                match late.take_if(|(late, _)| deadline.is_none_or(|deadline| *late < deadline)) {
                    Some((_, on_late)) => on_late(),
                    None => return Ok(WholeInput::TimedOut),
                }
                continue;
            }
            self.read_block()?;
            if self.buffer.len() > MAX_BYTES {
                return Ok(WholeInput::TooLong);
            }
        }
        Ok(WholeInput::Complete(self.buffer))
    }

    /// Whether there is something to read before the deadline.
    fn wait(&self, deadline: Option<Instant>) -> Result<bool> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if !self.is_pollable {
                return Ok(left.is_none_or(|left| !left.is_zero()));
            }
            let left = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], left.as_ref()) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(read_error(error)),
                Ok(ready) => return Ok(ready > 0),
            }
        }
    }

    /// Reads what is available, up to the limit for one turn of the event loop.
    pub fn read_available(&mut self) -> Result<()> {
        for _ in 0..BLOCKS_PER_TURN {
            let is_ready =
                !self.is_pollable || poll_now(self.fd.as_fd(), PollFlags::IN).is_none_or(|events| !events.is_empty());
            if self.has_ended || !is_ready {
                break;
            }
            self.read_block()?;
        }
        Ok(())
    }

    fn read_block(&mut self) -> Result<()> {
        self.buffer.reserve(BLOCK_BYTES);
        match rustix::io::read(&self.fd, spare_capacity(&mut self.buffer)) {
            Ok(0) => self.has_ended = true,
            // From a terminal that was closed, or that a background process may not read.
            Err(Errno::IO) if self.is_pollable => self.has_ended = true,
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(read_error(error)),
        }
        Ok(())
    }

    /// What was read and not taken yet.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The descriptor to poll for reading, if it can be polled and has not ended.
    pub fn watched(&self) -> Option<RawFd> {
        (self.is_pollable && !self.has_ended).then(|| self.fd.as_raw_fd())
    }

    /// The descriptor, if it can be polled.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.is_pollable.then(|| self.fd.as_raw_fd())
    }

    /// Whether it has to be read without a poll.
    pub fn is_always_ready(&self) -> bool {
        !self.is_pollable && !self.has_ended
    }
}

fn read_error(error: Errno) -> Error {
    Error::from(std::io::Error::from(error)).context("cannot read standard input")
}

/// One line of `--input-format stream-json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InputLine {
    User { text: String },
    Interrupt,
}

pub struct InputLines {
    pub input: Input,
    number: u64,
    /// How much of the buffer was searched for the end of a line.
    searched: usize,
    /// The rest of a line that was too long is discarded.
    is_skipping: bool,
}

impl InputLines {
    pub fn new(input: Input) -> Self {
        Self { input, number: 0, searched: 0, is_skipping: false }
    }

    /// The next complete line, or an error message with its number. Empty lines are ignored.
    pub fn next(&mut self) -> Option<std::result::Result<InputLine, String>> {
        loop {
            let line = self.next_line()?;
            let number = self.number;
            match line {
                None => return Some(Err(format!("skipped line {number}: longer than {} MiB", MAX_BYTES >> 20))),
                Some(line) if line.trim_ascii().is_empty() => {}
                Some(line) => return Some(parse(&line).map_err(|error| format!("skipped line {number}: {error}"))),
            }
        }
    }

    /// Whether everything was read and returned.
    pub fn is_over(&self) -> bool {
        self.input.has_ended && self.input.buffer.is_empty()
    }

    /// A line without its end; `Some(None)` for one that is too long.
    pub fn next_line(&mut self) -> Option<Option<Vec<u8>>> {
        let Input { buffer, has_ended, .. } = &mut self.input;
        let end = buffer[self.searched..].iter().position(|byte| *byte == b'\n').map(|at| self.searched + at + 1);
        // The last line may lack a line end.
        let end = end.or_else(|| (*has_ended && !buffer.is_empty()).then_some(buffer.len()));
        self.searched = if end.is_some() { 0 } else { buffer.len() };
        let is_too_long = end.unwrap_or(buffer.len()) > MAX_BYTES || self.is_skipping;
        if is_too_long && end.is_none() {
            buffer.clear();
            (self.searched, self.is_skipping) = (0, true);
        }
        let line: Vec<u8> = buffer.drain(..end?).collect();
        self.number += 1;
        self.is_skipping = false;
        Some((!is_too_long).then_some(line))
    }
}

fn parse(line: &[u8]) -> std::result::Result<InputLine, String> {
    match serde_json::from_slice(line) {
        Ok(InputLine::User { text }) if text.trim().is_empty() => Err("\"text\" is empty".into()),
        Ok(line) => Ok(line),
        Err(error) => {
            if let Some(text) = text_of_claude(line) {
                return Ok(InputLine::User { text });
            }
            let message = error.to_string();
            // The position is always in line 1.
            let message = message.split(" at line ").next().unwrap_or_default();
            Err(if error.is_data() { message.to_owned() } else { format!("invalid JSON: {message}") })
        }
    }
}

/// The text of a turn as Claude Code takes it: `{"type":"user","message":{"role":"user","content":"..."}}`, where the content
/// may be a list of blocks.
fn text_of_claude(line: &[u8]) -> Option<String> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let content = &line["message"]["content"];
    let text = match content.as_str() {
        Some(text) => text.to_owned(),
        // Only text: nothing is left out unnoticed.
        None => {
            let blocks = content.as_array()?.iter().map(|block| block["text"].as_str());
            blocks.collect::<Option<Vec<_>>>()?.join("\n\n")
        }
    };
    (line["type"] == "user" && !text.trim().is_empty()).then_some(text)
}

/// The bytes as text, with invalid UTF-8 replaced; and whether there was any.
pub fn text_of(bytes: Vec<u8>) -> (String, bool) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write as _;

    fn lines_of(bytes: &[u8]) -> Vec<std::result::Result<InputLine, String>> {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let mut lines = InputLines::new(Input::new(reader.as_fd()).expect("an input"));
        let mut found = Vec::new();
        for block in bytes.chunks(60_000) {
            writer.write_all(block).expect("there is room");
            lines.input.read_available().expect("reads");
            found.extend(std::iter::from_fn(|| lines.next()));
            assert!(!lines.is_over());
        }
        drop(writer);
        // A process that another test starts at this moment has the pipe open until it executes its program.
        assert!(lines.input.wait(None).expect("polls"));
        lines.input.read_available().expect("reads");
        found.extend(std::iter::from_fn(|| lines.next()));
        assert!(lines.is_over());
        found
    }

    #[test]
    fn a_line_is_a_turn_an_interrupt_or_an_error_with_its_number() {
        let text = "{\"type\":\"user\",\"text\":\"hi\\nyou\"}\n\n{oops\n{\"type\":\"interrupt\"}\r\n{\"type\":\"user\"}\n[]\n\
                    {\"type\":\"dance\"}\n{\"type\":\"user\",\"text\":\" \"}\n{\"type\":\"user\",\"text\":\"last\"}";
        let found = lines_of(text.as_bytes());
        let errors: Vec<String> = found.iter().filter_map(|line| line.clone().err()).collect();
        let begins = [
            "line 3: invalid JSON",
            "line 5: missing field `text`",
            "line 6",
            "line 7: unknown variant `dance`",
            "line 8",
        ];
        assert_eq!(errors.len(), begins.len());
        assert!(
            errors.iter().zip(begins).all(|(error, begin)| error.starts_with(&format!("skipped {begin}"))),
            "{errors:?}"
        );
        let lines: Vec<InputLine> = found.into_iter().filter_map(std::result::Result::ok).collect();
        let user = |text: &str| InputLine::User { text: text.into() };
        assert_eq!(lines, [user("hi\nyou"), InputLine::Interrupt, user("last")]);
    }

    #[test]
    fn a_line_that_is_too_long_is_discarded_and_the_next_one_read() {
        let long = vec![b'x'; MAX_BYTES + 1];
        let found = lines_of(&[b"{\"type\":\"interrupt\"}\n", &long[..], b"\n{\"type\":\"interrupt\"}\n"].concat());
        assert_eq!(found.len(), 3);
        assert!(found[1].as_ref().is_err_and(|error| error == "skipped line 2: longer than 16 MiB"), "{:?}", found[1]);
        assert_eq!((&found[0], &found[2]), (&Ok(InputLine::Interrupt), &Ok(InputLine::Interrupt)));
    }

    #[test]
    fn the_whole_input_is_read_up_to_the_limit_and_the_deadline() {
        let input = |file: &File| Input::new(file.as_fd()).expect("an input");
        let zeros = File::open("/dev/zero").expect("a device");
        assert_eq!(input(&zeros).read_whole(None, || ()).expect("reads"), WholeInput::TooLong);
        let nothing = File::open("/dev/null").expect("a device");
        assert_eq!(input(&nothing).read_whole(None, || ()).expect("reads"), WholeInput::Complete(Vec::new()));
        let (silent, _writer) = std::io::pipe().expect("a pipe");
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(
            Input::new(silent.as_fd()).expect("an input").read_whole(Some(soon), || ()).expect("reads"),
            WholeInput::TimedOut
        );
        let directory = File::open("/").expect("a directory");
        assert!(input(&directory).read_whole(None, || ()).expect_err("not a file").message.contains("standard input"));
    }

    #[test]
    fn invalid_utf_8_is_replaced_and_reported() {
        assert_eq!(text_of(b"caf\xc3\xa9".to_vec()), ("café".into(), false));
        assert_eq!(text_of(b"caf\xe9!".to_vec()), ("caf\u{fffd}!".into(), true));
    }
}
