//! One client: its connection, and its current request.

use super::runs::ClientRun;
use super::streams::{Awaited, Commands};
use super::turns::ClientTurn;
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, ClientId, TerminalId};
use crate::domain::wire::{Request, Response};
use crate::reactor::{Reactor, Source};
use crate::socket::Connection;
use crate::team::ViewerId;

/// Requests of one client that are carried out in one turn of the loop.
const REQUESTS_PER_TURN: usize = 16;

pub(in crate::repl) struct Client {
    pub(in crate::repl) connection: Connection,
    pub(super) state: ClientState,
    /// The number of its newest request among those of all clients.
    pub(super) last_request: u64,
    /// Requests that it may still make in this turn of the loop.
    requests_left: usize,
    /// Whether the poll was asked to report that it can be written to; `None`: the poll was asked for nothing yet.
    watched: Option<bool>,
    /// It is this process, which hosts the loop.
    pub(super) is_own: bool,
    /// The agent whose requests are counted from its first turn until the client leaves. Only for this process: others
    /// share their agents.
    pub(super) counted: Option<AgentId>,
    /// Nothing more is read from it, and it is removed when it has taken its last response.
    pub(super) is_closing: bool,
}

/// The current request of a client.
pub(super) enum ClientState {
    /// It may make a request.
    Idle,
    /// It receives the chunks of an agent before this number.
    Logs { viewer: ViewerId, until: u64 },
    /// It is sent the open questions whenever they are not these, which it has.
    Questions(Option<Vec<(AgentId, u64)>>),
    /// It is sent the commands of an agent whenever they are not these, which it has. Servers that it has declared end with
    /// this state.
    Commands { agent: AgentId, sent: Option<Commands> },
    /// It gets a response when its job has ended.
    Job(Option<ClientRun>),
    /// It gets a response when this is so, or at this time.
    /// `told`: the number of the last question that it was sent, if it is sent any.
    Wait { awaited: Awaited, until: Option<Moment>, told: Option<Option<u64>> },
    /// It is sent the chunks of a turn that it has asked for.
    Turn(ClientTurn),
    /// It gets this response when the changes up to a ticket are on the disk.
    Syncing { ticket: u64, response: Response },
    /// A terminal, the bytes of keys that are buffered for it, and whether the client can open an editor and a pager
    /// and read the clipboard.
    Terminal {
        terminal: TerminalId,
        key_bytes: usize,
        /// No more keys are taken for now.
        is_full: bool,
        can_edit: bool,
        can_view: bool,
        can_paste: bool,
    },
}

impl Client {
    pub(super) fn new(connection: Connection, last_request: u64, is_own: bool) -> Self {
        let state = ClientState::Idle;
        Self {
            connection,
            state,
            last_request,
            requests_left: 0,
            watched: None,
            is_own,
            counted: None,
            is_closing: false,
        }
    }

    /// Asks the poll to report new bytes and, while the client is slow to read, that it can be written to.
    pub(super) fn watch(&mut self, id: ClientId, reactor: &mut Reactor) -> Result<()> {
        let is_slow = !self.connection.is_ready();
        if self.watched != Some(is_slow) {
            reactor.watch(Source::Client(id.0), self.connection.fd(), true, is_slow)?;
            self.watched = Some(is_slow);
        }
        Ok(())
    }

    /// A turn of the loop begins: reads this many bytes.
    pub(super) fn read(&mut self, most: usize) {
        self.requests_left = REQUESTS_PER_TURN;
        if !self.is_closing {
            self.connection.read(most);
        }
    }

    pub(super) fn count_request(&mut self, number: u64) {
        self.last_request = number;
        self.requests_left -= 1;
    }

    /// Whether its next request may be read now.
    pub(super) fn may_request(&self) -> bool {
        self.requests_left > 0 && self.takes_requests()
    }

    /// A client with a running request, or with a response that it has not read, waits; but a terminal that does not
    /// read still sends keys, and a turn or run can always be cut.
    fn takes_requests(&self) -> bool {
        match self.state {
            _ if self.is_closing => false,
            ClientState::Idle => self.connection.is_ready(),
            ClientState::Terminal { .. } | ClientState::Turn(_) | ClientState::Job(Some(_)) => true,
            ClientState::Logs { .. }
            | ClientState::Wait { .. }
            | ClientState::Questions(_)
            | ClientState::Syncing { .. }
            | ClientState::Commands { .. }
            | ClientState::Job(None) => false,
        }
    }

