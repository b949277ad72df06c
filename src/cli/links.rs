//! The connections of this program to the loop: one for every open request, with its purpose.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::time::Duration;

use super::host::Host;
use crate::base::error::{Error, Result};
use crate::cli::client::request_line;
use crate::domain::wire::{Request, Response};
use crate::repl::Turn;
use crate::socket::{Connection, Line};

/// More connections are refused: a server has a limit for all its clients.
const MOST_LINKS: usize = 48;
const BYTES_PER_TURN: usize = 256 * 1024;

struct Link<P> {
    connection: Connection,
    purpose: P,
}

/// What a connection brought.
pub enum News {
    /// With its line.
    Response(Response, Vec<u8>),
    /// It ended without one.
    Lost,
}

pub struct Links<P> {
    all: BTreeMap<u64, Link<P>>,
    count: u64,
}

impl<P> Default for Links<P> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), count: 0 }
    }
}

impl<P: Clone> Links<P> {
    /// Sends a request over a new connection.
    pub fn send(&mut self, host: &mut Host, request: &Request, purpose: P) -> Result<u64> {
        let line = request_line(request)?;
        if self.all.len() >= MOST_LINKS {
            return Err(Error::usage("too many requests at once: wait for the others, or close some sessions"));
        }
        let mut connection = Connection::new(host.connect()?, usize::MAX)?;
        connection.queue(&line);
        connection.flush();
        self.count += 1;
        self.all.insert(self.count, Link { connection, purpose });
        Ok(self.count)
    }

    /// Sends another request over a connection that is open.
    pub fn send_more(&mut self, number: u64, request: &Request) -> Result<()> {
        let line = request_line(request)?;
        if let Some(link) = self.all.get_mut(&number) {
            link.connection.queue(&line);
            link.connection.flush();
        }
        Ok(())
    }

    /// Interrupts what was requested over a connection.
    pub fn cut(&mut self, number: u64) {
        // The request is short enough.
        let _ = self.send_more(number, &Request::Cut);
    }

    /// Whether everything that was sent over a connection is on its way.
    pub fn is_ready(&self, number: u64) -> bool {
        self.all.get(&number).is_some_and(|link| link.connection.is_ready())
    }

    pub fn purpose(&self, number: u64) -> Option<&P> {
        self.all.get(&number).map(|link| &link.purpose)
    }

    /// All connections.
    pub fn all(&self) -> Vec<(u64, P)> {
        self.all.iter().map(|(number, link)| (*number, link.purpose.clone())).collect()
    }

    pub fn set_purpose(&mut self, number: u64, purpose: P) {
        if let Some(link) = self.all.get_mut(&number) {
            link.purpose = purpose;
        }
    }

    /// Closes a connection.
    pub fn close(&mut self, host: &mut Host, number: u64) -> Result<()> {
        match self.all.remove(&number) {
            Some(link) => host.watch(link.connection.fd(), false, false),
            None => Ok(()),
        }
    }

    /// Polls for what can be read, if `reads`, and for what waits to be written.
    pub fn watch(&self, host: &mut Host, reads: bool) -> Result<()> {
        self.all.values().try_for_each(|link| {
            let is_open = !link.connection.has_ended();
            host.watch(link.connection.fd(), reads && is_open, is_open && !link.connection.is_ready())
        })
    }

    pub fn on_ready(&mut self, fd: RawFd) {
        if let Some(link) = self.all.values_mut().find(|link| link.connection.fd() == fd) {
            link.connection.on_readable();
            link.connection.flush();
        }
    }

    /// Reads what has arrived.
    pub fn read(&mut self) {
        self.all.values_mut().for_each(|link| link.connection.read(BYTES_PER_TURN));
    }

    /// Whether something can be read without a poll.
    pub fn has_more(&self) -> bool {
        self.all.values().any(|link| link.connection.has_line() || link.connection.can_read())
    }

    /// One turn of the loop, in which the connections are read. Also returns the reported descriptors, including those
    /// that the program polls itself.
    pub fn turn(&mut self, host: &mut Host, limit: Option<Duration>) -> Result<(Turn, Vec<RawFd>)> {
        // What a loop of this process sends is read below, without another poll.
        self.watch(host, !host.is_local())?;
        let turn = host.turn(if self.has_more() { Some(Duration::ZERO) } else { limit })?;
        let ready = host.take_ready();
        if host.is_local() {
            self.all.values_mut().for_each(|link| link.connection.on_readable());
        }
        ready.iter().for_each(|fd| self.on_ready(*fd));
        self.read();
        Ok((turn, ready))
    }

    /// The next response of any connection; those whose purpose is `last` are returned after all others.
    pub fn next(&mut self, last: impl Fn(&P) -> bool) -> Option<(u64, News)> {
        self.next_of(|purpose| !last(purpose)).or_else(|| self.next_of(last))
    }

    fn next_of(&mut self, is_meant: impl Fn(&P) -> bool) -> Option<(u64, News)> {
        for (number, link) in self.all.iter_mut().filter(|(_, link)| is_meant(&link.purpose)) {
            match link.connection.next_line() {
                Line::Whole(line) => match Response::read(&line) {
                    Ok(response) => return Some((*number, News::Response(response, line))),
                    Err(_) => return Some((*number, News::Lost)),
                },
                Line::TooLong => return Some((*number, News::Lost)),
                Line::None if link.connection.has_ended() => return Some((*number, News::Lost)),
                Line::None => {}
            }
        }
        None
    }
}
