//! `polylogue attach`: passes keys to the server, and the server's frames to the terminal, without interpreting either.
//!
//! One poll over the terminal, the socket and the signals. Nothing blocks, and nothing is buffered without bound: while the
//! server does not take keys, none are read; while the terminal does not take frames, none are read either, and then the
//! server does not draw new ones.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::{Signal as Number, kill_current_process_group};

use super::client::{RESPONSE_TIMEOUT, no_response, refusal, response_too_long, server_ended};
use super::process;
use crate::base::error::Result;
use crate::base::text::sanitise;
use crate::domain::display::{Abilities, DisplaySettings};
use crate::domain::wire::{LONGEST_LINE, Request, Response, TerminalFacts};
use crate::reactor::{Reactor, Ready, Signal, Signals, Source};
use crate::socket::{Connection, Line};
use crate::terminal::abilities;
use crate::terminal::screen::Palette;
use crate::terminal::tty::{ReadOutcome, Tty};

/// Bytes of keys in one request.
const KEYS_PER_REQUEST: usize = 64 * 1024;
const BYTES_PER_TURN: usize = 256 * 1024;

const SERVER: Source = Source::Client(0);

pub struct Options {
    pub agent: Option<String>,
    pub is_read_only: bool,
    pub display: DisplaySettings,
}

/// Runs until the user detaches or the server ends the connection. Returns the reason that the server gave.
///
/// # Errors
/// There is no terminal, the server refuses, or it ends without a reason.
pub fn run(stream: UnixStream, options: Options) -> Result<Option<String>> {
    let mut tty = Tty::open()?;
    let modes = process::terminal_modes(&options.display);
    tty.set_modes(modes);
    process::restore_terminal_on_panic();
    let mut attached = Attached {
        server: Connection::new(stream, LONGEST_LINE)?,
        reactor: Reactor::new()?,
        signals: Signals::catch()?,
        has_more_keys: true,
        is_closed: false,
        mode: Mode::Initial,
        give_up: Instant::now() + RESPONSE_TIMEOUT,
        tty,
    };
    attached.reactor.watch(Source::Signals, attached.signals.fd(), true, false)?;
    let terminal = terminal_facts(attached.tty.size()?, modes.plain);
    attached.send(&Request::Attach { agent: options.agent, is_read_only: options.is_read_only, terminal });
    loop {
        if let Some(end) = attached.turn()? {
            // This fails if the terminal was closed; then there is nothing to restore.
            drop(attached.tty.leave());
            return Ok(end);
        }
    }
}

fn terminal_facts((columns, rows): (u16, u16), is_plain: bool) -> TerminalFacts {
    let Palette { color, attributes, unicode } = Palette::of_process();
    let abilities = Abilities { is_plain, ..abilities::of_process() };
    TerminalFacts { columns, rows, color, attributes, unicode, is_in_tmux: abilities.is_in_tmux, abilities }
}

/// Why the connection ended, if the server gave a reason.
type End = Option<String>;

struct Attached {
    tty: Tty,
    server: Connection,
    reactor: Reactor,
    signals: Signals,
    /// The terminal may have more keys that no poll will report.
    has_more_keys: bool,
    is_closed: bool,
    mode: Mode,
    /// The deadline for the first frame.
    give_up: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Unchanged until the first frame arrives.
    Initial,
    /// Raw, with the alternate screen.
    Entered,
    /// Restored while the process is suspended.
    Suspended,
}

impl Attached {
    fn turn(&mut self) -> Result<Option<End>> {
        self.watch()?;
        let mut ready = Vec::new();
        self.reactor.wait(self.timeout(), &mut ready)?;
        for event in ready {
            if let Some(end) = self.on_ready(event)? {
                return Ok(Some(end));
            }
        }
        self.flush();
        // Frames before keys: the reason for the end has to be read even if the server takes no more keys.
        if let Some(end) = self.pass_frames()? {
            return Ok(Some(end));
        }
        self.pass_keys()?;
        if self.mode == Mode::Initial && Instant::now() >= self.give_up {
            return Err(no_response());
        }
        Ok(self.is_closed.then_some(None))
    }

    /// Polls only for what can be passed on.
    fn watch(&mut self) -> Result<()> {
        let (tty, server) = (self.tty.as_raw_fd(), self.server.fd());
        self.reactor.watch(Source::Terminal, tty, self.takes_keys(), self.tty.has_backlog())?;
        self.reactor.watch(SERVER, server, !self.tty.has_backlog(), !self.server.is_ready())
    }

