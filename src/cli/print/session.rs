//! A run: sends the prompt and the input lines to the agent and writes its output, until the agent is at rest and the
//! input has ended. A [`Host`] is the process in which the agent works: this one or a server.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use super::output::{Ending, PrintOutput};
use crate::base::error::Result;
use crate::cli::code;
use crate::cli::stdio::input::{InputLine, InputLines};
use crate::cli::stdio::streams::LAST_OUTPUT_TIMEOUT;
use crate::reactor::{Signal, Signals};
use crate::repl::Turn;

/// No further line is read while this many turns wait.
const MAX_QUEUED: usize = 64;

/// Where the agent works: in this process, or in a server.
pub trait Host {
    /// Polls a descriptor of the run, like [`crate::repl::Repl::watch_external`].
    ///
    /// # Errors
    /// The descriptor cannot be polled.
    fn watch(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()>;

    /// Takes the descriptors of the run that were reported by the poll.
    fn take_ready(&mut self) -> Vec<RawFd>;

    /// One turn of the event loop, which waits no longer than `limit`; writes what the agent did.
    ///
    /// # Errors
    /// The poll fails, or the server is lost.
    fn turn(&mut self, limit: Option<Duration>, output: &mut PrintOutput) -> Result<Turn>;

    /// Sends a prompt, which is queued while the agent works.
    ///
    /// # Errors
    /// The agent is gone, or its queue is full.
    fn send(&mut self, text: &str) -> Result<()>;

    /// Interrupts the current turn; the next one follows.
    ///
    /// # Errors
    /// The agent is gone.
    fn interrupt(&mut self) -> Result<()>;

    fn queued(&self) -> usize;

    /// Whether there is work left.
    ///
    /// # Errors
    /// The agent is gone.
    fn progress(&mut self) -> Result<Progress>;

    /// Interrupts what is still running and writes the rest of the output. Returns the ending that replaces
    /// [`Ending::Done`] if something is lost.
    ///
    /// # Errors
    /// The poll fails.
    fn leave(&mut self, output: &mut PrintOutput) -> Result<Option<Ending>>;

    /// Why the agent's request is not sent yet.
    fn waits_for(&self) -> Option<String> {
        None
    }

    fn agent(&self) -> String;

    fn requests(&self) -> u32;
}

#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    Working,
    AtRest,
    /// The agent cannot continue.
    Stuck(Ending),
}

pub struct Run<'a> {
    pub host: &'a mut dyn Host,
    pub output: PrintOutput,
    /// Turns that are read from standard input during the run.
    pub lines: Option<InputLines>,
    pub signals: Signals,
    pub deadline: Option<Instant>,
    /// The protocol cannot enforce the schema, if there is one.
    pub schema_is_in_prompts: bool,
}

