//! One terminal and who sits at it: its keys, its screen, its size, and the agent that it looks at. Draft and scroll
//! position belong to the agent.

use std::os::fd::AsRawFd;

use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::frame::Frame;
use crate::domain::key::Key;
use crate::reactor::{Reactor, Source};
use crate::terminal::clipboard;
use crate::terminal::keys::Keys;
use crate::terminal::screen::{Palette, Screen};
use crate::terminal::tty::{ReadOutcome, Tty};

/// Bytes of keys that are looked at in one turn.
const KEY_BYTES_PER_TURN: usize = 64 * 1024;

/// What keys come from and frames go to.
pub enum Device {
    /// The controlling terminal.
    Terminal(Box<Tty>),
    /// Memory, for whoever hosts the loop without a terminal.
    Memory(MemoryTerminal),
}

/// A terminal that is not there: bytes in, bytes out, a size.
#[derive(Debug, Default)]
pub struct MemoryTerminal {
    /// What was typed and not read yet.
    pub input: Vec<u8>,
    /// What was drawn and not taken yet.
    pub output: Vec<u8>,
    /// Columns and rows.
    pub size: (u16, u16),
}

/// One terminal of the house.
pub struct Seat {
    /// The agent that it looks at; always one of the roster.
    pub focus: AgentId,
    /// Columns and rows.
    pub size: (u16, u16),
    /// What the last frame showed.
    pub(super) seen: Option<super::draw::Seen>,
    /// When the last frame was drawn.
    pub(super) drawn_at: Moment,
    /// Until when a second Ctrl+C leaves.
    pub(super) leaves_until: Option<Moment>,
    /// A word that stands above the input until the next key.
    pub(super) notice: Option<String>,
    /// Rows of the scrolling part in the last frame.
    pub(super) text_rows: u16,
    /// Where the person stands in the history of inputs, counted from the newest.
    pub(super) recalled: Option<usize>,
    /// Nothing of the question in the last frame was left out.
    pub(super) shows_whole_question: bool,
    device: Device,
    keys: Keys,
    screen: Screen,
    read: Vec<u8>,
    drawn: Vec<u8>,
    is_read_whole: bool,
    is_gone: bool,
}

impl Seat {
    /// Sits down at a device and looks at an agent.
    pub fn new(device: Device, focus: AgentId) -> Self {
        let palette = match &device {
            Device::Terminal(_) => palette(),
            Device::Memory(_) => Palette { color: true, attributes: true, unicode: true },
        };
        let mut seat = Self {
            focus,
            size: (80, 24),
            seen: None,
            drawn_at: Moment::default(),
            leaves_until: None,
            notice: None,
            text_rows: 0,
            recalled: None,
            shows_whole_question: true,
            device,
            keys: Keys::new(),
            screen: Screen::new(palette),
            read: Vec::new(),
            drawn: Vec::new(),
            is_read_whole: true,
            is_gone: false,
        };
        seat.measure();
        seat
    }

    /// The terminal that is not there, if it is one.
    pub fn memory(&mut self) -> Option<&mut MemoryTerminal> {
        match &mut self.device {
            Device::Memory(memory) => Some(memory),
            Device::Terminal(_) => None,
        }
    }

    /// Registers the terminal, for writing only while the screen has not taken everything.
    pub(super) fn watch(&mut self, reactor: &mut Reactor) -> Result<()> {
        let Device::Terminal(tty) = &self.device else { return Ok(()) };
        let wants = tty.has_backlog();
        if !reactor.is_watched(Source::Terminal) || wants {
            reactor.watch(Source::Terminal, tty.as_raw_fd(), true, wants)?;
        }
        Ok(())
    }

