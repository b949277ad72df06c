//! The connection to a running server: the pipes of a process, or HTTP.

use super::http::Http;
use super::login::Login;
use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::features::mcp::protocol::Session;
use crate::reactor::Reactor;
use crate::repl::core::Core;
use crate::tools::line_process::{Ending, LineProcess};

pub(super) enum Link {
    Pipe(Box<Pipe>),
    Http(Box<Http>),
}

/// A process and the session with it.
pub(super) struct Pipe {
    pub(super) process: LineProcess,
    pub(super) session: Session,
}

impl Pipe {
    /// Gives the session what has arrived.
    pub(super) fn read(&mut self, now: Moment) {
        self.process.take_lines().iter().for_each(|line| self.session.on_text(line, now));
        if let Some(fault) = self.process.take_fault() {
            self.session.fail(fault);
        }
    }

    fn write(&mut self, reactor: &mut Reactor, now: Moment) -> Result<()> {
        self.session.take_messages().for_each(|message| self.process.push(&message.text));
        self.process.write(reactor)?;
        self.read(now);
        Ok(())
    }

    fn take_end(&mut self, now: Moment) -> Option<String> {
        let end = self.process.take_end(now);
        self.read(now);
        end
    }
}

impl Link {
    pub(super) fn session(&self) -> &Session {
        match self {
            Self::Pipe(pipe) => &pipe.session,
            Self::Http(http) => &http.session,
        }
    }

    pub(super) fn session_mut(&mut self) -> &mut Session {
        match self {
            Self::Pipe(pipe) => &mut pipe.session,
            Self::Http(http) => &mut http.session,
        }
    }

    /// Sends the messages of the session, and reads what was received.
    pub(super) fn drive(&mut self, core: &mut Core, next_number: impl FnMut() -> u64) -> Result<()> {
        let (now, waker) = (core.now(), core.waker());
        let (network, reactor) = core.network_and_reactor();
        match self {
            Self::Pipe(pipe) => pipe.write(reactor, now),
            Self::Http(http) => {
                http.step((network, reactor), now, &waker)?;
                http.write((network, reactor), now, &waker, next_number)
            }
        }
    }

    /// Cancels a request of ours.
    pub(super) fn cancel(&mut self, core: &mut Core, tag: u64, reason: &str) {
        let request = self.session_mut().cancel(tag, reason);
        if let (Self::Http(http), Some(request)) = (self, request) {
            let now = core.now();
            http.close(request, core.reactor(), now);
        }
    }

    /// How it ended, if it has.
    pub(super) fn take_end(&mut self, now: Moment) -> Option<String> {
        match self {
            Self::Pipe(pipe) => pipe.take_end(now),
            Self::Http(_) => None,
        }
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        match self {
            Self::Pipe(pipe) => pipe.session.deadline().into_iter().chain(pipe.process.deadline()).min(),
            Self::Http(http) => http.deadline(),
        }
    }

    pub(super) fn has_work(&self) -> bool {
        match self {
            Self::Pipe(_) => false,
            Self::Http(http) => http.has_work(),
        }
    }

    /// Ends it without waiting. A process and a login are over later.
    pub(super) fn end(self, core: &mut Core) -> (Option<Ending>, Option<Login>) {
        let now = core.now();
        match self {
            Self::Pipe(pipe) => (Some(pipe.process.end(now, core.reactor())), None),
            Self::Http(http) => (None, http.end(core.reactor(), now)),
        }
    }
}
