//! The connection of a run to the server in which its agents work, in a poll with the streams of this process.

use std::os::fd::RawFd;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::client::Client;
use crate::domain::wire::Response;
use crate::reactor::{Reactor, Source};
use crate::socket::{Connection, Line};

const SERVER: Source = Source::Client(0);
const BYTES_PER_TURN: usize = 1 << 20;

pub struct ServerConnection {
    connection: Connection,
    reactor: Reactor,
    /// Other descriptors that the poll reported.
    ready: Vec<RawFd>,
}

impl ServerConnection {
    pub fn new(client: Client) -> Result<Self> {
        // A chunk may be longer than the longest request.
        let connection = Connection::new(client.into_stream(), usize::MAX)?;
        Ok(Self { connection, reactor: Reactor::new()?, ready: Vec::new() })
    }

    /// Polls another descriptor until it was reported once.
    pub fn watch(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        self.reactor.watch(Source::External(fd), fd, readable, writable)
    }

    /// The other descriptors that were reported.
    pub fn take_ready(&mut self) -> Vec<RawFd> {
        std::mem::take(&mut self.ready)
    }

    /// Waits no longer than `limit` for something to read or write, and does that.
    pub fn turn(&mut self, limit: Option<Duration>) -> Result<()> {
        // A connection that was closed would be reported by every poll.
        let is_open = !self.connection.has_ended();
        self.reactor.watch(SERVER, self.connection.fd(), is_open, is_open && !self.connection.is_ready())?;
        let has_more = self.connection.has_line() || self.connection.can_read();
        let mut ready = Vec::new();
        self.reactor.wait(if has_more { Some(Duration::ZERO) } else { limit }, &mut ready)?;
        for event in ready {
            match event.source {
                SERVER => self.connection.on_readable(),
                Source::External(fd) => self.ready.push(fd),
                _ => {}
            }
        }
        self.connection.flush();
        self.connection.read(BYTES_PER_TURN);
        Ok(())
    }

    pub fn write(&mut self, line: &str) {
        self.connection.queue(line);
        self.connection.flush();
    }

    /// The next line that has arrived, with the response in it.
    pub fn next(&mut self) -> Result<Option<(Vec<u8>, Response)>> {
        let Line::Whole(line) = self.connection.next_line() else { return Ok(None) };
        match Response::read(&line) {
            Ok(response) => Ok(Some((line, response))),
            // Not of kind `protocol`, which is about a provider.
            Err(error) => Err(Error::new(ErrorKind::System, error.message)),
        }
    }

    /// Whether the server has closed the connection.
    pub fn has_ended(&self) -> bool {
        self.connection.has_ended()
    }
}