    /// The timeout of the next poll: zero if there is work left, and limited before the first frame.
    fn timeout(&self) -> Option<Duration> {
        let has_frames = !self.tty.has_backlog() && (self.server.has_line() || self.server.wants_to_read());
        let has_keys = self.takes_keys() && self.has_more_keys;
        match has_frames || has_keys || self.server.has_ended() && !self.tty.has_backlog() {
            true => Some(Duration::ZERO),
            false if self.mode == Mode::Initial => Some(self.give_up.saturating_duration_since(Instant::now())),
            false => None,
        }
    }

    fn takes_keys(&self) -> bool {
        self.mode == Mode::Entered && self.server.is_ready()
    }

    fn on_ready(&mut self, event: Ready) -> Result<Option<End>> {
        match event.source {
            Source::Terminal => self.has_more_keys |= event.readiness.readable,
            SERVER if event.readiness.readable => self.server.on_readable(),
            Source::Signals => {
                self.reactor.rearm(Source::Signals)?;
                for signal in self.signals.take() {
                    match signal {
                        Signal::Terminate(_) | Signal::Hangup => return Ok(Some(None)),
                        Signal::Resized => self.send_size(),
                        Signal::Suspend => self.suspend()?,
                        Signal::Resume => self.resume()?,
                    }
                }
            }
            _ => {}
        }
        Ok(None)
    }

    /// Passes keys to the server, as long as it takes them.
    fn pass_keys(&mut self) -> Result<()> {
        self.server.flush();
        while self.takes_keys() && self.has_more_keys {
            let mut keys = Vec::new();
            let outcome = self.tty.read(&mut keys, KEYS_PER_REQUEST)?;
            self.has_more_keys = outcome == ReadOutcome::More;
            if !keys.is_empty() {
                self.send(&Request::Keys { keys });
            }
            self.is_closed |= outcome == ReadOutcome::Closed;
        }
        Ok(())
    }

    /// Passes frames to the terminal, as long as it takes them.
    fn pass_frames(&mut self) -> Result<Option<End>> {
        if !self.tty.has_backlog() {
            self.server.read(BYTES_PER_TURN);
        }
        while !self.tty.has_backlog() {
            match self.server.next_line() {
                Line::Whole(line) => {
                    if let Some(end) = self.on_response(Response::read(&line)?)? {
                        return Ok(Some(end));
                    }
                }
                Line::TooLong => return Err(response_too_long()),
                Line::None if self.server.has_ended() => return Err(server_ended()),
                Line::None => break,
            }
        }
        Ok(None)
    }

    fn on_response(&mut self, response: Response) -> Result<Option<End>> {
        match response {
            Response::Frame(bytes) => self.show(&bytes)?,
            Response::Suspend {} => self.suspend()?,
            Response::End(reason) => return Ok(Some(Some(reason))),
            Response::Refused { kind, message } => return Err(refusal(&kind, message)),
            Response::Done(_) | Response::Missed(_) | Response::Chunk(_) => {}
        }
        Ok(None)
    }

    /// Drops frames that arrive while the process is suspended: the screen is redrawn afterwards.
    fn show(&mut self, bytes: &str) -> Result<()> {
        if self.mode == Mode::Initial {
            self.tty.enter()?;
            self.mode = Mode::Entered;
        }
        if self.mode == Mode::Entered {
            self.tty.queue(bytes.as_bytes());
            self.flush();
        }
        Ok(())
    }

    /// Writes what the terminal takes; an error means that it was closed.
    fn flush(&mut self) {
        self.is_closed |= self.tty.flush().is_err();
    }

    fn send(&mut self, request: &Request) {
        self.server.queue(&request.to_line());
        self.server.flush();
    }

    fn send_size(&mut self) {
        // An error means that the terminal was closed, which the next read reports.
        if let Ok((columns, rows)) = self.tty.size() {
            self.send(&Request::Size { columns, rows });
        }
    }

    /// Restores the terminal and stops the process, until [`Attached::on_ready`] gets the signal that continues it.
    fn suspend(&mut self) -> Result<()> {
        if self.mode == Mode::Entered {
            self.mode = Mode::Suspended;
            // An error means that the terminal was closed, which the next read reports.
            drop(self.tty.leave());
        }
        Ok(kill_current_process_group(Number::STOP).map_err(std::io::Error::from)?)
    }

    fn resume(&mut self) -> Result<()> {
        if self.mode == Mode::Initial {
            return Ok(());
        }
        self.tty.enter()?;
        (self.mode, self.has_more_keys) = (Mode::Entered, true);
        self.send_size();
        self.send(&Request::Redraw);
        Ok(())
    }
}

/// Tells the user why the terminal was detached and how to attach again. `options` select the same data directory.
pub fn print_farewell(reason: Option<&str>, options: &str) {
    let reason = reason.map(|reason| format!("{}; ", sanitise(reason))).unwrap_or_default();
    // There is nowhere left to report that the terminal was closed.
    let _ = writeln!(std::io::stdout(), "{reason}to continue: polylogue{options}");
}
