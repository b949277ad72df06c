//! From bytes to keys, however the bytes are cut.
//!
//! A state machine splits the bytes into units (a character, a control, an escape sequence, a paste), at a constant
//! cost per byte, and termina parses each unit. The split is done here because a parser that meets an invalid unit
//! drops the byte that ended it, which may be the next key.

mod units;

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::domain::key::{Key, KeyCode, Modifiers};
use crate::terminal::announce;
use units::UnitParser;

/// A lone Esc is a key after this time. Terminals send a sequence in one piece; 25 to 30 ms covers a split one.
const ESCAPE_TIMEOUT: Duration = Duration::from_millis(30);
/// An unfinished sequence is dropped after this time, which is long enough for a slow connection.
const SEQUENCE_TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum length of a known sequence.
const SEQUENCE_BYTES: usize = 64;
/// Maximum length of a string from the terminal.
const STRING_BYTES: usize = 4_096;
/// Maximum size of a paste; a longer one is delivered in pieces.
const PASTE_BYTES: usize = 64 * 1024 * 1024;
const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";
const ESC: u8 = 0x1b;
const CTRL_C: u8 = 0x03;
/// Ctrl+C after this time without a byte ends a paste whose end mark was lost.
const PASTE_SILENCE: Duration = Duration::from_secs(1);

/// The kind of the unfinished unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Ground,
    /// One or two Esc.
    Escape,
    /// `Esc [` and parameters.
    Sequence,
    /// `Esc O` or `Esc [ [`: one byte is missing.
    Single,
    /// `Esc [ M`: this many bytes are missing.
    Mouse(u8),
    /// `Esc ]`, `Esc P` and such: text up to BEL or ST.
    Text,
    /// A character: this many bytes are missing.
    Utf8(u8),
    /// Pasted text: this many bytes of the end mark were received.
    Paste(usize),
}

/// Decodes the bytes of a terminal into keys.
#[derive(Debug)]
pub struct KeyDecoder {
    state: State,
    unit: Vec<u8>,
    /// When the last byte was received.
    fed: Moment,
    parser: UnitParser,
    ready: VecDeque<Key>,
    paste_limit: usize,
}

impl Default for KeyDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl KeyDecoder {
    /// A decoder at the beginning of a key.
    pub fn new() -> Self {
        Self {
            state: State::Ground,
            unit: Vec::new(),
            fed: Moment::default(),
            parser: UnitParser::default(),
            ready: VecDeque::new(),
            paste_limit: PASTE_BYTES,
        }
    }

    /// Takes bytes that were received now.
    pub fn feed(&mut self, bytes: &[u8], now: Moment) {
        self.end_lost_paste(bytes, now);
        self.fed = now;
        let mut rest = bytes;
        while let Some((&byte, later)) = rest.split_first() {
            if let State::Paste(0) = self.state {
                let plain = rest.iter().position(|&byte| byte == ESC).unwrap_or(rest.len());
                if plain > 0 {
                    let (now, later) = rest.split_at(plain.min(self.paste_limit - self.unit.len()));
                    self.unit.extend_from_slice(now);
                    self.bound_paste();
                    rest = later;
                    continue;
                }
            }
            self.take(byte);
            rest = later;
        }
    }

