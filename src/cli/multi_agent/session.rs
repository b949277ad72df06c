//! A run: waits until there is an outcome, a signal, or no reader of the output. It is interrupted if this process ends.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::report::{Report, code_of};
use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::client::{no_response, refusal, server_ended};
use crate::cli::code;
use crate::cli::host::Host;
use crate::cli::links::{Links, News};
use crate::cli::stdio::streams::{LAST_OUTPUT_TIMEOUT, WriteError};
use crate::domain::wire::{Request, Response};
use crate::reactor::{Signal, Signals};
use crate::repl::Turn;

/// How long the loop may take to end a run that was interrupted.
const END_TIMEOUT: Duration = Duration::from_secs(10);

pub struct Session {
    host: Host,
    /// That of the run.
    links: Links<()>,
    link: u64,
    report: Report,
    signals: Signals,
    outcome: Option<Value>,
    /// The limit of a tree of agents that was reached, in words.
    limit: Option<String>,
    exit_code: Option<u8>,
    /// When an interrupted run must have ended.
    give_up: Option<Instant>,
}

impl Session {
    /// Begins the run that the request asks for.
    pub fn begin(mut host: Host, request: &Request, report: Report, signals: Signals) -> Result<Self> {
        let mut links = Links::default();
        let link = links.send(&mut host, request, ())?;
        let (outcome, limit, exit_code, give_up) = (None, None, None, None);
        Ok(Self { host, links, link, report, signals, outcome, limit, exit_code, give_up })
    }

    /// Returns the exit code.
    pub fn run(mut self) -> Result<u8> {
        let outcome = self.wait();
        self.report.streams.flush();
        match outcome {
            Ok(Some(outcome)) => self.end(&outcome),
            Ok(None) => Ok(code::of_signal(rustix::process::Signal::TERM.as_raw())),
            Err(error) => self.exit_code.ok_or(error),
        }
    }

    /// The outcome; `None` if the loop has ended.
    fn wait(&mut self) -> Result<Option<Value>> {
        loop {
            if let (None, Some(error)) = (self.exit_code, self.report.streams.error()) {
                let code = self.code_of_error(&error);
                self.interrupt(code);
            }
            if let (None, Some(limit)) = (self.exit_code, self.limit.take()) {
                self.report.streams.note(&limit);
                self.interrupt(code::LIMIT);
            }
            if let Some(outcome) = self.outcome.take() {
                self.give_up = None;
                return Ok(Some(outcome));
            }
            if self.turn(None)? == Turn::Exit {
                return Ok(None);
            }
        }
    }

    /// Ends the run with what it has.
    fn interrupt(&mut self, code: u8) {
        self.exit_code = Some(code);
        self.links.cut(self.link);
        self.give_up = self.give_up.or_else(|| Instant::now().checked_add(END_TIMEOUT));
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
        let left = self.give_up.map(|give_up| give_up.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Error::new(ErrorKind::System, no_response().message));
        }
        self.host.watch(self.signals.fd(), true, false)?;
        for (fd, writable) in self.report.streams.watched().collect::<Vec<(RawFd, bool)>>() {
            self.host.watch(fd, true, writable)?;
        }
        let (turn, ready) = self.links.turn(&mut self.host, limit.into_iter().chain(left).min())?;
        for fd in ready {
            if fd == self.signals.fd() {
                let number = |signal| if let Signal::Terminate(number) = signal { Some(number) } else { None };
                if let Some(number) = self.signals.take().into_iter().find_map(number) {
                    self.interrupt(code::of_signal(number));
                }
            } else {
                self.report.streams.on_ready(fd);
            }
        }
        self.handle_responses().map(|()| turn)
    }

    fn handle_responses(&mut self) -> Result<()> {
        while let Some((number, news)) = self.links.next(|()| false) {
            match news {
                News::Response(Response::Chunk(event), _) => self.on_event(&event),
                News::Response(Response::Done(outcome), _) => {
                    self.outcome = Some(outcome);
                    self.give_up = None;
                    return self.links.close(&mut self.host, number);
                }
                News::Response(Response::Refused { kind, message }, _) => return Err(refusal(&kind, message)),
                News::Response(..) => {}
                // Not of kind `network`, which is about a provider.
                News::Lost => return Err(Error::new(ErrorKind::System, server_ended().message)),
            }
        }
        Ok(())
    }

    fn on_event(&mut self, event: &Value) {
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        match text("type") {
            "refused" => self.report.streams.note_refused_call(text("title")),
            "limit" => self.limit = Some(text("text").to_owned()),
            _ => self.report.on_event(event),
        }
    }

    /// Writes the answer, and waits until it is read; after a signal or an error only for a moment.
    fn end(mut self, outcome: &Value) -> Result<u8> {
        self.report.finish(outcome);
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
        let code = self.exit_code.or(error).unwrap_or_else(|| code_of(outcome));
        match self.host.leave()? {
            Some(loss) => {
                self.report.streams.note(&loss);
                self.report.streams.flush();
                Ok(if code == code::DONE { code::FAILED } else { code })
            }
            None => Ok(code),
        }
    }
}
