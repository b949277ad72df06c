//! Standard input: read within bounds, and never so that it blocks the loop.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde_json::Value;

use super::outlet::{poll_now, without_blocking};
use crate::base::error::{Error, Result};

/// The most that is read as one text, and the longest line, in bytes: what no model could take anyhow.
pub const MOST: usize = 16 << 20;
/// How much is read at once.
const PORTION: usize = 64 * 1024;
/// How much is read in one turn of the loop.
const PORTIONS_PER_TURN: usize = 4;

/// Standard input.
pub struct Inlet {
    fd: OwnedFd,
    is_pollable: bool,
    /// What was read and not used.
    read: Vec<u8>,
    is_ended: bool,
}

/// What came of reading everything.
#[derive(Debug, PartialEq, Eq)]
pub enum Whole {
    /// Everything.
    All(Vec<u8>),
    /// There is more than [`MOST`].
    TooMuch,
    /// The time was over before the end.
    TooLate,
}

impl Inlet {
    /// One that reads what this descriptor stands for.
    ///
    /// # Errors
    /// No further descriptor is to be had.
    pub fn on(lent: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        let (is_pollable, anew) = without_blocking(lent, OFlags::RDONLY);
        let fd = anew.map_or_else(|| rustix::io::fcntl_dupfd_cloexec(lent, 0), Ok)?;
        Ok(Self { fd, is_pollable, read: Vec::new(), is_ended: false })
    }

    /// Waits for everything until its end, and no longer than until then.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_whole(mut self, until: Option<Instant>) -> Result<Whole> {
        while !self.is_ended {
            if !self.wait(until)? {
                return Ok(Whole::TooLate);
            }
            self.read_portion()?;
            if self.read.len() > MOST {
                return Ok(Whole::TooMuch);
            }
        }
        Ok(Whole::All(self.read))
    }

    /// Whether there is something to read before that moment.
    fn wait(&self, until: Option<Instant>) -> Result<bool> {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if !self.is_pollable {
                return Ok(left.is_none_or(|left| !left.is_zero()));
            }
            let left = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], left.as_ref()) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed(error)),
                Ok(ready) => return Ok(ready > 0),
            }
        }
    }

    /// Reads what is there, in one turn of the loop no more than so much.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_some(&mut self) -> Result<()> {
        for _ in 0..PORTIONS_PER_TURN {
            let is_ready =
                !self.is_pollable || poll_now(self.fd.as_fd(), PollFlags::IN).is_none_or(|on| !on.is_empty());
            if self.is_ended || !is_ready {
                break;
            }
            self.read_portion()?;
        }
        Ok(())
    }

    fn read_portion(&mut self) -> Result<()> {
        self.read.reserve(PORTION);
        match rustix::io::read(&self.fd, spare_capacity(&mut self.read)) {
            Ok(0) => self.is_ended = true,
            // A terminal whose other end is gone, or that is not ours to read from, has no more to say.
            Err(Errno::IO) if self.is_pollable => self.is_ended = true,
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(())
    }

    /// The descriptor to watch for reading, if it is one that can be and has not ended.
    pub fn watched(&self) -> Option<RawFd> {
        (self.is_pollable && !self.is_ended).then(|| self.fd.as_raw_fd())
    }

    /// Whether there may be something to read although no poll will tell of it.
    pub fn is_always_ready(&self) -> bool {
        !self.is_pollable && !self.is_ended
    }
}

fn failed(error: Errno) -> Error {
    Error::from(std::io::Error::from(error)).context("standard input cannot be read")
}

/// One line of `--input-format stream-json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A turn.
    User(String),
    /// The turn that is under way ends here.
    Interrupt,
}

/// Standard input as lines of JSON.
pub struct Lines {
    /// Where they come from.
    pub inlet: Inlet,
    /// Lines so far.
    number: u64,
    /// How much of what was read has been looked through for the end of a line.
    seen: usize,
    /// The rest of a line that was too long is thrown away as it comes.
    is_skipping: bool,
}

impl Lines {
    /// The lines of what is read there.
    pub fn of(inlet: Inlet) -> Self {
        Self { inlet, number: 0, seen: 0, is_skipping: false }
    }

    /// The next line that is there as a whole: what it says, or what is wrong with it, with its number. Empty ones are
    /// passed over.
    pub fn next(&mut self) -> Option<std::result::Result<Said, String>> {
        loop {
            let line = self.next_line()?;
            let number = self.number;
            match line {
                None => return Some(Err(format!("line {number} is longer than {} MiB: skipped", MOST >> 20))),
                Some(line) if line.trim_ascii().is_empty() => {}
                Some(line) => return Some(read(&line).map_err(|why| format!("line {number} is skipped: {why}"))),
            }
        }
    }

    /// Whether everything was read and handed out.
    pub fn is_over(&self) -> bool {
        self.inlet.is_ended && self.inlet.read.is_empty()
    }