    /// Refuses a request that does not fit the current one.
    pub(super) fn check(&self, request: Request) -> Result<Request> {
        let is_for_terminal = matches!(
            request,
            Request::Keys { .. }
                | Request::Size { .. }
                | Request::Redraw
                | Request::Edited { .. }
                | Request::Pasted { .. }
        );
        let message = match self.state {
            ClientState::Terminal { .. } if !is_for_terminal => {
                "a terminal is attached to this connection: use another connection for other requests"
            }
            ClientState::Turn(_) if !matches!(request, Request::Cut) => {
                "a turn is under way on this connection: only \"cut\" is possible"
            }
            ClientState::Job(_) if !matches!(request, Request::Cut) => {
                "a run is under way on this connection: only \"cut\" is possible"
            }
            ClientState::Idle if is_for_terminal => "no terminal is attached to this connection: send \"attach\" first",
            _ => return Ok(request),
        };
        Err(Error::new(ErrorKind::Usage, message))
    }

    pub(in crate::repl) fn send(&mut self, response: &Response) {
        self.connection.queue(&response.to_line());
        self.connection.flush();
    }

    /// Terminals do not wait for responses: one that does not read gets no errors.
    pub(super) fn send_if_ready(&mut self, response: &Response) {
        if self.connection.is_ready() {
            self.send(response);
        }
    }

    pub(super) fn close(&mut self, response: &Response) {
        self.send(response);
        self.is_closing = true;
    }

    pub(super) fn terminal(&self) -> Option<TerminalId> {
        if let ClientState::Terminal { terminal, .. } = self.state { Some(terminal) } else { None }
    }

    /// Whether the client can open a pager, or else an editor.
    pub(in crate::repl) fn can_open(&self, is_pager: bool) -> bool {
        match self.state {
            ClientState::Terminal { can_view, .. } if is_pager => can_view,
            ClientState::Terminal { can_edit, .. } => can_edit,
            _ => false,
        }
    }

    /// Whether the client can read images from the clipboard.
    pub(in crate::repl) fn can_paste(&self) -> bool {
        matches!(self.state, ClientState::Terminal { can_paste: true, .. })
    }

    /// Notes how many bytes of keys are buffered for its terminal.
    pub(in crate::repl) fn set_key_bytes(&mut self, bytes: usize, is_now_full: bool) {
        if let ClientState::Terminal { key_bytes, is_full, .. } = &mut self.state {
            (*key_bytes, *is_full) = (bytes, is_now_full);
        }
    }

    /// Bytes that are buffered for it.
    pub(super) fn buffered_bytes(&self) -> usize {
        let keys = if let ClientState::Terminal { key_bytes, .. } = self.state { key_bytes } else { 0 };
        self.connection.buffered_bytes() + keys
    }

    pub(super) fn run(&self) -> Option<&ClientRun> {
        if let ClientState::Job(run) = &self.state { run.as_ref() } else { None }
    }

    pub(super) fn run_mut(&mut self) -> Option<&mut ClientRun> {
        if let ClientState::Job(run) = &mut self.state { run.as_mut() } else { None }
    }

    /// Whether it has closed the connection, and every line that it had sent is read.
    pub(in crate::repl) fn has_left(&self) -> bool {
        self.connection.has_ended() && !self.connection.has_line()
    }

    /// Whether nothing is left to do for it. An attached terminal is done when its last keys have been handled.
    pub(super) fn is_done(&self) -> bool {
        match self.state {
            _ if self.is_closing => self.connection.is_ready(),
            ClientState::Idle => self.has_left() && self.connection.is_ready(),
            ClientState::Terminal { .. } => false,
            ClientState::Logs { .. }
            | ClientState::Wait { .. }
            | ClientState::Questions(_)
            | ClientState::Syncing { .. }
            | ClientState::Commands { .. }
            | ClientState::Job(_)
            | ClientState::Turn(_) => self.connection.has_ended(),
        }
    }

    /// Whether something can be done for it at once.
    pub(super) fn has_work(&self) -> bool {
        let is_full = matches!(self.state, ClientState::Terminal { is_full: true, .. });
        let has_request = self.takes_requests() && self.connection.has_line() && !is_full;
        self.is_done() || has_request || !self.is_closing && self.connection.can_read()
    }
}
