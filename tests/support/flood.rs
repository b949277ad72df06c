//! A server for thousands of streaming replies at once: one thread, one poll, scripted by numbers.
//!
//! Every reply names the request it answers: a tag such as `tag-17` is read from the newest message
//! of the user, and the chunks of the reply are `tag-17:0 `, `tag-17:1 `, ... So a client can check
//! that nothing was lost, doubled or mixed ([`reply_for`] is the whole text).
//!
//! It runs on a thread of a test, or as a process of its own ([`FloodProcess`]) so that a benchmark
//! measures only the client: the running binary starts itself again, and [`serve_if_asked`], first
//! thing in that copy, becomes the server.

mod server;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use mio::Waker;
use serde_json::{Value, json};

use server::Server;

/// Asks the copy of ourselves to serve, with the plan as JSON.
const SERVE: &str = "FLOOD_SERVE";
/// What precedes the address in the line by which the copy says that it serves.
const SERVING: &str = "flood serves at ";

/// What every request is answered with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// How many chunks of text a reply has.
    pub chunks: usize,
    /// Chunks per second of one reply; none: as quickly as the socket takes them.
    pub pace: Option<f64>,
    /// The first chunks of replies are spread over the time between two chunks; otherwise each comes that time after its
    /// request.
    pub is_spread: bool,
    /// No reply ends before so many have been under way at once; 0 and 1 ask for nothing.
    pub together: usize,
}

impl Plan {
    /// Replies of `chunks` chunks as quickly as the socket takes them.
    pub fn quick(chunks: usize) -> Plan {
        Plan { chunks, pace: None, is_spread: true, together: 0 }
    }

    /// Replies of `chunks` chunks at `pace` chunks per second each.
    pub fn paced(chunks: usize, pace: f64) -> Plan {
        Plan { chunks, pace: Some(pace), is_spread: true, together: 0 }
    }

    /// Replies of one chunk, each so many seconds after its request.
    pub fn after(seconds: f64) -> Plan {
        Plan { chunks: 1, pace: Some(1.0 / seconds), is_spread: false, together: 0 }
    }

    /// The same, but no reply ends before `count` have been under way at once.
    pub fn together(self, count: usize) -> Plan {
        Plan { together: count, ..self }
    }

    fn to_json(self) -> Value {
        json!([self.chunks, self.pace, self.is_spread, self.together])
    }

    fn from_json(plan: &str) -> Plan {
        let (chunks, pace, is_spread, together) = serde_json::from_str(plan).expect("a plan that spawn wrote");
        Plan { chunks, pace, is_spread, together }
    }
}

/// The text of the reply to a request with this tag.
pub fn reply_for(tag: &str, chunks: usize) -> String {
    (0..chunks).map(|number| piece(tag, number)).collect()
}

fn piece(tag: &str, number: usize) -> String {
    format!("{tag}:{number} ")
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Requests that came as a whole.
    pub requests: u64,
    /// Replies under way now.
    pub streaming: u64,
    /// The most replies that were under way at once.
    pub peak: u64,
    /// Replies that were written to their end.
    pub complete: u64,
    /// Replies that the client cut by closing.
    pub cut: u64,
    /// Connections that were opened; each [`FloodProcess::counts`] is one.
    pub connections: u64,
    /// Bytes that sockets took from us.
    pub bytes: u64,
}

impl Counts {
    fn to_json(self) -> Value {
        let Counts { requests, streaming, peak, complete, cut, connections, bytes } = self;
        json!([requests, streaming, peak, complete, cut, connections, bytes])
    }

    fn from_json(counts: &[u8]) -> Counts {
        let [requests, streaming, peak, complete, cut, connections, bytes] =
            serde_json::from_slice(counts).expect("counts that the flood wrote");
        Counts { requests, streaming, peak, complete, cut, connections, bytes }
    }
}

