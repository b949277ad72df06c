//! A small HTTP/1.1 server (RFC 9112) on a loopback address, for the process of one host. Each connection handles one request
//! at a time; chunked bodies are refused.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, RawFd};

use crate::base::error::Result;
use crate::proxy::{Body, Head, Header, is_out_of_descriptors};
use crate::reactor::{Reactor, Source};

/// In bytes.
const MAX_HEAD: usize = 16 << 10;
const MAX_BODY: usize = 2 << 20;
/// Bytes read from one connection per turn.
const BYTES_PER_TURN: usize = 256 << 10;
const MAX_CONNECTIONS: usize = 64;

/// The statuses that are answered (RFC 9110, 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    Accepted,
    BadRequest,
    NotFound,
    NotAllowed,
    LengthRequired,
    TooLarge,
}

impl Status {
    const fn code_and_reason(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::Accepted => "202 Accepted",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::NotAllowed => "405 Method Not Allowed",
            Self::LengthRequired => "411 Length Required",
            Self::TooLarge => "413 Content Too Large",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The connection on which it came, for [`Server::respond`].
    pub(super) connection: u64,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) body: Vec<u8>,
}

pub(super) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    /// The feature that it belongs to, and its number there.
    feature: (&'static str, u64),
    connections: BTreeMap<u64, Connection>,
    /// Of connections; never reused.
    numbers: u64,
}

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    unsent: Vec<u8>,
    has_open_request: bool,
    /// It is closed once everything is sent.
    is_last: bool,
    is_disconnected: bool,
}

impl Server {
    /// # Errors
    /// The listener cannot be watched.
    pub(super) fn new(listener: TcpListener, feature: (&'static str, u64), reactor: &mut Reactor) -> Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let new = Self { listener, address, feature, connections: BTreeMap::new(), numbers: 0 };
        reactor.watch(new.source(new.listener.as_raw_fd()), new.listener.as_raw_fd(), true, false)?;
        Ok(new)
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    const fn source(&self, fd: RawFd) -> Source {
        let (name, number) = self.feature;
        Source::Feature { name, number, fd }
    }

    /// Accepts, reads and writes what is possible at one of its descriptors.
    pub(super) fn on_ready(&mut self, fd: RawFd, reactor: &mut Reactor) -> Result<()> {
        if fd == self.listener.as_raw_fd() {
            return self.accept(reactor);
        }
        let source = self.source(fd);
        let is_it = |connection: &&mut Connection| connection.stream.as_raw_fd() == fd;
        match self.connections.values_mut().find(is_it) {
            Some(connection) => {
                connection.read();
                connection.write();
                connection.watch(source, reactor)
            }
            None => Ok(()),
        }
    }

    fn accept(&mut self, reactor: &mut Reactor) -> Result<()> {
        let listener = self.listener.as_raw_fd();
        for _ in 0..MAX_CONNECTIONS {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                // Nothing waits. Without free descriptors, a waiting connection is accepted together with the next one.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock || is_out_of_descriptors(&error) => {
                    return Ok(());
                }
                Err(_) => continue,
            };
            if self.connections.len() == MAX_CONNECTIONS {
                self.close_idle(reactor);
            }
            let connection = Connection::new(stream);
            let source = self.source(connection.stream.as_raw_fd());
            let is_watched = self.connections.len() < MAX_CONNECTIONS
                && connection.stream.set_nonblocking(true).is_ok()
                && connection.watch(source, reactor).is_ok();
            if is_watched {
                self.numbers += 1;
                self.connections.insert(self.numbers, connection);
            }
        }
        reactor.rearm(self.source(listener))
    }

    /// Makes room for another connection.
    fn close_idle(&mut self, reactor: &mut Reactor) {
        let idle = self.connections.iter().find(|(_, connection)| connection.is_idle()).map(|(number, _)| *number);
        idle.into_iter().for_each(|number| self.close(number, reactor));
    }

    fn close(&mut self, number: u64, reactor: &mut Reactor) {
        if let Some(connection) = self.connections.remove(&number) {
            reactor.unwatch(self.source(connection.stream.as_raw_fd()));
        }
    }

    /// The requests that have arrived, one of each connection. Each has to be answered.
    pub(super) fn take_requests(&mut self) -> Vec<Request> {
        let next = |(number, connection): (&u64, &mut Connection)| connection.take_request(*number);
        self.connections.iter_mut().filter_map(next).collect()
    }

    /// Sends a JSON body, or none if it is empty. Ignored if the connection is gone. Returns whether more has arrived on it.
    pub(super) fn respond(&mut self, connection: u64, status: Status, body: &str) -> bool {
        let Some(connection) = self.connections.get_mut(&connection) else { return false };
        connection.respond(status, body);
        !connection.received.is_empty()
    }

    /// Sends responses and closes finished connections.
    pub(super) fn send(&mut self, reactor: &mut Reactor) -> Result<()> {
        let (name, number) = self.feature;
        for connection in self.connections.values_mut().filter(|connection| !connection.unsent.is_empty()) {
            connection.write();
            let fd = connection.stream.as_raw_fd();
            connection.watch(Source::Feature { name, number, fd }, reactor)?;
        }
        let is_ended = |(_, connection): &(&u64, &Connection)| connection.is_ended();
        let ended: Vec<u64> = self.connections.iter().filter(is_ended).map(|(number, _)| *number).collect();
        ended.into_iter().for_each(|number| self.close(number, reactor));
        Ok(())
    }

