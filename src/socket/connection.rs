//! One end of a connection: lines in, lines out, without blocking and with bounded buffers.
//!
//! Contract:
//! - Only a bounded number of bytes is read beyond a line that was not taken yet; after that the peer has to wait.
//! - Before queueing output, the caller checks [`Connection::is_ready`], so that nothing accumulates for a peer that does
//!   not read. A response may always be queued: no request is taken from a client that has not read the last response.
//! - A peer that closes its writing side has left.

use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::base::error::Result;

/// How much is read at once, and beyond a complete line.
const READ_BYTES: usize = 64 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// No complete line yet.
    None,
    /// A line, without its newline.
    Whole(Vec<u8>),
    /// Longer than the limit; nothing after it can be read.
    TooLong,
}

#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    longest_line: usize,
    /// What was not taken yet begins at `start`; between it and `searched` there is no newline.
    input: Vec<u8>,
    start: usize,
    searched: usize,
    /// The kernel may have more data that no poll will report.
    has_more: bool,
    has_ended: bool,
    output: Vec<u8>,
    written: usize,
}

impl Connection {
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

    pub fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// The poll reported the descriptor as readable.
    pub fn on_readable(&mut self) {
        self.has_more = true;
    }

    /// Whether there may be something to read, and the buffer has room for it.
    pub fn can_read(&self) -> bool {
        let unread = self.input.len() - self.start;
        self.has_more && !self.has_ended && (unread < READ_BYTES || !self.has_line() && unread <= self.longest_line)
    }

    /// Reads what is available, about `limit` bytes at most.
    pub fn read(&mut self, limit: usize) {
        let mut left = limit;
        while left > 0 && self.can_read() {
            self.input.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
            // It grows by a quarter instead of doubling, because its contents are counted, not its capacity.
            if self.input.capacity() - self.input.len() < READ_BYTES {
                self.input.reserve_exact(READ_BYTES.max(self.input.len() / 4));
            }
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

    /// Takes the oldest complete line.
    pub fn next_line(&mut self) -> Line {
        self.search();
        if !self.has_line() {
            let is_too_long = self.input.len() - self.start > self.longest_line;
            return if is_too_long { Line::TooLong } else { Line::None };
        }
        if self.start == 0 && self.searched + 1 == self.input.len() {
            return self.take_only_line();
        }
        let line = self.input[self.start..self.searched].to_vec();
        self.start = self.searched + 1;
        self.searched = self.start;
        if self.start == self.input.len() {
            (self.start, self.searched) = (0, 0);
            self.input.clear();
            // Long lines are rare, and a client may stay for days.
            self.input.shrink_to(READ_BYTES);
        }
        self.search();
        if line.len() > self.longest_line { Line::TooLong } else { Line::Whole(line) }
    }

    /// The buffer is one line: it is not copied, which for a long line would need as much memory again.
    fn take_only_line(&mut self) -> Line {
        let mut line = std::mem::take(&mut self.input);
        line.pop();
        (self.start, self.searched) = (0, 0);
        if line.len() > self.longest_line { Line::TooLong } else { Line::Whole(line) }
    }

    pub fn has_line(&self) -> bool {
        self.input.get(self.searched) == Some(&b'\n')
    }

    /// Whether the peer has left, or the connection is broken.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub fn is_ready(&self) -> bool {
        self.written == self.output.len()
    }

    pub fn queue(&mut self, line: &str) {
        self.output.extend_from_slice(line.as_bytes());
        self.output.push(b'\n');
    }

    /// Writes as much as the peer accepts. If the connection is broken, the output is dropped; what the peer sent
    /// before can still be read.
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

    pub fn buffered_bytes(&self) -> usize {
        self.input.len() + self.output.len()
    }

    /// Continues the search for the end of the line.
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
    fn input_is_read_after_the_peer_stopped_reading() {
        let (mut near, mut connection) = pair();
        near.write_all(b"goodbye\n").unwrap();
        drop(near);
        connection.queue("not read");
        connection.flush();
        assert!(connection.is_ready() && !connection.has_ended());
        connection.read(1_000);
        assert_eq!(lines(&mut connection), ["goodbye"]);
        assert!(connection.has_ended());
    }

    #[test]
    fn lines_are_complete_wherever_the_stream_is_split() {
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
    fn a_line_of_the_limit_is_read_and_a_longer_one_reported_with_bounded_buffers() {
        for (length, is_fine) in [(LONGEST, true), (LONGEST + 1, false), (4 * LONGEST, false)] {
            let (mut near, mut connection) = pair();
            let line = [vec![b'x'; length], vec![b'\n']].concat();
            let writer = std::thread::spawn(move || drop(near.write_all(&line)));
            let found = loop {
                connection.on_readable();
                connection.read(10_000);
                match connection.next_line() {
                    Line::None => {
                        assert!(
                            connection.buffered_bytes() <= LONGEST + 2 * READ_BYTES,
                            "{}",
                            connection.buffered_bytes()
                        )
                    }
                    found => break found,
                }
            };
            assert_eq!(matches!(found, Line::Whole(line) if line.len() == length), is_fine, "{length}");
            drop(connection);
            writer.join().unwrap();
        }
    }

    #[test]
    fn reading_stops_while_lines_are_not_taken() {
        let (mut near, mut connection) = pair();
        let writer = std::thread::spawn(move || (0..200_000).try_for_each(|n| writeln!(near, "{n}")));
        let mut expected = 0;
        while expected < 200_000 {
            connection.on_readable();
            connection.read(usize::MAX);
            assert!(connection.buffered_bytes() <= 3 * READ_BYTES, "{}", connection.buffered_bytes());
            for line in lines(&mut connection) {
                assert_eq!(line, expected.to_string());
                expected += 1;
            }
        }
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn output_for_a_peer_that_does_not_read_waits_and_keeps_its_order() {
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
    fn a_closed_connection_is_detected_by_reading_and_by_writing() {
        let (mut near, mut connection) = pair();
        near.write_all(b"last words\nhalf").unwrap();
        drop(near);
        connection.read(usize::MAX);
        assert!(connection.has_ended());
        assert_eq!(lines(&mut connection), ["last words"]);
        let (near, mut connection) = pair();
        drop(near);
        connection.queue("not read");
        connection.flush();
        assert!(connection.is_ready());
        connection.read(1_000);
        assert!(connection.has_ended());
    }
}
