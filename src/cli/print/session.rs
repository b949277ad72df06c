//! A run: prompt and lines go to the agent, what it does goes to the desk, until it is at rest and nothing more will be
//! said to it. In whose loop the agent works is the business of a [`Host`].

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use super::desk::{Desk, Ending};
use super::inlet::{Lines, Said};
use super::streams::LAST_PATIENCE;
use crate::base::error::Result;
use crate::reactor::{Signal, Signals};
use crate::repl::Turn;

/// Turns that may wait before no further line is read.
const MOST_QUEUED: usize = 64;

/// Where the agent works: a house of our own, or a server.
pub trait Host {
    /// Watches a descriptor of the run, from now on for this, as [`crate::repl::Repl::watch_external`] does.
    ///
    /// # Errors
    /// The kernel refuses.
    fn watch(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()>;

    /// The descriptors of the run of which there was news. Empties.
    fn take_news(&mut self) -> Vec<RawFd>;

    /// One turn of the loop, no longer than this; tells the desk what the agent did. Whether the loop goes on.
    ///
    /// # Errors
    /// The kernel refuses to poll, or the server is lost.
    fn turn(&mut self, limit: Option<Duration>, desk: &mut Desk) -> Result<Turn>;

    /// A turn for the agent, behind those that wait.
    ///
    /// # Errors
    /// It cannot be spoken to.
    fn send(&mut self, text: &str) -> Result<()>;

    /// The turn that is under way ends here; the next one follows.
    ///
    /// # Errors
    /// The agent is gone.
    fn interrupt(&mut self) -> Result<()>;

    /// How many turns wait.
    fn queued(&self) -> usize;

    /// Whether everything that was said is done, or nothing more can be.
    ///
    /// # Errors
    /// The agent is gone.
    fn progress(&mut self) -> Result<Progress>;

    /// Cuts what still goes on of the run, and tells the desk the rest. What to say instead of [`Ending::Done`], if not all
    /// is well.
    ///
    /// # Errors
    /// The kernel refuses to poll.
    fn leave(&mut self, desk: &mut Desk) -> Result<Option<Ending>>;

    /// The id of the agent.
    fn agent(&self) -> String;

    /// Requests to models that were made for the run.
    fn requests(&self) -> u32;
}

/// How far the agent is.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// It works.
    Working,
    /// Nothing is left to do.
    AtRest,
    /// It cannot go on.
    Stuck(Ending),
}

/// What a run is given.
pub struct Run<'a> {
    /// Where the agent works.
    pub host: &'a mut dyn Host,
    /// Where it is written to.
    pub desk: Desk,
    /// Turns that are read while it goes on.
    pub lines: Option<Lines>,
    /// What asks to leave.
    pub signals: Signals,
    /// When it has to end.
    pub deadline: Option<Instant>,
}