    /// Closes everything.
    pub(super) fn end(mut self, reactor: &mut Reactor) {
        reactor.unwatch(self.source(self.listener.as_raw_fd()));
        let all: Vec<u64> = self.connections.keys().copied().collect();
        all.into_iter().for_each(|number| self.close(number, reactor));
    }
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        let (received, unsent) = (Vec::new(), Vec::new());
        Self { stream, received, unsent, has_open_request: false, is_last: false, is_disconnected: false }
    }

    fn read(&mut self) {
        let mut buffer = [0; 16 << 10];
        let most = self.received.len() + BYTES_PER_TURN;
        while self.received.len() < most {
            if self.received.len() > MAX_HEAD + MAX_BODY {
                // More than one request, while the first one is under way.
                return self.is_disconnected = true;
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return self.is_disconnected = true,
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.is_disconnected |= error.kind() != io::ErrorKind::WouldBlock,
            }
        }
    }

    fn write(&mut self) {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.unsent.clear();
                    self.is_disconnected = true;
                }
            }
        }
    }

    /// Asks for the events that it waits for. What it has not read is reported again.
    fn watch(&self, source: Source, reactor: &mut Reactor) -> Result<()> {
        reactor.watch(source, self.stream.as_raw_fd(), !self.is_disconnected, !self.unsent.is_empty())
    }

    fn is_idle(&self) -> bool {
        !self.has_open_request && self.unsent.is_empty() && self.received.is_empty()
    }

    /// Whether nothing more is to be read or written.
    fn is_ended(&self) -> bool {
        let is_sent = self.unsent.is_empty() && !self.has_open_request;
        is_sent && (self.is_disconnected || self.is_last)
    }

    fn respond(&mut self, status: Status, body: &str) {
        let close = if self.is_last { "Connection: close\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: application/json\r\n{close}Content-Length: ",
            status.code_and_reason()
        );
        self.unsent.extend_from_slice(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes());
        self.has_open_request = false;
    }

    /// The next request, unless one is under way. What is no request is answered here and ends the connection.
    fn take_request(&mut self, number: u64) -> Option<Request> {
        if self.has_open_request || self.is_last {
            return None;
        }
        match parse(&self.received) {
            Ok(None) => None,
            Ok(Some(parsed)) => {
                let body = self.received[parsed.body..parsed.end].to_vec();
                self.received.drain(..parsed.end);
                (self.has_open_request, self.is_last) = (true, parsed.is_last);
                Some(Request { connection: number, method: parsed.method, path: parsed.path, body })
            }
            Err(status) => {
                self.is_last = true;
                self.received.clear();
                self.respond(status, "");
                None
            }
        }
    }
}

/// A whole request.
#[derive(Debug, PartialEq, Eq)]
struct Parsed {
    method: String,
    path: String,
    /// Where its body begins, and where it ends.
    body: usize,
    end: usize,
    /// The connection ends after it.
    is_last: bool,
}

/// Finds the request at the beginning, if it is whole.
fn parse(bytes: &[u8]) -> std::result::Result<Option<Parsed>, Status> {
    let Some(head_end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return if bytes.len() > MAX_HEAD { Err(Status::TooLarge) } else { Ok(None) };
    };
    let head = Head::parse(&bytes[..head_end]).map_err(|_| Status::BadRequest)?;
    let length = match head.body() {
        Ok(Body::Length(length)) => usize::try_from(length).unwrap_or(usize::MAX),
        Ok(_) => return Err(Status::LengthRequired),
        Err(_) => return Err(Status::BadRequest),
    };
    let closes = |header: &Header<'_>| header.name == "connection" && header.value.eq_ignore_ascii_case("close");
    let is_last = head.version == "HTTP/1.0" || head.headers.iter().any(closes);
    let body = head_end + 4;
    if length > MAX_BODY {
        return Err(Status::TooLarge);
    }
    let parsed =
        Parsed { method: head.method.to_owned(), path: head.target.to_owned(), body, end: body + length, is_last };
    Ok((bytes.len() >= parsed.end).then_some(parsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_found_wherever_it_is_cut_and_the_next_one_is_left() {
        let text = b"POST /mcp/x HTTP/1.1\r\nHost: a\r\ncontent-length: 2\r\n\r\n{}GET / HTTP/1.1\r\n\r\n";
        let end = text.len() - b"GET / HTTP/1.1\r\n\r\n".len();
        for cut in 0..end {
            assert_eq!(parse(&text[..cut]), Ok(None), "{cut}");
        }
        let parsed = parse(text).unwrap().unwrap();
        assert_eq!((parsed.method.as_str(), parsed.path.as_str(), parsed.is_last), ("POST", "/mcp/x", false));
        assert_eq!((&text[parsed.body..parsed.end], parsed.end), (&b"{}"[..], end));
        assert!(parse(b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n").unwrap().unwrap().is_last);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for (text, status) in [
            ("\x16\x03\x01\r\n\r\n", Status::BadRequest),
            ("GET /\r\n\r\n", Status::BadRequest),
            ("GET / HTTP/2\r\n\r\n", Status::BadRequest),
            ("POST / HTTP/1.1\r\nnonsense\r\n\r\n", Status::BadRequest),
            ("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", Status::BadRequest),
            ("POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", Status::BadRequest),
            ("POST / HTTP/1.1\r\nContent-Length : 1\r\n\r\n", Status::BadRequest),
            ("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", Status::BadRequest),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", Status::LengthRequired),
            ("POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", Status::TooLarge),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(status), "{text:?}");
        }
        assert_eq!(parse(&[b'a'; MAX_HEAD + 1]), Err(Status::TooLarge));
    }
}
