//! The server: clients connect to a socket of the same poll, send requests as lines, and get responses as lines.
//!
//! ```text
//!   on_ready       connections are accepted, bytes are read
//!   next_request   requests, one by one; the loop carries each out before it takes the next
//!   step           turns of clients go on: queues, questions, limits
//!   publish        chunks, ends of waits, last responses, when all of this turn of the loop has happened
//! ```
//! No client delays the others: each step does a bounded amount of work for each of them, and what is buffered for all of
//! them together is bounded.

mod accept;
mod client;
mod runs;
mod streams;
mod turns;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, ClientId, TerminalId};
use crate::base::text;
use crate::domain::wire::{LONGEST_LINE, Request, Response, SERVER_ENDED, TerminalFacts};
use crate::reactor::{Reactor, Ready, Source};
use crate::repl::component::{Command, Component};
use crate::repl::core::{Core, limits, viewers};
use crate::repl::event::{Event, JobResult};
use crate::repl::timeout::WakeReason;
use crate::socket::{Line, Listener};
use crate::store::Durability;
pub(super) use accept::MOST_CLIENTS;
use client::{Client, ClientState};
pub(super) use streams::Awaited;
pub(super) use turns::TurnBounds;
use turns::is_over_limit;

const BYTES_PER_TURN: usize = 256 * 1024;
/// How often, and each time for how long, the end waits for clients that have not read their last response.
const LAST_FLUSHES: usize = 10;
const LAST_FLUSH_WAIT: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(super) struct Server {
    listener: Option<Listener>,
    clients: BTreeMap<ClientId, Client>,
    /// Clients that have ever connected.
    client_count: u64,
    request_count: u64,
    /// More connections may wait, and the poll will not report them again.
    may_accept: bool,
    /// The program that hosts the loop waits for the disk when it ends, and not with each response.
    pub(super) host_waits_at_end: bool,
    /// Until then nothing is accepted, because there were no descriptors.
    pause: Option<Moment>,
    /// The program ends: turns that end now were cut off.
    is_shutting_down: bool,
    /// Agents of runs whose client has left: the runs have to be interrupted.
    left_runs: Vec<AgentId>,
    /// Attached terminals whose client has left.
    released_terminals: Vec<TerminalId>,
    /// The agent at which the terminal looked that was detached last.
    pub(super) last_focus: Option<AgentId>,
}

impl Server {
    pub(super) fn listen(&mut self, listener: Listener) {
        self.listener = Some(listener);
    }

    pub(super) fn is_listening(&self) -> bool {
        self.listener.is_some()
    }

    /// Whether clients may come, or are there: the program that hosts the loop may be the only one.
    fn has_clients(&self) -> bool {
        self.is_listening() || !self.clients.is_empty()
    }

    /// Whether no person can be asked: an unattended run that goes on for its background commands has listeners.
    fn is_alone(&self, core: &Core) -> bool {
        !core.config().settings.is_interactive && !self.is_listening()
    }

    pub(super) fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// Whether a client is this process, which hosts the loop.
    pub(super) fn is_own(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(|client| client.is_own)
    }

    fn ids(&self) -> Vec<ClientId> {
        self.clients.keys().copied().collect()
    }

    /// The next request of any client without a terminal.
    pub(super) fn next_request(&mut self, core: &mut Core) -> Option<(ClientId, Request)> {
        let others = self.clients.iter().filter(|(_, client)| client.terminal().is_none());
        let ids: Vec<ClientId> = others.map(|(id, _)| *id).collect();
        ids.into_iter().find_map(|id| Some((id, self.next_request_of(core, id)?)))
    }

    /// The next request of this client. One that is malformed or not allowed now is answered here.
    pub(super) fn next_request_of(&mut self, core: &mut Core, id: ClientId) -> Option<Request> {
        loop {
            let client = self.clients.get_mut(&id).filter(|client| client.may_request())?;
            match client.connection.next_line() {
                Line::None => return None,
                Line::TooLong => {
                    let message = format!("the request is longer than {LONGEST_LINE} bytes: the connection is closed");
                    client.close(&error_response(&message));
                    self.set_state(core, id, ClientState::Idle);
                    return None;
                }
                Line::Whole(line) => {
                    self.request_count += 1;
                    client.count_request(self.request_count);
                    if line.trim_ascii().is_empty() {
                        continue;
                    }
                    match Request::read(&line).and_then(|request| client.check(request)) {
                        Ok(request) => return Some(request),
                        Err(error) => client.send_if_ready(&Response::from(&error)),
                    }
                }
            }
        }
    }

