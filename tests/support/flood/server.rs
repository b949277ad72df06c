//! The loop that serves: connections, their slices and their timers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use serde_json::Value;

use super::super::{http, openai};
use super::{Plan, Tally, count, piece, raise_descriptor_limit};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
const FIRST_CONNECTION: usize = 2;

/// How much one connection is written before the next has its turn, in bytes.
const SLICE: usize = 64 * 1024;

/// One connection and the reply that is being written to it.
struct Connection {
    stream: TcpStream,
    reader: http::RequestReader,
    reply: Option<Reply>,
    out: Vec<u8>,
    written: usize,
    /// The end of what is in `out` is the end of the connection.
    closing: bool,
}

/// A reply under way.
struct Reply {
    tag: String,
    with_usage: bool,
    next: usize,
}

/// Why a connection is at its end.
struct Gone;

/// All connections and the one poll that they are in.
pub struct Server {
    plan: Plan,
    pub address: SocketAddr,
    poll: Poll,
    listener: TcpListener,
    pub waker: Arc<Waker>,
    pub stop: Arc<AtomicBool>,
    pub tally: Arc<Tally>,
    connections: BTreeMap<usize, Connection>,
    next_connection: usize,
    /// Connections that had a slice and have more to write.
    runnable: VecDeque<usize>,
    /// When which connection gets its next chunk.
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Replies whose last chunk waits until enough are under way.
    held: Vec<usize>,
}