impl Run<'_> {
    /// Says the prompt, if there is one, and goes on until everything is done. Returns the code with which the program
    /// ends.
    ///
    /// # Errors
    /// The kernel refuses to poll.
    pub fn run(mut self, prompt: Option<&str>) -> Result<u8> {
        self.host.watch(self.signals.fd(), true, false)?;
        let ending = self.go_on(prompt).unwrap_or_else(|error| Ending::Failed(error.into()));
        self.end(&ending)
    }

    fn go_on(&mut self, prompt: Option<&str>) -> Result<Ending> {
        if let Some(prompt) = prompt {
            self.host.send(prompt)?;
        }
        loop {
            self.say_lines()?;
            if let Some(ending) = self.ending()? {
                return Ok(ending);
            }
            if let Some(ending) = self.turn()? {
                return Ok(ending);
            }
        }
    }

    /// Whether it is time to end, apart from signals.
    fn ending(&mut self) -> Result<Option<Ending>> {
        if let Some(trouble) = self.desk.trouble() {
            return Ok(Some(trouble));
        }
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(Some(Ending::Limit("--timeout: the time is over".into())));
        }
        Ok(match self.host.progress()? {
            Progress::Working => None,
            Progress::AtRest => self.lines.as_ref().is_none_or(Lines::is_over).then_some(Ending::Done),
            Progress::Stuck(ending) => Some(ending),
        })
    }

    /// One turn of the loop, and what it brought.
    fn turn(&mut self) -> Result<Option<Ending>> {
        self.watch()?;
        let is_reading = self.reads() && self.lines.as_ref().is_some_and(|lines| lines.inlet.is_always_ready());
        let limit = if is_reading { Some(Duration::ZERO) } else { self.left() };
        if self.host.turn(limit, &mut self.desk)? == Turn::Exit {
            return Ok(Some(Ending::Signal(rustix::process::Signal::TERM.as_raw())));
        }
        if let Some(number) = self.hear()? {
            return Ok(Some(Ending::Signal(number)));
        }
        if is_reading {
            self.read_lines()?;
        }
        Ok(None)
    }

    /// The time until it has to end.
    fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Asks the poll for what is wanted next.
    fn watch(&mut self) -> Result<()> {
        let watched: Vec<(RawFd, bool)> = self.desk.streams.watched().collect();
        for (fd, writable) in watched {
            self.host.watch(fd, true, writable)?;
        }
        let reads = self.reads();
        if let Some(fd) = self.lines.as_ref().and_then(|lines| lines.inlet.watched()) {
            self.host.watch(fd, reads, false)?;
        }
        Ok(())
    }

    /// Whether further lines are read: not while many turns wait already.
    fn reads(&self) -> bool {
        self.lines.is_some() && self.host.queued() < MOST_QUEUED
    }

    /// Serves the descriptors of which the poll had news. Returns the signal that asks to leave.
    fn hear(&mut self) -> Result<Option<i32>> {
        let mut asked = None;
        for fd in self.host.take_news() {
            if fd == self.signals.fd() {
                let leave = |signal| match signal {
                    Signal::Terminate(number) => Some(number),
                    Signal::Hangup => Some(rustix::process::Signal::HUP.as_raw()),
                    _ => None,
                };
                asked = asked.or(self.signals.take().into_iter().find_map(leave));
                self.host.watch(fd, true, false)?;
            } else if self.lines.as_ref().is_some_and(|lines| lines.inlet.watched() == Some(fd)) {
                self.read_lines()?;
            } else {
                self.desk.streams.on_news(fd);
            }
        }
        Ok(asked)
    }

    /// Reads what is there and says it.
    fn read_lines(&mut self) -> Result<()> {
        let Some(lines) = &mut self.lines else { return Ok(()) };
        let before = lines.inlet.watched();
        lines.inlet.read_some()?;
        if let Some(fd) = before.filter(|_| lines.inlet.watched().is_none()) {
            self.host.watch(fd, false, false)?;
        }
        self.say_lines()
    }

    /// Says what was read, as far as not too many turns wait already.
    fn say_lines(&mut self) -> Result<()> {
        while self.reads()
            && let Some(line) = self.lines.as_mut().and_then(Lines::next)
        {
            let done = match line {
                Ok(Said::User(text)) => self.host.send(&text),
                Ok(Said::Interrupt) => self.host.interrupt(),
                Err(words) => {
                    self.desk.say(&words);
                    Ok(())
                }
            };
            done.map_err(|error| error.context("a line of standard input"))?;
        }
        Ok(())
    }

    /// Cuts what still goes on, writes the last words, and waits until they are taken.
    fn end(mut self, ending: &Ending) -> Result<u8> {
        let loss = self.host.leave(&mut self.desk)?.or_else(|| self.desk.shortfall());
        let ending = loss.as_ref().filter(|_| *ending == Ending::Done).unwrap_or(ending);
        let mut code = self.desk.conclude(ending, &self.host.agent(), self.host.requests());
        let patience = Instant::now() + LAST_PATIENCE;
        self.deadline = if *ending == Ending::Done { self.deadline } else { Some(patience) };
        while self.desk.streams.is_waiting() {
            self.watch()?;
            if self.left().is_some_and(|left| left.is_zero()) {
                break;
            }
            self.host.turn(self.left(), &mut self.desk)?;
            if let Some(number) = self.hear()? {
                return Ok(crate::cli::code::of_signal(number));
            }
        }
        self.desk.streams.flush();
        if *ending == Ending::Done {
            if let Some(trouble) = self.desk.trouble() {
                code = self.desk.code(&trouble);
            } else if self.desk.streams.is_waiting() {
                code = crate::cli::code::LIMIT;
            }
        }
        Ok(code)
    }
}
