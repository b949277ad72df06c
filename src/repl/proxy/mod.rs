//! Serves the proxies of commands in the sandbox: a listener for each call that may reach single hosts.
//!
//! ```text
//!   Calls      a tool announces a call; its command sends its listener
//!   on_ready   sockets are reported ready
//!   step       connections are accepted, looked up and served, each a bounded amount
//! ```
//!
//! A call ends when its tool and its helpers have closed their ends of the control socket. Then its sockets are closed.
//! The number of connections and the buffers of each are bounded.

mod lookups;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use rustix::process::{Resource, getrlimit};

use crate::base::clock::Moment;
use crate::proxy::{self, AllowedHosts, Connection, Incoming, NewCall, Progress};
use crate::reactor::{Reactor, Ready, Source};
use crate::repl::component::{Command, Component};
use crate::repl::core::Core;
use crate::repl::timeout::{ACCEPT_PAUSE, TOOL_POLL, WakeReason};
use lookups::Lookups;

/// Connections of one call at once; the kernel keeps some more waiting.
const MOST_OF_A_CALL: usize = 128;
/// Connections of all calls at once.
const MOST: usize = 512;
/// Different refusals of a call that are reported to its tool.
const MAX_REPORTED: usize = 8;
/// Descriptors of a connection.
const DESCRIPTORS: usize = 2;
const ACCEPTED_PER_TURN: usize = 32;
/// Bytes that all connections together may move in each direction in one turn, and the least and most of one.
const BYTES_PER_TURN: usize = 4 << 20;
const LEAST_BYTES: usize = 16 << 10;
const MOST_BYTES: usize = 256 << 10;

pub(super) struct Proxy {
    incoming: Incoming,
    calls: BTreeMap<u64, Call>,
    connections: BTreeMap<u64, Client>,
    /// Connections that may have something to do.
    awake: BTreeSet<u64>,
    /// The roles of the watched sockets.
    sockets: BTreeMap<u64, Socket>,
    lookups: Lookups,
    /// Of calls, connections and sockets; never reused.
    numbers: u64,
    most: usize,
    /// Until then nothing is accepted, because there were no descriptors.
    pause: Option<Moment>,
}

struct Call {
    control: UnixStream,
    control_socket: u64,
    /// The listener with its socket, once it is there.
    listener: Option<(TcpListener, u64)>,
    /// The kernel may have more connections that no poll will report.
    may_accept: bool,
    has_news: bool,
    connections: usize,
    hosts: Rc<AllowedHosts>,
    /// The reports that the tool has received.
    reported: BTreeSet<String>,
}

struct Client {
    call: u64,
    connection: Connection,
    socket: u64,
    /// The number that the connection gave its server, and the socket.
    server: Option<(u64, u64)>,
}

