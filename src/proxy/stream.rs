//! A non-blocking socket, and the bytes on their way from one socket to another.
//!
//! The poll is edge-triggered: a socket remembers its readiness until the kernel says that it would block.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, set_tcp_nodelay, socket_error};
use rustix::net::{
    AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, connect, getpeername, send, shutdown, socket_with,
};

use super::body::Body;
use crate::domain::readiness::Readiness;

/// How many bytes wait in one direction at most, and how many are read at once.
const BUFFER: usize = 16 << 10;

pub struct Socket {
    stream: TcpStream,
    may_read: bool,
    may_write: bool,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Its sockets, a look-up or its deadline.
    Waiting,
    /// Nothing: there may be more to do.
    More,
    /// It can be dropped.
    Done,
}

/// The result of a read or write.
enum Outcome {
    Bytes(usize),
    Blocked,
    Ended,
    Broken,
}

impl Socket {
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        // Only slower without it.
        let _ = set_tcp_nodelay(&stream, true);
        Ok(Self { stream, may_read: true, may_write: true })
    }

    pub fn connecting(address: SocketAddr) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { may_write: false, ..Self::new(TcpStream::from(socket))? })
    }

    /// Whether it is connected by now.
    pub fn is_connected(&self) -> io::Result<bool> {
        socket_error(&self.stream)??;
        Ok(self.may_write && getpeername(&self.stream).is_ok())
    }

    pub fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    pub fn on_ready(&mut self, readiness: Readiness) {
        self.may_read |= readiness.readable || readiness.error;
        self.may_write |= readiness.writable || readiness.error;
    }

    /// Makes closing it an error on the other side.
    pub fn break_off(&self) {
        // The other side gets an ordinary end otherwise.
        let _ = set_socket_linger(&self.stream, Some(Duration::ZERO));
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> Outcome {
        if !self.may_read {
            return Outcome::Blocked;
        }
        buffer.reserve_exact(BUFFER.saturating_sub(buffer.len()));
        let before = buffer.len();
        loop {
            match rustix::io::read(&self.stream, spare_capacity(buffer)) {
                Ok(0) => return Outcome::Ended,
                Ok(_) => return Outcome::Bytes(buffer.len() - before),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.may_read = false;
                    return Outcome::Blocked;
                }
                Err(_) => return Outcome::Broken,
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Outcome {
        if !self.may_write {
            return Outcome::Blocked;
        }
        loop {
            match send(&self.stream, bytes, SendFlags::NOSIGNAL) {
                Ok(count) => return Outcome::Bytes(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.may_write = false;
                    return Outcome::Blocked;
                }
                Err(_) => return Outcome::Broken,
            }
        }
    }

    /// Reads once into the buffer. False at the end, or if the connection is broken.
    pub fn read_some(&mut self, buffer: &mut Vec<u8>) -> bool {
        !matches!(self.read(buffer), Outcome::Ended | Outcome::Broken)
    }

    /// Whether the kernel may have unread bytes.
    pub fn may_read(&self) -> bool {
        self.may_read
    }
}

/// Whether no descriptor is left, for this process or the system.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

/// One direction of a connection.
pub struct Pipe {
    buffer: Vec<u8>,
    written: usize,
    /// The part of the source that goes to the sink; the rest is read and dropped.
    body: Body,
    /// The end of the source is passed on.
    passes_end: bool,
    has_ended: bool,
    is_closed: bool,
}

/// How far a [`Pipe`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// As far as it could.
    All,
    /// There may be more to do.
    More,
    /// The source broke, or sent malformed data.
    SourceBroke,
    SinkBroke,
}

impl Pipe {
    /// A direction in which these bytes are written first.
    pub fn new(first: Vec<u8>, body: Body, passes_end: bool) -> Self {
        Self { buffer: first, written: 0, body, passes_end, has_ended: false, is_closed: false }
    }

    /// The source has ended, and everything was written.
    pub fn is_done(&self) -> bool {
        self.is_closed
    }

    /// Reads and writes until a side would block, at most about `budget` bytes. Reads only when everything was written, so
    /// that a slow sink slows the source.
    pub fn run(&mut self, source: &mut Socket, sink: &mut Socket, budget: usize) -> Moved {
        let mut left = budget;
        while !self.is_closed {
            if self.written < self.buffer.len() {
                match sink.write(&self.buffer[self.written..]) {
                    Outcome::Bytes(count) => self.written += count,
                    Outcome::Blocked => return Moved::All,
                    Outcome::Ended | Outcome::Broken => return Moved::SinkBroke,
                }
                continue;
            }
            self.buffer.clear();
            self.written = 0;
            if self.has_ended {
                self.close(sink);
            } else if left == 0 {
                return Moved::More;
            } else {
                match source.read(&mut self.buffer) {
                    Outcome::Bytes(count) => left = left.saturating_sub(count),
                    Outcome::Blocked => {
                        // Most connections are idle most of the time.
                        self.buffer = Vec::new();
                        return Moved::All;
                    }
                    Outcome::Ended => self.has_ended = true,
                    Outcome::Broken => return Moved::SourceBroke,
                }
                self.cut();
                if self.body == Body::Malformed {
                    return Moved::SourceBroke;
                }
            }
        }
        Moved::All
    }

    /// Drops what does not belong to the body.
    fn cut(&mut self) {
        let count = self.body.take(&self.buffer);
        self.buffer.truncate(count);
    }

    fn close(&mut self, sink: &Socket) {
        self.is_closed = true;
        self.buffer = Vec::new();
        if self.passes_end {
            // Fails if the other side is gone.
            let _ = shutdown(&sink.stream, Shutdown::Write);
        }
    }
}

/// Writes a last message, and then reads until the other side closes: closing at once would make the kernel drop the message
/// if something was left unread (RFC 9112, 9.6).
pub struct Farewell {
    message: VecDeque<u8>,
    is_sent: bool,
}

impl Farewell {
    pub fn new(message: Vec<u8>) -> Self {
        Self { message: message.into(), is_sent: false }
    }

    /// Done when the connection can be closed. Reads at most about `budget` bytes.
    pub fn run(&mut self, socket: &mut Socket, budget: usize) -> Progress {
        while !self.message.is_empty() {
            let (first, _) = self.message.as_slices();
            match socket.write(first) {
                Outcome::Bytes(count) => drop(self.message.drain(..count)),
                Outcome::Blocked => return Progress::Waiting,
                Outcome::Ended | Outcome::Broken => return Progress::Done,
            }
        }
        if !self.is_sent {
            self.is_sent = true;
            let _ = shutdown(&socket.stream, Shutdown::Write);
        }
        let (mut dropped, mut left) = (Vec::new(), budget);
        while left > 0 {
            dropped.clear();
            match socket.read(&mut dropped) {
                Outcome::Bytes(count) => left = left.saturating_sub(count),
                Outcome::Blocked => return Progress::Waiting,
                Outcome::Ended | Outcome::Broken => return Progress::Done,
            }
        }
        Progress::More
    }
}
