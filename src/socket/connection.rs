//! One client: lines in, lines out. Nothing here waits, and nothing grows without an end.
//!
//! Contract:
//! - What is read ahead of a line that was not taken yet is bounded; beyond that the kernel keeps it, and the client waits.
//! - Whoever writes looks at [`Connection::is_ready`] first and queues nothing for a client that does not read; an answer to
//!   a request may be queued always, since no request is taken from a client that has not read the last answer.
//! - A client that closes its writing side has left.

use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::base::error::Result;

/// How much is read at once, and how much is kept of what is behind a whole line.
const READ_BYTES: usize = 64 * 1024;

/// What a client has said.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Nothing that would be a whole line.
    None,
    /// A line, without its newline.
    Whole(Vec<u8>),
    /// More than a line may have: what follows cannot be understood any more.
    TooLong,
}

/// The socket of one client.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    longest_line: usize,
    /// What was read and not taken, from `start` on; up to `searched` there is no newline.
    input: Vec<u8>,
    start: usize,
    searched: usize,
    /// The kernel may have more, and no poll will tell of it.
    has_more: bool,
    has_ended: bool,
    output: Vec<u8>,
    /// How much of the output is written.
    written: usize,
}

impl Connection {
    /// A client whose lines may have so many bytes.
    ///
    /// # Errors
    /// When the kernel refuses to make it non-blocking.
    pub fn new(stream: UnixStream, longest_line: usize) -> Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            longest_line,
            input: Vec::new(),
            start: 0,
            searched: 0,
            has_more: true,
            has_ended: false,
            output: Vec::new(),
            written: 0,
        })
    }

    /// The descriptor to watch.
    pub fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// The poll tells that there is something to read.
    pub fn on_readable(&mut self) {
        self.has_more = true;
    }

    /// Whether there may be something to read for which there is room.
    pub fn wants_to_read(&self) -> bool {
        let unread = self.input.len() - self.start;
        self.has_more && !self.has_ended && (unread < READ_BYTES || !self.has_line() && unread <= self.longest_line)
    }

    /// Reads what is there, but only about `limit` bytes in this call and no more than there is room for.
    pub fn read(&mut self, limit: usize) {
        let mut left = limit;
        while left > 0 && self.wants_to_read() {
            self.input.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
            self.input.reserve(READ_BYTES);
            let before = self.input.len();
            match rustix::io::read(&self.stream, spare_capacity(&mut self.input)) {
                Ok(0) => self.has_ended = true,
                Ok(_) | Err(Errno::INTR) => left = left.saturating_sub(self.input.len() - before),
                Err(Errno::AGAIN) => self.has_more = false,
                Err(_) => self.has_ended = true,
            }
            self.search();
        }
    }

    /// Takes the oldest line that is whole.
    pub fn next_line(&mut self) -> Line {
        self.search();
        if !self.has_line() {
            let is_too_long = self.input.len() - self.start > self.longest_line;
            return if is_too_long { Line::TooLong } else { Line::None };
        }
        let line = self.input[self.start..self.searched].to_vec();
        self.start = self.searched + 1;
        self.searched = self.start;
        if self.start == self.input.len() {
            (self.start, self.searched) = (0, 0);
            self.input.clear();
            // A long line is rare, and a client may stay for days.
            self.input.shrink_to(READ_BYTES);
        }
        self.search();
        if line.len() > self.longest_line { Line::TooLong } else { Line::Whole(line) }
    }

    /// Whether a whole line was read and not taken.
    pub fn has_line(&self) -> bool {
        self.input.get(self.searched) == Some(&b'\n')
    }

    /// Whether the client has left, or cannot be reached any more.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether it has taken all that was queued before.
    pub fn is_ready(&self) -> bool {
        self.written == self.output.len()
    }

    /// Adds a line behind what it has not taken yet.
    pub fn queue(&mut self, line: &str) {
        self.output.extend_from_slice(line.as_bytes());
        self.output.push(b'\n');
    }

    /// Writes what it takes now. To one that takes nothing any more nothing is said; what it has said before can still be
    /// read, and behind that stands its end.
    pub fn flush(&mut self) {
        while !self.is_ready() {
            match send(&self.stream, &self.output[self.written..], SendFlags::NOSIGNAL) {
                Ok(count) => self.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.has_more = true;
                    break;
                }
            }
        }
        self.output.clear();
        self.output.shrink_to(READ_BYTES);
        self.written = 0;
    }

    /// Bytes that it makes this process keep.
    pub fn kept(&self) -> usize {
        self.input.len() + self.output.len()
    }

    /// Looks for the end of the line from where the last look ended.
    fn search(&mut self) {
        let unseen = &self.input[self.searched..];
        self.searched += unseen.iter().position(|byte| *byte == b'\n').unwrap_or(unseen.len());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    const LONGEST: usize = 100_000;

    fn pair() -> (UnixStream, Connection) {
        let (near, far) = UnixStream::pair().unwrap();
        (near, Connection::new(far, LONGEST).unwrap())
    }

    fn lines(connection: &mut Connection) -> Vec<String> {
        let next = |connection: &mut Connection| match connection.next_line() {
            Line::Whole(line) => Some(String::from_utf8(line).unwrap()),
            _ => None,
        };
        std::iter::from_fn(|| next(connection)).collect()
    }

    #[test]
    fn the_last_words_of_one_that_takes_nothing_any_more_are_read() {
        let (mut near, mut connection) = pair();
        near.write_all(b"goodbye\n").unwrap();
        drop(near);
        connection.queue("do you hear me?");
        connection.flush();
        assert!(connection.is_ready() && !connection.has_ended());
        connection.read(1_000);
        assert_eq!(lines(&mut connection), ["goodbye"]);
        assert!(connection.has_ended());
    }

    #[test]
    fn lines_are_whole_wherever_they_are_cut_on_the_way() {
        let text = b"one\n\ntwo three\nfour";
        for cut in 0..=text.len() {
            let (mut near, mut connection) = pair();
            near.write_all(&text[..cut]).unwrap();
            connection.read(usize::MAX);
            let mut read = lines(&mut connection);
            near.write_all(&text[cut..]).unwrap();
            connection.on_readable();
            connection.read(usize::MAX);
            read.extend(lines(&mut connection));
            assert_eq!(read, ["one", "", "two three"], "cut at {cut}");
            near.write_all(b"\n").unwrap();
            connection.on_readable();
            connection.read(usize::MAX);
            assert_eq!(lines(&mut connection), ["four"]);
        }
    }

    #[test]
    fn a_line_of_just_the_limit_is_read_and_a_longer_one_is_told_before_more_is_kept() {
        for (length, is_fine) in [(LONGEST, true), (LONGEST + 1, false), (4 * LONGEST, false)] {
            let (mut near, mut connection) = pair();
            let line = [vec![b'x'; length], vec![b'\n']].concat();
            let writer = std::thread::spawn(move || drop(near.write_all(&line)));
            let found = loop {
                connection.on_readable();
                connection.read(10_000);
                match connection.next_line() {
                    Line::None => assert!(connection.kept() <= LONGEST + 2 * READ_BYTES, "{}", connection.kept()),
                    found => break found,
                }
            };
            assert_eq!(matches!(found, Line::Whole(line) if line.len() == length), is_fine, "{length}");
            drop(connection);
            writer.join().unwrap();
        }
    }

    #[test]
    fn what_is_not_taken_stops_the_reading_and_is_read_when_it_is_taken() {
        let (mut near, mut connection) = pair();
        let writer = std::thread::spawn(move || (0..200_000).try_for_each(|n| writeln!(near, "{n}")));
        let mut expected = 0;
        while expected < 200_000 {
            connection.on_readable();
            connection.read(usize::MAX);
            assert!(connection.kept() <= 3 * READ_BYTES, "{}", connection.kept());
            for line in lines(&mut connection) {
                assert_eq!(line, expected.to_string());
                expected += 1;
            }
        }
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn a_client_that_takes_nothing_is_not_ready_and_gets_all_in_order_when_it_reads() {
        let (mut near, mut connection) = pair();
        let mut count = 0;
        while connection.is_ready() {
            connection.queue(&"x".repeat(1_000));
            count += 1;
            connection.flush();
        }
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            near.read_to_end(&mut all).unwrap();
            all.len()
        });
        while !connection.is_ready() {
            connection.flush();
            std::thread::yield_now();
        }
        drop(connection);
        assert_eq!(reader.join().unwrap(), count * 1_001);
    }

    #[test]
    fn a_client_that_leaves_is_noticed_behind_what_it_said_and_by_what_it_does_not_take() {
        let (mut near, mut connection) = pair();
        near.write_all(b"last words\nhalf").unwrap();
        drop(near);
        connection.read(usize::MAX);
        assert!(connection.has_ended());
        assert_eq!(lines(&mut connection), ["last words"]);
        let (near, mut connection) = pair();
        drop(near);
        connection.queue("nobody hears");
        connection.flush();
        assert!(connection.is_ready());
        connection.read(1_000);
        assert!(connection.has_ended());
    }
}
