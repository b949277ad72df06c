//! One terminal and who sits at it: its keys, its screen, its size, and the agent that it looks at. Draft and scroll
//! position belong to the agent, but for those of a seat that only watches.

use std::os::fd::AsRawFd;

use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::draft::Draft;
use crate::domain::frame::Frame;
use crate::domain::key::Key;
use crate::reactor::{Reactor, Ready, Source};
use crate::repl::terminals::device::{Device, RemoteTerminal};
use crate::terminal::clipboard;
use crate::terminal::keys::KeyDecoder;
use crate::terminal::screen::Screen;
use crate::terminal::tty::ReadOutcome;

/// Bytes of keys that are looked at in one turn.
const KEY_BYTES_PER_TURN: usize = 64 * 1024;
/// Keys that ask for something of the house, and are carried out in one turn; what edits and scrolls costs next to nothing.
const ACTS_PER_TURN: usize = 16;

/// What a terminal may do, and what its ways out do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TerminalMode {
    /// It looks, scrolls and switches; what would change anything for others is refused. What is typed into it and where
    /// it reads are its own.
    pub is_read_only: bool,
    /// It came from elsewhere and may go again: its ways out only detach it, and everything goes on.
    pub is_attached: bool,
}

/// What the one who owns an attached terminal is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalRequest {
    /// Let the terminal go, then call `Repl::detach_device`. It is neither read nor drawn any more.
    Detach,
    /// Stop the terminal's own process; when it goes on, call [`Terminal::redraw`].
    Suspend,
}

/// One terminal of the house.
pub struct Terminal {
    /// The agent that it looks at; always one of the roster.
    pub focus: AgentId,
    /// Columns and rows.
    pub size: (u16, u16),
    pub(in crate::repl) mode: TerminalMode,
    /// When it sat down, in milliseconds since 1970.
    pub(in crate::repl) since: i64,
    /// What is typed here and concerns nobody else: only where the seat is read-only.
    pub(in crate::repl) own_draft: Draft,
    /// Changes with all that can be seen here and belongs to this seat alone.
    pub(in crate::repl) revision: u64,
    /// What the last frame showed.
    pub(in crate::repl) seen: Option<crate::repl::terminals::draw::VisibleState>,
    /// When the last frame was drawn.
    pub(in crate::repl) drawn_at: Moment,
    /// The newest frame was not drawn: the terminal took nothing.
    pub(in crate::repl) is_behind: bool,
    /// Until when a second Ctrl+C leaves.
    pub(in crate::repl) leaves_until: Option<Moment>,
    /// A word that stands above the input until the next key.
    pub(in crate::repl) notice: Option<String>,
    /// Rows of the scrolling part in the last frame.
    pub(in crate::repl) text_rows: u16,
    /// Where the person stands in the history of inputs, counted from the newest.
    pub(in crate::repl) recalled: Option<usize>,
    /// Nothing of the question in the last frame was left out.
    pub(in crate::repl) shows_whole_question: bool,
    device: Device,
    keys: KeyDecoder,
    screen: Screen,
    read: Vec<u8>,
    /// So many keys asked for something in this turn.
    acts: usize,
    drawn: Vec<u8>,
    wishes: Vec<TerminalRequest>,
    is_read_whole: bool,
    is_gone: bool,
    is_detached: bool,
}

impl Terminal {
    /// Sits down at a device and looks at an agent.
    pub(in crate::repl) fn new(device: Device, focus: AgentId, mode: TerminalMode, unix_ms: i64) -> Self {
        let screen = Screen::new(device.palette());
        let mut terminal = Self {
            focus,
            size: (80, 24),
            mode,
            since: unix_ms,
            own_draft: Draft::default(),
            revision: 0,
            seen: None,
            drawn_at: Moment::default(),
            is_behind: false,
            leaves_until: None,
            notice: None,
            text_rows: 0,
            recalled: None,
            shows_whole_question: true,
            device,
            keys: KeyDecoder::new(),
            screen,
            read: Vec::new(),
            acts: 0,
            drawn: Vec::new(),
            wishes: Vec::new(),
            is_read_whole: true,
            is_gone: false,
            is_detached: false,
        };
        terminal.measure();
        terminal
    }

    /// The terminal, if it is one that is not here.
    pub fn remote(&mut self) -> Option<&mut RemoteTerminal> {
        match &mut self.device {
            Device::Remote(remote) => Some(remote),
            Device::Terminal(_) => None,
        }
    }

