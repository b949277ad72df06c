//! A scripted HTTP/1.1 server on loopback: the test plays the server's part, line by line.
//!
//! Every connection has a thread that reads (so that a close by the client is always noticed) and
//! one that writes (so that no line of the script ever blocks, however little the client reads: a
//! test may drive the loop under test on its own thread). Nothing sleeps; what must be waited for
//! is waited for with a limit, after which the test fails and says what has been seen.
//!
//! ```text
//! let exchange = peer.accept();
//! exchange.stream().text("Hello").finish("stop").done();
//! ```

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::http::{self, Request, RequestReader};
use super::{PATIENCE, openai, validity};

/// The server. Dropped, it stops listening and hangs up on everyone.
pub struct Peer {
    address: SocketAddr,
    arrivals: Receiver<Exchange>,
    shared: Arc<Shared>,
}

/// What the listening thread and the test share.
#[derive(Default)]
struct Shared {
    closed: AtomicBool,
    connections: Mutex<Vec<Arc<Connection>>>,
}

impl Peer {
    /// Listens on a free port of 127.0.0.1.
    pub fn start() -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on loopback");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (announce, arrivals) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let listening = Arc::clone(&shared);
        thread::spawn(move || listening.listen(&listener, &announce));
        Peer { address, arrivals, shared }
    }

    /// The base URL for an `openai` endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Host and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next request that is there as a whole, on whatever connection. Blocks until it comes.
    pub fn accept(&self) -> Exchange {
        let waited = self.arrivals.recv_timeout(PATIENCE);
        let exchange = waited
            .unwrap_or_else(|_| panic!("no whole request within {PATIENCE:?}; seen so far:\n{}", self.describe()));
        exchange.checked()
    }

    /// The next request if one is there as a whole: for a test that turns the client's loop itself.
    pub fn try_accept(&self) -> Option<Exchange> {
        self.arrivals.try_recv().ok().map(Exchange::checked)
    }

    /// The next request that is there as a whole, if one comes in this time.
    pub fn accept_within(&self, limit: Duration) -> Option<Exchange> {
        self.arrivals.recv_timeout(limit).ok().map(Exchange::checked)
    }

    /// How many connections have been opened so far.
    pub fn connections(&self) -> usize {
        locked(&self.shared.connections).len()
    }

    /// Every connection with its requests and what has come of an unfinished one.
    pub fn describe(&self) -> String {
        let connections = locked(&self.shared.connections);
        let lines: Vec<String> = connections.iter().map(|connection| connection.describe()).collect();
        if lines.is_empty() { "no connection".to_owned() } else { lines.join("\n") }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        // The listening thread waits in accept(): a last connection makes it look at the flag.
        let _ = TcpStream::connect(self.address);
        for connection in locked(&self.shared.connections).iter() {
            connection.order(Order::HangUp);
        }
    }
}

impl Shared {
    fn listen(&self, listener: &TcpListener, announce: &Sender<Exchange>) {
        for stream in listener.incoming() {
            if self.closed.load(Ordering::SeqCst) {
                return;
            }
            // A client that gave up before it was accepted is no connection.
            let Ok(stream) = stream else { continue };
            let mut connections = locked(&self.connections);
            let connection = Connection::open(connections.len(), stream, announce.clone());
            connections.push(connection);
        }
    }
}

/// Commands to the writing thread of a connection.
enum Order {
    Write {
        bytes: Vec<u8>,
        times: usize,
    },
    /// Tells when the client's kernel has everything that was written.
    Confirm(Sender<()>),
    HangUp,
    Reset,
}

/// One connection, shared by its two threads and by the exchanges that came over it.
struct Connection {
    number: usize,
    orders: Sender<Order>,
    log: Mutex<Log>,
    changed: Condvar,
}

/// What has happened on a connection so far.
#[derive(Default)]
struct Log {
    requests: Vec<String>,
    unfinished: String,
    ended: Option<String>,
}

