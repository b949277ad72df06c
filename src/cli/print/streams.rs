//! Standard output and standard error of a run that is not to block: the answer to the one, everything else to the other.

use std::io::{stderr, stdout};
use std::os::fd::{AsFd as _, RawFd};
use std::time::Duration;

use super::outlet::{Outlet, State};
use crate::base::error::Result;
use crate::base::text::sanitise;

/// How long the last words of a run that was cut wait for whoever reads them.
pub const LAST_PATIENCE: Duration = Duration::from_secs(1);
/// The most that waits for a reader that takes nothing, in bytes: more than any reply is long.
pub const MOST_WAITING: usize = 64 << 20;
/// The same for standard error, behind which lines are dropped.
const MOST_TOLD: usize = 1 << 20;

/// Where a run is written to.
pub struct Streams {
    out: Outlet,
    err: Outlet,
    /// Standard output is a terminal: nothing that a model says may steer it.
    is_shown: bool,
}

/// Why nothing more can be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// Nobody reads it any more.
    Unread,
    /// It cannot be written, in words.
    Failed(String),
    /// Whoever reads it takes nothing, in words.
    Stuck(&'static str),
}

impl Streams {
    /// Those of this process.
    ///
    /// # Errors
    /// No further descriptor is to be had.
    pub fn of_process() -> Result<Self> {
        Ok(Self {
            is_shown: rustix::termios::isatty(stdout()),
            out: Outlet::on(stdout().as_fd()).map_err(std::io::Error::from)?,
            err: Outlet::on(stderr().as_fd()).map_err(std::io::Error::from)?,
        })
    }

    /// What a model says, to standard output: as it is, and to a terminal without control characters.
    pub fn answer(&mut self, text: &str) {
        if self.is_shown {
            self.out.write(sanitise(text).as_bytes());
        } else {
            self.out.write(text.as_bytes());
        }
    }

    /// A line of JSON to standard output, in one write.
    pub fn line(&mut self, line: String) {
        self.out.write((line + "\n").as_bytes());
    }

    /// Something beside the answer, in one line on standard error.
    pub fn say(&mut self, words: &str) {
        if self.err.waiting() < MOST_TOLD {
            let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
            self.err.write(format!("polylogue: {}\n", sanitise(&words)).as_bytes());
        }
    }

    /// Tells of a call that nobody could allow.
    pub fn refuse(&mut self, title: &str) {
        self.say(&format!("refused, because nobody is there who could allow it: {title}"));
    }

    /// Why nothing more can be written, if so.
    pub fn trouble(&self) -> Option<Trouble> {
        match self.out.state() {
            State::Unread => Some(Trouble::Unread),
            State::Failed(error) => Some(Trouble::Failed(format!("standard output cannot be written: {error}"))),
            State::Open if self.out.waiting() > MOST_WAITING => {
                Some(Trouble::Stuck("whoever reads standard output takes nothing: more than 64 MiB wait"))
            }
            State::Open => None,
        }
    }

    /// Whether something of the answer was not taken yet.
    pub fn is_waiting(&self) -> bool {
        self.out.state() == State::Open && self.out.waiting() > 0
    }

    /// Writes what is taken now.
    pub fn flush(&mut self) {
        self.out.flush();
        self.err.flush();
    }

    /// The descriptors to watch: which, and whether for writing. The news that a reader has gone comes for both.
    pub fn watched(&self) -> impl Iterator<Item = (RawFd, bool)> + use<> {
        let err = self.err.watched().filter(|_| self.err.waiting() > 0).map(|fd| (fd, true));
        let out = self.out.watched().map(|fd| (fd, self.out.waiting() > 0));
        out.into_iter().chain(err)
    }

    /// There is news of this descriptor, perhaps one of these.
    pub fn on_news(&mut self, fd: RawFd) {
        for outlet in [&mut self.out, &mut self.err] {
            if outlet.watched() == Some(fd) {
                outlet.on_news();
            }
        }
    }
}
