//! One client of the proxy, from its request to the end.
//!
//! ```text
//!   Head ──▶ LookUp ──▶ Connecting ──▶ Relay ──▶ Done
//!     │         │           │                     ▲
//!     └─────────┴───────────┴───▶ Refused ────────┘
//! ```

use std::collections::VecDeque;
use std::io;
use std::mem::discriminant;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

use super::body::Body;
use super::hosts::AllowedHosts;
use super::request::{Refusal, Request};
use super::stream::{Farewell, Moved, Pipe, Socket, is_out_of_descriptors};
use crate::base::clock::Moment;
use crate::base::error::system_message;
use crate::domain::host::{Host, Target};
use crate::domain::readiness::Readiness;

/// How long one address of a server may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a client has to read a refusal, or to end after its server has.
const FAREWELL: Duration = Duration::from_secs(2);
const CONNECTED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

pub struct Connection {
    client: Socket,
    stage: Stage,
    hosts: Rc<AllowedHosts>,
    wants_lookup: bool,
    /// Servers that were tried.
    servers: u64,
    deadline: Option<Moment>,
}

enum Stage {
    Head(Vec<u8>),
    LookUp(Request),
    Connecting {
        request: Request,
        server: Socket,
        left: VecDeque<IpAddr>,
    },
    Relay {
        server: Socket,
        up: Pipe,
        /// The server takes no more.
        is_up_broken: bool,
        down: Pipe,
        is_tunnel: bool,
    },
    Refused(Farewell),
    Done,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Its sockets, a look-up or its deadline.
    Waiting,
    /// Nothing: there may be more to do.
    More,
    /// It can be dropped.
    Done,
}

impl Connection {
    /// # Errors
    /// The kernel refuses to make the socket non-blocking.
    pub fn new(stream: TcpStream, hosts: Rc<AllowedHosts>) -> io::Result<Self> {
        let (client, stage) = (Socket::new(stream)?, Stage::Head(Vec::new()));
        Ok(Self { client, stage, hosts, wants_lookup: false, servers: 0, deadline: None })
    }

    pub fn client_fd(&self) -> RawFd {
        self.client.fd()
    }

    /// The descriptor of the server, and its number: another number is another socket, also with the same descriptor.
    pub fn server(&self) -> Option<(u64, RawFd)> {
        match &self.stage {
            Stage::Connecting { server, .. } | Stage::Relay { server, .. } => Some((self.servers, server.fd())),
            _ => None,
        }
    }

    pub fn on_client_ready(&mut self, readiness: Readiness) {
        self.client.on_ready(readiness);
    }

    pub fn on_server_ready(&mut self, readiness: Readiness) {
        if let Stage::Connecting { server, .. } | Stage::Relay { server, .. } = &mut self.stage {
            server.on_ready(readiness);
        }
    }

    /// When [`Connection::step`] has to be called at the latest.
    pub fn deadline(&self) -> Option<Moment> {
        self.deadline
    }

    /// The `host:port` that has to be looked up. Returned once.
    pub fn take_lookup(&mut self) -> Option<String> {
        let is_wanted = std::mem::take(&mut self.wants_lookup);
        if let Stage::LookUp(request) = &self.stage { is_wanted.then(|| request.target.to_string()) } else { None }
    }

    /// The addresses of that name. Only those that may be reached are tried.
    pub fn on_addresses(&mut self, addresses: &[IpAddr], now: Moment) {
        if !matches!(self.stage, Stage::LookUp(_)) {
            return;
        }
        let Stage::LookUp(request) = std::mem::replace(&mut self.stage, Stage::Done) else { return };
        let checked =
            addresses.iter().map(|address| self.hosts.check_address(&request.target, *address).map(|()| *address));
        let (mut allowed, mut refused) = (VecDeque::new(), None);
        for address in checked {
            match address {
                Ok(address) => allowed.push_back(address),
                Err(message) => refused = Some(message),
            }
        }
        match refused.filter(|_| allowed.is_empty()) {
            Some(message) => self.refuse(&Refusal::forbidden(message), now),
            None => {
                let none = format!("{} has no address", request.target.host);
                self.connect(request, allowed, none, now);
            }
        }
    }

    /// Does what can be done without waiting, with at most about `budget` bytes in each direction.
    pub fn step(&mut self, budget: usize, now: Moment) -> Progress {
        let is_late = self.deadline.is_some_and(|deadline| deadline <= now);
        let before = discriminant(&self.stage);
        match &mut self.stage {
            Stage::Head(_) => self.read_head(now),
            Stage::LookUp(_) => {}
            Stage::Connecting { .. } => self.finish_connecting(is_late, now),
            Stage::Relay { .. } => return self.relay(budget, is_late, now),
            Stage::Refused(farewell) => {
                if farewell.run(&mut self.client, budget) || is_late {
                    self.stage = Stage::Done;
                }
            }
            Stage::Done => {}
        }
        match &self.stage {
            Stage::Done => Progress::Done,
            Stage::Head(_) if self.client.may_read() => Progress::More,
            stage if discriminant(stage) != before => Progress::More,
            _ => Progress::Waiting,
        }
    }