impl Call {
    fn report(&mut self, line: String) {
        if self.reported.len() < MAX_REPORTED && !self.reported.contains(&line) {
            proxy::tell(&self.control, &line);
            self.reported.insert(line);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Socket {
    Control(u64),
    Listener(u64),
    Client(u64),
    Server(u64),
}

impl Proxy {
    pub(super) fn new(incoming: Incoming) -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok());
        // The agents need most of them.
        let affordable = descriptors.map_or(MOST, |most| most / 4 / DESCRIPTORS);
        Self {
            incoming,
            calls: BTreeMap::new(),
            connections: BTreeMap::new(),
            awake: BTreeSet::new(),
            sockets: BTreeMap::new(),
            lookups: Lookups::default(),
            numbers: 0,
            most: affordable.clamp(1, MOST),
            pause: None,
        }
    }

    pub(super) fn connection_count(&self) -> usize {
        self.connections.len()
    }

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Watches a socket; `None` if the kernel refuses.
    fn watch(&mut self, reactor: &mut Reactor, socket: Socket, fd: RawFd) -> Option<u64> {
        let number = self.next_number();
        let is_stream = matches!(socket, Socket::Client(_) | Socket::Server(_));
        reactor.watch(Source::Proxy(number), fd, true, is_stream).ok()?;
        self.sockets.insert(number, socket);
        Some(number)
    }

    /// Must be called before the descriptor is closed.
    fn unwatch(&mut self, reactor: &mut Reactor, socket: u64) {
        reactor.unwatch(Source::Proxy(socket));
        self.sockets.remove(&socket);
    }

    fn begin(&mut self, reactor: &mut Reactor, new: NewCall) {
        let NewCall { control, hosts } = new;
        let id = self.next_number();
        // Without it the command cannot connect to its proxy, and says so.
        let Some(control_socket) = self.watch(reactor, Socket::Control(id), control.as_raw_fd()) else { return };
        let hosts = Rc::new(hosts);
        let call = Call {
            control,
            control_socket,
            listener: None,
            may_accept: false,
            has_news: true,
            connections: 0,
            hosts,
            reported: BTreeSet::new(),
        };
        self.calls.insert(id, call);
    }

    /// Takes the listeners that have arrived, and ends the calls that are over.
    fn read_control(&mut self, core: &mut Core, id: u64) {
        while let Some(call) = self.calls.get_mut(&id).filter(|call| call.has_news) {
            match proxy::receive_listener(&call.control) {
                Ok(Some(listener)) => self.listen(core, id, listener),
                Ok(None) => call.has_news = false,
                Err(_) => self.end(core, id),
            }
        }
    }

    /// A second listener comes if the first helper failed after it had sent one.
    fn listen(&mut self, core: &mut Core, id: u64, listener: TcpListener) {
        self.stop_listening(core, id);
        let socket = self.watch(core.reactor(), Socket::Listener(id), listener.as_raw_fd());
        let Some(call) = self.calls.get_mut(&id) else { return };
        call.listener = socket.map(|socket| (listener, socket));
        call.may_accept = true;
    }

    fn stop_listening(&mut self, core: &mut Core, id: u64) {
        if let Some((listener, socket)) = self.calls.get_mut(&id).and_then(|call| call.listener.take()) {
            self.unwatch(core.reactor(), socket);
            drop(listener);
        }
    }

    fn end(&mut self, core: &mut Core, id: u64) {
        let clients: Vec<u64> =
            self.connections.iter().filter(|(_, client)| client.call == id).map(|(client, _)| *client).collect();
        clients.into_iter().for_each(|client| self.close(core, client));
        self.stop_listening(core, id);
        if let Some(call) = self.calls.remove(&id) {
            self.unwatch(core.reactor(), call.control_socket);
        }
    }

    fn may_accept(&self, call: &Call) -> bool {
        let has_room = call.connections < MOST_OF_A_CALL && self.connections.len() < self.most;
        call.may_accept && call.listener.is_some() && has_room
    }

    fn accept(&mut self, core: &mut Core, id: u64) {
        for _ in 0..ACCEPTED_PER_TURN {
            let Some(call) = self.calls.get(&id).filter(|call| self.may_accept(call)) else { return };
            let accepted = call.listener.as_ref().map(|(listener, _)| listener.accept());
            match accepted {
                Some(Ok((stream, _))) => {
                    if let Ok(connection) = Connection::new(stream, Rc::clone(&call.hosts)) {
                        self.add(core, id, connection);
                    }
                }
                Some(Err(error)) if proxy::is_out_of_descriptors(&error) => {
                    self.pause = Some(core.now() + ACCEPT_PAUSE);
                    return;
                }
                Some(Err(error)) if is_of_one_connection(&error) => {}
                Some(Err(_)) | None => {
                    // No connection is waiting, or the listener is broken.
                    self.calls.entry(id).and_modify(|call| call.may_accept = false);
                    return;
                }
            }
        }
    }

    fn add(&mut self, core: &mut Core, call: u64, connection: Connection) {
        let id = self.next_number();
        let Some(socket) = self.watch(core.reactor(), Socket::Client(id), connection.client_fd()) else { return };
        self.connections.insert(id, Client { call, connection, socket, server: None });
        self.calls.entry(call).and_modify(|call| call.connections += 1);
        self.awake.insert(id);
    }

    /// Lets a connection do what is possible now.
    fn serve(&mut self, core: &mut Core, id: u64, budget: usize) {
        let Some(client) = self.connections.get_mut(&id) else { return };
        let progress = client.connection.step(budget, core.now());
        self.report_refusal(id);
        let Some(client) = self.connections.get_mut(&id) else { return };
        if progress == Progress::Done {
            return self.close(core, id);
        }
        if progress == Progress::More {
            self.awake.insert(id);
        }
        if let Some(target) = client.connection.take_lookup() {
            self.lookups.ask(target, id);
        }
        self.watch_server(core, id);
    }

    /// Tells the tool why a client was just refused, before the client reads it: then it may end, and the call with it.
    fn report_refusal(&mut self, id: u64) {
        let Some(client) = self.connections.get_mut(&id) else { return };
        let refusal = client.connection.take_refusal();
        if let (Some(refusal), Some(call)) = (refusal, self.calls.get_mut(&client.call)) {
            call.report(refusal);
        }
    }

    /// The socket of the server may have changed: the next address, or none.
    fn watch_server(&mut self, core: &mut Core, id: u64) {
        let Some(client) = self.connections.get_mut(&id) else { return };
        let (now, before) = (client.connection.server(), client.server);
        if now.map(|(number, _)| number) == before.map(|(number, _)| number) {
            return;
        }
        client.server = None;
        if let Some((_, socket)) = before {
            self.unwatch(core.reactor(), socket);
        }
        let Some((number, fd)) = now else { return };
        match self.watch(core.reactor(), Socket::Server(id), fd) {
            Some(socket) => {
                self.connections.entry(id).and_modify(|client| client.server = Some((number, socket)));
            }
            None => self.close(core, id),
        }
    }

    fn close(&mut self, core: &mut Core, id: u64) {
        let Some(client) = self.connections.remove(&id) else { return };
        self.awake.remove(&id);
        self.unwatch(core.reactor(), client.socket);
        if let Some((_, socket)) = client.server {
            self.unwatch(core.reactor(), socket);
        }
        self.calls.entry(client.call).and_modify(|call| call.connections -= 1);
        // Descriptors are free again.
        self.pause = None;
    }

    fn wake_late(&mut self, now: Moment) {
        self.pause = self.pause.filter(|until| now < *until);
        let is_late = |(_, client): &(&u64, &Client)| client.connection.deadline().is_some_and(|at| at <= now);
        self.awake.extend(self.connections.iter().filter(is_late).map(|(id, _)| *id));
    }

    fn take_addresses(&mut self, core: &mut Core) {
        let now = core.now();
        for (waiting, addresses) in self.lookups.poll(&core.waker()) {
            for id in waiting {
                if let Some(client) = self.connections.get_mut(&id) {
                    client.connection.on_addresses(&addresses, now);
                    self.report_refusal(id);
                    self.awake.insert(id);
                    self.watch_server(core, id);
                }
            }
        }
    }
}

/// The errors of accept(2) about a connection that broke before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

impl Component for Proxy {
    fn on_ready(&mut self, ready: &[Ready], _: &mut Core) -> crate::base::error::Result<()> {
        for item in ready {
            let Source::Proxy(number) = item.source else { continue };
            match self.sockets.get(&number) {
                Some(Socket::Control(call)) => {
                    self.calls.entry(*call).and_modify(|call| call.has_news = true);
                }
                Some(Socket::Listener(call)) => {
                    self.calls.entry(*call).and_modify(|call| call.may_accept = true);
                }
                Some(Socket::Client(id)) => {
                    self.awake.insert(*id);
                    self.connections.entry(*id).and_modify(|client| client.connection.on_client_ready(item.readiness));
                }
                Some(Socket::Server(id)) => {
                    self.awake.insert(*id);
                    self.connections.entry(*id).and_modify(|client| client.connection.on_server_ready(item.readiness));
                }
                None => {}
            }
        }
        Ok(())
    }

