//! `polylogue attach`: a thin terminal. What is typed goes to the server, what the server draws comes here; nothing of either
//! is understood here, so the program on the screen is the same one as without a server.
//!
//! One poll over the terminal, the socket and the signals. Nothing waits for anything else, and nothing piles up: while
//! the server does not take keys, none are read; while the terminal does not take frames, none are read either, and the
//! server draws no new ones for it.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::{Signal as Number, kill_current_process_group};

use super::client::{PATIENCE, ended, endless, refusal, unanswered};
use crate::base::error::Result;
use crate::domain::wire::{LONGEST_LINE, Request, Response, TerminalFacts};
use crate::reactor::{Reactor, Ready, Signal, Signals, Source};
use crate::socket::{Connection, Line};
use crate::terminal::screen::Palette;
use crate::terminal::tty::{ReadOutcome, Tty};

/// Bytes of keys that go into one line.
const KEYS_PER_LINE: usize = 64 * 1024;
/// Bytes of frames that are read in one turn.
const FRAMES_PER_TURN: usize = 256 * 1024;

/// The only one at the other end of a connection.
const SERVER: Source = Source::Client(0);

/// What the terminal is to be brought to.
pub struct Wanted {
    /// At whom to look.
    pub agent: Option<String>,
    /// To watch and to change nothing.
    pub is_read_only: bool,
}

/// Sits at the server until it or the person ends that. The last words of the server, if it had any.
///
/// # Errors
/// There is no terminal, the server refuses, or it has gone without a word.
pub fn run(stream: UnixStream, wanted: Wanted) -> Result<Option<String>> {
    let tty = Tty::open()?;
    super::process::restore_terminal_on_panic();
    let mut attached = Attached {
        server: Connection::new(stream, LONGEST_LINE)?,
        reactor: Reactor::new()?,
        signals: Signals::catch()?,
        has_typed: true,
        is_gone: false,
        stage: Stage::Waiting,
        give_up: Instant::now() + PATIENCE,
        tty,
    };
    attached.reactor.watch(Source::Signals, attached.signals.fd(), true, false)?;
    let terminal = facts(attached.tty.size()?);
    attached.say(&Request::Attach { agent: wanted.agent, is_read_only: wanted.is_read_only, terminal });
    loop {
        if let Some(end) = attached.turn()? {
            // One that has gone has nothing to be given back.
            drop(attached.tty.leave());
            return Ok(end);
        }
    }
}

/// The terminal of this process, as the server has to know it.
fn facts(size: (u16, u16)) -> TerminalFacts {
    let Palette { color, attributes, unicode } = Palette::of_process();
    TerminalFacts { size, color, attributes, unicode, is_in_tmux: std::env::var_os("TMUX").is_some() }
}

/// Why it is over: the server's words, or nothing if nobody is left to be told.
type End = Option<String>;

struct Attached {
    tty: Tty,
    server: Connection,
    reactor: Reactor,
    signals: Signals,
    /// The terminal may have more keys, and no poll will tell of it.
    has_typed: bool,
    /// The terminal has gone.
    is_gone: bool,
    stage: Stage,
    /// When the first frame has to be there.
    give_up: Instant,
}

/// Whose the terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// As we found it: the server has not let us in yet.
    Waiting,
    /// Ours.
    Taken,
    /// The shell's: we are suspended.
    Lent,
}

impl Attached {
    fn turn(&mut self) -> Result<Option<End>> {
        self.watch()?;
        let mut ready = Vec::new();
        self.reactor.wait(self.patience(), &mut ready)?;
        for one in ready {
            if let Some(end) = self.on_ready(one)? {
                return Ok(Some(end));
            }
        }
        self.flush();
        // Frames before keys: what the server says at its end is to be read, even if it takes no keys any more.
        if let Some(end) = self.pass_frames()? {
            return Ok(Some(end));
        }
        self.pass_keys()?;
        if self.stage == Stage::Waiting && Instant::now() >= self.give_up {
            return Err(unanswered());
        }
        Ok(self.is_gone.then_some(None))
    }

    /// Asks for what can be passed on, and for nothing else.
    fn watch(&mut self) -> Result<()> {
        let (tty, server) = (self.tty.as_raw_fd(), self.server.fd());
        self.reactor.watch(Source::Terminal, tty, self.takes_keys(), self.tty.has_backlog())?;
        self.reactor.watch(SERVER, server, !self.tty.has_backlog(), !self.server.is_ready())
    }

    /// How long the next wait may last: not at all if there is work left, and not for ever before the first frame.
    fn patience(&self) -> Option<Duration> {
        let has_frames = !self.tty.has_backlog() && (self.server.has_line() || self.server.wants_to_read());
        let has_keys = self.takes_keys() && self.has_typed;
        match has_frames || has_keys || self.server.has_ended() && !self.tty.has_backlog() {
            true => Some(Duration::ZERO),
            false if self.stage == Stage::Waiting => Some(self.give_up.saturating_duration_since(Instant::now())),
            false => None,
        }
    }

