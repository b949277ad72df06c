//! One terminal: its keys, its screen, its size, and the agent that it shows. Draft and scroll position belong to the
//! agent, except on a read-only terminal.

use std::os::fd::AsRawFd;

use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::draft::Draft;
use crate::domain::frame::Frame;
use crate::domain::key::Key;
use crate::reactor::{Reactor, Ready, Source};
use crate::repl::terminals::device::{Device, RemoteTerminal};
use crate::repl::terminals::question::{Page, QuestionKeys, QuestionView};
use crate::terminal::clipboard;
use crate::terminal::keys::KeyDecoder;
use crate::terminal::screen::Screen;
use crate::terminal::tty::ReadOutcome;

const KEY_BYTES_PER_TURN: usize = 64 * 1024;
/// Keys per turn that cause an [`Act`](super::Act); keys that edit or scroll are cheap and not limited.
const ACTS_PER_TURN: usize = 16;

/// What a terminal may do, and whether the program ends with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TerminalMode {
    /// It can scroll and switch agents, but not change anything. Its draft and scroll position are its own.
    pub is_read_only: bool,
    /// It belongs to a client: `/exit` and Ctrl+C only detach it, and the program goes on.
    pub is_attached: bool,
}

/// What the owner of an attached terminal is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalRequest {
    /// Release the terminal, then call `Repl::detach_device`. It is neither read nor drawn any more.
    Detach,
    /// Suspend the terminal's own process; when it continues, call [`Terminal::redraw`].
    Suspend,
}

/// A terminal that shows an agent.
pub struct Terminal {
    /// The agent that it shows; always in the roster.
    pub focus: AgentId,
    /// Columns and rows.
    pub size: (u16, u16),
    pub(in crate::repl) mode: TerminalMode,
    /// When it was attached, in milliseconds since 1970.
    pub(in crate::repl) since: i64,
    /// The draft of a read-only terminal.
    pub(in crate::repl) own_draft: Draft,
    /// Changes with everything visible that belongs to this terminal and not to the agent.
    pub(in crate::repl) revision: u64,
    /// What the last frame showed.
    pub(in crate::repl) shown: Option<crate::repl::terminals::draw::VisibleState>,
    /// When the last frame was drawn.
    pub(in crate::repl) drawn_at: Moment,
    /// The newest frame was not drawn because the terminal accepted no output.
    pub(in crate::repl) is_behind: bool,
    /// Until when a second Ctrl+C leaves.
    pub(in crate::repl) leaves_until: Option<Moment>,
    /// A text above the input until the next key.
    pub(in crate::repl) notice: Option<String>,
    /// Rows of the scrolling part in the last frame.
    pub(in crate::repl) text_rows: u16,
    /// The position in the history of inputs, counted from the newest.
    pub(in crate::repl) recalled: Option<usize>,
    /// The question that it shows or showed last.
    pub(in crate::repl) question: Option<QuestionView>,
    device: Device,
    keys: KeyDecoder,
    screen: Screen,
    read: Vec<u8>,
    /// When the keys that are handled now were received.
    read_at: Moment,
    /// How many keys caused an act in this turn.
    acts: usize,
    drawn: Vec<u8>,
    requests: Vec<TerminalRequest>,
    is_read_whole: bool,
    is_gone: bool,
    is_detached: bool,
}

impl Terminal {
    pub(in crate::repl) fn new(device: Device, focus: AgentId, mode: TerminalMode, unix_ms: i64) -> Self {
        let screen = Screen::new(device.palette());
        let mut terminal = Self {
            focus,
            size: (80, 24),
            mode,
            since: unix_ms,
            own_draft: Draft::default(),
            revision: 0,
            shown: None,
            drawn_at: Moment::default(),
            is_behind: false,
            leaves_until: None,
            notice: None,
            text_rows: 0,
            recalled: None,
            question: None,
            read_at: Moment::default(),
            device,
            keys: KeyDecoder::new(),
            screen,
            read: Vec::new(),
            acts: 0,
            drawn: Vec::new(),
            requests: Vec::new(),
            is_read_whole: true,
            is_gone: false,
            is_detached: false,
        };
        terminal.measure();
        terminal
    }

