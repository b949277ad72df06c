//! The server: clients come in at a socket of the same poll, say what they want in lines, and are answered. A step of the
//! loop of its own on either side of the agents' work:
//!
//! ```text
//!   handle_clients   come in, read, carry out what is asked        before keys and agents
//!   serve_clients    chunks, frames, the ends of waits, farewells   when everything of this turn has happened
//! ```
//! What a client says or leaves unread costs nobody else anything: each step does a bounded amount for each of them, and
//! what is kept for all of them is bounded.

mod client;
mod requests;
mod streams;
mod terminals;
mod turns;

use std::time::Duration;

use crate::base::error::Result;
use crate::domain::wire::{LONGEST_LINE, Response};
use crate::reactor::{Ready, Source};
use crate::repl::load::slots;
use crate::repl::{Repl, Turn};
use crate::socket::{Connection, Line, Listener};
pub(super) use client::Serving;
use client::{Client, ClientState, MOST_CLIENTS, refusal};

/// So many come in, so much is read of each, and so many of its lines are carried out in one turn.
const NEW_PER_TURN: usize = 16;
const BYTES_PER_TURN: usize = 256 * 1024;
const LINES_PER_TURN: usize = 16;
/// How often, and each time for how long, the end waits for those who have not taken their last line.
const FAREWELLS: usize = 10;
const FAREWELL_PATIENCE: Duration = Duration::from_millis(20);

impl Repl {
    /// From now on clients are let in and served in every turn, until the house is left. A hang-up of the terminal from
    /// which the program was started does not end it any more.
    pub fn serve(&mut self, listener: Listener) {
        self.slots = slots(self.core.config.working_limit, MOST_CLIENTS as u64);
        self.serving.listener = Some(listener);
    }

    /// How many clients are there.
    pub fn clients(&self) -> usize {
        self.serving.clients.len()
    }

    /// Lets clients in, reads what they say and carries it out.
    pub(super) fn handle_clients(&mut self, ready: &[Ready]) -> Result<Turn> {
        self.let_clients_in(ready);
        for one in ready {
            let Source::Client(number) = one.source else { continue };
            let Some(client) = self.serving.clients.get_mut(&number) else { continue };
            client.connection.on_readable();
            client.connection.flush();
        }
        for number in self.client_numbers() {
            if let Some(client) = self.serving.clients.get_mut(&number) {
                client.read(BYTES_PER_TURN);
            }
            if self.hear(number) == Turn::Exit {
                return Ok(Turn::Exit);
            }
        }
        Ok(Turn::Continue)
    }

    /// Tells clients what has happened, and lets go of those who are done.
    pub(super) fn serve_clients(&mut self) {
        for number in self.client_numbers() {
            match self.serving.clients.get(&number).map(|client| &client.state) {
                Some(ClientState::Reading { .. }) => self.tell_chunks(number),
                Some(ClientState::Waiting { .. }) => self.tell_rest(number),
                Some(ClientState::Turn(_)) => self.tell_turn(number),
                Some(ClientState::Terminal(_)) => self.tell_frames(number),
                Some(ClientState::Nothing) | None => {}
            }
            if self.serving.clients.get(&number).is_some_and(Client::is_over) && !self.has_typed_more(number) {
                self.drop_client(number);
            }
        }
        self.limit_what_is_kept();
    }

    /// Whether something can be done for clients without news.
    pub(super) fn has_work_for_clients(&self) -> bool {
        self.serving.has_leftover()
            || self.serving.clients.iter().any(|(number, client)| self.has_to_tell_client(*number, client))
    }

    fn has_to_tell_client(&self, number: u64, client: &Client) -> bool {
        match &client.state {
            ClientState::Nothing => false,
            ClientState::Reading { viewer, .. } => client.connection.is_ready() && self.has_unread(*viewer),
            ClientState::Waiting { agent_id, .. } => self.core.is_at_rest(*agent_id),
            ClientState::Turn(turn) => {
                self.has_to_do_for_turn(number, turn) || client.connection.is_ready() && self.has_to_tell_of(turn)
            }
            ClientState::Terminal(at) => self.has_frame(client, *at),
        }
    }

    fn client_numbers(&self) -> Vec<u64> {
        self.serving.clients.keys().copied().collect()
    }

    fn let_clients_in(&mut self, ready: &[Ready]) {
        let is_told = ready.iter().any(|one| one.source == Source::Listener);
        if !is_told && !self.serving.has_more {
            return;
        }
        self.serving.has_more = true;
        for _ in 0..NEW_PER_TURN {
            let Some(listener) = &self.serving.listener else { return };
            match listener.accept().map(|stream| stream.map(|stream| Connection::new(stream, LONGEST_LINE))) {
                Ok(Some(Ok(connection))) => self.let_in(connection),
                Ok(Some(Err(_))) => {}
                Ok(None) => {
                    self.serving.has_more = false;
                    return;
                }
                // No descriptors: the client waits until the next one knocks, or until one of these is free.
                Err(_) => {
                    self.serving.has_more = self.send_most_silent_away();
                    return;
                }
            }
        }
    }

