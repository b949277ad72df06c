//! The keys of one terminal, from bytes to decoded keys.

use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::domain::key::Key;
use crate::repl::terminals::device::Device;
use crate::terminal::keys::KeyDecoder;
use crate::terminal::tty::ReadOutcome;

const BYTES_PER_TURN: usize = 64 * 1024;
/// Keys per turn that cause an [`Act`](super::Act); keys that edit or scroll are cheap and not limited. A line that is
/// entered is the last act of its turn: many commands that arrive at once never make one long turn.
const ACTS_PER_TURN: usize = 16;

#[derive(Default)]
pub(super) struct Keyboard {
    decoder: KeyDecoder,
    buffer: Vec<u8>,
    /// When the keys that are handled now were received.
    read_at: Moment,
    /// How many keys caused an act in this turn.
    acts: usize,
    /// How many keys were handled since the last look.
    handled: u64,
    /// The device has more bytes than were read, and the poll will not report them again.
    has_more: bool,
    /// The terminal sends whole lines.
    is_in_line_mode: bool,
}

impl Keyboard {
    pub(super) fn new(is_in_line_mode: bool) -> Self {
        Self { is_in_line_mode, ..Self::default() }
    }

    pub(super) fn begin_turn(&mut self) {
        self.acts = 0;
    }

    pub(super) fn count_act(&mut self) {
        self.acts += 1;
    }

    /// Leaves the remaining keys to the next turn.
    pub(super) fn end_turn(&mut self) {
        self.acts = ACTS_PER_TURN;
    }

    /// Reads and decodes a bounded number of bytes, unless decoded keys are left.
    pub(super) fn read(&mut self, device: &mut Device, now: Moment) -> Result<ReadOutcome> {
        if self.has_keys() {
            self.has_more = true;
            return Ok(ReadOutcome::More);
        }
        self.buffer.clear();
        let was_left = self.has_more;
        let outcome = device.read(&mut self.buffer, BYTES_PER_TURN)?;
        self.has_more = outcome == ReadOutcome::More;
        if !self.buffer.is_empty() {
            // Bytes that were left by the last turn had been typed before it.
            if !was_left {
                self.read_at = now;
            }
            if self.is_in_line_mode {
                self.decoder.feed_lines(&self.buffer);
            } else {
                self.decoder.feed(&self.buffer, now);
            }
        }
        self.decoder.expire(now);
        Ok(outcome)
    }

    /// The bytes that were received since the last call, as a terminal sends them.
    pub(super) fn take_received(&mut self) -> Vec<u8> {
        let mut received = std::mem::take(&mut self.buffer);
        if self.is_in_line_mode {
            received.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'\r');
        }
        received
    }

    /// The next key, unless the limit of this turn is reached.
    pub(super) fn next_key(&mut self) -> Option<Key> {
        let next = if self.acts < ACTS_PER_TURN { self.decoder.next() } else { None };
        self.handled += u64::from(next.is_some());
        next
    }

    /// How many keys were handled since the last call.
    pub(super) fn take_handled(&mut self) -> u64 {
        std::mem::take(&mut self.handled)
    }

    pub(super) fn read_at(&self) -> Moment {
        self.read_at
    }

    /// Whether the next key is text that was received with this one.
    pub(super) fn is_followed_by_text(&self) -> bool {
        self.decoder.next_is_text()
    }

    /// The key that is next.
    pub(super) fn peek(&self) -> Option<&Key> {
        self.decoder.peek()
    }

    /// The remaining input of the device is left to a later turn.
    pub(super) fn leave_input(&mut self) {
        self.has_more = true;
    }

    pub(super) fn has_keys(&self) -> bool {
        self.decoder.has_next()
    }

    /// Whether keys can be had without waiting for the device.
    pub(super) fn has_input(&self) -> bool {
        self.has_more || self.has_keys()
    }

    /// When an incomplete key sequence is taken as it is.
    pub(super) fn deadline(&self) -> Option<Moment> {
        self.decoder.deadline()
    }

    /// Bytes that are not decoded yet, or belong to an unfinished paste.
    pub(super) fn pending_bytes(&self) -> usize {
        self.decoder.pending_bytes()
    }
}
