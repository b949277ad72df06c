//! The only poll: all descriptors that the program waits for, and their tokens. Only this module uses mio.
//!
//! - Tokens are never reused. An event for an unknown token is stale and dropped here.
//! - mio is edge-triggered. Call [`Reactor::rearm`] after serving a socket of libcurl: libcurl does not always read or
//!   write until EAGAIN, and without the new registration no event would follow.
//! - A descriptor may be closed before it is unwatched, and its number may soon belong to another agent. So socket
//!   requests must be carried out right after the call into libcurl that made them.
//! - An interrupted poll (EINTR) returns no events.
//! - Sockets of replies that stream are in a second poll, which is in the first like any descriptor, unless it is paused: then
//!   what they receive ends no wait, and is read by [`Reactor::read_streams`].

mod ignored_signals;
mod signals;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::Arc;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token, Waker};

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::readiness::{Readiness, SocketRequest};
pub use signals::{Signal, Signals};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A terminal's keyboard and screen.
    Terminal,
    /// The descriptor of [`Signals`].
    Signals,
    Waker,
    /// A descriptor of the embedding program, which serves it.
    External(RawFd),
    Socket(AgentId, RawFd),
    Listener,
    /// A client of the server, by its number; numbers are never reused.
    Client(u64),
    /// A socket of the proxy, by its number; numbers are never reused.
    Proxy(u64),
    /// A descriptor of a process or transfer of a feature, by the number that it has there, which is never reused.
    #[cfg_attr(not(any(feature = "mcp", feature = "web-fetch")), allow(dead_code))]
    Feature {
        name: &'static str,
        number: u64,
        fd: RawFd,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    pub source: Source,
    pub readiness: Readiness,
}

struct Watched {
    fd: RawFd,
    interest: Interest,
    source: Source,
    is_stream: bool,
}

/// The poll and its tokens.
pub struct Reactor {
    poll: Poll,
    /// Made when there is the first.
    streams: Option<Poll>,
    is_paused: bool,
    events: Events,
    watched: HashMap<Token, Watched>,
    tokens: HashMap<Source, Token>,
    next_token: usize,
    waker: Arc<Waker>,
}

const WAKER: Token = Token(0);
const STREAMS: Token = Token(1);
/// Events per wait, which bounds the length of a turn; the others come with the next one.
pub const EVENTS_PER_WAIT: usize = 256;