/// The counts as the serving thread keeps them and others read them.
#[derive(Default)]
struct Tally {
    requests: AtomicU64,
    streaming: AtomicU64,
    peak: AtomicU64,
    complete: AtomicU64,
    cut: AtomicU64,
    connections: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    fn read(&self) -> Counts {
        let read = |number: &AtomicU64| number.load(Ordering::SeqCst);
        Counts {
            requests: read(&self.requests),
            streaming: read(&self.streaming),
            peak: read(&self.peak),
            complete: read(&self.complete),
            cut: read(&self.cut),
            connections: read(&self.connections),
            bytes: read(&self.bytes),
        }
    }

    fn begin(&self) {
        count(&self.requests, 1);
        let streaming = self.streaming.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(streaming, Ordering::SeqCst);
    }

    fn have_been_together(&self, count: usize) -> bool {
        self.peak.load(Ordering::SeqCst) >= count as u64
    }

    fn end(&self, how: &AtomicU64) {
        self.streaming.fetch_sub(1, Ordering::SeqCst);
        count(how, 1);
    }
}

fn count(number: &AtomicU64, more: u64) {
    number.fetch_add(more, Ordering::SeqCst);
}

/// The server on a thread of this process. Dropped, it closes everything.
pub struct Flood {
    address: SocketAddr,
    tally: Arc<Tally>,
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Serves on a free port of 127.0.0.1.
    pub fn start(plan: Plan) -> Flood {
        let mut server = Server::bind(plan).expect("a server on loopback");
        let (tally, stop, waker) = (Arc::clone(&server.tally), Arc::clone(&server.stop), Arc::clone(&server.waker));
        let address = server.address;
        let thread = Some(std::thread::spawn(move || server.run()));
        Flood { address, tally, stop, waker, thread }
    }

    /// The base URL for an `openai` endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        self.tally.read()
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = self.waker.wake();
        let served = self.thread.take().map(JoinHandle::join);
        // A panic on top of a failing test would hide its message.
        assert!(std::thread::panicking() || matches!(served, Some(Ok(()))), "the flood has failed");
    }
}

/// The server as a process of its own. Dropped, or its parent dead, it ends.
pub struct FloodProcess {
    address: SocketAddr,
    child: Child,
    /// Held open: a test harness that cannot say that its test takes long ends, and the server with it.
    _stdout: BufReader<ChildStdout>,
}

impl FloodProcess {
    /// Starts a copy of this binary, which must call [`serve_if_asked`].
    pub fn spawn(plan: Plan) -> FloodProcess {
        let module = module_path!().split_once("::").map_or("", |(_, inside)| inside);
        let mut child = Command::new(std::env::current_exe().expect("the path of this binary"))
            .args(["--exact", &format!("{module}::the_flood_child_serves"), "--nocapture"])
            .env(SERVE, plan.to_json().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("our own binary");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let address = (&mut stdout)
            .lines()
            .map_while(Result::ok)
            // The test harness says on the same line which test it runs.
            .find_map(|line| line.split_once(SERVING).and_then(|(_, address)| address.parse().ok()))
            .expect("a server that prints its address");
        FloodProcess { address, child, _stdout: stdout }
    }

    /// The base URL for an `openai` endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The process that serves.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        let mut stream = std::net::TcpStream::connect(self.address).expect("a flood that serves");
        stream.write_all(b"GET /counts HTTP/1.1\r\n\r\n").expect("a flood that reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("a flood that answers");
        let body = answer.iter().position(|byte| *byte == b'[').expect("a list");
        Counts::from_json(&answer[body..])
    }
}

impl Drop for FloodProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the copy that [`FloodProcess::spawn`] starts: serves until the parent is gone, and never
/// returns. Anywhere else it returns at once.
pub fn serve_if_asked() {
    let Ok(plan) = std::env::var(SERVE) else { return };
    let mut server = Server::bind(Plan::from_json(&plan)).expect("a server on loopback");
    println!("{SERVING}{}", server.address);
    io::stdout().flush().expect("a parent that reads");
    std::thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    server.run();
    std::process::exit(1);
}

/// Not a test: the entry point of the copy of this binary.
#[test]
fn the_flood_child_serves() {
    serve_if_asked();
}

/// Allows this process as many descriptors as it may have; returns that number.
pub fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("up to the maximum is allowed");
    limit.maximum.unwrap_or(u64::MAX)
}
