//! The connections of this program to the loop: one for every request that is under way there.

use std::collections::BTreeMap;
use std::os::fd::RawFd;

use serde_json::Value;

use super::host::Host;
use crate::base::error::{Error, Result};
use crate::cli::client::request_line;
use crate::domain::mcp::ClientServer;
use crate::domain::wire::{Request, Response};
use crate::socket::{Connection, Line};

/// More connections are refused: a server has a limit for all its clients.
const MOST_LINKS: usize = 48;
const BYTES_PER_TURN: usize = 256 * 1024;

/// What the responses of a connection are for. `id` is that of a request of the editor.
#[derive(Debug, Clone, PartialEq)]
pub enum Purpose {
    /// A session is created, with these MCP servers of the editor.
    New { id: Value, servers: Vec<ClientServer> },
    /// A session is taken up; perhaps its conversation is sent to the editor.
    TakeUp { id: Value, session: String, cwd: String, is_replayed: bool, servers: Vec<ClientServer> },
    /// Its conversation so far.
    Replay { id: Value, session: String },
    /// Its conversation from now on.
    Follow { session: String },
    /// Its commands; the servers of the editor last as long as this connection.
    Commands { session: String },
    /// An image of its prompt is stored.
    Image { session: String },
    /// Its prompt is under way.
    Turn { session: String },
    /// Its title, mode and use of the context after a turn.
    Refresh { session: String },
    /// A mode is set.
    Mode { id: Value, session: String, mode: String },
    /// The conversations from this one on are listed.
    List { id: Value, start: usize },
    /// The open questions of all agents.
    Questions,
    /// An answer to the one with this id.
    Answer { question: String },
    /// Nobody waits for the response.
    Aside,
}

struct Link {
    connection: Connection,
    purpose: Purpose,
}

/// What a connection brought.
pub enum News {
    Response(Response),
    /// It ended without one.
    Lost,
}

#[derive(Default)]
pub struct Links {
    all: BTreeMap<u64, Link>,
    count: u64,
}

impl Links {
    /// Sends a request over a new connection.
    ///
    /// # Errors
    /// The request is too long, too many are under way, or the server has ended.
    pub fn send(&mut self, host: &mut Host, request: &Request, purpose: Purpose) -> Result<u64> {
        let line = request_line(request)?;
        if self.all.len() >= MOST_LINKS {
            return Err(Error::usage("too many requests and sessions at once: close some sessions"));
        }
        let mut connection = Connection::new(host.connect()?, usize::MAX)?;
        connection.queue(&line);
        connection.flush();
        self.count += 1;
        self.all.insert(self.count, Link { connection, purpose });
        Ok(self.count)
    }

    /// Sends another request over a connection that is open.
    pub fn send_more(&mut self, number: u64, request: &Request) {
        if let Some(link) = self.all.get_mut(&number) {
            link.connection.queue(&request.to_line());
            link.connection.flush();
        }
    }

    pub fn purpose(&self, number: u64) -> Option<&Purpose> {
        self.all.get(&number).map(|link| &link.purpose)
    }

    /// All connections.
    pub fn all(&self) -> Vec<(u64, Purpose)> {
        self.all.iter().map(|(number, link)| (*number, link.purpose.clone())).collect()
    }

    /// Nobody waits for what this connection brings.
    pub fn disown(&mut self, number: u64) {
        if let Some(link) = self.all.get_mut(&number) {
            link.purpose = Purpose::Aside;
        }
    }

    /// Closes a connection.
    ///
    /// # Errors
    /// The poll fails.
    pub fn close(&mut self, host: &mut Host, number: u64) -> Result<()> {
        match self.all.remove(&number) {
            Some(link) => host.watch(link.connection.fd(), false, false),
            None => Ok(()),
        }
    }

    /// Polls for what can be read, if `reads`, and for what waits to be written.
    ///
    /// # Errors
    /// The poll fails.
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

    /// The next response of any connection; questions last, so that what happened before them is shown before them.
    pub fn next(&mut self) -> Option<(u64, News)> {
        self.next_of(|purpose| *purpose != Purpose::Questions).or_else(|| self.next_of(|_| true))
    }

    fn next_of(&mut self, is_meant: impl Fn(&Purpose) -> bool) -> Option<(u64, News)> {
        for (number, link) in self.all.iter_mut().filter(|(_, link)| is_meant(&link.purpose)) {
            match link.connection.next_line() {
                Line::Whole(line) => match Response::read(&line) {
                    Ok(response) => return Some((*number, News::Response(response))),
                    Err(_) => return Some((*number, News::Lost)),
                },
                Line::TooLong => return Some((*number, News::Lost)),
                Line::None if link.connection.has_ended() => return Some((*number, News::Lost)),
                Line::None => {}
            }
        }
        None
    }

    pub fn is_waiting(&self) -> bool {
        let stays = |purpose: &Purpose| {
            matches!(purpose, Purpose::Follow { .. } | Purpose::Commands { .. } | Purpose::Questions)
        };
        self.all.values().any(|link| !stays(&link.purpose))
    }
}