impl Reactor {
    /// A poll that watches only its waker.
    pub fn new() -> Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        Ok(Self {
            poll,
            streams: None,
            is_paused: false,
            events: Events::with_capacity(EVENTS_PER_WAIT),
            watched: HashMap::new(),
            tokens: HashMap::new(),
            next_token: STREAMS.0 + 1,
            waker,
        })
    }

    /// A function that ends a wait from any thread.
    pub fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let waker = Arc::clone(&self.waker);
        // If it fails, the loop still polls tool threads every 50 ms.
        Arc::new(move || drop(waker.wake()))
    }

    /// Watches a descriptor for reading, writing or both; with neither it is unwatched. Watching it again changes this.
    ///
    /// # Errors
    /// The kernel refuses it, for example because it is a regular file.
    pub fn watch(&mut self, source: Source, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        let Some(interest) = interest(readable, writable) else {
            self.unwatch(source);
            return Ok(());
        };
        if let Some(token) = self.tokens.get(&source) {
            let watched = self.watched.get_mut(token).expect("every token is watched");
            watched.interest = interest;
            registry(&self.poll, &self.streams, watched).reregister(&mut SourceFd(&fd), *token, interest)?;
            return Ok(());
        }
        let token = Token(self.next_token);
        self.next_token += 1;
        self.poll.registry().register(&mut SourceFd(&fd), token, interest)?;
        self.watched.insert(token, Watched { fd, interest, source, is_stream: false });
        self.tokens.insert(source, token);
        Ok(())
    }

    /// Stops watching. The descriptor may be closed already.
    pub fn unwatch(&mut self, source: Source) {
        let Some(token) = self.tokens.remove(&source) else { return };
        let watched = self.watched.remove(&token).expect("every token is watched");
        // The kernel has already removed a closed descriptor.
        drop(registry(&self.poll, &self.streams, &watched).deregister(&mut SourceFd(&watched.fd)));
    }

    /// Carries out the socket requests of a transfer, in order. A socket that was to be watched and then not is already
    /// closed, and its number may belong to another file: only the latter request is carried out.
    ///
    /// # Errors
    /// The kernel refuses to watch a socket. The other requests are carried out.
    pub fn apply(&mut self, source: impl Fn(RawFd) -> Source, requests: &[SocketRequest]) -> Result<()> {
        let mut outcome = Ok(());
        for (at, request) in requests.iter().enumerate() {
            match *request {
                SocketRequest::Watch { fd, readable, writable } => {
                    if !requests[at..].contains(&SocketRequest::Unwatch { fd }) {
                        let watched = self.watch(source(fd), fd, readable, writable);
                        outcome = outcome.and(watched);
                    }
                }
                SocketRequest::Unwatch { fd } => self.unwatch(source(fd)),
            }
        }
        outcome
    }

    /// Registers a served source again, if it is still watched, so that unread data causes another event.
    pub fn rearm(&mut self, source: Source) -> Result<()> {
        let Some(token) = self.tokens.get(&source) else { return Ok(()) };
        let watched = &self.watched[token];
        let registry = registry(&self.poll, &self.streams, watched);
        Ok(registry.reregister(&mut SourceFd(&watched.fd), *token, watched.interest)?)
    }

    /// Moves a socket to the poll of streams or back, if it is not there, and registers it again like [`Reactor::rearm`].
    pub fn rearm_in(&mut self, source: Source, is_stream: bool) -> Result<()> {
        if is_stream && self.streams.is_none() {
            // Without a descriptor for it, the socket stays where it is.
            self.streams = new_streams(&self.poll).ok();
        }
        let Some(token) = self.tokens.get(&source) else { return Ok(()) };
        let watched = self.watched.get_mut(token).expect("every token is watched");
        if watched.is_stream == is_stream || self.streams.is_none() {
            return self.rearm(source);
        }
        let fd = &mut SourceFd(&watched.fd);
        registry(&self.poll, &self.streams, watched).deregister(fd)?;
        watched.is_stream = is_stream;
        let moved = registry(&self.poll, &self.streams, watched).register(fd, *token, watched.interest);
        if moved.is_err() {
            self.unwatch(source);
        }
        Ok(moved?)
    }

    /// Whether what the streams receive ends no wait.
    pub fn pause_streams(&mut self, is_paused: bool) -> Result<()> {
        let Some(streams) = self.streams.as_ref().filter(|_| self.is_paused != is_paused) else { return Ok(()) };
        let (registry, fd) = (self.poll.registry(), streams.as_raw_fd());
        match is_paused {
            true => registry.deregister(&mut SourceFd(&fd))?,
            false => registry.register(&mut SourceFd(&fd), STREAMS, Interest::READABLE)?,
        }
        self.is_paused = is_paused;
        Ok(())
    }

    /// Appends the streams that have received something to `ready`, at most [`EVENTS_PER_WAIT`]. Returns how many events
    /// there were.
    pub fn read_streams(&mut self, ready: &mut Vec<Ready>) -> Result<usize> {
        let Some(streams) = &mut self.streams else { return Ok(0) };
        poll(streams, &mut self.events, Some(Duration::ZERO))?;
        self.append(ready);
        Ok(self.events.iter().count())
    }

    /// What is watched, and whether for reading and writing, in the order in which it was registered.
    pub fn watched(&self) -> Vec<(Source, RawFd, bool, bool)> {
        let mut watched: Vec<(&Token, &Watched)> = self.watched.iter().collect();
        watched.sort_by_key(|(token, _)| **token);
        let facts = |watched: &Watched| {
            let is_heard = !(watched.is_stream && self.is_paused);
            let (reads, writes) = (watched.interest.is_readable(), watched.interest.is_writable());
            (watched.source, watched.fd, reads && is_heard, writes && is_heard)
        };
        watched.into_iter().map(|(_, watched)| facts(watched)).collect()
    }

    pub fn is_watched(&self, source: Source) -> bool {
        self.tokens.contains_key(&source)
    }

    /// Waits for events for at most `timeout` (`None` for no limit) and appends them to `ready`.
    ///
    /// # Errors
    /// The kernel refuses to poll. An interrupted call is not an error.
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> Result<()> {
        poll(&mut self.poll, &mut self.events, timeout)?;
        self.append(ready);
        if self.events.iter().any(|event| event.token() == STREAMS) && self.read_streams(ready)? == EVENTS_PER_WAIT {
            // There may be more.
            let streams = self.streams.as_ref().expect("it has had events").as_raw_fd();
            self.poll.registry().reregister(&mut SourceFd(&streams), STREAMS, Interest::READABLE)?;
        }
        Ok(())
    }

    fn append(&self, ready: &mut Vec<Ready>) {
        for event in &self.events {
            let source = match self.watched.get(&event.token()) {
                Some(watched) => watched.source,
                None if event.token() == WAKER => Source::Waker,
                None => continue,
            };
            let error = event.is_error();
            let readable = event.is_readable() || event.is_read_closed() || error;
            ready.push(Ready { source, readiness: Readiness { readable, writable: event.is_writable(), error } });
        }
    }
}

