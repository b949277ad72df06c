//! A descriptor to write to that never blocks the loop: what it does not take now waits here, in order.
//!
//! The descriptor itself belongs to whoever started the program, and is shared with them: it is not switched to
//! non-blocking. A pipe is opened anew instead, without blocking; where that is not possible, and for sockets and
//! terminals, no more is written at once than the kernel takes when it says that it takes something. Plain files take
//! everything, and cannot be polled.

use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

/// What a pipe takes without blocking if it takes anything: PIPE_BUF (pipe(7)).
const CERTAIN: usize = 4096;

/// One of the standard outputs.
pub struct Outlet {
    fd: OwnedFd,
    is_pollable: bool,
    /// How much is written at once.
    most: usize,
    backlog: Vec<u8>,
    /// How much of the backlog is written.
    written: usize,
    state: State,
}

/// Whether anybody takes what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Somebody may.
    Open,
    /// The reader has gone (EPIPE): what was not written never will be.
    Unread,
    /// It cannot be written to, for this reason.
    Failed(Errno),
}

impl Outlet {
    /// One that writes to what this descriptor stands for.
    ///
    /// # Errors
    /// No further descriptor is to be had.
    pub fn on(lent: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        let (is_pollable, anew) = without_blocking(lent, OFlags::WRONLY);
        let most = if anew.is_some() || !is_pollable { usize::MAX } else { CERTAIN };
        let fd = anew.map_or_else(|| rustix::io::fcntl_dupfd_cloexec(lent, 0), Ok)?;
        Ok(Self { fd, is_pollable, most, backlog: Vec::new(), written: 0, state: State::Open })
    }

    /// Writes this behind what waits already, as far as it is taken now: in one call, if nothing waits.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.state == State::Open {
            self.backlog.extend_from_slice(bytes);
            self.flush();
        }
    }

    /// Writes what is taken now of what waits.
    pub fn flush(&mut self) {
        while self.state == State::Open && self.waiting() > 0 {
            if self.most == CERTAIN && !self.is_ready() {
                return;
            }
            let end = self.backlog.len().min(self.written.saturating_add(self.most));
            match rustix::io::write(&self.fd, &self.backlog[self.written..end]) {
                Ok(count) => self.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(Errno::PIPE | Errno::CONNRESET) => self.state = State::Unread,
                Err(error) => self.state = State::Failed(error),
            }
        }
        self.backlog.clear();
        self.written = 0;
    }

    /// Bytes that were not taken yet.
    pub fn waiting(&self) -> usize {
        self.backlog.len() - self.written
    }

    /// Whether anybody takes what is written.
    pub fn state(&self) -> State {
        self.state
    }

    /// The descriptor to watch, if it is one that can be: for writing while something waits, and always for the news that
    /// the reader has gone.
    pub fn watched(&self) -> Option<RawFd> {
        (self.is_pollable && self.state == State::Open).then(|| self.fd.as_raw_fd())
    }

    /// There is news of the descriptor: writes on, or finds that nobody reads any more.
    pub fn on_news(&mut self) {
        let gone = PollFlags::ERR | PollFlags::HUP;
        if self.state == State::Open && self.poll().is_some_and(|found| found.intersects(gone)) {
            self.state = State::Unread;
        }
        self.flush();
    }

    fn is_ready(&self) -> bool {
        // What cannot be polled says so when it is written to.
        self.poll().is_none_or(|found| !found.is_empty())
    }

    fn poll(&self) -> Option<PollFlags> {
        poll_now(self.fd.as_fd(), PollFlags::OUT)
    }
}

/// What holds of a descriptor right now; `None` if it cannot be asked.
pub fn poll_now(fd: BorrowedFd<'_>, wanted: PollFlags) -> Option<PollFlags> {
    let mut asked = [PollFd::from_borrowed_fd(fd, wanted)];
    poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok().map(|_| asked[0].revents())
}

/// Whether a descriptor that was lent to us can be polled, and, for a pipe, one of our own that does not block.
pub fn without_blocking(lent: BorrowedFd<'_>, mode: OFlags) -> (bool, Option<OwnedFd>) {
    let kind = fstat(lent).map(|stat| FileType::from_raw_mode(stat.st_mode));
    let is_pipe = matches!(kind, Ok(FileType::Fifo));
    let is_pollable = is_pipe || matches!(kind, Ok(FileType::Socket)) || rustix::termios::isatty(lent);
    let path = format!("/proc/self/fd/{}", lent.as_raw_fd());
    // Another user's pipe may not be opened, and one without a reader not for writing: then the lent one has to do.
    let open = || rustix::fs::open(path, mode | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok();
    (is_pollable, if is_pipe { open() } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    /// Reads until as many bytes have come as were written, and lets the outlet go on meanwhile.
    fn drain(outlet: &mut Outlet, reader: &mut impl std::io::Read, expected: usize) -> Vec<u8> {
        let (mut got, mut portion) = (Vec::new(), [0; 1000]);
        while got.len() < expected {
            let count = reader.read(&mut portion).expect("reads");
            got.extend_from_slice(&portion[..count]);
            outlet.on_news();
        }
        got
    }

    #[test]
    fn what_nobody_takes_waits_and_comes_in_order_through_a_pipe_and_through_a_socket() {
        let all: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let mut outlet = Outlet::on(writer.as_fd()).expect("an outlet");
        all.chunks(1_000).for_each(|chunk| outlet.write(chunk));
        assert!(outlet.waiting() > 0 && outlet.waiting() < all.len());
        assert!(drain(&mut outlet, &mut reader, all.len()) == all);
        let (mut near, far) = UnixStream::pair().expect("sockets");
        let mut outlet = Outlet::on(far.as_fd()).expect("an outlet");
        all.chunks(50_000).cycle().take(60).for_each(|chunk| outlet.write(chunk));
        assert!(outlet.waiting() > 0, "a socket that blocks was not written to for ever");
        assert!(drain(&mut outlet, &mut near, all.len()).starts_with(&all));
    }

    #[test]
    fn the_lent_descriptor_blocks_as_before() {
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let _outlet = Outlet::on(writer.as_fd()).expect("an outlet");
        assert!(!rustix::fs::fcntl_getfl(&writer).expect("flags").contains(OFlags::NONBLOCK));
    }

    #[test]
    fn a_reader_that_has_gone_is_noticed_with_and_without_writing() {
        for writes in [true, false] {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            let mut outlet = Outlet::on(writer.as_fd()).expect("an outlet");
            drop(reader);
            if writes {
                outlet.write(b"x");
            } else {
                outlet.on_news();
            }
            assert_eq!(outlet.state(), State::Unread);
            outlet.write(b"more");
            assert_eq!(outlet.waiting(), 0);
        }
    }

    #[test]
    fn a_file_takes_everything_and_a_full_disk_is_told() {
        let mut file = tempfile::tempfile().expect("a file");
        let mut outlet = Outlet::on(file.as_fd()).expect("an outlet");
        outlet.write(&[b'x'; 100_000]);
        assert_eq!((outlet.waiting(), outlet.watched()), (0, None));
        std::io::Seek::rewind(&mut file).expect("a file");
        let mut read = Vec::new();
        file.read_to_end(&mut read).expect("reads");
        assert_eq!(read.len(), 100_000);
        let full = File::options().write(true).open("/dev/full").expect("a device");
        let mut outlet = Outlet::on(full.as_fd()).expect("an outlet");
        outlet.write(b"x");
        assert_eq!(outlet.state(), State::Failed(Errno::NOSPC));
    }
}
