//! A writer that never blocks the event loop: what the reader does not accept yet is buffered in order.
//!
//! The descriptor is shared with the process that started the program, so it is not switched to non-blocking mode. A
//! pipe is opened a second time instead, non-blocking. Where that fails, and for sockets and terminals, only as much is
//! written at once as is certain not to block once poll(2) reports the descriptor as writable. Regular files accept
//! everything and cannot be polled.

use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

/// What a writable pipe accepts without blocking: PIPE_BUF (pipe(7)).
const ATOMIC_BYTES: usize = 4096;

pub struct Output {
    fd: OwnedFd,
    is_pollable: bool,
    /// The most that is passed to one call of write(2).
    max_write: usize,
    backlog: Vec<u8>,
    written: usize,
    state: OutputState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputState {
    Open,
    /// The reader has closed its end (EPIPE); the backlog is dropped.
    Closed,
    Failed(Errno),
}

impl Output {
    pub fn new(fd: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        let (is_pollable, reopened) = reopen_nonblocking(fd, OFlags::WRONLY);
        let max_write = if reopened.is_some() || !is_pollable { usize::MAX } else { ATOMIC_BYTES };
        let fd = reopened.map_or_else(|| rustix::io::fcntl_dupfd_cloexec(fd, 0), Ok)?;
        Ok(Self { fd, is_pollable, max_write, backlog: Vec::new(), written: 0, state: OutputState::Open })
    }

    /// Writes these bytes after the backlog, as far as they are accepted: in one call if there is no backlog.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.state == OutputState::Open {
            self.backlog.extend_from_slice(bytes);
            self.flush();
        }
    }

    /// Writes as much of the backlog as is accepted.
    pub fn flush(&mut self) {
        while self.state == OutputState::Open && self.backlog_len() > 0 {
            if self.max_write == ATOMIC_BYTES && !self.is_writable() {
                return;
            }
            let end = self.backlog.len().min(self.written.saturating_add(self.max_write));
            match rustix::io::write(&self.fd, &self.backlog[self.written..end]) {
                Ok(count) => self.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(Errno::PIPE | Errno::CONNRESET) => self.state = OutputState::Closed,
                Err(error) => self.state = OutputState::Failed(error),
            }
        }
        self.backlog.clear();
        self.written = 0;
    }

    /// Bytes that are not written yet.
    pub fn backlog_len(&self) -> usize {
        self.backlog.len() - self.written
    }

    pub fn state(&self) -> OutputState {
        self.state
    }

    /// The descriptor to poll: for writing while there is a backlog, and always for errors, which show that the reader
    /// is gone. `None` if it cannot be polled.
    pub fn watched(&self) -> Option<RawFd> {
        (self.is_pollable && self.state == OutputState::Open).then(|| self.fd.as_raw_fd())
    }

    /// The poll reported the descriptor: continues to write, or detects that the reader is gone.
    pub fn on_ready(&mut self) {
        let gone = PollFlags::ERR | PollFlags::HUP;
        if self.state == OutputState::Open && self.poll().is_some_and(|events| events.intersects(gone)) {
            self.state = OutputState::Closed;
        }
        self.flush();
    }

    fn is_writable(&self) -> bool {
        // Where poll(2) fails, write(2) reports the error.
        self.poll().is_none_or(|events| !events.is_empty())
    }

    fn poll(&self) -> Option<PollFlags> {
        poll_now(self.fd.as_fd(), PollFlags::OUT)
    }
}

/// The current events of a descriptor; `None` if it cannot be polled.
pub fn poll_now(fd: BorrowedFd<'_>, events: PollFlags) -> Option<PollFlags> {
    let mut fds = [PollFd::from_borrowed_fd(fd, events)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok().map(|_| fds[0].revents())
}

/// Whether a descriptor can be polled; and for a pipe a second descriptor, which does not block.
pub fn reopen_nonblocking(fd: BorrowedFd<'_>, mode: OFlags) -> (bool, Option<OwnedFd>) {
    let kind = fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
    let is_pipe = matches!(kind, Ok(FileType::Fifo));
    let is_pollable = is_pipe || matches!(kind, Ok(FileType::Socket)) || rustix::termios::isatty(fd);
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    // Fails for a pipe of another user, and for writing to one without a reader.
    let reopen = || rustix::fs::open(path, mode | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok();
    (is_pollable, if is_pipe { reopen() } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    /// Reads this many bytes, and lets the output continue to write.
    fn drain(output: &mut Output, reader: &mut impl std::io::Read, expected: usize) -> Vec<u8> {
        let (mut received, mut buffer) = (Vec::new(), [0; 1000]);
        while received.len() < expected {
            let count = reader.read(&mut buffer).expect("reads");
            received.extend_from_slice(&buffer[..count]);
            output.on_ready();
        }
        received
    }

    #[test]
    fn a_full_pipe_or_socket_delays_the_bytes_and_keeps_their_order() {
        let all: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let mut output = Output::new(writer.as_fd()).expect("an output");
        all.chunks(1_000).for_each(|chunk| output.write(chunk));
        assert!(output.backlog_len() > 0 && output.backlog_len() < all.len());
        assert!(drain(&mut output, &mut reader, all.len()) == all);
        let (mut near, far) = UnixStream::pair().expect("sockets");
        let mut output = Output::new(far.as_fd()).expect("an output");
        all.chunks(50_000).cycle().take(60).for_each(|chunk| output.write(chunk));
        assert!(output.backlog_len() > 0, "a write to a blocking socket did not block");
        assert!(drain(&mut output, &mut near, all.len()).starts_with(&all));
    }

    #[test]
    fn the_original_descriptor_stays_in_blocking_mode() {
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let _output = Output::new(writer.as_fd()).expect("an output");
        assert!(!rustix::fs::fcntl_getfl(&writer).expect("flags").contains(OFlags::NONBLOCK));
    }

    #[test]
    fn a_closed_reader_is_detected_with_and_without_writing() {
        for writes in [true, false] {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            let mut output = Output::new(writer.as_fd()).expect("an output");
            drop(reader);
            if writes {
                output.write(b"x");
            } else {
                output.on_ready();
            }
            assert_eq!(output.state(), OutputState::Closed);
            output.write(b"more");
            assert_eq!(output.backlog_len(), 0);
        }
    }

    #[test]
    fn a_file_takes_everything_and_a_full_disk_is_an_error() {
        let mut file = tempfile::tempfile().expect("a file");
        let mut output = Output::new(file.as_fd()).expect("an output");
        output.write(&[b'x'; 100_000]);
        assert_eq!((output.backlog_len(), output.watched()), (0, None));
        std::io::Seek::rewind(&mut file).expect("a file");
        let mut read = Vec::new();
        file.read_to_end(&mut read).expect("reads");
        assert_eq!(read.len(), 100_000);
        let full = File::options().write(true).open("/dev/full").expect("a device");
        let mut output = Output::new(full.as_fd()).expect("an output");
        output.write(b"x");
        assert_eq!(output.state(), OutputState::Failed(Errno::NOSPC));
    }
}