    /// Takes lines of a terminal that edits them itself: each is a text and Enter, and no byte of it is a key.
    pub fn feed_lines(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.unit.extend_from_slice(piece.strip_suffix(b"\n").unwrap_or(piece));
            if piece.ends_with(b"\n") {
                self.deliver_paste();
                self.ready.push_back(Key::Press(KeyCode::Enter, Modifiers::default()));
            }
        }
    }

    /// A paste without its end mark would take all later keys. Ctrl+C, alone and after a pause, ends it; what was
    /// received is delivered as text.
    fn end_lost_paste(&mut self, bytes: &[u8], now: Moment) {
        if bytes == [CTRL_C] && matches!(self.state, State::Paste(_)) && now - self.fed >= PASTE_SILENCE {
            self.deliver_paste();
            self.state = State::Ground;
        }
    }

    /// The next decoded key.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Key> {
        self.ready.pop_front()
    }

    /// What [`KeyDecoder::next`] would return.
    pub fn peek(&self) -> Option<&Key> {
        self.ready.front()
    }

    /// Whether the next key is text.
    pub fn next_is_text(&self) -> bool {
        let is_plain = |modifiers: &Modifiers| !modifiers.ctrl && !modifiers.alt;
        match self.ready.front() {
            Some(Key::Press(KeyCode::Char(_), modifiers)) => is_plain(modifiers),
            Some(Key::Paste(_)) => true,
            _ => false,
        }
    }

    /// Whether [`KeyDecoder::next`] would return one.
    pub fn has_next(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Size of the unfinished unit in bytes.
    pub fn pending_bytes(&self) -> usize {
        self.unit.len()
    }

    /// When [`KeyDecoder::expire`] must be called unless more bytes come.
    pub fn deadline(&self) -> Option<Moment> {
        match self.state {
            State::Escape => Some(self.fed + ESCAPE_TIMEOUT),
            State::Sequence | State::Single | State::Mouse(_) | State::Text => Some(self.fed + SEQUENCE_TIMEOUT),
            // An unfinished character is no key, and a paste ends only with its mark.
            State::Ground | State::Utf8(_) | State::Paste(_) => None,
        }
    }

    /// After the deadline: takes the unfinished unit as it is.
    pub fn expire(&mut self, now: Moment) {
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            self.end_unfinished();
        }
    }

    fn take(&mut self, byte: u8) {
        match self.state {
            State::Ground => self.start(byte),
            State::Escape => self.take_after_escape(byte),
            State::Sequence => self.take_in_sequence(byte),
            State::Single => self.take_single(byte),
            State::Mouse(missing) => {
                self.unit.push(byte);
                self.count_down(missing, State::Mouse);
            }
            State::Text => self.take_in_text(byte),
            State::Utf8(missing) => self.take_in_character(byte, missing),
            State::Paste(matched) => self.take_in_paste(byte, matched),
        }
    }

    /// The first byte of a unit, or the one after Esc for Alt.
    fn start(&mut self, byte: u8) {
        self.unit.push(byte);
        match byte {
            ESC => self.state = State::Escape,
            0xc2..=0xdf => self.state = State::Utf8(1),
            0xe0..=0xef => self.state = State::Utf8(2),
            0xf0..=0xf4 => self.state = State::Utf8(3),
            0x80.. => self.drop_unit(),
            _ => self.complete(),
        }
    }

    fn take_after_escape(&mut self, byte: u8) {
        match byte {
            // Two Esc before a sequence mean Alt. With a third one the first was a key.
            ESC if self.unit.len() == 2 => self.ready.extend(self.parser.parse(&[ESC])),
            ESC => self.unit.push(byte),
            b'[' => self.enter(State::Sequence, byte),
            b'O' => self.enter(State::Single, byte),
            b']' | b'P' | b'_' | b'^' | b'X' => self.enter(State::Text, byte),
            _ => {
                if self.unit.len() == 2 {
                    self.ready.extend(self.parser.parse(&[ESC]));
                    self.unit.pop();
                }
                self.start(byte);
            }
        }
    }

    fn enter(&mut self, state: State, byte: u8) {
        self.unit.push(byte);
        self.state = state;
    }

    /// A control sequence: parameter and intermediate bytes, then a final byte (ECMA-48, 5.4).
    fn take_in_sequence(&mut self, byte: u8) {
        let is_first = self.unit.ends_with(b"\x1b[");
        match byte {
            b'[' if is_first => self.enter(State::Single, byte),
            b'M' if is_first => self.enter(State::Mouse(3), byte),
            b' '..=b'?' if self.unit.len() < SEQUENCE_BYTES => self.unit.push(byte),
            b'@'..=b'~' => {
                self.unit.push(byte);
                if self.unit.ends_with(PASTE_START) {
                    self.unit.clear();
                    self.state = State::Paste(0);
                } else {
                    self.complete();
                }
            }
            _ => self.restart(byte),
        }
    }

    fn take_single(&mut self, byte: u8) {
        if byte.is_ascii_alphabetic() {
            self.unit.push(byte);
            self.complete();
        } else {
            self.end_unfinished();
            self.take(byte);
        }
    }

    /// A string from the terminal, which is skipped unless it is a reply that was asked for. Without an end it was Alt
    /// and a letter.
    fn take_in_text(&mut self, byte: u8) {
        let is_escaped = self.unit.ends_with(&[ESC]);
        match byte {
            0x07 => self.end_text(),
            b'\\' if is_escaped => {
                self.unit.pop();
                self.end_text();
            }
            _ if is_escaped => {
                self.unit.pop();
                self.end_unfinished();
                self.take(ESC);
                self.take(byte);
            }
            _ if self.unit.len() > STRING_BYTES => {
                self.end_unfinished();
                self.take(byte);
            }
            _ => self.unit.push(byte),
        }
    }

    fn end_text(&mut self) {
        let reply = self.unit.strip_prefix(b"\x1b]").and_then(|reply| {
            let shows_status = announce::is_status_reply(reply).then_some(Key::ShowsStatus);
            shows_status.or_else(|| announce::background(reply).map(Key::Background))
        });
        self.ready.extend(reply);
        self.drop_unit();
    }

    fn take_in_character(&mut self, byte: u8, missing: u8) {
        if !matches!(byte, 0x80..=0xbf) {
            return self.restart(byte);
        }
        self.unit.push(byte);
        self.count_down(missing, State::Utf8);
    }

    /// One of the missing bytes was received.
    fn count_down(&mut self, missing: u8, state: fn(u8) -> State) {
        match missing - 1 {
            0 => self.complete(),
            missing => self.state = state(missing),
        }
    }

    fn take_in_paste(&mut self, byte: u8, matched: usize) {
        self.unit.push(byte);
        let matched = match byte {
            _ if byte == PASTE_END[matched] => matched + 1,
            ESC => 1,
            _ => 0,
        };
        if matched == PASTE_END.len() {
            self.unit.truncate(self.unit.len() - matched);
            self.deliver_paste();
            self.state = State::Ground;
        } else {
            self.state = State::Paste(matched);
            self.bound_paste();
        }
    }

    /// A too long paste is delivered in pieces. Its text must never be taken as keys.
    fn bound_paste(&mut self) {
        if self.state == State::Paste(0) && self.unit.len() >= self.paste_limit {
            self.deliver_paste();
        }
    }

    fn deliver_paste(&mut self) {
        let pasted = std::mem::take(&mut self.unit);
        self.ready.push_back(Key::Paste(units::pasted_text(pasted)));
    }

    fn complete(&mut self) {
        self.ready.extend(self.parser.parse(&self.unit));
        self.drop_unit();
    }

    fn drop_unit(&mut self) {
        self.unit.clear();
        self.state = State::Ground;
    }

    /// This byte does not fit the unit and begins another.
    fn restart(&mut self, byte: u8) {
        self.drop_unit();
        self.take(byte);
    }

    /// Takes the unfinished unit as it is: Esc, or Alt with a letter and further characters. A sequence is dropped.
    fn end_unfinished(&mut self) {
        let unit = std::mem::take(&mut self.unit);
        let state = std::mem::take(&mut self.state);
        let escapes = unit.iter().take_while(|&&byte| byte == ESC).count();
        let prefix = escapes + 1;
        match state {
            State::Escape => (0..escapes).for_each(|_| self.ready.extend(self.parser.parse(&[ESC]))),
            State::Text | State::Sequence | State::Single if state == State::Text || unit.len() == prefix => {
                (1..escapes).for_each(|_| self.ready.extend(self.parser.parse(&[ESC])));
                self.ready.extend(self.parser.alt(unit[escapes]));
                unit[prefix..].iter().for_each(|&byte| self.take(byte));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