impl Connection {
    fn open(number: usize, stream: TcpStream, announce: Sender<Exchange>) -> Arc<Connection> {
        stream.set_nodelay(true).expect("a new connection takes its options");
        let (orders, received) = mpsc::channel();
        let connection = Arc::new(Connection { number, orders, log: Mutex::default(), changed: Condvar::new() });
        let stream = Arc::new(stream);
        let reading = (Arc::clone(&connection), Arc::clone(&stream));
        let reader = thread::spawn(move || reading.0.read_requests(&reading.1, &announce));
        thread::spawn(move || carry_out(&received, stream, reader));
        connection
    }

    fn order(&self, order: Order) {
        // The writing thread is gone when the client is: then there is no thread to notify.
        let _ = self.orders.send(order);
    }

    fn read_requests(self: &Arc<Connection>, stream: &TcpStream, announce: &Sender<Exchange>) {
        let ended = self.read_until_end(stream, announce);
        locked(&self.log).ended = Some(ended);
        self.changed.notify_all();
    }

    /// Hands over request after request; returns how the connection ended.
    fn read_until_end(self: &Arc<Connection>, mut stream: &TcpStream, announce: &Sender<Exchange>) -> String {
        let mut reader = RequestReader::default();
        let mut portion = vec![0; 64 * 1024];
        loop {
            match stream.read(&mut portion) {
                Ok(0) => return "closed".to_owned(),
                Ok(count) => reader.feed(&portion[..count]),
                Err(error) => return error.to_string(),
            }
            if let Err(error) = self.announce_whole(&mut reader, announce) {
                // As servers of plain HTTP answer a TLS handshake.
                let bytes = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_vec();
                self.order(Order::Write { bytes, times: 1 });
                self.order(Order::HangUp);
                return format!("not HTTP/1.1: {error}");
            }
        }
    }

    fn announce_whole(
        self: &Arc<Connection>,
        reader: &mut RequestReader,
        announce: &Sender<Exchange>,
    ) -> Result<(), String> {
        while let Some(request) = reader.take_request()? {
            let line = format!("{} {} with {} bytes", request.method, request.path, request.body.len());
            locked(&self.log).requests.push(line);
            // A peer that was dropped takes no more requests.
            let _ = announce.send(Exchange {
                request,
                arrived: Instant::now(),
                connection: Arc::clone(self),
                chunked: Cell::new(false),
            });
        }
        locked(&self.log).unfinished = reader.describe();
        Ok(())
    }

    fn describe(&self) -> String {
        let log = locked(&self.log);
        let state = log.ended.as_deref().unwrap_or("open");
        format!("connection {}, {state}: {:?}; then {}", self.number, log.requests, log.unfinished)
    }
}

/// The writing thread: carries out orders until the connection is at its end.
fn carry_out(orders: &Receiver<Order>, stream: Arc<TcpStream>, reader: thread::JoinHandle<()>) {
    for order in orders {
        match order {
            Order::Write { bytes, times } => {
                if (0..times).any(|_| (&*stream).write_all(&bytes).is_err()) {
                    return;
                }
            }
            Order::Confirm(done) => {
                while is_underway(&stream) {
                    thread::yield_now();
                }
                let _ = done.send(());
            }
            // Only our half: the reading thread goes on until the client closes the other, and a
            // socket with nothing unread is closed without a reset.
            Order::HangUp => {
                let _ = stream.shutdown(Shutdown::Write);
            }
            Order::Reset => return reset(stream, reader),
        }
    }
}

/// Whether the client's kernel has not acknowledged everything yet.
fn is_underway(stream: &TcpStream) -> bool {
    let hex = |address: SocketAddr| {
        let std::net::IpAddr::V4(ip) = address.ip() else { panic!("{address} is not IPv4") };
        format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), address.port())
    };
    let (Ok(own), Ok(other)) = (stream.local_addr(), stream.peer_addr()) else { return false };
    let wanted = [hex(own), hex(other)];
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the table of connections");
    // number, own address, other address, state, bytes to be acknowledged:bytes to be read, ...
    let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let own = rows.find(|words| words.get(1..3) == Some(&[&*wanted[0], &*wanted[1]]));
    own.is_some_and(|words| !words[4].starts_with("00000000:"))
}

