//! A run: waits until there is an outcome, a signal, or no reader of the output. A [`Host`] is the process in which the
//! members work: this one or a server.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::report::{Report, code_of};
use crate::base::error::Result;
use crate::cli::code;
use crate::cli::stdio::streams::{LAST_OUTPUT_TIMEOUT, WriteError};
use crate::reactor::{Signal, Signals};
use crate::repl::Turn;

/// Where the members work.
pub trait Host {
    /// Polls a descriptor of the run, like [`crate::repl::Repl::watch_external`].
    ///
    /// # Errors
    /// The descriptor cannot be polled.
    fn watch(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()>;

    /// Takes the descriptors of the run that were reported by the poll.
    fn take_ready(&mut self) -> Vec<RawFd>;

    /// One turn of the event loop, which waits no longer than `limit`; reports what happened.
    ///
    /// # Errors
    /// The poll fails, or the server is lost.
    fn turn(&mut self, limit: Option<Duration>, report: &mut Report) -> Result<Turn>;

    /// Ends the run with what it has.
    fn interrupt(&mut self);

    /// The limit of a tree of agents that was reached, in words.
    fn limit_reached(&self) -> Option<String>;

    /// The outcome as an object, when the run has ended.
    fn outcome(&self) -> Option<Value>;

    /// The run is over. Returns what was lost.
    ///
    /// # Errors
    /// The poll fails.
    fn leave(&mut self) -> Result<Option<String>>;
}

pub struct Session<'a> {
    host: &'a mut dyn Host,
    report: Report,
    signals: Signals,
    exit_code: Option<u8>,
}

impl<'a> Session<'a> {
    pub fn new(host: &'a mut dyn Host, report: Report, signals: Signals) -> Self {
        Self { host, report, signals, exit_code: None }
    }

    /// Returns the exit code.
    ///
    /// # Errors
    /// The poll fails, or the server is lost.
    pub fn run(mut self) -> Result<u8> {
        self.host.watch(self.signals.fd(), true, false)?;
        let outcome = self.wait();
        self.report.streams.flush();
        match outcome {
            Ok(Some(outcome)) => self.end(&outcome),
            Ok(None) => Ok(code::of_signal(rustix::process::Signal::TERM.as_raw())),
            Err(error) => self.exit_code.ok_or(error),
        }
    }

    /// The outcome; none if the loop has ended.
    fn wait(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(outcome) = self.host.outcome() {
                return Ok(Some(outcome));
            }
            if let (None, Some(error)) = (self.exit_code, self.report.streams.error()) {
                let code = self.code_of_error(&error);
                self.interrupt(code);
            }
            if let (None, Some(limit)) = (self.exit_code, self.host.limit_reached()) {
                self.report.streams.note(&limit);
                self.interrupt(code::LIMIT);
            }
            if self.turn(None)? == Turn::Exit {
                return Ok(None);
            }
        }
    }

    /// Ends the run with what it has.
    fn interrupt(&mut self, code: u8) {
        self.exit_code = Some(code);
        self.host.interrupt();
    }

    fn code_of_error(&mut self, error: &WriteError) -> u8 {
        match error {
            WriteError::Closed => code::UNREAD,
            WriteError::Failed(message) => {
                self.report.streams.note(message);
                code::FAILED
            }
            WriteError::Stalled(message) => {
                self.report.streams.note(message);
                code::LIMIT
            }
        }
    }

    fn turn(&mut self, limit: Option<Duration>) -> Result<Turn> {
        let watched: Vec<(RawFd, bool)> = self.report.streams.watched().collect();
        for (fd, writable) in watched {
            self.host.watch(fd, true, writable)?;
        }
        let turn = self.host.turn(limit, &mut self.report)?;
        for fd in self.host.take_ready() {
            if fd == self.signals.fd() {
                let number = |signal| if let Signal::Terminate(number) = signal { Some(number) } else { None };
                if let Some(number) = self.signals.take().into_iter().find_map(number) {
                    self.interrupt(code::of_signal(number));
                }
                self.host.watch(fd, true, false)?;
            } else {
                self.report.streams.on_ready(fd);
            }
        }
        Ok(turn)
    }

    /// Writes the answer, and waits until it is read; after a signal or an error only for a moment.
    fn end(mut self, outcome: &Value) -> Result<u8> {
        let loss = self.host.leave()?;
        self.report.finish(outcome);
        if let Some(loss) = loss.filter(|_| self.exit_code.is_none() && code_of(outcome) == code::DONE) {
            self.report.streams.note(&loss);
            self.exit_code = Some(code::FAILED);
        }
        let give_up = Instant::now() + LAST_OUTPUT_TIMEOUT;
        while self.report.streams.is_waiting() {
            let left = self.exit_code.map(|_| give_up.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            self.turn(left)?;
        }
        self.report.streams.flush();
        let error = self.report.streams.error().map(|error| self.code_of_error(&error));
        Ok(self.exit_code.or(error).unwrap_or_else(|| code_of(outcome)))
    }
}
