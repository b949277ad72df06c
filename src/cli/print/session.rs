//! A run in a house of its own: the loop is turned until the agent is at rest and nothing more will be said to it.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use super::desk::{Desk, Ending};
use super::inlet::{Lines, Said};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::flow::Change;
use crate::reactor::{Signal, Signals};
use crate::repl::{Repl, Turn, ViewerId};

/// Turns that may wait before no further line is read.
const MOST_QUEUED: usize = 64;
/// How long the last words of a run that was cut wait for whoever reads them.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// What a run is given.
pub struct Run {
    /// The house.
    pub repl: Repl,
    /// The agent that is spoken to.
    pub who: AgentId,
    /// Where it is written to.
    pub desk: Desk,
    /// Turns that are read while it goes on.
    pub lines: Option<Lines>,
    /// What asks to leave.
    pub signals: Signals,
    /// When it has to end.
    pub deadline: Option<Instant>,
    /// The limit of `--max-turns`.
    pub most_requests: Option<u32>,
    /// So many chunks were gone before they could be passed on.
    pub missed: u64,
}

impl Run {
    /// Says the prompt, if there is one, and goes on until everything is done. Returns the code with which the program
    /// ends.
    ///
    /// # Errors
    /// The agent cannot be spoken to, or the kernel refuses to poll.
    pub fn run(mut self, prompt: Option<&str>) -> Result<u8> {
        let viewer = self.repl.attach_to_last(self.who, 0)?;
        if let Some(most) = self.most_requests {
            self.repl.limit_requests(most);
        }
        self.repl.watch_guest(self.signals.fd(), true, false)?;
        let ending = self.go_on(prompt, viewer).unwrap_or_else(|error| Ending::Failed(error.into()));
        self.end(&ending, viewer)
    }

    fn go_on(&mut self, prompt: Option<&str>, viewer: ViewerId) -> Result<Ending> {
        if let Some(prompt) = prompt {
            self.repl.send(self.who, prompt)?;
        }
        loop {
            self.take_chunks(viewer);
            self.say_lines()?;
            if let Some(ending) = self.ending()? {
                return Ok(ending);
            }
            if let Some(ending) = self.turn()? {
                return Ok(ending);
            }
        }
    }