impl Server {
    pub fn bind(plan: Plan) -> io::Result<Server> {
        assert!(plan.chunks > 0, "a reply has a chunk");
        raise_descriptor_limit();
        let poll = Poll::new()?;
        let mut listener = TcpListener::from_std(listen_with_long_queue()?);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Server {
            plan,
            address: listener.local_addr()?,
            waker: Arc::new(Waker::new(poll.registry(), WAKER)?),
            poll,
            listener,
            stop: Arc::default(),
            tally: Arc::default(),
            connections: BTreeMap::new(),
            next_connection: FIRST_CONNECTION,
            runnable: VecDeque::new(),
            due: BinaryHeap::new(),
            held: Vec::new(),
        })
    }

    pub fn run(&mut self) {
        let mut events = Events::with_capacity(1024);
        while !self.stop.load(Ordering::SeqCst) {
            match self.poll.poll(&mut events, self.timeout()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.expect("a poll of our own"),
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept_all(),
                    WAKER => {}
                    Token(number) => self.serve(number),
                }
            }
            self.serve_due();
            for _ in 0..self.runnable.len() {
                let number = self.runnable.pop_front().expect("counted");
                self.visit(number, |server, connection| server.write(number, connection));
            }
            self.release_held();
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.runnable.is_empty() {
            return Some(Duration::ZERO);
        }
        self.due.peek().map(|Reverse((due, _))| due.saturating_duration_since(Instant::now()))
    }

    fn accept_all(&mut self) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            let number = self.next_connection;
            self.next_connection += 1;
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, Token(number), interest).expect("a new descriptor");
            let _ = stream.set_nodelay(true);
            count(&self.tally.connections, 1);
            let connection = Connection {
                stream,
                reader: http::RequestReader::default(),
                reply: None,
                out: Vec::new(),
                written: 0,
                closing: false,
            };
            self.connections.insert(number, connection);
        }
    }

    /// Reads and writes what one connection allows.
    fn serve(&mut self, number: usize) {
        self.visit(number, |server, connection| {
            server.read(number, connection)?;
            server.write(number, connection)
        });
    }

    /// Does something to one connection, and forgets it when it is at its end.
    fn visit(&mut self, number: usize, what: impl FnOnce(&mut Server, &mut Connection) -> Result<(), Gone>) {
        let Some(mut connection) = self.connections.remove(&number) else { return };
        if what(self, &mut connection).is_ok() {
            self.connections.insert(number, connection);
        } else if connection.reply.is_some() {
            self.tally.end(&self.tally.cut);
        }
    }

    fn read(&mut self, number: usize, connection: &mut Connection) -> Result<(), Gone> {
        let mut portion = [0; 16 * 1024];
        loop {
            match connection.stream.read(&mut portion) {
                Ok(0) => return Err(Gone),
                Ok(count) => connection.reader.feed(&portion[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
            if let Some(request) = connection.reader.take_request().map_err(|_| Gone)? {
                self.answer(number, connection, &request);
            }
        }
    }

    fn answer(&mut self, number: usize, connection: &mut Connection, request: &http::Request) {
        if request.path == "/counts" {
            connection.out = http::head(200, &[("connection", "close")]);
            connection.out.extend_from_slice(self.tally.read().to_json().to_string().as_bytes());
            connection.closing = true;
            return;
        }
        self.tally.begin();
        let headers = [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")];
        connection.out.extend_from_slice(&http::head(200, &headers));
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let with_usage = body["stream_options"]["include_usage"] == true;
        connection.reply = Some(Reply { tag: tag_of(&openai::last_user_text(&body)), with_usage, next: 0 });
        if let Some(interval) = self.interval() {
            // Spread over the first interval, so that replies that began together do not tick together.
            let phase = if self.plan.is_spread { (number as f64 * 0.618_033_988_75).fract() } else { 1.0 };
            self.due.push(Reverse((Instant::now() + interval.mul_f64(phase), number)));
        }
    }

    fn write(&mut self, number: usize, connection: &mut Connection) -> Result<(), Gone> {
        let mut slice = SLICE;
        loop {
            if self.plan.pace.is_none() && connection.written == connection.out.len() {
                self.refill(number, connection);
            }
            if connection.written == connection.out.len() {
                return self.settle(connection);
            }
            if slice == 0 {
                self.runnable.push_back(number);
                return Ok(());
            }
            let unwritten = &connection.out[connection.written..];
            match connection.stream.write(&unwritten[..unwritten.len().min(slice)]) {
                Ok(taken) => {
                    connection.written += taken;
                    slice -= taken;
                    count(&self.tally.bytes, taken as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
    }

    /// With everything written: counts a reply that is at its end, and closes what was to be closed.
    fn settle(&self, connection: &mut Connection) -> Result<(), Gone> {
        connection.out.clear();
        connection.written = 0;
        if connection.reply.as_ref().is_some_and(|reply| reply.next > self.plan.chunks) {
            connection.reply = None;
            self.tally.end(&self.tally.complete);
        }
        if connection.closing { Err(Gone) } else { Ok(()) }
    }

    /// Puts as many chunks into the empty buffer as make about one slice.
    fn refill(&mut self, number: usize, connection: &mut Connection) {
        connection.out.clear();
        connection.written = 0;
        while connection.out.len() < SLICE / 4 && self.add_chunk(number, connection) {}
    }

    /// Adds the next chunk of the reply, or its end; tells whether there was one to add.
    fn add_chunk(&mut self, number: usize, connection: &mut Connection) -> bool {
        let Some(reply) = &mut connection.reply else { return false };
        if reply.next + 1 == self.plan.chunks && !self.tally.have_been_together(self.plan.together) {
            self.held.push(number);
            return false;
        }
        match reply.next {
            next if next < self.plan.chunks => {
                let event = openai::event(&openai::text(&piece(&reply.tag, next)));
                connection.out.extend_from_slice(&http::chunk(event.as_bytes()));
            }
            next if next == self.plan.chunks => connection.out.extend_from_slice(&end_of(reply, self.plan.chunks)),
            _ => return false,
        }
        reply.next += 1;
        true
    }

    /// Writes the chunk of every reply whose time has come.
    fn serve_due(&mut self) {
        let now = Instant::now();
        while let Some(Reverse((due, number))) = self.due.peek().copied()
            && due <= now
        {
            self.due.pop();
            self.tick(number, due);
        }
    }

    fn tick(&mut self, number: usize, due: Instant) {
        self.visit(number, |server, connection| {
            let more = server.add_chunk(number, connection);
            let last = connection.reply.as_ref().is_some_and(|reply| reply.next == server.plan.chunks);
            if last {
                // The end comes with the last chunk, not an interval later.
                server.add_chunk(number, connection);
            } else if let (true, Some(interval)) = (more, server.interval()) {
                server.due.push(Reverse((due + interval, number)));
            }
            server.write(number, connection)
        });
    }

    fn release_held(&mut self) {
        if self.held.is_empty() || !self.tally.have_been_together(self.plan.together) {
            return;
        }
        let now = Instant::now();
        for number in std::mem::take(&mut self.held) {
            match self.plan.pace {
                Some(_) => self.due.push(Reverse((now, number))),
                None => self.runnable.push_back(number),
            }
        }
    }

    fn interval(&self) -> Option<Duration> {
        self.plan.pace.map(|pace| Duration::from_secs_f64(1.0 / pace))
    }
}

fn end_of(reply: &Reply, chunks: usize) -> Vec<u8> {
    let usage = reply.with_usage.then(|| openai::event(&openai::usage(10, chunks as u64)));
    let events = openai::event(&openai::finish("stop")) + &usage.unwrap_or_default() + openai::DONE;
    [http::chunk(events.as_bytes()).as_slice(), http::LAST_CHUNK].concat()
}

/// The first `tag-...` in a text, or `untagged`.
fn tag_of(text: &str) -> String {
    let Some((_, rest)) = text.split_once("tag-") else { return "untagged".to_owned() };
    let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    format!("tag-{name}")
}

/// A listener that can have thousands of connections waiting: the standard one drops what comes at once.
fn listen_with_long_queue() -> io::Result<std::net::TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0)))?;
    listen(&socket, 8192)?;
    Ok(socket.into())
}