    /// Sends a response that does not end the client's request.
    pub(super) fn respond(&mut self, id: ClientId, response: &Response) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.send_if_ready(response);
        }
    }

    /// Sends the last response to the client's request.
    fn finish(&mut self, core: &mut Core, id: ClientId, response: &Response) {
        self.set_state(core, id, ClientState::Idle);
        if let Some(client) = self.clients.get_mut(&id) {
            client.send(response);
        }
    }

    /// Sends the response when everything that was stored until now is on the disk; an error if it never will be.
    pub(super) fn finish_stored(&mut self, core: &mut Core, id: ClientId, response: Response) {
        if self.host_waits_at_end && self.is_own(id) {
            let response = core.store().lost().map_or(response, |error| Response::from(&error));
            return self.finish(core, id, &response);
        }
        let ticket = core.store().ticket();
        self.set_state(core, id, ClientState::Syncing { ticket, response });
        self.check_sync(core, id);
    }

    /// Sends a response that waits for the disk no longer.
    fn check_sync(&mut self, core: &mut Core, id: ClientId) {
        let Some(ClientState::Syncing { ticket, response }) = self.clients.get(&id).map(|client| &client.state) else {
            return;
        };
        let response = match core.store().durability(*ticket) {
            Durability::Pending => return,
            Durability::Durable => response.clone(),
            Durability::Lost(error) => Response::from(&error),
        };
        self.finish(core, id, &response);
    }

    /// The client waits for the end of a job of the loop.
    pub(super) fn begin_job(&mut self, core: &mut Core, id: ClientId) {
        self.set_state(core, id, ClientState::Job(None));
    }

    /// The request of the client could not be begun.
    pub(super) fn forget_request(&mut self, core: &mut Core, id: ClientId) {
        self.set_state(core, id, ClientState::Idle);
    }

    /// Replaces the state of a client. Agents do not notice.
    fn set_state(&mut self, core: &mut Core, id: ClientId, state: ClientState) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        match std::mem::replace(&mut client.state, state) {
            ClientState::Logs { viewer, .. } => viewers::close(core, viewer),
            ClientState::Turn(turn) => turn.release(core, id),
            ClientState::Terminal { terminal, .. } => self.released_terminals.push(terminal),
            ClientState::Job(Some(run)) => self.left_runs.push(run.agent),
            ClientState::Commands { .. } => core.emit(Event::CommandsEnded { client: id }),
            ClientState::Idle
            | ClientState::Wait { .. }
            | ClientState::Questions(_)
            | ClientState::Syncing { .. }
            | ClientState::Job(None) => {}
        }
    }

    /// Sends what happened in this turn of the loop, and forgets clients that are done.
    pub(super) fn publish(&mut self, core: &mut Core) {
        for id in self.ids() {
            match self.clients.get(&id).map(|client| &client.state) {
                Some(ClientState::Logs { .. }) => self.send_chunks(core, id),
                Some(ClientState::Turn(_)) => {
                    self.send_chunks(core, id);
                    self.send_wait(core, id);
                }
                Some(ClientState::Wait { .. }) => self.check_wait(core, id),
                Some(ClientState::Syncing { .. }) => self.check_sync(core, id),
                Some(
                    ClientState::Idle
                    | ClientState::Terminal { .. }
                    | ClientState::Questions(_)
                    | ClientState::Commands { .. }
                    | ClientState::Job(_),
                )
                | None => {}
            }
            if self.clients.get(&id).is_some_and(Client::is_done) {
                self.remove(core, id);
            }
        }
        self.limit_memory(core);
    }

    /// From now on the client has a terminal, whose keys, frames and end the loop handles.
    pub(super) fn attach(
        &mut self,
        core: &mut Core,
        id: ClientId,
        terminal: TerminalId,
        &TerminalFacts { can_edit, can_view, can_paste, .. }: &TerminalFacts,
    ) {
        self.set_state(
            core,
            id,
            ClientState::Terminal { terminal, key_bytes: 0, is_full: false, can_edit, can_view, can_paste },
        );
    }

    pub(super) fn attached_terminals(&self) -> Vec<(ClientId, TerminalId)> {
        self.clients.iter().filter_map(|(id, client)| Some((*id, client.terminal()?))).collect()
    }

    pub(super) fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(&id)
    }

    pub(super) fn client_at(&mut self, terminal: TerminalId) -> Option<&mut Client> {
        self.clients.values_mut().find(|client| client.terminal() == Some(terminal))
    }

    pub(super) fn get(&self, id: ClientId) -> Option<&Client> {
        self.clients.get(&id)
    }

    /// Ends the attachment of a terminal with this last response.
    pub(super) fn end_attachment(&mut self, core: &mut Core, id: ClientId, response: &Response) {
        self.set_state(core, id, ClientState::Idle);
        if let Some(client) = self.clients.get_mut(&id) {
            client.close(response);
        }
    }

    /// Attached terminals whose client has left. Empties the list.
    pub(super) fn take_released_terminals(&mut self) -> Vec<TerminalId> {
        std::mem::take(&mut self.released_terminals)
    }

    /// From now on nothing is done for clients before [`Server::shutdown`]: turns that end now were cut off.
    pub(super) fn begin_shutdown(&mut self) {
        self.is_shutting_down = true;
    }

    /// Sends every client its last response and stops listening. Connections are closed when the server is dropped, after
    /// the store: a client that reads to the end knows that the store is free.
    pub(super) fn shutdown(&mut self, core: &mut Core) -> Result<()> {
        for id in self.ids() {
            let response = match self.clients.get(&id).map(|client| &client.state) {
                Some(ClientState::Terminal { .. }) => {
                    let agents = text::counted(core.roster().len(), "agent is", "agents are");
                    Response::End(format!("{SERVER_ENDED}: {agents} saved"))
                }
                Some(ClientState::Idle) | None => continue,
                Some(_) => error_response(SERVER_ENDED),
            };
            self.end_attachment(core, id, &response);
        }
        for _ in 0..LAST_FLUSHES {
            if self.clients.values().all(|client| client.connection.is_ready()) {
                break;
            }
            self.watch(core.reactor())?;
            core.reactor().wait(Some(LAST_FLUSH_WAIT), &mut Vec::new())?;
            self.clients.values_mut().for_each(|client| client.connection.flush());
        }
        core.reactor().unwatch(Source::Listener);
        self.listener = None;
        Ok(())
    }
}

