//! One client of the server and all of them: their numbers, who may be heard, who has to go. What they ask for is
//! elsewhere.

use std::collections::BTreeMap;

use super::turns::ClientTurn;
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, TerminalId};
use crate::domain::wire::Response;
use crate::reactor::{Reactor, Source};
use crate::repl::terminals::Terminals;
use crate::repl::{Terminal, ViewerId};
use crate::socket::{Connection, Listener};

/// So many clients may be there at once. For one more, the one goes that has been silent longest.
pub(super) const MOST_CLIENTS: usize = 64;
/// So many bytes may all clients together make us keep: some of the longest lines and what is behind them. Beyond that,
/// the one goes for which most is kept.
const MOST_KEPT: usize = 64 << 20;

/// One client.
pub(super) struct Client {
    pub connection: Connection,
    pub state: ClientState,
    /// When it last said something, as a count of all that was said.
    heard_at: u64,
    /// What the poll was asked for: also to tell when it takes more. None: nothing yet.
    watched: Option<bool>,
    /// Nothing is read from it any more; it goes when it has taken its last line.
    is_dismissed: bool,
}

/// What is under way for a client.
pub(super) enum ClientState {
    /// Nothing: it may ask for something.
    Nothing,
    /// It is told what an agent says.
    Reading {
        /// Its place.
        viewer: ViewerId,
        /// The number of the chunk before which it ends.
        until: u64,
    },
    /// It is answered when an agent is at rest.
    Waiting {
        /// For whom.
        agent_id: AgentId,
        /// And no longer than until then.
        until: Option<Moment>,
    },
    /// It is told what comes of its text.
    Turn(ClientTurn),
    /// A terminal.
    Terminal(TerminalId),
}

impl ClientState {
    /// Who reads for it, and the number of the chunk before which that ends.
    pub fn reading(&self) -> Option<(ViewerId, u64)> {
        match self {
            Self::Reading { viewer, until } => Some((*viewer, *until)),
            Self::Turn(turn) => turn.reading(),
            Self::Nothing | Self::Waiting { .. } | Self::Terminal(_) => None,
        }
    }
}

/// The socket and everybody who came in.
#[derive(Default)]
pub(in crate::repl) struct Serving {
    pub(super) listener: Option<Listener>,
    pub(super) clients: BTreeMap<u64, Client>,
    /// How many have ever come.
    count: u64,
    /// How much has ever been said.
    said: u64,
    /// More may wait to come in, and no poll will tell of it.
    pub(super) has_more: bool,
    /// At whom the last terminal looked that went.
    pub(super) last_focus: Option<AgentId>,
}

impl Client {
    /// Queues a line, and sends what it takes of it.
    pub fn tell(&mut self, told: &Response) {
        self.connection.queue(&told.to_line());
        self.connection.flush();
    }

    /// Its last line; then it goes.
    pub fn dismiss(&mut self, told: &Response) {
        self.tell(told);
        self.is_dismissed = true;
    }

    /// Whether the next line that it has said may be looked at. One whose request is under way, or who has not taken its
    /// last answer, waits; but keys are heard from a terminal that takes nothing, and so is whoever wants a turn cut.
    pub fn may_speak(&self) -> bool {
        match self.state {
            _ if self.is_dismissed => false,
            ClientState::Nothing => self.connection.is_ready(),
            ClientState::Terminal(_) | ClientState::Turn(_) => true,
            ClientState::Reading { .. } | ClientState::Waiting { .. } => false,
        }
    }

    /// Whether there is nothing more to be done for it.
    pub fn is_over(&self) -> bool {
        let is_heard_out = !self.connection.has_line() && self.connection.is_ready();
        match self.state {
            _ if self.is_dismissed => self.connection.is_ready(),
            _ if !self.connection.has_ended() => false,
            ClientState::Nothing => is_heard_out,
            ClientState::Terminal(_) => !self.connection.has_line(),
            ClientState::Reading { .. } | ClientState::Waiting { .. } | ClientState::Turn(_) => true,
        }
    }

    /// Whether something can be done for it without news.
    fn has_leftover(&self) -> bool {
        let is_unheard = self.may_speak() && self.connection.has_line();
        self.is_over() || is_unheard || !self.is_dismissed && self.connection.wants_to_read()
    }

    /// Reads so many bytes; nothing from one who is going.
    pub fn read(&mut self, most: usize) {
        if !self.is_dismissed {
            self.connection.read(most);
        }
    }
}

impl Serving {
    pub fn is_open(&self) -> bool {
        self.listener.is_some()
    }

    pub fn next_deadline(&self) -> Option<Moment> {
        let until = |client: &Client| if let ClientState::Waiting { until, .. } = client.state { until } else { None };
        self.clients.values().filter_map(until).min()
    }

    pub(super) fn has_leftover(&self) -> bool {
        self.has_more || self.clients.values().any(Client::has_leftover)
    }

    pub(super) fn add(&mut self, connection: Connection) {
        self.count += 1;
        self.said += 1;
        let heard_at = self.said;
        let client = Client { connection, state: ClientState::Nothing, heard_at, watched: None, is_dismissed: false };
        self.clients.insert(self.count, client);
    }

    /// A client has said something.
    pub(super) fn on_heard(&mut self, number: u64) {
        self.said += 1;
        let said = self.said;
        self.clients.entry(number).and_modify(|client| client.heard_at = said);
    }

    /// Asks the poll for what is to be known: that they say something and, of those who are slow, that they take more.
    pub fn watch(&mut self, reactor: &mut Reactor) -> Result<()> {
        if let Some(listener) = &self.listener
            && !reactor.is_watched(Source::Listener)
        {
            reactor.watch(Source::Listener, listener.fd(), true, false)?;
        }
        for (number, client) in &mut self.clients {
            let is_slow = !client.connection.is_ready();
            if client.watched != Some(is_slow) {
                reactor.watch(Source::Client(*number), client.connection.fd(), true, is_slow)?;
                client.watched = Some(is_slow);
            }
        }
        Ok(())
    }

    /// Who has to go so that one more can come in: one who is going anyhow, else who has been silent longest. None: nobody,
    /// for something is under way for all of them.
    pub(super) fn most_silent(&self) -> Option<u64> {
        let is_silent = |client: &Client| client.is_dismissed || matches!(client.state, ClientState::Nothing);
        let silent = self.clients.iter().filter(|(_, client)| is_silent(client));
        silent.min_by_key(|(_, client)| (!client.is_dismissed, client.heard_at)).map(|(number, _)| *number)
    }

    /// For whom most is kept, if too much is.
    pub(super) fn greediest(&self, terminals: &Terminals) -> Option<u64> {
        let typed = |client: &Client| {
            let ClientState::Terminal(at) = client.state else { return 0 };
            terminals.get(at).map_or(0, Terminal::kept)
        };
        let kept = |client: &Client| client.connection.buffered() + typed(client);
        let all: usize = self.clients.values().map(kept).sum();
        let greediest = self.clients.iter().max_by_key(|(_, client)| kept(client));
        greediest.filter(|_| all > MOST_KEPT).map(|(number, _)| *number)
    }
}

/// The words for one who has to go, or cannot come in.
pub(super) fn refusal(words: &str) -> Response {
    Response::from(&Error::new(ErrorKind::System, words))
}