    /// Bytes of keys that it makes this process keep: not looked at, or of a paste without an end.
    pub fn kept(&self) -> usize {
        let waiting = if let Device::Remote(remote) = &self.device { remote.input.len() } else { 0 };
        waiting + self.keys.pending_bytes()
    }

    /// Whether its owner has something to do for it: wishes, or what was drawn.
    pub fn has_output(&self) -> bool {
        !self.wishes.is_empty() || matches!(&self.device, Device::Remote(remote) if !remote.output.is_empty())
    }

    /// What its owner is to do, in order; each wish is told once.
    pub fn take_wishes(&mut self) -> Vec<TerminalRequest> {
        std::mem::take(&mut self.wishes)
    }

    /// Nothing is known of what the terminal shows: the next frame is drawn whole.
    pub fn redraw(&mut self) {
        self.screen.invalidate();
        self.seen = None;
    }

    pub(in crate::repl) fn is_local(&self) -> bool {
        matches!(self.device, Device::Terminal(_))
    }

    /// Registers the terminal, for writing only while the screen has not taken everything.
    pub(in crate::repl) fn watch(&mut self, reactor: &mut Reactor) -> Result<()> {
        let Device::Terminal(tty) = &self.device else { return Ok(()) };
        let wants = tty.has_backlog();
        if !reactor.is_watched(Source::Terminal) || wants {
            reactor.watch(Source::Terminal, tty.as_raw_fd(), true, wants)?;
        }
        Ok(())
    }

    /// Takes up a new size, sends what was not taken before, and reads keys; they are acted on later, one by one.
    pub(in crate::repl) fn on_ready(&mut self, ready: &[Ready], reactor: &mut Reactor, now: Moment) -> Result<()> {
        self.begin_turn();
        if !self.is_local() {
            return Ok(());
        }
        if self.is_resized() {
            self.measure();
        }
        let mut own = ready.iter().filter(|ready| ready.source == Source::Terminal).map(|ready| ready.readiness);
        if own.clone().any(|readiness| readiness.writable) {
            self.flush();
        }
        let is_ready = own.any(|readiness| readiness.readable);
        let is_due = self.key_deadline().is_some_and(|at| at <= now);
        if is_ready || is_due || self.has_input() {
            self.read_keys(now)?;
            reactor.rearm(Source::Terminal)?;
        }
        Ok(())
    }

    /// Takes up what a client has sent: another size, and keys. After its connection was read: a sequence of which the
    /// rest has arrived is no lone Esc.
    pub(in crate::repl) fn read_remote(&mut self, now: Moment) -> Result<()> {
        if self.is_resized() {
            self.measure();
        }
        let is_due = self.key_deadline().is_some_and(|at| at <= now);
        if is_due || self.has_input() { self.read_keys(now) } else { Ok(()) }
    }

    /// Reads a bounded number of bytes and decodes them; nothing while keys wait that were decoded before.
    pub(in crate::repl) fn read_keys(&mut self, now: Moment) -> Result<()> {
        if self.has_keys() {
            self.is_read_whole = false;
            return Ok(());
        }
        self.read.clear();
        self.is_read_whole = match &mut self.device {
            Device::Terminal(tty) => {
                let outcome = tty.read(&mut self.read, KEY_BYTES_PER_TURN)?;
                self.is_gone |= outcome == ReadOutcome::Closed;
                outcome != ReadOutcome::More
            }
            Device::Remote(remote) => {
                let count = remote.input.len().min(KEY_BYTES_PER_TURN);
                self.read.extend(remote.input.drain(..count));
                remote.input.is_empty()
            }
        };
        if !self.read.is_empty() {
            self.keys.feed(&self.read, now);
        }
        self.keys.expire(now);
        Ok(())
    }