    /// What the agent did since the last time.
    fn take_chunks(&mut self, viewer: ViewerId) {
        while self.repl.has_unread(viewer) {
            let seen = self.repl.read(viewer, usize::MAX);
            if seen.missed > 0 {
                self.missed += seen.missed;
            }
            for one in &seen.chunks {
                self.desk.on_chunk(&one.chunk, || one.to_line(self.repl.epoch()));
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
        if self.repl.is_out_of_requests() {
            return Ok(Some(Ending::Limit("--max-turns: no further request may be made".into())));
        }
        let Some(queued) = self.queued_at_rest() else {
            let is_alive = self.repl.roster().get(self.who).is_some();
            return Ok((!is_alive).then(|| failed("the agent was killed")));
        };
        if queued > 0 {
            // After a cut or an error the queue waits for a person: what was written down beforehand goes on.
            self.repl.ask(self.who, Change::Resume)?;
            let is_stuck = self.queued_at_rest().is_some_and(|left| left >= queued);
            return Ok(is_stuck.then(|| failed("what is queued for this agent cannot be carried out: /queue shows it")));
        }
        Ok(self.lines.as_ref().is_none_or(Lines::is_over).then_some(Ending::Done))
    }

    /// How much is queued for the agent, if it is at rest.
    fn queued_at_rest(&self) -> Option<usize> {
        let agent = self.repl.roster().get(self.who)?;
        agent.status().is_at_rest().then_some(agent.queue.len())
    }

    /// One turn of the loop, and what it brought.
    fn turn(&mut self) -> Result<Option<Ending>> {
        self.watch()?;
        let is_reading = self.reads() && self.lines.as_ref().is_some_and(|lines| lines.inlet.is_always_ready());
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let limit = if is_reading { Some(Duration::ZERO) } else { left };
        if self.repl.turn(limit)? == Turn::Exit {
            return Ok(Some(Ending::Signal(rustix::process::Signal::TERM.as_raw())));
        }
        for (who, what) in self.repl.refuse_questions() {
            // The agent's own questions are among its chunks.
            if who != self.who {
                self.desk.refuse(&format!("{what} (of {})", self.name_of(who)));
            }
        }
        if let Some(number) = self.hear()? {
            return Ok(Some(Ending::Signal(number)));
        }
        if is_reading {
            self.read_lines()?;
        }
        Ok(None)
    }

    fn name_of(&self, who: AgentId) -> String {
        self.repl.roster().get(who).map(|agent| agent.identity.label()).unwrap_or_default()
    }

    /// Asks the poll for what is wanted next.
    fn watch(&mut self) -> Result<()> {
        let watched: Vec<(RawFd, bool)> = self.desk.watched().collect();
        for (fd, writable) in watched {
            self.repl.watch_guest(fd, true, writable)?;
        }
        let reads = self.reads();
        if let Some(fd) = self.lines.as_ref().and_then(|lines| lines.inlet.watched()) {
            self.repl.watch_guest(fd, reads, false)?;
        }
        Ok(())
    }

    /// Whether further lines are read: not while many turns wait already.
    fn reads(&self) -> bool {
        let queued = self.repl.roster().get(self.who).map_or(0, |agent| agent.queue.len());
        self.lines.is_some() && queued < MOST_QUEUED
    }

    /// Serves the descriptors of which the poll had news. Returns the signal that asks to leave.
    fn hear(&mut self) -> Result<Option<i32>> {
        let mut asked = None;
        for (fd, _) in self.repl.take_guest_news() {
            if fd == self.signals.fd() {
                let leave = |signal| match signal {
                    Signal::Leave(number) => Some(number),
                    Signal::HangUp => Some(rustix::process::Signal::HUP.as_raw()),
                    _ => None,
                };
                asked = asked.or(self.signals.take().into_iter().find_map(leave));
                self.repl.watch_guest(fd, true, false)?;
            } else if self.lines.as_ref().is_some_and(|lines| lines.inlet.watched() == Some(fd)) {
                self.read_lines()?;
            } else {
                self.desk.on_news(fd);
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
            self.repl.watch_guest(fd, false, false)?;
        }
        self.say_lines()
    }

    /// Says what was read, as far as not too many turns wait already.
    fn say_lines(&mut self) -> Result<()> {
        while self.reads()
            && let Some(line) = self.lines.as_mut().and_then(Lines::next)
        {
            let done = match line {
                Ok(Said::User(text)) => self.repl.send(self.who, &text),
                Ok(Said::Interrupt) => self.repl.interrupt(self.who),
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
    fn end(mut self, ending: &Ending, viewer: ViewerId) -> Result<u8> {
        let others = self.repl.roster().busy().iter().filter(|one| **one != self.who).count();
        if others > 0 {
            let were = if others == 1 { "1 other agent was".into() } else { format!("{others} other agents were") };
            self.desk.say(&format!("{were} still at work: cut, and kept"));
        }
        self.repl.leave()?;
        self.take_chunks(viewer);
        let requests = self.repl.requests();
        let ending = if self.repl.unsaved() > 0 && *ending == Ending::Done {
            &failed("it was answered, but not everything could be saved")
        } else if self.missed > 0 && *ending == Ending::Done {
            &failed("it was answered, but more was said at once than can be passed on")
        } else {
            ending
        };
        let mut code = self.desk.conclude(ending, &self.who.to_string(), requests);
        let patience = Instant::now() + LAST_PATIENCE;
        self.deadline = if *ending == Ending::Done { self.deadline } else { Some(patience) };
        while self.desk.is_waiting() {
            self.watch()?;
            let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            self.repl.turn(left)?;
            if let Some(number) = self.hear()? {
                return Ok(crate::cli::code::of_signal(number));
            }
        }
        self.desk.flush();
        if *ending == Ending::Done {
            if let Some(trouble) = self.desk.trouble() {
                code = self.desk.code(&trouble);
            } else if self.desk.is_waiting() {
                code = crate::cli::code::LIMIT;
            }
        }
        Ok(code)
    }
}

fn failed(words: &str) -> Ending {
    Ending::Failed(Error::new(ErrorKind::Tool, words).into())
}
