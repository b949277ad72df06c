//! HTTP through libcurl, driven by the loop and never by itself. Only this room uses the `curl` crate.
//!
//! One [`Connection`] an agent, each with a multi handle of its own. libcurl tells by callbacks which descriptors it
//! wants watched and when it wants to be called again; the callbacks only write this down. Bytes that arrive are only
//! kept. Whoever calls a method of a [`Connection`] then takes its wishes to the reactor, before anything else is done.

mod inbox;
mod lookup;
mod network;
mod probe;
mod trust;
mod words;

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use curl::easy::{Easy2, HttpVersion, List};
use curl::multi::{Easy2Handle, Events, Multi};

use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::http::{HttpHead, HttpRequest};
use crate::domain::readiness::{Readiness, SocketRequest};
use inbox::Inbox;
pub use lookup::{Addresses, Lookup};
pub use network::Network;
pub use probe::probe;
use trust::Trust;
use words::{explain, host_of, unresolved};

/// How long the transfer of a reply that is whole may take to end by itself.
const DRAIN: Duration = Duration::from_millis(250);
/// How long a connection may take to come about, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// libcurl's smallest: every agent at work holds one, and a request is sent in a few portions of it.
const UPLOAD_BUFFER: usize = 16 * 1024;

/// Whether libcurl was compiled to use `poll`: without it no descriptor of 1024 or more can connect.
/// `.cargo/config.toml` sees to it; a build that did not read that file is found out here.
pub const HAS_POLL: bool = {
    match option_env!("CFLAGS") {
        Some(flags) => contains(flags.as_bytes(), b"-DHAVE_POLL"),
        None => false,
    }
};

/// How many agents may be at work where [`HAS_POLL`] is false: descriptors below 1024, five an agent.
pub const AGENTS_WITHOUT_POLL: usize = 180;

/// One agent's way to its provider: at most one transfer at a time.
///
/// The fields drop from the top: a transfer that outlives its multi handle is freed memory in use.
#[derive(Default)]
pub struct Connection {
    live: Option<Easy2Handle<Inbox>>,
    multi: Option<Multi>,
    ended: Option<(Inbox, Result<()>)>,
    wishes: Arc<Mutex<Wishes>>,
    timer: Option<Moment>,
    /// The reply is whole and nobody reads on; until then the transfer may come to its own end.
    drains_until: Option<Moment>,
}

/// What libcurl asked for during the last call into it.
#[derive(Default)]
struct Wishes {
    sockets: Vec<SocketRequest>,
    /// `Some(None)`: the timer was taken back.
    timer: Option<Option<Duration>>,
}

impl Connection {
    /// Sends a request; the answer comes through [`Connection::read`]. A transfer that is still there is cancelled.
    ///
    /// # Errors
    /// When the URL or a header cannot be used, its host has no address, or no descriptor is left.
    pub fn start(&mut self, request: &HttpRequest, network: &Network, now: Moment) -> Result<()> {
        self.cancel(now);
        if network.is_missing(&request.url, now) {
            return Err(unresolved(&request.url));
        }
        let easy = prepare(request, network, now).map_err(|error| explain(&error, &request.url, CONNECT_TIMEOUT))?;
        let multi = match self.multi.take() {
            Some(multi) => multi,
            None => {
                require_descriptors()?;
                new_multi(&self.wishes).map_err(|error| Error::new(ErrorKind::System, error.to_string()))?
            }
        };
        let added = multi.add2(easy);
        self.multi = Some(multi);
        self.live = Some(added.map_err(|error| Error::new(ErrorKind::System, error.to_string()))?);
        self.note_timer(now);
        Ok(())
    }

    /// A descriptor of this connection has news.
    pub fn on_socket(&mut self, fd: RawFd, readiness: Readiness, network: &Network, now: Moment) {
        let mut events = Events::new();
        events.input(readiness.readable).output(readiness.writable).error(readiness.error);
        self.drive(network, now, |multi| multi.action(fd, &events));
    }

    /// The moment of [`Connection::timer`] has come.
    pub fn on_timer(&mut self, network: &Network, now: Moment) {
        if self.drains_until.is_some_and(|until| until <= now) {
            self.cancel(now);
        }
        if self.timer.is_some_and(|at| at <= now) {
            self.timer = None;
            self.drive(network, now, Multi::timeout);
        }
    }

    /// When [`Connection::on_timer`] wants to be called.
    pub fn timer(&self) -> Option<Moment> {
        self.timer.into_iter().chain(self.drains_until).min()
    }

    /// What is to be done about this connection's descriptors, in order.
    pub fn take_socket_requests(&mut self) -> Vec<SocketRequest> {
        std::mem::take(&mut lock(&self.wishes).sockets)
    }