    /// Whether this question of this agent was in the last frame.
    pub(in crate::repl) fn has_shown(&self, agent_id: AgentId, question: u64) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.has_shown(agent_id, question))
    }

    /// Whether the terminal of this process has hung up.
    pub(in crate::repl) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Another turn has begun: as many keys as in any may ask for something.
    pub(in crate::repl) fn begin_turn(&mut self) {
        self.acts = 0;
    }

    /// A key has asked for something of the house.
    pub(in crate::repl) fn count_act(&mut self) {
        self.acts += 1;
    }

    /// The next key, if this turn has room for it.
    pub(in crate::repl) fn next_key(&mut self) -> Option<Key> {
        if self.is_detached || self.acts >= ACTS_PER_TURN { None } else { self.keys.next() }
    }

    /// Whether keys wait for the next turn.
    pub(in crate::repl) fn has_keys(&self) -> bool {
        !self.is_detached && self.keys.has_next()
    }

    /// When bytes that may be the beginning of a key are one.
    pub(in crate::repl) fn key_deadline(&self) -> Option<Moment> {
        self.keys.deadline().filter(|_| !self.is_detached)
    }

    /// Whether the person has gone, and nothing is read or drawn here any more.
    pub fn is_detached(&self) -> bool {
        self.is_detached
    }

    /// Whether there is something to read without waiting: bytes that were not looked at, or a hang-up.
    pub(in crate::repl) fn has_input(&self) -> bool {
        let is_typed = matches!(&self.device, Device::Remote(remote) if !remote.input.is_empty());
        !self.is_detached && (self.is_gone || !self.is_read_whole || is_typed || self.has_keys())
    }

    /// Whether there is something to do at once: to read, or to draw.
    pub(in crate::repl) fn has_leftover(&self) -> bool {
        self.has_input() || self.is_ready() && (self.is_behind || self.seen.is_none() || self.is_resized())
    }

    /// Its owner has given it another size.
    pub(in crate::repl) fn is_resized(&self) -> bool {
        matches!(&self.device, Device::Remote(remote) if remote.size != self.size)
    }

    /// Asks for the size and draws everything anew.
    pub(in crate::repl) fn measure(&mut self) {
        self.size = self.device.size(self.size);
        self.redraw();
    }

    /// Whether a frame may be drawn now.
    pub(in crate::repl) fn is_ready(&self) -> bool {
        !self.is_detached && self.device.takes_more()
    }

    /// Sends what changed, as far as the terminal takes it.
    pub(in crate::repl) fn show(&mut self, frame: &Frame) {
        match &mut self.device {
            Device::Terminal(tty) => {
                self.drawn.clear();
                self.screen.draw(frame, &mut self.drawn);
                tty.queue(&self.drawn);
            }
            Device::Remote(remote) => self.screen.draw(frame, &mut remote.output),
        }
        self.flush();
    }

    /// Puts a text into the clipboard of the terminal.
    pub(in crate::repl) fn copy(&mut self, text: &str) -> Result<()> {
        let sequence = clipboard::sequence(text, self.device.is_in_tmux()).ok_or_else(|| {
            let (have, most) = (text.len(), clipboard::LIMIT);
            let words = format!("{have} bytes are more than terminals take ({most}): /export writes a file instead");
            Error::new(ErrorKind::Usage, words)
        })?;
        if !self.is_ready() {
            return Err(Error::new(ErrorKind::Usage, "this terminal takes nothing at the moment: try again"));
        }
        match &mut self.device {
            Device::Terminal(tty) => tty.queue(sequence.as_bytes()),
            Device::Remote(remote) => remote.output.extend(sequence.into_bytes()),
        }
        self.flush();
        Ok(())
    }

    /// Sends what the terminal did not take before. One that takes nothing any more has hung up.
    pub(in crate::repl) fn flush(&mut self) {
        if let Device::Terminal(tty) = &mut self.device {
            self.is_gone |= tty.flush().is_err();
        }
    }

    /// The person goes, and nothing ends with that.
    pub(in crate::repl) fn detach(&mut self) {
        self.is_detached = true;
        self.wishes.push(TerminalRequest::Detach);
    }

    /// Asks its owner to stop the terminal's process.
    pub(in crate::repl) fn wish_to_suspend(&mut self) {
        // One that has not stopped yet stops once, however often it was told to.
        if !self.wishes.contains(&TerminalRequest::Suspend) {
            self.wishes.push(TerminalRequest::Suspend);
        }
    }

    /// Leaves the terminal as it was found; if it is gone, there is nothing to leave and nobody to be told.
    pub(in crate::repl) fn suspend(&mut self) {
        if let Device::Terminal(tty) = &mut self.device {
            drop(tty.leave());
        }
    }

    pub(in crate::repl) fn resume(&mut self) -> Result<()> {
        if let Device::Terminal(tty) = &mut self.device {
            tty.enter()?;
            self.measure();
        }
        Ok(())
    }
}