    fn takes_keys(&self) -> bool {
        self.stage == Stage::Taken && self.server.is_ready()
    }

    fn on_ready(&mut self, one: Ready) -> Result<Option<End>> {
        match one.source {
            Source::Terminal => self.has_typed |= one.readiness.readable,
            SERVER if one.readiness.readable => self.server.on_readable(),
            Source::Signals => {
                self.reactor.rearm(Source::Signals)?;
                for signal in self.signals.take() {
                    match signal {
                        Signal::Terminate(_) | Signal::Hangup => return Ok(Some(None)),
                        Signal::Resized => self.tell_size(),
                        Signal::Suspend => self.suspend()?,
                        Signal::Resume => self.resume()?,
                    }
                }
            }
            _ => {}
        }
        Ok(None)
    }

    /// Reads what was typed, as long as the server takes it.
    fn pass_keys(&mut self) -> Result<()> {
        self.server.flush();
        while self.takes_keys() && self.has_typed {
            let mut keys = Vec::new();
            let outcome = self.tty.read(&mut keys, KEYS_PER_LINE)?;
            self.has_typed = outcome == ReadOutcome::More;
            if !keys.is_empty() {
                self.say(&Request::Keys(keys));
            }
            self.is_gone |= outcome == ReadOutcome::Closed;
        }
        Ok(())
    }

    /// Reads what was drawn, as long as the terminal takes it.
    fn pass_frames(&mut self) -> Result<Option<End>> {
        if !self.tty.has_backlog() {
            self.server.read(FRAMES_PER_TURN);
        }
        while !self.tty.has_backlog() {
            match self.server.next_line() {
                Line::Whole(line) => {
                    if let Some(end) = self.on_response(Response::read(&line)?)? {
                        return Ok(Some(end));
                    }
                }
                Line::TooLong => return Err(endless()),
                Line::None if self.server.has_ended() => return Err(ended()),
                Line::None => break,
            }
        }
        Ok(None)
    }

    fn on_response(&mut self, told: Response) -> Result<Option<End>> {
        match told {
            Response::Frame(bytes) => self.show(&bytes)?,
            Response::Suspend => self.suspend()?,
            Response::End(why) => return Ok(Some(Some(why))),
            Response::Refused { kind, message } => return Err(refusal(&kind, message)),
            Response::Done(_) | Response::Missed(_) | Response::Chunk(_) => {}
        }
        Ok(None)
    }

    /// What comes while the terminal is the shell's is dropped: everything is drawn anew afterwards.
    fn show(&mut self, bytes: &str) -> Result<()> {
        if self.stage == Stage::Waiting {
            self.tty.enter()?;
            self.stage = Stage::Taken;
        }
        if self.stage == Stage::Taken {
            self.tty.queue(bytes.as_bytes());
            self.flush();
        }
        Ok(())
    }

    /// Writes what the terminal takes. One that takes nothing any more has gone.
    fn flush(&mut self) {
        self.is_gone |= self.tty.flush().is_err();
    }

    fn say(&mut self, ask: &Request) {
        self.server.queue(&ask.to_line());
        self.server.flush();
    }

    fn tell_size(&mut self) {
        // A terminal that does not tell its size any more has gone, which the next read shows.
        if let Ok((columns, rows)) = self.tty.size() {
            self.say(&Request::Size(columns, rows));
        }
    }

    /// Gives the terminal to the shell and stops. Whoever continues us does it by a signal, which [`Attached::on_ready`] gets.
    fn suspend(&mut self) -> Result<()> {
        if self.stage == Stage::Taken {
            self.stage = Stage::Lent;
            // A terminal that has gone cannot be given back, and the next read shows it.
            drop(self.tty.leave());
        }
        Ok(kill_current_process_group(Number::STOP).map_err(std::io::Error::from)?)
    }

    fn resume(&mut self) -> Result<()> {
        if self.stage == Stage::Waiting {
            return Ok(());
        }
        self.tty.enter()?;
        (self.stage, self.has_typed) = (Stage::Taken, true);
        self.tell_size();
        self.say(&Request::Redraw);
        Ok(())
    }
}

/// The words for a person whose terminal is free again.
pub fn farewell(why: Option<&str>, way_back: &str) {
    let why = why.map(|why| format!("{}. ", crate::base::text::sanitise(why))).unwrap_or_default();
    // The terminal may be gone, and then nobody is left to tell.
    let _ = writeln!(std::io::stdout(), "{why}To go on: polylogue{way_back}");
}