    fn step(&mut self, core: &mut Core, _: &mut Vec<Command>) {
        while let Ok(new) = self.incoming.try_recv() {
            self.begin(core.reactor(), new);
        }
        if self.calls.is_empty() {
            // Their connections are closed.
            self.lookups = Lookups::default();
            return;
        }
        let calls: Vec<u64> = self.calls.keys().copied().collect();
        calls.iter().for_each(|id| self.read_control(core, *id));
        self.take_addresses(core);
        self.wake_late(core.now());
        if self.pause.is_none() {
            calls.iter().for_each(|id| self.accept(core, *id));
        }
        let awake = std::mem::take(&mut self.awake);
        let budget = (BYTES_PER_TURN / awake.len().max(1)).clamp(LEAST_BYTES, MOST_BYTES);
        awake.into_iter().for_each(|id| self.serve(core, id, budget));
    }

    fn has_work(&self, _: &Core) -> bool {
        let may_accept = self.pause.is_none() && self.calls.values().any(|call| self.may_accept(call));
        !self.awake.is_empty() || may_accept || self.lookups.may_start()
    }

    fn deadline(&self, core: &Core) -> Option<(Moment, WakeReason)> {
        let connections = self.connections.values().filter_map(|client| client.connection.deadline());
        let poll = self.lookups.is_running().then(|| core.now() + TOOL_POLL);
        connections.chain(self.pause).chain(poll).min().map(|at| (at, WakeReason::Proxy))
    }
}
