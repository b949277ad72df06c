//! How many clients there may be, and how much is buffered for them.

use std::os::unix::net::UnixStream;

use super::client::{Client, ClientState};
use super::{Server, error_response};
use crate::base::error::Result;
use crate::base::id::ClientId;
use crate::domain::wire::LONGEST_LINE;
use crate::reactor::Source;
use crate::repl::core::{Core, limits};
use crate::repl::timeout::ACCEPT_PAUSE;
use crate::socket::Connection;

/// Clients that may be connected at once. For one more, the idle client with the oldest request is evicted.
pub(in crate::repl) const MOST_CLIENTS: usize = 64;
const ACCEPTED_PER_TURN: usize = 16;
/// Bytes that may be buffered for all clients together: some of the longest lines. Beyond that, the client with the most
/// is evicted.
const MOST_BUFFERED: usize = 64 << 20;

impl Server {
    pub(super) fn accept(&mut self, core: &mut Core) {
        self.pause = self.pause.filter(|until| core.now() < *until);
        if !self.may_accept_now() {
            return;
        }
        for _ in 0..ACCEPTED_PER_TURN {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok(Some((stream, may_request))) => match Connection::new(stream, LONGEST_LINE) {
                    Ok(connection) if may_request => self.add(core, connection, false),
                    Ok(connection) => refuse(connection, "a command that a tool has started cannot use the server"),
                    Err(_) => {}
                },
                Ok(None) => {
                    self.may_accept = false;
                    return;
                }
                // No descriptors: the client waits until an evicted one has left, or until others are closed, which no
                // event reports.
                Err(_) => {
                    if !self.evict_idle(core) {
                        self.pause = Some(core.now() + ACCEPT_PAUSE);
                    }
                    return;
                }
            }
        }
    }

    /// A client in this process.
    pub(in crate::repl) fn connect(&mut self, core: &mut Core, stream: UnixStream) -> Result<()> {
        let connection = Connection::new(stream, LONGEST_LINE)?;
        self.add(core, connection, true);
        Ok(())
    }

    /// A connection may wait, and descriptors may be free.
    pub(super) fn may_accept_now(&self) -> bool {
        self.may_accept && self.pause.is_none()
    }

    fn add(&mut self, core: &mut Core, connection: Connection, is_own: bool) {
        if self.clients.len() >= MOST_CLIENTS && !self.evict_idle(core) {
            let message = format!("{MOST_CLIENTS} clients are connected and none is idle: try again later");
            return refuse(connection, &message);
        }
        self.client_count += 1;
        self.request_count += 1;
        self.clients.insert(ClientId(self.client_count), Client::new(connection, self.request_count, is_own));
    }

    /// Evicts a client that is closing anyway, or else the idle one with the oldest request. Returns whether there was one.
    fn evict_idle(&mut self, core: &mut Core) -> bool {
        let is_idle = |client: &Client| client.is_closing || matches!(client.state, ClientState::Idle);
        let idle = self.clients.iter().filter(|(_, client)| is_idle(client));
        let Some(id) = idle.min_by_key(|(_, client)| (!client.is_closing, client.last_request)).map(|(id, _)| *id)
        else {
            return false;
        };
        self.evict(core, id, "too many clients are connected: this one was idle for the longest time");
        true
    }

    /// Evicts the client for which most is buffered, while too much is.
    pub(super) fn limit_memory(&mut self, core: &mut Core) {
        while self.clients.values().map(Client::buffered_bytes).sum::<usize>() > MOST_BUFFERED {
            let Some(id) = self.clients.iter().max_by_key(|(_, client)| client.buffered_bytes()).map(|(id, _)| *id)
            else {
                return;
            };
            self.evict(core, id, "too much data is buffered for this client: send less at once, or read more");
        }
    }

    /// Removes a client at once, whether or not it takes the reason.
    fn evict(&mut self, core: &mut Core, id: ClientId, reason: &str) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.close(&error_response(reason));
        }
        self.remove(core, id);
    }

    pub(in crate::repl) fn remove(&mut self, core: &mut Core, id: ClientId) {
        self.set_state(core, id, ClientState::Idle);
        core.reactor().unwatch(Source::Client(id.0));
        let counted = self.clients.remove(&id).and_then(|client| client.counted);
        counted.map(|agent| limits::end_turn(core, agent));
        // A client may wait for a descriptor that is free now.
        self.may_accept = self.is_listening();
        self.pause = None;
    }
}

/// Closes a connection with this message.
fn refuse(mut connection: Connection, message: &str) {
    connection.queue(&error_response(message).to_line());
    connection.flush();
}
