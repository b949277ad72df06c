//! A program at standard input and output that speaks JSON-RPC, one message a line, and the loop that does the work.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::code;
use super::host::Host;
use super::links::{Links, News};
use super::stdio::input::{Input, InputLines, MAX_BYTES};
use super::stdio::print_note;
use super::stdio::streams::{LAST_OUTPUT_TIMEOUT, Streams, WriteError};
use crate::base::error::Result;
use crate::base::json_rpc::{self, Fault, INVALID_REQUEST};
use crate::reactor::Signals;
use crate::repl::Turn;

/// Messages of the program that are handled in one turn.
const LINES_PER_TURN: usize = 64;
/// While more bytes wait for the program, nothing is read from the loop.
const MOST_WAITING: usize = 1 << 20;

pub struct StdioPeer<P> {
    pub host: Host,
    pub links: Links<P>,
    streams: Streams,
    input: InputLines,
    /// The input may contain another line.
    has_lines: bool,
    signals: Signals,
    /// The program takes more of what the loop says.
    takes_more: bool,
}

impl<P: Clone> StdioPeer<P> {
    /// `signals`: caught before the loop was opened.
    pub fn new(host: Host, signals: Signals) -> Result<Self> {
        Ok(Self {
            host,
            links: Links::default(),
            streams: Streams::of_process()?,
            input: InputLines::new(Input::of_process()?),
            has_lines: false,
            signals,
            takes_more: true,
        })
    }

    /// The next message that was read. One that is too long is answered.
    pub fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            let line = self.input.next_line();
            self.has_lines = line.is_some();
            match line? {
                Some(line) if line.trim_ascii().is_empty() => {}
                Some(line) => return Some(line),
                None => {
                    let message = format!("the message is longer than {} MiB", MAX_BYTES >> 20);
                    self.fail(&Value::Null, &Fault::new(INVALID_REQUEST, message));
                }
            }
        }
    }

    /// The exit code if the program takes nothing any more, or has said everything.
    pub fn end(&mut self) -> Option<u8> {
        let message = match self.streams.error() {
            Some(WriteError::Closed) => return Some(code::DONE),
            Some(WriteError::Failed(message)) => message,
            Some(WriteError::Stalled(message)) => message.to_owned(),
            None => return (self.input.is_over() && !self.has_lines).then_some(code::DONE),
        };
        self.note(&message);
        Some(code::FAILED)
    }

    /// One turn. Returns the exit code if a signal or the loop ends the program.
    pub fn turn(&mut self, most: Option<Duration>) -> Result<Option<u8>> {
        self.takes_more = self.streams.waiting() < MOST_WAITING;
        self.watch()?;
        let has_more = self.takes_more && self.links.has_more();
        let is_ready = self.has_lines || self.input.input.is_always_ready() || has_more;
        let turn = self.host.turn(if is_ready { Some(Duration::ZERO) } else { most })?;
        let signal = self.handle_ready()?;
        if self.takes_more {
            self.links.read();
        }
        Ok(match (signal, turn) {
            (Some(number), _) => Some(code::of_signal(number)),
            (None, Turn::Exit) => Some(code::DONE),
            (None, Turn::Continue) => None,
        })
    }

    /// What the loop has said in the last turn; news of connections for which `last` holds comes after all other news.
    pub fn next_news(&mut self, last: impl Fn(&P) -> bool) -> Option<(u64, News)> {
        if self.takes_more { self.links.next(last) } else { None }
    }

    fn watch(&mut self) -> Result<()> {
        self.host.watch(self.signals.fd(), true, false)?;
        for (fd, writable) in self.streams.watched().collect::<Vec<_>>() {
            self.host.watch(fd, true, writable)?;
        }
        if let Some(fd) = self.input.input.watched() {
            self.host.watch(fd, !self.has_lines, false)?;
        }
        self.links.watch(&mut self.host, self.takes_more)
    }

    /// Handles the descriptors that the poll reported. Returns the signal that ends the program.
    fn handle_ready(&mut self) -> Result<Option<i32>> {
        let mut signal = None;
        let mut is_readable = self.input.input.is_always_ready();
        for fd in self.host.take_ready() {
            if fd == self.signals.fd() {
                signal = signal.or(self.signals.take_ending());
            } else if self.input.input.watched() == Some(fd) {
                is_readable = true;
            } else {
                self.streams.on_ready(fd);
                self.links.on_ready(fd);
            }
        }
        if is_readable && !self.has_lines {
            self.read_input()?;
        }
        Ok(signal)
    }

    fn read_input(&mut self) -> Result<()> {
        let before: Option<RawFd> = self.input.input.watched();
        self.input.input.read_available()?;
        match before.filter(|_| self.input.input.watched().is_none()) {
            Some(fd) => self.host.watch(fd, false, false),
            None => Ok(()),
        }
    }

    pub fn respond(&mut self, id: &Value, result: &Value) {
        self.streams.line(json_rpc::response(id, result));
    }

    pub fn fail(&mut self, id: &Value, fault: &Fault) {
        self.streams.line(json_rpc::error(id, fault));
    }

    /// Sends a message as it is.
    pub fn send(&mut self, message: String) {
        self.streams.line(message);
    }

    /// Writes a line to standard error, which such programs keep as a log.
    pub fn note(&mut self, message: &str) {
        self.streams.note(message);
    }

    /// Whether something is not written yet.
    pub fn is_waiting(&self) -> bool {
        self.streams.is_waiting()
    }

    pub fn flush(&mut self) {
        self.streams.flush();
    }
}

/// A server that such a program started.
pub trait StdioServer {
    /// What the connections to the loop are for.
    type Purpose: Clone;

    fn peer(&mut self) -> &mut StdioPeer<Self::Purpose>;

    /// Handles a message of the program.
    fn on_line(&mut self, line: &[u8]) -> Result<()>;

    /// Handles what the loop has said over a connection.
    fn on_news(&mut self, number: u64, news: News) -> Result<()>;

    /// Whether what the loop says over such a connection comes after all else.
    fn is_last(_: &Self::Purpose) -> bool {
        false
    }

    /// Whether such a connection stays open at the end.
    fn is_lasting(_: &Self::Purpose) -> bool {
        false
    }

    /// Done before each turn.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Runs until standard input ends, nothing more can be written, or a signal arrives. Returns the exit code.
    fn serve(&mut self) -> Result<u8> {
        loop {
            for _ in 0..LINES_PER_TURN {
                match self.peer().next_line() {
                    Some(line) => self.on_line(&line)?,
                    None => break,
                }
            }
            if let Some(code) = self.peer().end() {
                return Ok(code);
            }
            self.prepare()?;
            if let Some(code) = self.turn(None)? {
                return Ok(code);
            }
        }
    }

    /// One turn. Returns the exit code if a signal or the loop ends the program.
    fn turn(&mut self, most: Option<Duration>) -> Result<Option<u8>> {
        let code = self.peer().turn(most)?;
        while let Some((number, news)) = self.peer().next_news(Self::is_last) {
            self.on_news(number, news)?;
        }
        Ok(code)
    }

    /// Waits a moment for the last answers, and ends a loop of this process in order.
    fn leave(&mut self) -> Result<()> {
        let give_up = Instant::now() + LAST_OUTPUT_TIMEOUT;
        while self.peer().links.all().iter().any(|(_, purpose)| !Self::is_lasting(purpose)) || self.peer().is_waiting()
        {
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() || self.turn(Some(left))?.is_some() {
                break;
            }
        }
        self.peer().host.leave()?.iter().for_each(|loss| print_note(loss));
        self.peer().flush();
        Ok(())
    }
}
