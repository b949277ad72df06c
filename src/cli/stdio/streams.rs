//! Standard output and standard error for modes with an event loop: the answer on the one, notes on the other.

use std::io::{stderr, stdout};
use std::os::fd::{AsFd as _, RawFd};
use std::time::Duration;

use super::output::{Output, OutputState};
use crate::base::error::{Error, Result};
use crate::base::text::{escape_json, sanitise};
use crate::domain::chunk::REFUSED_CALL;

/// How long an interrupted run waits for its reader to take the last output.
pub const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
/// The backlog of standard output with which a run is aborted, in bytes; longer than any reply.
pub const MAX_BACKLOG: usize = 64 << 20;
/// The backlog of standard error beyond which notes are dropped, in bytes.
const MAX_NOTES: usize = 1 << 20;

pub struct Streams {
    out: Output,
    err: Output,
    /// Control characters from a model must not reach a terminal.
    is_terminal: bool,
    /// The last character on the terminal that shows both streams is in the middle of a line.
    is_within_line: bool,
}

/// Why nothing more can be written to standard output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteError {
    Closed,
    Failed(String),
    /// The reader takes nothing.
    Stalled(&'static str),
}

impl Streams {
    pub fn of_process() -> Result<Self> {
        Ok(Self {
            is_terminal: rustix::termios::isatty(stdout()),
            is_within_line: false,
            out: Output::new(stdout().as_fd()).map_err(std::io::Error::from)?,
            err: Output::new(stderr().as_fd()).map_err(std::io::Error::from)?,
        })
    }

    /// Writes text of a model to standard output: unchanged, except that a terminal gets no control characters.
    pub fn answer(&mut self, text: &str) {
        if self.is_terminal {
            self.out.write(sanitise(text).as_bytes());
            self.is_within_line = rustix::termios::isatty(stderr())
                && text.chars().last().map_or(self.is_within_line, |last| last != '\n');
        } else {
            self.out.write(text.as_bytes());
        }
    }

    /// Writes a line of JSON to standard output, in one call.
    pub fn line(&mut self, line: String) {
        self.out.write((escape_json(&line).into_owned() + "\n").as_bytes());
    }

    /// Writes a note to standard error, as one line.
    pub fn note(&mut self, message: &str) {
        if self.err.backlog_len() < MAX_NOTES {
            let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
            let start = if std::mem::take(&mut self.is_within_line) { "\n" } else { "" };
            self.err.write(format!("{start}polylogue: {}\n", sanitise(&message)).as_bytes());
        }
    }

    /// Notes a tool call that was refused because it needs approval.
    pub fn note_refused_call(&mut self, title: &str) {
        self.note(&format!("{REFUSED_CALL}: {title}"));
    }

    pub fn error(&self) -> Option<WriteError> {
        match self.out.state() {
            OutputState::Closed => Some(WriteError::Closed),
            OutputState::Failed(error) => {
                let error = Error::from(std::io::Error::from(error));
                Some(WriteError::Failed(format!("cannot write to standard output: {error}")))
            }
            OutputState::Open if self.out.backlog_len() > MAX_BACKLOG => {
                Some(WriteError::Stalled("the reader of standard output reads nothing: more than 64 MiB are waiting"))
            }
            OutputState::Open => None,
        }
    }

    /// The bytes for standard output that are not written yet.
    pub fn waiting(&self) -> usize {
        self.out.backlog_len()
    }

    /// Whether part of the answer is not written yet.
    pub fn is_waiting(&self) -> bool {
        self.out.state() == OutputState::Open && self.out.backlog_len() > 0
    }

    pub fn flush(&mut self) {
        self.out.flush();
        self.err.flush();
    }

    /// The descriptors to poll, and whether for writing; errors are reported for both.
    pub fn watched(&self) -> impl Iterator<Item = (RawFd, bool)> + use<> {
        let err = self.err.watched().filter(|_| self.err.backlog_len() > 0).map(|fd| (fd, true));
        let out = self.out.watched().map(|fd| (fd, self.out.backlog_len() > 0));
        out.into_iter().chain(err)
    }

    /// The poll reported this descriptor, which may be one of the two.
    pub fn on_ready(&mut self, fd: RawFd) {
        for output in [&mut self.out, &mut self.err] {
            if output.watched() == Some(fd) {
                output.on_ready();
            }
        }
    }
}