    /// A line without its end; `Some(None)` stands for one that is too long.
    fn next_line(&mut self) -> Option<Option<Vec<u8>>> {
        let Inlet { read, is_ended, .. } = &mut self.inlet;
        let end = read[self.seen..].iter().position(|byte| *byte == b'\n').map(|at| self.seen + at + 1);
        // The last line need not have an end.
        let end = end.or_else(|| (*is_ended && !read.is_empty()).then_some(read.len()));
        self.seen = if end.is_some() { 0 } else { read.len() };
        let is_too_long = end.unwrap_or(read.len()) > MOST || self.is_skipping;
        if is_too_long && end.is_none() {
            read.clear();
            (self.seen, self.is_skipping) = (0, true);
        }
        let line: Vec<u8> = read.drain(..end?).collect();
        self.number += 1;
        self.is_skipping = false;
        Some((!is_too_long).then_some(line))
    }
}

fn read(line: &[u8]) -> std::result::Result<Said, String> {
    let value: Value = serde_json::from_slice(line).map_err(|error| format!("this is not JSON ({error})"))?;
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    match text("type") {
        Some("interrupt") => Ok(Said::Interrupt),
        Some("user") => match text("text") {
            Some(text) if !text.trim().is_empty() => Ok(Said::User(text.to_owned())),
            Some(_) => Err("\"text\" is empty".into()),
            None => Err("\"text\" has to be a string".into()),
        },
        Some(other) => Err(format!("there is no type {other:?}: \"user\" and \"interrupt\" are known")),
        None => Err("an object with \"type\" is expected".into()),
    }
}

/// What a file that is read as text says; bytes that are none are replaced, and the second is true then.
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
    use std::time::Duration;

    fn lines_of(bytes: &[u8]) -> Vec<std::result::Result<Said, String>> {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let mut lines = Lines::of(Inlet::on(reader.as_fd()).expect("an inlet"));
        let mut found = Vec::new();
        for portion in bytes.chunks(60_000) {
            writer.write_all(portion).expect("there is room");
            lines.inlet.read_some().expect("reads");
            found.extend(std::iter::from_fn(|| lines.next()));
            assert!(!lines.is_over());
        }
        drop(writer);
        lines.inlet.read_some().expect("reads");
        found.extend(std::iter::from_fn(|| lines.next()));
        assert!(lines.is_over());
        found
    }

    #[test]
    fn each_line_is_a_turn_an_interrupt_or_named_by_its_number() {
        let text = "{\"type\":\"user\",\"text\":\"hi\\nyou\"}\n\n{oops\n{\"type\":\"interrupt\"}\r\n{\"type\":\"user\"}\n[]\n\
                    {\"type\":\"dance\"}\n{\"type\":\"user\",\"text\":\" \"}\n{\"type\":\"user\",\"text\":\"last\"}";
        let found = lines_of(text.as_bytes());
        let words: Vec<String> = found.iter().filter_map(|one| one.clone().err()).collect();
        let begins = ["line 3 is skipped: this is not JSON", "line 5", "line 6", "line 7", "line 8"];
        assert_eq!(words.len(), begins.len());
        assert!(words.iter().zip(begins).all(|(words, begin)| words.starts_with(begin)), "{words:?}");
        let said: Vec<Said> = found.into_iter().filter_map(std::result::Result::ok).collect();
        assert_eq!(said, [Said::User("hi\nyou".into()), Said::Interrupt, Said::User("last".into())]);
    }

    #[test]
    fn a_line_that_is_too_long_costs_no_memory_and_the_next_one_is_read() {
        let long = vec![b'x'; MOST + 1];
        let found = lines_of(&[b"{\"type\":\"interrupt\"}\n", &long[..], b"\n{\"type\":\"interrupt\"}\n"].concat());
        assert_eq!(found.len(), 3);
        assert!(
            found[1].as_ref().is_err_and(|words| words.starts_with("line 2 is longer than 16 MiB")),
            "{:?}",
            found[1]
        );
        assert_eq!((&found[0], &found[2]), (&Ok(Said::Interrupt), &Ok(Said::Interrupt)));
    }

    #[test]
    fn everything_is_read_up_to_the_limit_and_no_longer_than_is_waited() {
        let inlet = |file: &File| Inlet::on(file.as_fd()).expect("an inlet");
        let zeros = File::open("/dev/zero").expect("a device");
        assert_eq!(inlet(&zeros).read_whole(None).expect("reads"), Whole::TooMuch);
        let nothing = File::open("/dev/null").expect("a device");
        assert_eq!(inlet(&nothing).read_whole(None).expect("reads"), Whole::All(Vec::new()));
        let (silent, _writer) = std::io::pipe().expect("a pipe");
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(Inlet::on(silent.as_fd()).expect("an inlet").read_whole(Some(soon)).expect("reads"), Whole::TooLate);
        let directory = File::open("/").expect("a directory");
        assert!(inlet(&directory).read_whole(None).expect_err("no file").message.contains("standard input"));
    }

    #[test]
    fn what_is_no_text_is_said_to_be_none() {
        assert_eq!(text_of(b"caf\xc3\xa9".to_vec()), ("café".into(), false));
        assert_eq!(text_of(b"caf\xe9!".to_vec()), ("caf\u{fffd}!".into(), true));
    }
}