    /// Its buffers, if it is remote.
    pub fn remote(&mut self) -> Option<&mut RemoteTerminal> {
        match &mut self.device {
            Device::Remote(remote) => Some(remote),
            Device::Terminal(_) => None,
        }
    }

    /// Bytes of keys that are buffered for it: not decoded yet, or of an unfinished paste.
    pub fn buffered_bytes(&self) -> usize {
        let waiting = if let Device::Remote(remote) = &self.device { remote.input.len() } else { 0 };
        waiting + self.keys.pending_bytes()
    }

    /// Whether there are requests or output for its owner.
    pub fn has_output(&self) -> bool {
        !self.requests.is_empty() || matches!(&self.device, Device::Remote(remote) if !remote.output.is_empty())
    }

    /// The requests since the last call, in order.
    pub fn take_requests(&mut self) -> Vec<TerminalRequest> {
        std::mem::take(&mut self.requests)
    }

    /// Draws the next frame completely, because what the terminal shows is unknown.
    pub fn redraw(&mut self) {
        self.screen.invalidate();
        self.shown = None;
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

    /// Handles a new size, flushes output, and reads keys, which are handled later, one by one.
    pub(in crate::repl) fn on_ready(&mut self, ready: &[Ready], reactor: &mut Reactor, now: Moment) -> Result<()> {
        self.begin_turn();
        if !self.is_local() {
            return Ok(());
        }
        if self.is_resized() {
            self.measure();
        }
        let is_local = self.is_local();
        let mut own =
            ready.iter().filter(|item| is_local && item.source == Source::Terminal).map(|item| item.readiness);
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

    /// Handles a new size and keys from a client.
    pub(in crate::repl) fn read_remote(&mut self, now: Moment) -> Result<()> {
        if self.is_resized() {
            self.measure();
        }
        let is_due = self.key_deadline().is_some_and(|at| at <= now);
        if is_due || self.has_input() { self.read_keys(now) } else { Ok(()) }
    }

    /// Reads and decodes a bounded number of bytes, unless decoded keys are left.
    pub(in crate::repl) fn read_keys(&mut self, now: Moment) -> Result<()> {
        if self.has_keys() {
            self.is_read_whole = false;
            return Ok(());
        }
        self.read.clear();
        let was_left = !self.is_read_whole;
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
            // Bytes that were left by the last turn had been typed before it.
            if !was_left {
                self.read_at = now;
            }
            self.keys.feed(&self.read, now);
        }
        self.keys.expire(now);
        Ok(())
    }

    /// What a key that was received with the last ones means for this question.
    pub(in crate::repl) fn question_keys(&self, agent_id: AgentId, question: u64) -> QuestionKeys {
        let is_shown = self.shown.as_ref().is_some_and(|shown| shown.has_shown(agent_id, question));
        self.question.as_ref().filter(|_| is_shown).map(|view| view.keys(self.read_at)).unwrap_or_default()
    }

    /// When the frame has to say that keys answer the question.
    pub(in crate::repl) fn question_deadline(&self) -> Option<Moment> {
        let drawn = self.shown.as_ref()?.question_keys()?;
        self.question.as_ref().filter(|_| self.is_ready())?.next_change(drawn)
    }

    /// Notes what the frame showed of a question.
    pub(in crate::repl) fn note_question(&mut self, asked: Option<(AgentId, u64, Page)>, now: Moment) {
        let Some((agent_id, number, page)) = asked else {
            return self.question.iter_mut().for_each(QuestionView::on_hidden);
        };
        let columns = self.size.0;
        let known = self.question.take().filter(|view| view.is_of(agent_id, number, columns));
        self.question
            .insert(known.unwrap_or_else(|| QuestionView::new(agent_id, number, columns, now)))
            .on_drawn(page, now);
    }

    /// Whether the next key is text that was received with this one.
    pub(in crate::repl) fn is_followed_by_text(&self) -> bool {
        self.keys.next_is_text()
    }

    /// Whether the terminal of this process has hung up.
    pub(in crate::repl) fn is_gone(&self) -> bool {
        self.is_gone
    }

    pub(in crate::repl) fn begin_turn(&mut self) {
        self.acts = 0;
    }

    pub(in crate::repl) fn count_act(&mut self) {
        self.acts += 1;
    }

    /// The next key, unless the limit of this turn is reached.
    pub(in crate::repl) fn next_key(&mut self) -> Option<Key> {
        if self.is_detached || self.acts >= ACTS_PER_TURN { None } else { self.keys.next() }
    }

    /// Whether keys wait for the next turn.
    pub(in crate::repl) fn has_keys(&self) -> bool {
        !self.is_detached && self.keys.has_next()
    }

    /// When an incomplete key sequence is taken as it is.
    pub(in crate::repl) fn key_deadline(&self) -> Option<Moment> {
        self.keys.deadline().filter(|_| !self.is_detached)
    }

    /// Whether it is detached: nothing is read or drawn any more.
    pub fn is_detached(&self) -> bool {
        self.is_detached
    }

    /// Whether there is something to read without waiting: bytes, decoded keys, or a hang-up.
    pub(in crate::repl) fn has_input(&self) -> bool {
        let is_typed = matches!(&self.device, Device::Remote(remote) if !remote.input.is_empty());
        !self.is_detached && (self.is_gone || !self.is_read_whole || is_typed || self.has_keys())
    }

    /// Whether there is something to do at once: to read, or to draw.
    pub(in crate::repl) fn has_leftover(&self) -> bool {
        self.has_input() || self.is_ready() && (self.is_behind || self.shown.is_none() || self.is_resized())
    }

    pub(in crate::repl) fn is_resized(&self) -> bool {
        matches!(&self.device, Device::Remote(remote) if remote.size != self.size)
    }

    /// Reads the size and redraws everything.
    pub(in crate::repl) fn measure(&mut self) {
        self.size = self.device.size(self.size);
        self.redraw();
    }

    /// Whether a frame may be drawn now.
    pub(in crate::repl) fn is_ready(&self) -> bool {
        !self.is_detached && self.device.takes_more()
    }

    /// Draws a frame, of which only the changes are sent.
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
            let message = format!("too long for the clipboard: {have} bytes, at most {most}; /export writes a file");
            Error::new(ErrorKind::Usage, message)
        })?;
        if !self.is_ready() {
            return Err(Error::new(ErrorKind::Usage, "this terminal accepts no output at the moment: try again"));
        }
        match &mut self.device {
            Device::Terminal(tty) => tty.queue(sequence.as_bytes()),
            Device::Remote(remote) => remote.output.extend(sequence.into_bytes()),
        }
        self.flush();
        Ok(())
    }

    /// Sends buffered output. After an error the terminal has hung up.
    pub(in crate::repl) fn flush(&mut self) {
        if let Device::Terminal(tty) = &mut self.device {
            self.is_gone |= tty.flush().is_err();
        }
    }

    pub(in crate::repl) fn detach(&mut self) {
        self.is_detached = true;
        self.requests.push(TerminalRequest::Detach);
    }

    /// Asks its owner to stop the terminal's process.
    pub(in crate::repl) fn request_suspend(&mut self) {
        // One request is enough until its owner has taken it.
        if !self.requests.contains(&TerminalRequest::Suspend) {
            self.requests.push(TerminalRequest::Suspend);
        }
    }

    /// Restores the state of the terminal. It may have hung up, so errors are ignored.
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