    fn let_in(&mut self, mut connection: Connection) {
        if self.serving.clients.len() >= MOST_CLIENTS && !self.send_most_silent_away() {
            let words = format!("{MOST_CLIENTS} clients are at work here already: try again later");
            connection.queue(&refusal(&words).to_line());
            connection.flush();
            return;
        }
        self.serving.add(connection);
    }

    /// Makes room for one more. Whether there was somebody for whom nothing is under way.
    fn send_most_silent_away(&mut self) -> bool {
        let Some(number) = self.serving.most_silent() else { return false };
        self.send_away(number, "too many clients: of all that did nothing this one was silent longest");
        true
    }

    /// A client goes at once, whether or not it takes the reason.
    fn send_away(&mut self, number: u64, words: &str) {
        if let Some(client) = self.serving.clients.get_mut(&number) {
            client.dismiss(&refusal(words));
        }
        self.drop_client(number);
    }

    fn limit_what_is_kept(&mut self) {
        while let Some(number) = self.serving.greediest(&self.terminals) {
            self.send_away(number, "too much was said at once, or too little read: no more can be kept");
        }
    }

    /// Carries out what a client has said, a bounded number of lines.
    fn hear(&mut self, number: u64) -> Turn {
        for _ in 0..LINES_PER_TURN {
            if self.is_ahead(number) {
                break;
            }
            let Some(client) = self.serving.clients.get_mut(&number).filter(|client| client.may_speak()) else { break };
            match client.connection.next_line() {
                Line::None => break,
                Line::TooLong => {
                    let words = format!("a line has more than {LONGEST_LINE} bytes: nothing behind it is understood");
                    client.dismiss(&refusal(&words));
                    self.end_what_is_under_way(number);
                }
                Line::Whole(line) => {
                    self.serving.on_heard(number);
                    if self.on_line(number, &line) == Turn::Exit {
                        return Turn::Exit;
                    }
                }
            }
        }
        Turn::Continue
    }

    /// Forgets a client and what was under way for it. Agents do not notice.
    fn drop_client(&mut self, number: u64) {
        self.end_what_is_under_way(number);
        self.core.reactor.unwatch(Source::Client(number));
        self.serving.clients.remove(&number);
        // Its descriptor may be the one that somebody waits for.
        self.serving.has_more = self.serving.is_open();
    }

    fn end_what_is_under_way(&mut self, number: u64) {
        let Some(client) = self.serving.clients.get_mut(&number) else { return };
        match std::mem::replace(&mut client.state, ClientState::Nothing) {
            ClientState::Reading { viewer, .. } => self.detach(viewer),
            ClientState::Turn(turn) => self.leave_turn(&turn),
            ClientState::Terminal(at) => self.let_terminal_go(at),
            ClientState::Nothing | ClientState::Waiting { .. } => {}
        }
    }

    /// The house is left: everybody is told what there is to tell, then that it is over. Connections are closed with the
    /// house itself, behind the store: then the next one can hold it.
    ///
    /// # Errors
    /// When the kernel refuses to poll.
    pub(super) fn dismiss_clients(&mut self) -> Result<()> {
        self.serve_clients();
        for number in self.client_numbers() {
            let is_sitting =
                self.serving.clients.get(&number).is_some_and(|one| matches!(one.state, ClientState::Terminal(_)));
            let is_idle =
                self.serving.clients.get(&number).is_some_and(|one| matches!(one.state, ClientState::Nothing));
            let last = if is_sitting { self.farewell() } else { refusal("the server has ended") };
            self.end_what_is_under_way(number);
            if let Some(client) = self.serving.clients.get_mut(&number).filter(|_| !is_idle) {
                client.dismiss(&last);
            }
        }
        for _ in 0..FAREWELLS {
            if self.serving.clients.values().all(|client| client.connection.is_ready()) {
                break;
            }
            self.serving.watch(&mut self.core.reactor)?;
            self.core.reactor.wait(Some(FAREWELL_PATIENCE), &mut Vec::new())?;
            self.serving.clients.values_mut().for_each(|client| client.connection.flush());
        }
        self.core.reactor.unwatch(Source::Listener);
        self.serving.listener = None;
        Ok(())
    }

    /// The last word to terminals when the server ends. The way back is for the client to tell: it knows how it came.
    fn farewell(&self) -> Response {
        let agents = crate::base::text::counted(self.core.roster.len(), "agent is", "agents are");
        Response::End(format!("the server has ended: {agents} kept"))
    }
}