    /// Reads a bounded number of bytes and decodes them.
    pub(super) fn read_keys(&mut self, now: Moment) -> Result<()> {
        self.read.clear();
        self.is_read_whole = match &mut self.device {
            Device::Terminal(tty) => {
                let outcome = tty.read(&mut self.read, KEY_BYTES_PER_TURN)?;
                self.is_gone |= outcome == ReadOutcome::Closed;
                outcome != ReadOutcome::More
            }
            Device::Memory(memory) => {
                let count = memory.input.len().min(KEY_BYTES_PER_TURN);
                self.read.extend(memory.input.drain(..count));
                memory.input.is_empty()
            }
        };
        if !self.read.is_empty() {
            self.keys.feed(&self.read, now);
        }
        self.keys.expire(now);
        Ok(())
    }

    /// Whether this question of this agent was in the last frame.
    pub(super) fn has_shown(&self, who: AgentId, question: u64) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.has_shown(who, question))
    }

    /// Whether the terminal has hung up.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    pub(super) fn next_key(&mut self) -> Option<Key> {
        self.keys.next()
    }

    /// When bytes that may be the beginning of a key are one.
    pub(super) fn key_deadline(&self) -> Option<Moment> {
        self.keys.deadline()
    }

    /// Whether there is something to do at once: bytes that were not looked at, or a hang-up.
    pub(super) fn has_leftover(&self) -> bool {
        self.is_gone
            || !self.is_read_whole
            || matches!(&self.device, Device::Memory(memory) if !memory.input.is_empty())
    }

    /// Asks for the size and draws everything anew.
    pub(super) fn measure(&mut self) {
        self.size = match &self.device {
            // A terminal that does not know its size has the usual one.
            Device::Terminal(tty) => tty.size().unwrap_or(self.size),
            Device::Memory(memory) => memory.size,
        };
        self.forget_screen();
    }

    /// The next frame is drawn whole.
    pub(super) fn forget_screen(&mut self) {
        self.screen.forget();
        self.seen = None;
    }

    /// Whether the screen has taken what was drawn before; if not, drawing more would only queue up.
    pub(super) fn is_ready(&self) -> bool {
        !matches!(&self.device, Device::Terminal(tty) if tty.has_backlog())
    }

    /// Sends what changed, as far as the terminal takes it.
    pub(super) fn show(&mut self, frame: &Frame) {
        match &mut self.device {
            Device::Terminal(tty) => {
                self.drawn.clear();
                self.screen.draw(frame, &mut self.drawn);
                tty.queue(&self.drawn);
            }
            Device::Memory(memory) => self.screen.draw(frame, &mut memory.output),
        }
        self.flush();
    }

    /// Puts a text into the clipboard of the terminal.
    pub(super) fn copy(&mut self, text: &str) -> Result<()> {
        let is_in_tmux = std::env::var_os("TMUX").is_some();
        let sequence = clipboard::sequence(text, is_in_tmux).ok_or_else(|| {
            let (have, most) = (text.len(), clipboard::LIMIT);
            let words = format!("{have} bytes are more than terminals take ({most}): /export writes a file instead");
            Error::new(ErrorKind::Usage, words)
        })?;
        match &mut self.device {
            Device::Terminal(tty) => tty.queue(sequence.as_bytes()),
            Device::Memory(memory) => memory.output.extend(sequence.into_bytes()),
        }
        self.flush();
        Ok(())
    }

    /// Sends what the terminal did not take before. One that takes nothing any more has hung up.
    pub(super) fn flush(&mut self) {
        if let Device::Terminal(tty) = &mut self.device {
            self.is_gone |= tty.flush().is_err();
        }
    }

    /// Leaves the terminal as it was found; if it is gone, there is nothing to leave and nobody to be told.
    pub(super) fn suspend(&mut self) {
        if let Device::Terminal(tty) = &mut self.device {
            drop(tty.leave());
        }
    }

    /// Takes the terminal again.
    pub(super) fn resume(&mut self) -> Result<()> {
        if let Device::Terminal(tty) = &mut self.device {
            tty.enter()?;
        }
        self.measure();
        Ok(())
    }
}

fn palette() -> Palette {
    let variable = |name| std::env::var(name).ok();
    // The first that is set decides (POSIX.1-2024, Base Definitions, 8.2).
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
    Palette::from_environment(variable("NO_COLOR").as_deref(), variable("TERM").as_deref(), locale.as_deref())
}