/// Closes with a reset instead of an orderly end: what lingers for no time is thrown away.
fn reset(stream: Arc<TcpStream>, reader: thread::JoinHandle<()>) {
    let _ = rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO));
    // The reading thread holds the socket open for as long as it reads.
    let _ = stream.shutdown(Shutdown::Read);
    let _ = reader.join();
}

/// One request and the script of its answer. Left alone it is a server that never answers.
pub struct Exchange {
    request: Request,
    arrived: Instant,
    connection: Arc<Connection>,
    chunked: Cell<bool>,
}

impl Exchange {
    /// When its request was there as a whole.
    pub fn arrived(&self) -> Instant {
        self.arrived
    }

    /// Itself, if a strict server would take its request.
    fn checked(self) -> Exchange {
        let Request { path, body, .. } = &self.request;
        if let Err(rule) = validity::check_path(path, body) {
            panic!("{path}: {rule}\nin {}", String::from_utf8_lossy(body));
        }
        self
    }

    /// What the client asked.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The number of the connection, from 0: the same one twice was kept alive.
    pub fn connection(&self) -> usize {
        self.connection.number
    }

    /// Sends bytes as they are, with no framing at all. Like every line of the script it does not
    /// block: bytes are queued and leave in the order in which they were given.
    pub fn send(&self, bytes: impl AsRef<[u8]>) -> &Self {
        self.send_many(bytes, 1)
    }

    /// Sends the same bytes many times over, for bodies that are too large for memory.
    pub fn send_many(&self, bytes: impl AsRef<[u8]>, times: usize) -> &Self {
        self.connection.order(Order::Write { bytes: bytes.as_ref().to_vec(), times });
        self
    }

    /// Sends status line and headers. With `transfer-encoding: chunked` among them, `body` and what
    /// builds on it is framed in chunks.
    pub fn head(&self, status: u16, headers: &[(&str, &str)]) -> &Self {
        let chunked = |(name, value): &(&str, &str)| {
            name.eq_ignore_ascii_case("transfer-encoding") && value.eq_ignore_ascii_case("chunked")
        };
        self.chunked.set(headers.iter().any(chunked));
        self.send(http::head(status, headers))
    }

    /// Sends a piece of the body, as one chunk if the head announced chunks.
    pub fn body(&self, bytes: impl AsRef<[u8]>) -> &Self {
        if self.chunked.get() { self.send(http::chunk(bytes.as_ref())) } else { self.send(bytes) }
    }

    /// Ends a chunked body; the connection stays. Any other body ends with its length or with `hang_up`.
    pub fn end(&self) -> &Self {
        if self.chunked.get() { self.send(http::LAST_CHUNK) } else { self }
    }

    /// A whole answer with its length; the connection stays.
    pub fn answer(&self, status: u16, content_type: &str, body: impl AsRef<[u8]>) -> &Self {
        let length = body.as_ref().len().to_string();
        self.head(status, &[("content-type", content_type), ("content-length", &length)]).send(body)
    }

    /// Closes our half in order, after everything that was sent before.
    pub fn hang_up(&self) {
        self.connection.order(Order::HangUp);
    }

    /// Resets the connection (RST). What the client has not yet received may be lost to it.
    pub fn reset(&self) {
        self.connection.order(Order::Reset);
    }

    /// Whether the client has closed the connection (or the reset has been carried out).
    pub fn is_closed_by_client(&self) -> bool {
        locked(&self.connection.log).ended.is_some()
    }

    /// Blocks until everything that was sent has arrived at the client's socket. Two connections have no common order.
    pub fn wait_until_arrived(&self) {
        let (done, arrived) = mpsc::channel();
        self.connection.order(Order::Confirm(done));
        arrived.recv_timeout(PATIENCE).expect("the client's kernel takes it");
    }

    /// Blocks until the client has closed the connection, and fails if it does not.
    pub fn wait_for_close(&self) {
        let log = locked(&self.connection.log);
        let (log, waited) = self
            .connection
            .changed
            .wait_timeout_while(log, PATIENCE, |log| log.ended.is_none())
            .expect("no thread of a link panics");
        assert!(!waited.timed_out(), "the client has not closed: {:?}; {}", log.requests, log.unfinished);
    }
}

