//! The one poll: every descriptor that the program waits for, and the tokens that name them. Only this room uses mio.
//!
//! Contract:
//! - Tokens are never reused. News for a token that is no longer known is stale and is dropped here.
//! - mio is edge-triggered. Whoever serves a socket of libcurl calls [`Reactor::rearm`] afterwards: libcurl does not
//!   always read or write until the kernel says "again", and without the new registration no news would follow.
//! - A descriptor that is forgotten may be closed already, and its number may belong to another agent a moment later:
//!   wishes are carried out right after the call into libcurl that made them.
//! - An interrupted poll (EINTR) is an empty turn.

mod signals;

use std::collections::HashMap;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::readiness::{Readiness, SocketRequest};
pub use signals::{Signal, Signals};

/// Whose descriptor it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A terminal's keyboard and screen.
    Terminal,
    /// The descriptor on which signals arrive.
    Signals,
    /// A tool thread has finished.
    Waker,
    /// A descriptor of whoever drives the loop, who serves it.
    External(RawFd),
    /// A socket of an agent's transfer.
    Socket(AgentId, RawFd),
    /// The socket at which clients come in.
    Listener,
    /// A client, by its number: numbers are never reused.
    Client(u64),
}

/// One piece of news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// Whose.
    pub source: Source,
    /// What the kernel said.
    pub readiness: Readiness,
}

struct Watched {
    fd: RawFd,
    interest: Interest,
    source: Source,
}

/// The poll and its book of tokens.
pub struct Reactor {
    poll: Poll,
    events: Events,
    watched: HashMap<Token, Watched>,
    tokens: HashMap<Source, Token>,
    next_token: usize,
    waker: Arc<Waker>,
}

/// Token 0 is the waker's for ever.
const WAKER: Token = Token(0);
/// How many pieces of news one wait hands over; what does not fit comes with the next, so that a turn stays short.
const EVENTS_PER_WAIT: usize = 256;

impl Reactor {
    /// A poll that watches nothing but its waker.
    ///
    /// # Errors
    /// When the kernel gives no descriptor.
    pub fn new() -> Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS_PER_WAIT),
            watched: HashMap::new(),
            tokens: HashMap::new(),
            next_token: WAKER.0 + 1,
            waker,
        })
    }

    /// Ends a wait from any thread.
    pub fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let waker = Arc::clone(&self.waker);
        // A wake that fails is made good by the 50 ms look at tool threads.
        Arc::new(move || drop(waker.wake()))
    }

    /// Watches a descriptor that the house owns, for reading and, if asked, writing. Watching it again changes what is asked.
    ///
    /// # Errors
    /// When the kernel refuses (a plain file, for example).
    pub fn watch(&mut self, source: Source, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        let Some(interest) = interest(readable, writable) else {
            self.unwatch(source);
            return Ok(());
        };
        if let Some(token) = self.tokens.get(&source) {
            let watched = self.watched.get_mut(token).expect("every token in the book is watched");
            watched.interest = interest;
            self.poll.registry().reregister(&mut SourceFd(&fd), *token, interest)?;
            return Ok(());
        }
        let token = Token(self.next_token);
        self.next_token += 1;
        self.poll.registry().register(&mut SourceFd(&fd), token, interest)?;
        self.watched.insert(token, Watched { fd, interest, source });
        self.tokens.insert(source, token);
        Ok(())
    }

    /// Stops watching; a descriptor that is closed already is no error.
    pub fn unwatch(&mut self, source: Source) {
        let Some(token) = self.tokens.remove(&source) else { return };
        let watched = self.watched.remove(&token).expect("every token in the book is watched");
        // A closed descriptor has left the kernel's set by itself.
        drop(self.poll.registry().deregister(&mut SourceFd(&watched.fd)));
    }

    /// Carries out what an agent's transfer wants of its sockets, in order.
    ///
    /// # Errors
    /// When the kernel refuses to watch a socket.
    pub fn apply(&mut self, agent: AgentId, wishes: impl IntoIterator<Item = SocketRequest>) -> Result<()> {
        for wish in wishes {
            match wish {
                SocketRequest::Watch { fd, readable, writable } => {
                    self.watch(Source::Socket(agent, fd), fd, readable, writable)?;
                }
                SocketRequest::Unwatch { fd } => self.unwatch(Source::Socket(agent, fd)),
            }
        }
        Ok(())
    }

    /// Asks again for news of a source that was served, if it is still watched.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn rearm(&mut self, source: Source) -> Result<()> {
        let Some(token) = self.tokens.get(&source) else { return Ok(()) };
        let watched = &self.watched[token];
        Ok(self.poll.registry().reregister(&mut SourceFd(&watched.fd), *token, watched.interest)?)
    }

    /// Whether this source is watched.
    pub fn is_watched(&self, source: Source) -> bool {
        self.tokens.contains_key(&source)
    }

    /// How many sources are watched, the waker not counted.
    pub fn watched_count(&self) -> usize {
        self.watched.len()
    }

    /// Waits until there is news or `timeout` has passed (`None`: for ever) and appends the news.
    ///
    /// # Errors
    /// When the kernel refuses to poll; never for an interrupted call.
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> Result<()> {
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            outcome => outcome?,
        }
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
        Ok(())
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

    fn ready(reactor: &mut Reactor) -> Vec<Source> {
        let mut ready = Vec::new();
        reactor.wait(Some(Duration::ZERO), &mut ready).unwrap();
        ready.into_iter().map(|one| one.source).collect()
    }

    #[test]
    fn what_was_not_read_is_told_again_only_after_rearming() {
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
    fn a_descriptor_number_that_passes_to_another_agent_in_one_turn_tells_only_the_new_one() {
        let mut reactor = Reactor::new().unwrap();
        let (a, b) = (AgentId::from_bytes([1; 16]), AgentId::from_bytes([2; 16]));
        let (_, far) = UnixStream::pair().unwrap();
        let mut far = OwnedFd::from(far);
        let fd = far.as_raw_fd();
        reactor.apply(a, [SocketRequest::Watch { fd, readable: true, writable: false }]).unwrap();
        // A's socket closes, and the same number is given to B, in one act: a test that runs beside this one would take it.
        let (mut near, other) = UnixStream::pair().unwrap();
        rustix::io::dup2(other, &mut far).unwrap();
        reactor.apply(a, [SocketRequest::Unwatch { fd }]).unwrap();
        reactor.apply(b, [SocketRequest::Watch { fd, readable: true, writable: false }]).unwrap();
        near.write_all(b"x").unwrap();
        assert_eq!(ready(&mut reactor), [Source::Socket(b, fd)]);
        assert_eq!(reactor.watched_count(), 1);
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
    fn forgetting_twice_or_after_the_close_is_no_error() {
        let mut reactor = Reactor::new().unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        reactor.watch(Source::Signals, far.as_raw_fd(), true, false).unwrap();
        drop((near, far));
        reactor.unwatch(Source::Signals);
        reactor.unwatch(Source::Signals);
        reactor.rearm(Source::Signals).unwrap();
        assert_eq!(reactor.watched_count(), 0);
    }
}