    /// Hands over at most `limit` bytes of the answer's body, and lets a transfer that was held back go on.
    pub fn read(&mut self, limit: usize, now: Moment) -> Vec<u8> {
        let Some(inbox) = self.inbox_mut() else { return Vec::new() };
        let bytes = inbox.take(limit);
        if inbox.wants_to_resume() {
            inbox.is_paused = false;
            // Unpausing hands over what was held back; if that ends the transfer, libcurl's timer tells so.
            if let Some(live) = &self.live {
                drop(live.unpause_write());
            }
            self.note_timer(now);
        }
        bytes
    }

    /// Whether there are bytes that were not read yet.
    pub fn has_bytes(&self) -> bool {
        self.inbox().is_some_and(|inbox| !inbox.is_empty())
    }

    /// How many bytes of this transfer have moved so far, either way.
    pub fn bytes_transferred(&self) -> u64 {
        self.inbox().map_or(0, |inbox| inbox.moved)
    }

    /// Status and headers, as far as they came.
    pub fn head(&self) -> Option<&HttpHead> {
        self.inbox().map(|inbox| &inbox.head)
    }

    /// How the transfer ended, once it did and all its bytes were read. Empties.
    pub fn take_end(&mut self) -> Option<Result<()>> {
        if self.has_bytes() {
            return None;
        }
        self.ended.take().map(|(_, outcome)| outcome)
    }

    /// Whether the transfer has ended; bytes may be left to read.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Nothing more is wanted of this transfer. It may come to its own end within a moment, so that the connection can
    /// serve the next request; then it is cancelled.
    pub fn drain(&mut self, now: Moment) {
        self.ended = None;
        if let Some(live) = &mut self.live {
            live.get_mut().take(usize::MAX);
            self.drains_until = Some(now + DRAIN);
        }
    }

    /// Ends the transfer, if there is one, and forgets what it brought.
    pub fn cancel(&mut self, now: Moment) {
        self.drains_until = None;
        self.ended = None;
        if let (Some(live), Some(multi)) = (self.live.take(), &self.multi) {
            drop(multi.remove2(live));
        }
        self.note_timer(now);
    }

    /// Closes everything, a connection kept for the next request included.
    pub fn close(&mut self, now: Moment) {
        self.cancel(now);
        self.multi = None;
        self.timer = None;
        lock(&self.wishes).timer = None;
    }

    fn drive(
        &mut self,
        network: &Network,
        now: Moment,
        call: impl FnOnce(&Multi) -> std::result::Result<u32, curl::MultiError>,
    ) {
        let Some(multi) = &self.multi else { return };
        // A refusal means that the descriptor is no longer this multi's: stale news.
        drop(call(multi));
        self.note_end(network, now);
        self.note_timer(now);
    }

    fn note_end(&mut self, network: &Network, now: Moment) {
        let (Some(multi), Some(live)) = (&self.multi, &self.live) else { return };
        let mut outcome = None;
        multi.messages(|message| outcome = message.result_for2(live).or(outcome.take()));
        let Some(outcome) = outcome else { return };
        let url = live.get_ref().url.clone();
        let Some(Ok(mut easy)) = self.live.take().map(|live| multi.remove2(live)) else { return };
        let is_wanted = self.drains_until.take().is_none();
        match (&outcome, easy.primary_ip().ok().flatten()) {
            (Ok(()), Some(address)) => network.learn(&url, address, now),
            (Err(_), _) if is_wanted => network.forget(&url),
            _ => {}
        }
        let outcome = outcome.map_err(|error| explain(&error, &url, CONNECT_TIMEOUT));
        let inbox = std::mem::replace(easy.get_mut(), Inbox::new("", [].into()));
        self.ended = is_wanted.then_some((inbox, outcome));
    }

    fn note_timer(&mut self, now: Moment) {
        if let Some(asked) = lock(&self.wishes).timer.take() {
            self.timer = asked.map(|after| now + after);
        }
    }

    fn inbox(&self) -> Option<&Inbox> {
        match (&self.live, &self.ended) {
            (Some(live), _) => Some(live.get_ref()),
            (None, Some((inbox, _))) => Some(inbox),
            (None, None) => None,
        }
    }

    fn inbox_mut(&mut self) -> Option<&mut Inbox> {
        match (&mut self.live, &mut self.ended) {
            (Some(live), _) => Some(live.get_mut()),
            (None, Some((inbox, _))) => Some(inbox),
            (None, None) => None,
        }
    }
}

fn lock(wishes: &Mutex<Wishes>) -> std::sync::MutexGuard<'_, Wishes> {
    // Only this thread ever locks it, and never across a call into libcurl.
    wishes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A multi handle that gets no descriptors panics: so it is seen first that there are some.
fn require_descriptors() -> Result<()> {
    let free = [rustix::pipe::pipe(), rustix::pipe::pipe(), rustix::pipe::pipe()];
    match free.iter().all(std::result::Result::is_ok) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::System, "no descriptors are left: raise the limit (ulimit -n)")),
    }
}