/// The script of an OpenAI-compatible server.
impl Exchange {
    /// 200 and the head of an event stream.
    pub fn stream(&self) -> &Self {
        self.head(200, &[("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])
    }

    /// One event with this data, as a chunk of its own.
    pub fn event(&self, data: &Value) -> &Self {
        self.body(openai::event(data))
    }

    /// A piece of the reply's text.
    pub fn text(&self, piece: &str) -> &Self {
        self.event(&openai::text(piece))
    }

    /// A piece of the model's thinking.
    pub fn thinking(&self, piece: &str) -> &Self {
        self.event(&openai::thinking(piece))
    }

    /// A tool call, or its beginning if `tool_arguments` follows.
    pub fn tool_call(&self, index: usize, id: &str, name: &str, arguments: &str) -> &Self {
        self.event(&openai::tool_call(index, id, name, arguments))
    }

    /// More of the arguments of the call that began under `index`.
    pub fn tool_arguments(&self, index: usize, piece: &str) -> &Self {
        self.event(&openai::tool_arguments(index, piece))
    }

    /// Why the reply ends: `stop`, `tool_calls`, `length`, ...
    pub fn finish(&self, reason: &str) -> &Self {
        self.event(&openai::finish(reason))
    }

    /// What the exchange cost, in tokens.
    pub fn usage(&self, prompt: u64, completion: u64) -> &Self {
        self.event(&openai::usage(prompt, completion))
    }

    /// `[DONE]` and the end of the body; the connection stays.
    pub fn done(&self) -> &Self {
        self.body(openai::DONE).end()
    }

    /// A whole answer that is an error.
    pub fn error(&self, status: u16, kind: &str, message: &str) -> &Self {
        self.answer(status, "application/json", openai::error(kind, message).to_string())
    }
}

/// A host without addresses, and no resolver is asked for them: no part of a name is longer than 63 bytes (RFC 1035, 2.3.4). For
/// a shorter name a server may be asked that never answers, and that takes a resolver half a minute.
pub const NO_HOST: &str = "no-host-has-a-name-of-which-one-part-alone-is-longer-than-63-bytes.invalid";

/// An address at which every connection is refused, for as long as this lives.
pub struct Refusing {
    port: rustix::fd::OwnedFd,
}

impl Refusing {
    /// Takes a port without listening on it, so that no other process can.
    pub fn start() -> Refusing {
        use rustix::net::{AddressFamily, SocketType, bind, socket};
        let port = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&port, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port on loopback");
        Refusing { port }
    }

    /// The base URL for an `openai` endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/v1", address_of(&self.port))
    }
}

/// An address at which no connection comes about and none is refused, for as long as this lives: no process accepts those
/// that came before, and the kernel keeps no further ones.
pub struct Silent {
    listener: rustix::fd::OwnedFd,
    _untaken: Vec<TcpStream>,
}

impl Silent {
    /// Listens without accepting anything, and fills the kernel's queue.
    pub fn start() -> Silent {
        use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
        let listener = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port on loopback");
        listen(&listener, 0).expect("a socket that listens");
        let address = address_of(&listener);
        // The queue of a socket that keeps none in reserve is full with one (listen(2), `sk_acceptq_is_full`). That more are
        // not let in either is tried: where the kernel keeps a few, they are filled.
        let first = TcpStream::connect(address).expect("the first is let in");
        let fill = || TcpStream::connect_timeout(&address, Duration::from_millis(50)).ok();
        Silent { listener, _untaken: std::iter::once(first).chain(std::iter::from_fn(fill).take(100)).collect() }
    }

    /// The base URL for an `openai` endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/v1", address_of(&self.listener))
    }
}

fn address_of(socket: &rustix::fd::OwnedFd) -> SocketAddr {
    let address = rustix::net::getsockname(socket).expect("a bound socket has an address");
    SocketAddr::try_from(address).expect("an internet address")
}

/// Locks what no thread leaves locked: their panics would have failed the test already.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread of the peer panics")
}