impl Run<'_> {
    /// Sends the prompt, if there is one, and continues until all turns are over. Returns the exit code.
    ///
    /// # Errors
    /// The poll fails.
    pub fn run(mut self, prompt: Option<&str>) -> Result<u8> {
        self.host.watch(self.signals.fd(), true, false)?;
        let ending = self.run_turns(prompt).unwrap_or_else(|error| Ending::Failed(error.into()));
        self.finish(&ending)
    }

    fn run_turns(&mut self, prompt: Option<&str>) -> Result<Ending> {
        if let Some(prompt) = prompt {
            self.send(prompt)?;
        }
        loop {
            self.send_lines()?;
            if let Some(ending) = self.ending()? {
                return Ok(ending);
            }
            if let Some(ending) = self.turn()? {
                return Ok(ending);
            }
        }
    }

    fn send(&mut self, prompt: &str) -> Result<()> {
        match &self.output.schema {
            Some(schema) if self.schema_is_in_prompts => self.host.send(&schema.in_prompt(prompt)),
            _ => self.host.send(prompt),
        }
    }

    /// The ending, if the run is over; signals are handled by [`Run::turn`].
    fn ending(&mut self) -> Result<Option<Ending>> {
        if let Some(error) = self.output.write_error() {
            return Ok(Some(error));
        }
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            let wait = self.host.waits_for().map(|reason| format!(" while a request waited: {reason}"));
            let message = format!("reached the limit of --timeout{}", wait.unwrap_or_default());
            return Ok(Some(Ending::Limit(message)));
        }
        Ok(match self.host.progress()? {
            Progress::Working => None,
            Progress::AtRest => self.lines.as_ref().is_none_or(InputLines::is_over).then_some(Ending::Done),
            Progress::Stuck(ending) => Some(ending),
        })
    }

    fn turn(&mut self) -> Result<Option<Ending>> {
        self.watch()?;
        let is_always_ready =
            self.is_reading() && self.lines.as_ref().is_some_and(|lines| lines.input.is_always_ready());
        let limit = if is_always_ready { Some(Duration::ZERO) } else { self.time_left() };
        if self.host.turn(limit, &mut self.output)? == Turn::Exit {
            return Ok(Some(Ending::Signal(rustix::process::Signal::TERM.as_raw())));
        }
        if let Some(number) = self.handle_ready()? {
            return Ok(Some(Ending::Signal(number)));
        }
        if is_always_ready {
            self.read_lines()?;
        }
        Ok(None)
    }

    fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    fn watch(&mut self) -> Result<()> {
        let watched: Vec<(RawFd, bool)> = self.output.streams.watched().collect();
        for (fd, writable) in watched {
            self.host.watch(fd, true, writable)?;
        }
        let is_reading = self.is_reading();
        if let Some(fd) = self.lines.as_ref().and_then(|lines| lines.input.watched()) {
            self.host.watch(fd, is_reading, false)?;
        }
        Ok(())
    }

    /// Whether further lines are read: not while many turns wait.
    fn is_reading(&self) -> bool {
        self.lines.is_some() && self.host.queued() < MAX_QUEUED
    }

    /// Handles the descriptors that the poll reported. Returns the signal that ends the run.
    fn handle_ready(&mut self) -> Result<Option<i32>> {
        let mut signal = None;
        for fd in self.host.take_ready() {
            if fd == self.signals.fd() {
                let number = |signal| match signal {
                    Signal::Terminate(number) => Some(number),
                    Signal::Hangup => Some(rustix::process::Signal::HUP.as_raw()),
                    _ => None,
                };
                signal = signal.or(self.signals.take().into_iter().find_map(number));
                self.host.watch(fd, true, false)?;
            } else if self.lines.as_ref().is_some_and(|lines| lines.input.watched() == Some(fd)) {
                self.read_lines()?;
            } else {
                self.output.streams.on_ready(fd);
            }
        }
        Ok(signal)
    }

    fn read_lines(&mut self) -> Result<()> {
        let Some(lines) = &mut self.lines else { return Ok(()) };
        let before = lines.input.watched();
        lines.input.read_available()?;
        if let Some(fd) = before.filter(|_| lines.input.watched().is_none()) {
            self.host.watch(fd, false, false)?;
        }
        self.send_lines()
    }

    /// Sends the lines that were read, unless too many turns wait.
    fn send_lines(&mut self) -> Result<()> {
        while self.is_reading()
            && let Some(line) = self.lines.as_mut().and_then(InputLines::next)
        {
            let sent = match line {
                Ok(InputLine::User { text }) => self.send(&text),
                Ok(InputLine::Interrupt) => self.host.interrupt(),
                Err(message) => {
                    self.output.note(&message);
                    Ok(())
                }
            };
            sent.map_err(|error| error.context("standard input"))?;
        }
        Ok(())
    }

    /// The loop may go on when the descriptors of the run are closed.
    fn unwatch(&mut self) -> Result<()> {
        let of_input = self.lines.as_ref().and_then(|lines| lines.input.watched());
        let of_output: Vec<RawFd> = self.output.streams.watched().map(|(fd, _)| fd).collect();
        let mut all = of_input.into_iter().chain(of_output).chain([self.signals.fd()]);
        all.try_for_each(|fd| self.host.watch(fd, false, false))
    }

    /// Interrupts what is still running, writes the result, and waits until it is read.
    fn finish(mut self, ending: &Ending) -> Result<u8> {
        let loss = self.host.leave(&mut self.output)?.or_else(|| self.output.missed());
        let loss = loss.or_else(|| self.output.nonconforming());
        let ending = loss.as_ref().filter(|_| *ending == Ending::Done).unwrap_or(ending);
        let mut exit_code = self.output.finish(ending, &self.host.agent(), self.host.requests());
        let give_up = Instant::now() + LAST_OUTPUT_TIMEOUT;
        self.deadline = if *ending == Ending::Done { self.deadline } else { Some(give_up) };
        while self.output.streams.is_waiting() {
            self.watch()?;
            if self.time_left().is_some_and(|left| left.is_zero()) {
                break;
            }
            self.host.turn(self.time_left(), &mut self.output)?;
            if let Some(number) = self.handle_ready()? {
                return Ok(code::of_signal(number));
            }
        }
        self.output.streams.flush();
        self.unwatch()?;
        if *ending == Ending::Done {
            if let Some(error) = self.output.write_error() {
                exit_code = self.output.exit_code(&error);
            } else if self.output.streams.is_waiting() {
                exit_code = code::LIMIT;
            }
        }
        Ok(exit_code)
    }
}