    fn read_head(&mut self, now: Moment) {
        let Stage::Head(bytes) = &mut self.stage else { return };
        let before = bytes.len();
        if !self.client.read_some(bytes) {
            self.stage = Stage::Done;
            return;
        }
        if bytes.len() == before || before > 0 && !Request::may_be_whole(bytes, before) {
            return;
        }
        match Request::read(bytes) {
            Ok(None) => {}
            Ok(Some(request)) => self.begin(request, now),
            Err(refusal) => self.refuse(&refusal, now),
        }
    }

    fn begin(&mut self, request: Request, now: Moment) {
        if let Err(message) = self.hosts.check(&request.target) {
            return self.refuse(&Refusal::forbidden(message), now);
        }
        let address = if let Host::Address(address) = request.target.host { Some(address) } else { None };
        (self.stage, self.wants_lookup) = (Stage::LookUp(request), address.is_none());
        if let Some(address) = address {
            self.on_addresses(&[address], now);
        }
    }

    /// Tries the next address; `failure` is why the one before it failed.
    fn connect(&mut self, request: Request, mut left: VecDeque<IpAddr>, mut failure: String, now: Moment) {
        while let Some(address) = left.pop_front() {
            match Socket::connecting(SocketAddr::new(address, request.target.port)) {
                Ok(server) => {
                    self.servers += 1;
                    self.deadline = Some(now + CONNECT_TIMEOUT);
                    self.stage = Stage::Connecting { request, server, left };
                    return;
                }
                Err(error) if is_out_of_descriptors(&error) => {
                    failure = "polylogue has too many open files".into();
                    break;
                }
                Err(error) => failure = not_connected(&request.target, &system_message(&error)),
            }
        }
        self.refuse(&Refusal::unreachable(failure), now);
    }

    fn finish_connecting(&mut self, is_late: bool, now: Moment) {
        let Stage::Connecting { server, .. } = &self.stage else { return };
        let outcome = server.is_connected();
        if matches!(outcome, Ok(false)) && !is_late {
            return;
        }
        let Stage::Connecting { request, server, left } = std::mem::replace(&mut self.stage, Stage::Done) else {
            return;
        };
        match outcome {
            Ok(true) => self.begin_relay(request, server),
            Ok(false) => {
                let failure = not_connected(&request.target, "no answer in time");
                drop(server);
                self.connect(request, left, failure, now);
            }
            Err(error) => {
                let failure = not_connected(&request.target, &system_message(&error));
                drop(server);
                self.connect(request, left, failure, now);
            }
        }
    }

    fn begin_relay(&mut self, request: Request, server: Socket) {
        let Request { is_tunnel, first, body, .. } = request;
        let greeting = if is_tunnel { CONNECTED.to_vec() } else { Vec::new() };
        // A server of a plain request might take the end of the body for an abort.
        let up = Pipe::new(first, body, is_tunnel);
        let down = Pipe::new(greeting, Body::Endless, true);
        self.deadline = None;
        self.stage = Stage::Relay { server, up, is_up_broken: false, down, is_tunnel };
    }

    fn relay(&mut self, budget: usize, is_late: bool, now: Moment) -> Progress {
        let Stage::Relay { server, up, is_up_broken, down, is_tunnel } = &mut self.stage else { return Progress::Done };
        let sent = if *is_up_broken { Moved::All } else { up.run(&mut self.client, server, budget) };
        // The response may be there although the server does not take the rest of the request.
        *is_up_broken |= sent == Moved::SinkBroke;
        let received = down.run(server, &mut self.client, budget);
        let is_over = down.is_done() && (!*is_tunnel || up.is_done() || *is_up_broken || is_late);
        if received == Moved::SourceBroke {
            self.client.break_off();
        }
        if is_over || sent == Moved::SourceBroke || matches!(received, Moved::SourceBroke | Moved::SinkBroke) {
            self.stage = Stage::Done;
            return Progress::Done;
        }
        if down.is_done() && self.deadline.is_none() {
            self.deadline = Some(now + FAREWELL);
        }
        if [sent, received].contains(&Moved::More) { Progress::More } else { Progress::Waiting }
    }

    fn refuse(&mut self, refusal: &Refusal, now: Moment) {
        self.deadline = Some(now + FAREWELL);
        self.stage = Stage::Refused(Farewell::new(refusal.response()));
    }
}

fn not_connected(target: &Target, why: &str) -> String {
    format!("cannot connect to {target}: {why}")
}