fn new_streams(poll: &Poll) -> io::Result<Poll> {
    let streams = Poll::new()?;
    poll.registry().register(&mut SourceFd(&streams.as_raw_fd()), STREAMS, Interest::READABLE)?;
    Ok(streams)
}

/// Where a source is registered.
fn registry<'a>(poll: &'a Poll, streams: &'a Option<Poll>, watched: &Watched) -> &'a Registry {
    streams.as_ref().filter(|_| watched.is_stream).unwrap_or(poll).registry()
}

/// Leaves no events if it is interrupted.
fn poll(poll: &mut Poll, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
    match poll.poll(events, timeout) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            events.clear();
            Ok(())
        }
        outcome => outcome,
    }
}

fn interest(readable: bool, writable: bool) -> Option<Interest> {
    match (readable, writable) {
        (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
        (true, false) => Some(Interest::READABLE),
        (false, true) => Some(Interest::WRITABLE),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    fn of(agent: AgentId) -> impl Fn(RawFd) -> Source {
        move |fd| Source::Socket(agent, fd)
    }

    fn ready(reactor: &mut Reactor) -> Vec<Source> {
        let mut ready = Vec::new();
        reactor.wait(Some(Duration::ZERO), &mut ready).unwrap();
        ready.into_iter().map(|event| event.source).collect()
    }

    #[test]
    fn unread_bytes_give_another_event_only_after_rearming() {
        let mut reactor = Reactor::new().unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        reactor.watch(Source::Terminal, far.as_raw_fd(), true, false).unwrap();
        near.write_all(b"x").unwrap();
        assert_eq!(ready(&mut reactor), [Source::Terminal]);
        assert_eq!(ready(&mut reactor), []);
        reactor.rearm(Source::Terminal).unwrap();
        assert_eq!(ready(&mut reactor), [Source::Terminal]);
    }

    #[test]
    fn a_reused_descriptor_number_gives_events_only_to_its_new_owner() {
        let mut reactor = Reactor::new().unwrap();
        let (a, b) = (AgentId::from_bytes([1; 16]), AgentId::from_bytes([2; 16]));
        let (_, far) = UnixStream::pair().unwrap();
        let mut far = OwnedFd::from(far);
        let fd = far.as_raw_fd();
        reactor.apply(of(a), &[SocketRequest::Watch { fd, readable: true, writable: false }]).unwrap();
        // A's socket is replaced by B's under the same number atomically: another test could take the number otherwise.
        let (mut near, other) = UnixStream::pair().unwrap();
        rustix::io::dup2(other, &mut far).unwrap();
        reactor.apply(of(a), &[SocketRequest::Unwatch { fd }]).unwrap();
        reactor.apply(of(b), &[SocketRequest::Watch { fd, readable: true, writable: false }]).unwrap();
        near.write_all(b"x").unwrap();
        assert_eq!(ready(&mut reactor), [Source::Socket(b, fd)]);
        assert_eq!(reactor.watched.len(), 1);
    }

    #[test]
    fn a_socket_that_was_watched_and_closed_in_one_step_is_not_watched_and_nothing_else_is_skipped() {
        let mut reactor = Reactor::new().unwrap();
        let agent = AgentId::from_bytes([1; 16]);
        let (_near, far) = UnixStream::pair().unwrap();
        // No open file has so high a number.
        let (closed, fd) = (i32::MAX, far.as_raw_fd());
        let watch = |fd| SocketRequest::Watch { fd, readable: true, writable: false };
        reactor.apply(of(agent), &[watch(closed), SocketRequest::Unwatch { fd: closed }, watch(fd)]).unwrap();
        assert_eq!(reactor.watched.len(), 1);
        // The number was reused: the second socket is watched.
        reactor.apply(of(agent), &[SocketRequest::Unwatch { fd }, watch(fd)]).unwrap();
        assert_eq!(reactor.watched.len(), 1);
        reactor.apply(of(agent), &[watch(closed), SocketRequest::Unwatch { fd }]).unwrap_err();
        assert_eq!(reactor.watched.len(), 0);
    }

    #[test]
    fn a_wake_from_another_thread_ends_the_wait() {
        let mut reactor = Reactor::new().unwrap();
        let wake = reactor.waker();
        let thread = std::thread::spawn(move || wake());
        let mut ready = Vec::new();
        reactor.wait(None, &mut ready).unwrap();
        thread.join().unwrap();
        assert_eq!(ready[0].source, Source::Waker);
    }

    #[test]
    fn unwatching_twice_or_after_the_close_is_not_an_error() {
        let mut reactor = Reactor::new().unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        reactor.watch(Source::Signals, far.as_raw_fd(), true, false).unwrap();
        drop((near, far));
        reactor.unwatch(Source::Signals);
        reactor.unwatch(Source::Signals);
        reactor.rearm(Source::Signals).unwrap();
        assert_eq!(reactor.watched.len(), 0);
    }
}