impl Component for Server {
    fn watch(&mut self, reactor: &mut Reactor) -> Result<()> {
        if let Some(listener) = &self.listener
            && !reactor.is_watched(Source::Listener)
        {
            reactor.watch(Source::Listener, listener.fd(), true, false)?;
        }
        self.clients.iter_mut().try_for_each(|(id, client)| client.watch(*id, reactor))
    }

    fn on_ready(&mut self, ready: &[Ready], core: &mut Core) -> Result<()> {
        self.may_accept |= ready.iter().any(|item| item.source == Source::Listener);
        self.accept(core);
        for item in ready {
            let Source::Client(id) = item.source else { continue };
            if let Some(client) = self.clients.get_mut(&ClientId(id)) {
                client.connection.on_readable();
                client.connection.flush();
            }
        }
        self.clients.values_mut().for_each(|client| client.read(BYTES_PER_TURN));
        Ok(())
    }

    fn on_event(&mut self, event: &Event, core: &mut Core) {
        match event {
            Event::TurnStarted { agent, origin, chunk } => self.on_turn_started(core, *agent, *origin, *chunk),
            Event::TurnEnded { agent, chunk } => self.on_turn_ended(core, *agent, Some(*chunk)),
            Event::Removed { agent, .. } => self.on_turn_ended(core, *agent, None),
            Event::Stopped => self.on_stopped(),
            Event::ClientJobEnded { client, outcome } => match outcome {
                Ok(JobResult { text, data }) => {
                    let response = Response::Done(serde_json::json!({"text": text, "data": data}));
                    self.finish_stored(core, *client, response);
                }
                Err(error) => self.finish(core, *client, &Response::from(error)),
            },
            #[cfg(feature = "coordinator")]
            Event::ClientRunWent { client, event } => self.on_run_event(*client, event),
            #[cfg(feature = "coordinator")]
            Event::ClientRunEnded { client, outcome } => self.on_run_ended(core, *client, outcome),
            _ => {}
        }
    }

    fn step(&mut self, core: &mut Core, commands: &mut Vec<Command>) {
        if self.is_shutting_down {
            return;
        }
        self.check_runs(core, commands);
        for id in self.ids() {
            if let Err(error) = self.check_turn(core, id, commands) {
                self.finish(core, id, &Response::from(&error));
            }
        }
        Self::interrupt_over_limit(core);
    }

    fn has_work(&self, core: &Core) -> bool {
        let is_alone = self.is_alone(core);
        let has_work =
            |(id, client): (&ClientId, &Client)| client.has_work() || has_output(core, *id, client, is_alone);
        !self.is_shutting_down
            && (self.has_run_work(core)
                || self.may_accept_now()
                || limits::exhausted(core).any(|agent| is_over_limit(core, agent))
                || self.clients.iter().any(has_work))
    }

    fn deadline(&self, _: &Core) -> Option<(Moment, WakeReason)> {
        let until = |client: &Client| if let ClientState::Wait { until, .. } = client.state { until } else { None };
        self.clients.values().filter_map(until).chain(self.pause).min().map(|at| (at, WakeReason::Client))
    }
}

/// Whether `step` or `publish` would do something for this client.
fn has_output(core: &Core, id: ClientId, client: &Client, is_alone: bool) -> bool {
    let is_ready = client.connection.is_ready();
    match &client.state {
        ClientState::Idle | ClientState::Job(_) | ClientState::Terminal { .. } => false,
        ClientState::Logs { viewer, .. } => is_ready && viewers::has_unread(core, *viewer),
        ClientState::Syncing { ticket, .. } => core.store().durability(*ticket) != Durability::Pending,
        ClientState::Wait { awaited, told, .. } => {
            awaited.is_over(core) || is_ready && streams::has_untold_question(core, awaited, *told)
        }
        ClientState::Questions(sent) => is_ready && streams::has_other_questions(core, sent.as_deref()),
        ClientState::Commands { agent, sent } => is_ready && streams::has_other_commands(core, *agent, sent.as_ref()),
        ClientState::Turn(turn) => turn.has_work(core, id, is_alone) || is_ready && turn.has_output(core),
    }
}

fn error_response(message: &str) -> Response {
    Response::from(&Error::new(ErrorKind::System, message))
}
