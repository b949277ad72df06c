//! A run: sends the prompt and the input lines to the agent and writes its output, until the agent is at rest and the
//! input has ended.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use super::output::{Ending, PrintOutput};
use super::trajectory::TrajectoryFile;
use super::turns::{Progress, Turns};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::text::counted;
use crate::cli::code;
use crate::cli::host::Host;
use crate::cli::stdio::input::{InputLine, InputLines};
use crate::cli::stdio::streams::LAST_OUTPUT_TIMEOUT;
use crate::reactor::Signals;
use crate::repl::Turn;

/// No further line is read while this many turns wait.
const MAX_QUEUED: usize = 64;

pub struct Run {
    pub host: Host,
    pub turns: Turns,
    pub output: PrintOutput,
    /// Turns that are read from standard input during the run.
    pub lines: Option<InputLines>,
    pub signals: Signals,
    pub deadline: Option<Instant>,
    pub trajectory: Option<TrajectoryFile>,
    /// Commands in the background are not ended with the run.
    pub keeps_background: bool,
    /// A line of standard input was no message.
    pub has_skipped: bool,
    pub has_sent: bool,
}

impl Run {
    /// Sends the prompt, if there is one, and continues until all turns are over. Returns the exit code, and the host if
    /// commands in the background need it.
    pub fn run(mut self, prompt: Option<&str>) -> Result<(u8, Option<(Host, Turns)>)> {
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
        self.has_sent = true;
        match &self.output.schema {
            Some(schema) if !self.turns.agent().has_schema => self.turns.send(&mut self.host, schema.in_prompt(prompt)),
            _ => self.turns.send(&mut self.host, prompt.to_owned()),
        }
    }

    /// The ending, if the run is over; signals are handled by [`Run::turn`].
    fn ending(&mut self) -> Result<Option<Ending>> {
        if let Some(error) = self.output.write_error() {
            return Ok(Some(error));
        }
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            let wait = self.turns.waits_for().map(|reason| format!(" while a request waited: {reason}"));
            let message = format!("reached the limit of --timeout{}", wait.unwrap_or_default());
            return Ok(Some(Ending::Limit(message)));
        }
        Ok(match self.turns.progress() {
            Progress::Working => None,
            Progress::AtRest if self.lines.as_ref().is_some_and(|lines| !lines.is_over()) => None,
            Progress::AtRest if self.has_skipped && !self.has_sent => {
                let message = "nothing to send: no line of standard input is a message";
                Some(Ending::Failed(Error::usage(message).into()))
            }
            Progress::AtRest => Some(Ending::Done),
            Progress::Stuck(ending) => Some(ending),
        })
    }

    fn turn(&mut self) -> Result<Option<Ending>> {
        self.watch()?;
        let is_always_ready =
            self.is_reading() && self.lines.as_ref().is_some_and(|lines| lines.input.is_always_ready());
        let limit = if is_always_ready { Some(Duration::ZERO) } else { self.time_left() };
        let (turn, ready) = self.turns.turn(&mut self.host, limit, &mut self.output)?;
        if turn == Turn::Exit {
            return Ok(Some(Ending::Signal(rustix::process::Signal::TERM.as_raw())));
        }
        if let Some(number) = self.handle_ready(&ready)? {
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
        self.lines.is_some() && self.turns.queued() < MAX_QUEUED
    }

    /// Handles the descriptors that the poll reported. Returns the signal that ends the run.
    fn handle_ready(&mut self, ready: &[RawFd]) -> Result<Option<i32>> {
        let mut signal = None;
        for &fd in ready {
            if fd == self.signals.fd() {
                signal = signal.or(self.signals.take_ending());
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
                Ok(InputLine::Interrupt) => {
                    self.turns.interrupt();
                    Ok(())
                }
                Err(message) => {
                    self.has_skipped = true;
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

    /// Returns the ending if that fails.
    fn write_trajectory(&mut self) -> Option<Ending> {
        let written = self.trajectory.as_ref()?.write(&mut self.host, &self.turns.agent().id);
        written.err().map(|error| failed(error.message))
    }

    /// Interrupts what is still running. Returns the ending that replaces [`Ending::Done`] if something is lost, and
    /// whether commands in the background go on.
    fn leave(&mut self) -> Result<(Option<Ending>, bool)> {
        self.turns.end(&mut self.host, &mut self.output)?;
        let unwritten = self.write_trajectory();
        let (others, commands) = self.host.work_besides(&self.turns.agent().id);
        if others > 0 {
            self.output.note(&format!("interrupted {} still at work", counted(others, "other agent", "other agents")));
        }
        if self.keeps_background && commands > 0 {
            return self.host.interrupt_all(LAST_OUTPUT_TIMEOUT).map(|loss| (loss.map(failed).or(unwritten), true));
        }
        if commands > 0 {
            let ended = counted(commands, "background command", "background commands");
            self.output.note(&format!("ended {ended} with the run: --keep-background lets them run on"));
        }
        self.turns.archive(&mut self.host);
        Ok((self.host.leave()?.map(failed).or(unwritten), false))
    }

    /// Interrupts what is still running, writes the result, and waits until it is read.
    fn finish(mut self, ending: &Ending) -> Result<(u8, Option<(Host, Turns)>)> {
        let (loss, goes_on) = self.leave()?;
        if let (Some(Ending::Failed(failure)), true) = (&loss, *ending != Ending::Done) {
            self.output.note(&failure.message);
        }
        let loss = loss.or_else(|| self.output.missed()).or_else(|| self.output.nonconforming());
        let ending = loss.as_ref().filter(|_| *ending == Ending::Done).unwrap_or(ending);
        let mut exit_code = self.output.finish(ending, &self.turns.agent().id, self.turns.requests());
        let give_up = Instant::now() + LAST_OUTPUT_TIMEOUT;
        self.deadline = if *ending == Ending::Done { self.deadline } else { Some(give_up) };
        let mut signal = None;
        while self.output.streams.is_waiting() && signal.is_none() {
            self.watch()?;
            if self.time_left().is_some_and(|left| left.is_zero()) {
                break;
            }
            let left = self.time_left();
            let (_, ready) = self.turns.turn(&mut self.host, left, &mut self.output)?;
            signal = self.handle_ready(&ready)?;
        }
        self.output.streams.flush();
        self.unwatch()?;
        if let Some(number) = signal {
            exit_code = code::of_signal(number);
        } else if *ending == Ending::Done {
            if let Some(error) = self.output.write_error() {
                exit_code = self.output.exit_code(&error);
            } else if self.output.streams.is_waiting() {
                exit_code = code::LIMIT;
            }
        }
        Ok((exit_code, goes_on.then_some((self.host, self.turns))))
    }
}

fn failed(loss: String) -> Ending {
    Ending::Failed(Error::new(ErrorKind::Tool, loss).into())
}