fn new_multi(wishes: &Arc<Mutex<Wishes>>) -> std::result::Result<Multi, curl::MultiError> {
    let mut multi = Multi::new();
    let kept = Arc::clone(wishes);
    multi.socket_function(move |fd, asked, _| {
        let wish = if asked.remove() {
            SocketRequest::Unwatch { fd }
        } else {
            let both = asked.input_and_output();
            SocketRequest::Watch { fd, readable: asked.input() || both, writable: asked.output() || both }
        };
        lock(&kept).sockets.push(wish);
    })?;
    let kept = Arc::clone(wishes);
    multi.timer_function(move |after| {
        lock(&kept).timer = Some(after);
        true
    })?;
    // One agent, one conversation: a second kept connection would only cost a descriptor.
    multi.set_max_connects(1)?;
    Ok(multi)
}

fn prepare(request: &HttpRequest, network: &Network, now: Moment) -> std::result::Result<Easy2<Inbox>, curl::Error> {
    let mut easy = Easy2::new(Inbox::new(&request.url, request.body.clone()));
    easy.url(&request.url)?;
    easy.post(true)?;
    easy.post_field_size(request.body.len() as u64)?;
    let mut headers = List::new();
    for (name, value) in &request.headers {
        headers.append(&format!("{name}: {value}"))?;
    }
    // Without this libcurl waits a second for "100 Continue" before a body of more than 1 MB.
    headers.append("Expect:")?;
    easy.http_headers(headers)?;
    easy.useragent(concat!("polylogue/", env!("CARGO_PKG_VERSION")))?;
    easy.http_version(HttpVersion::V2TLS)?;
    easy.upload_buffer_size(UPLOAD_BUFFER)?;
    easy.connect_timeout(CONNECT_TIMEOUT)?;
    easy.follow_location(false)?;
    network.apply(&mut easy, &request.url, now)?;
    Ok(easy)
}

const fn contains(text: &[u8], wanted: &[u8]) -> bool {
    let mut start = 0;
    while start + wanted.len() <= text.len() {
        let mut at = 0;
        while at < wanted.len() && text[start + at] == wanted[at] {
            at += 1;
        }
        if at == wanted.len() {
            return true;
        }
        start += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_build_of_libcurl_uses_poll() {
        // .cargo/config.toml sets CFLAGS for the bundled libcurl.
        const { assert!(HAS_POLL) };
    }

    /// What a connection wants to hear of each of its descriptors: reading, writing.
    type Watched = std::collections::BTreeMap<RawFd, (bool, bool)>;

    /// Serves the descriptors of a connection until something holds.
    fn drive_until(
        connection: &mut Connection,
        watched: &mut Watched,
        network: &Network,
        holds: impl Fn(&Connection) -> bool,
    ) {
        let start = std::time::Instant::now();
        while !holds(connection) {
            assert!(start.elapsed() < Duration::from_secs(60), "it never came");
            for wish in connection.take_socket_requests() {
                match wish {
                    SocketRequest::Watch { fd, readable, writable } => drop(watched.insert(fd, (readable, writable))),
                    SocketRequest::Unwatch { fd } => drop(watched.remove(&fd)),
                }
            }
            for (fd, (readable, writable)) in watched.clone() {
                let readiness = Readiness { readable, writable, ..Readiness::default() };
                connection.on_socket(fd, readiness, network, Moment::default());
            }
            connection.timer = connection.timer.map(|_| Moment::default());
            connection.on_timer(network, Moment::default());
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_address_is_learnt_from_a_transfer_that_ends_after_its_reply_was_whole() {
        use std::io::{Read as _, Write as _};
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let url = format!("http://localhost:{port}/v1");
        let (mut connection, network) = (Connection::default(), Network::default());
        let mut watched = Watched::new();
        let request = HttpRequest { url, headers: Vec::new(), body: b"{}"[..].into() };
        connection.start(&request, &network, Moment::default()).unwrap();
        let accepting = std::thread::spawn(move || {
            let (mut client, _) = server.accept().unwrap();
            assert!(client.read(&mut [0; 4096]).unwrap() > 0);
            client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab").unwrap();
            client
        });
        drive_until(&mut connection, &mut watched, &network, Connection::has_bytes);
        connection.drain(Moment::default());
        let mut client = accepting.join().unwrap();
        client.write_all(b"cd").unwrap();
        drive_until(&mut connection, &mut watched, &network, |connection| connection.live.is_none());
        assert!(network.knows(&format!("localhost:{port}")));
    }

    #[test]
    fn a_connection_that_is_dropped_in_the_middle_of_a_transfer_is_freed_in_order() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", server.local_addr().unwrap());
        let request = HttpRequest { url, headers: Vec::new(), body: b"{}"[..].into() };
        for _ in 0..50 {
            let mut connection = Connection::default();
            connection.start(&request, &Network::default(), Moment::default()).unwrap();
            connection.on_timer(&Network::default(), Moment::default());
            assert!(connection.live.is_some());
            drop(connection);
        }
    }
}
