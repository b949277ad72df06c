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
use super::stream::{Farewell, Moved, Pipe, Progress, Socket, is_out_of_descriptors};
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
    needs_lookup: bool,
    /// Why the client was refused, until it is taken.
    refusal: Option<String>,
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

impl Connection {
    pub fn new(stream: TcpStream, hosts: Rc<AllowedHosts>) -> io::Result<Self> {
        let (client, stage) = (Socket::new(stream)?, Stage::Head(Vec::new()));
        Ok(Self { client, stage, hosts, needs_lookup: false, refusal: None, servers: 0, deadline: None })
    }

    pub fn client_fd(&self) -> RawFd {
        self.client.fd()
    }

    /// The descriptor of the server, and its number: another number is another socket, even with the same descriptor.
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

    /// The `host:port` to look up. Returned once.
    pub fn take_lookup(&mut self) -> Option<String> {
        let is_wanted = std::mem::take(&mut self.needs_lookup);
        if let Stage::LookUp(request) = &self.stage { is_wanted.then(|| request.target.to_string()) } else { None }
    }

    /// Why the client was refused. Returned once.
    pub fn take_refusal(&mut self) -> Option<String> {
        self.refusal.take()
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

    /// Does everything that can be done without waiting, with about `budget` bytes at most in each direction.
    pub fn step(&mut self, budget: usize, now: Moment) -> Progress {
        let is_late = self.deadline.is_some_and(|deadline| deadline <= now);
        let before = discriminant(&self.stage);
        match &mut self.stage {
            Stage::Head(_) => self.read_head(now),
            Stage::LookUp(_) => {}
            Stage::Connecting { .. } => self.finish_connecting(is_late, now),
            Stage::Relay { .. } => return self.relay(budget, is_late, now),
            Stage::Refused(farewell) => {
                let progress = farewell.run(&mut self.client, budget);
                if progress != Progress::Done && !is_late {
                    return progress;
                }
                self.stage = Stage::Done;
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
        (self.stage, self.needs_lookup) = (Stage::LookUp(request), address.is_none());
        if let Some(address) = address {
            self.on_addresses(&[address], now);
        }
    }

    /// Tries the next address; `failure` is why the previous one failed.
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
        self.refusal = Some(refusal.message.clone());
    }
}

fn not_connected(target: &Target, why: &str) -> String {
    format!("cannot connect to {target}: {why}")
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Shutdown, TcpListener};

    use rustix::net::{AddressFamily, SocketType, bind, listen, socket};

    use super::*;

    const READY: Readiness = Readiness { readable: true, writable: true, error: false };

    /// A client with its connection, which may reach `server.test` and 127.0.0.0/29 at this port.
    fn client(port: u16) -> (TcpStream, Connection) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let names = (1..8).map(|n| format!("127.0.0.{n}:{port}")).chain([format!("server.test:{port}")]);
        let allowed = names.map(|name| name.parse().unwrap()).collect();
        let hosts = Rc::new(AllowedHosts { allowed, denied: Vec::new() });
        (near, Connection::new(far, hosts).unwrap())
    }

    fn addresses(last: &[u8]) -> Vec<IpAddr> {
        last.iter().map(|last| IpAddr::from([127, 0, 0, *last])).collect()
    }

    /// Serves it until it is done or a condition holds.
    fn serve_until(connection: &mut Connection, mut holds: impl FnMut(&mut Connection) -> bool) {
        while !holds(connection) {
            connection.on_client_ready(READY);
            connection.on_server_ready(READY);
            if connection.step(1 << 16, Moment::default()) == Progress::Done {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Sends the request, and serves it up to the look-up of its name.
    fn ask(port: u16) -> (TcpStream, Connection) {
        let (mut near, mut connection) = client(port);
        write!(near, "CONNECT server.test:{port} HTTP/1.1\r\n\r\n").unwrap();
        let mut wanted = None;
        serve_until(&mut connection, |connection| {
            wanted = wanted.take().or_else(|| connection.take_lookup());
            wanted.is_some()
        });
        assert_eq!((wanted.as_deref(), connection.take_lookup()), (Some(&*format!("server.test:{port}")), None));
        (near, connection)
    }

    fn read_all(mut near: TcpStream) -> String {
        let mut text = String::new();
        near.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_tunnel_ends_when_both_sides_have_ended_and_passes_each_end_on() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut near, mut connection) = ask(server.local_addr().unwrap().port());
        // The first address refuses connections.
        connection.on_addresses(&addresses(&[3, 1]), Moment::default());
        let far = std::thread::spawn(move || {
            let (mut far, _) = server.accept().unwrap();
            let mut got = String::new();
            far.read_to_string(&mut got).unwrap();
            far.write_all(format!("{got} back").as_bytes()).unwrap();
        });
        near.write_all(b"there").unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        serve_until(&mut connection, |_| false);
        drop(connection);
        far.join().unwrap();
        assert_eq!(read_all(near), "HTTP/1.1 200 Connection established\r\n\r\nthere back");
    }

    #[test]
    fn a_server_that_breaks_off_is_not_an_ordinary_end() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut near, mut connection) = ask(server.local_addr().unwrap().port());
        connection.on_addresses(&addresses(&[1]), Moment::default());
        near.write_all(b"unread").unwrap();
        let far = std::thread::spawn(move || {
            let (far, _) = server.accept().unwrap();
            // Unread data makes the close a reset.
            far.peek(&mut [0; 8]).unwrap();
        });
        serve_until(&mut connection, |_| false);
        far.join().unwrap();
        drop(connection);
        assert!(near.read_to_end(&mut Vec::new()).is_err());
    }

    #[test]
    fn who_cannot_be_reached_is_told_why() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        for (found, expected) in [
            (addresses(&[1, 2]), format!("cannot connect to server.test:{free}: Connection refused")),
            (addresses(&[]), "server.test has no address".into()),
            (addresses(&[9]), "has the address 127.0.0.9, which is not public".into()),
        ] {
            let (near, mut connection) = ask(free);
            near.shutdown(Shutdown::Write).unwrap();
            connection.on_addresses(&found, Moment::default());
            serve_until(&mut connection, |_| false);
            assert!(connection.take_refusal().is_some_and(|refusal| refusal.contains(&expected)));
            drop(connection);
            let text = read_all(near);
            assert!(text.starts_with("HTTP/1.1 50") || text.starts_with("HTTP/1.1 403"), "{text}");
            assert!(text.contains(&expected), "{text}");
        }
    }

    #[test]
    fn a_server_that_does_not_answer_is_given_up() {
        let server = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&server, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        listen(&server, 0).unwrap();
        let address = TcpListener::from(server.try_clone().unwrap()).local_addr().unwrap();
        // Full: the kernel ignores further connections.
        let waiting: Vec<Socket> = (0..4).map(|_| Socket::connecting(address).unwrap()).collect();
        let (near, mut connection) = ask(address.port());
        near.shutdown(Shutdown::Write).unwrap();
        connection.on_addresses(&addresses(&[1]), Moment::default());
        assert_eq!(connection.step(1 << 16, Moment::default()), Progress::Waiting);
        let late = connection.deadline().expect("a deadline");
        assert_eq!(connection.step(1 << 16, late), Progress::More);
        serve_until(&mut connection, |_| false);
        drop((connection, waiting));
        assert!(read_all(near).contains("no answer in time"));
    }
}
