//! The text of one agent as logical lines, and the scroll positions of its readers.
//!
//! Lines are stored unwrapped and wrapped only when shown, so that the cost of a frame depends on the viewport and a resize
//! is free. A position is a line and a byte in it, not a row: it is stable under appended and prepended text and changes
//! of the width.
//!
//! ```text
//!   first ─► │ line │ line │ line │ ... │ line │ ◄─ open block grows here
//!            ▲ prepend             ▲ top: the first row of a reader that is not at the bottom
//! ```

mod lines;
mod view;

use std::cell::RefCell;

use unicode_segmentation::UnicodeSegmentation as _;

use crate::base::text::{self, TAB_COLUMNS};

use lines::Lines;
use view::{Position, Wrapped};
pub use view::{Reader, VisibleRow};

/// Longer lines are split, to limit the cost of a frame.
const LINE_BYTES: usize = 4 * 1024;
/// A long line is split at a space, if there is one in this many of its last bytes.
const BREAK_BYTES: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LineKind {
    Person,
    Assistant,
    /// The model's reasoning.
    Thinking,
    ToolCall,
    ToolOutput,
    Note,
    Error,
    /// A mark: a fork, a change of the model, the beginning of replay.
    Mark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Block,
    Line,
    /// Nothing: it continues a line that was split.
    Rest,
}

#[derive(Debug, Clone, Default)]
pub struct Scrollback {
    lines: Lines,
    /// The first row of each reader; a reader without an entry is at the bottom.
    tops: Vec<(Reader, Position)>,
    /// The last block, while it may grow.
    open: Option<Open>,
    /// How the last line was wrapped for each recent width.
    wrapped: RefCell<Vec<Wrapped>>,
}

/// The state of a block that may grow.
#[derive(Debug, Clone, Copy)]
struct Open {
    kind: LineKind,
    /// Newlines that were received but start no line yet: those at the end of a block are dropped.
    newlines: usize,
    /// Columns of the last line so far, for tabs.
    column: usize,
    is_started: bool,
}

impl Scrollback {
    /// Adds a complete block. Newlines around it are dropped; an empty block is not added.
    pub fn push(&mut self, kind: LineKind, text: &str) {
        self.close();
        self.extend(kind, text);
        self.close();
    }

    /// Adds text to the last block if it is open and of this kind, or else opens a new one. The result does not depend on
    /// how the text was split.
    pub fn extend(&mut self, kind: LineKind, text: &str) {
        if self.open.is_none_or(|open| open.kind != kind) {
            self.close();
            self.open = Some(Open { kind, newlines: 0, column: 0, is_started: false });
        }
        let safe = text::sanitise(text);
        for (number, piece) in safe.split('\n').enumerate() {
            if number > 0 {
                self.end_line();
            }
            self.append(piece);
        }
    }

    /// Ends the open block: text of the same kind begins another.
    pub fn close(&mut self) {
        self.wrapped.take();
        if !self.open.take().is_some_and(|open| open.is_started) {
            return;
        }
        self.finish_line();
        while let Some(last) = self.lines.last().filter(|last| last.text.is_empty()) {
            let begins_block = last.start == Start::Block;
            self.lines.pop();
            if begins_block {
                break;
            }
            self.finish_line();
        }
        self.lines.shrink();
    }

    /// Adds a complete block above the open one, or at the end if there is none.
    pub fn insert(&mut self, kind: LineKind, text: &str) {
        let Some(open) = self.open.filter(|open| open.is_started) else { return self.push(kind, text) };
        self.wrapped.take();
        let is_start = |(number, line): (i64, lines::Line<'_>)| (line.start == Start::Block).then_some(number);
        let block_start = self.lines.iter().rev().find_map(is_start).unwrap_or(self.lines.first());
        let open_lines = self.lines.split_off(block_start);
        let before = self.lines.len();
        self.open = None;
        self.push(kind, text);
        let added = self.lines.len() - before;
        self.lines.append(open_lines);
        self.open = Some(open);
        self.shift_views_after(before, added);
    }

    /// Prepends older blocks, given oldest first. Scroll positions do not change.
    pub fn prepend(&mut self, older: Vec<(LineKind, String)>) {
        let mut front = Self::default();
        for (kind, text) in older {
            front.push(kind, &text);
        }
        self.lines.prepend(front.lines);
    }

    fn end_line(&mut self) {
        let Some(open) = self.open.as_mut().filter(|open| open.is_started) else { return };
        open.newlines += 1;
        open.column = 0;
        self.finish_line();
    }

    /// Completes the last line: removes a carriage return before the newline.
    fn finish_line(&mut self) {
        if let Some(last) = self.lines.last().filter(|last| last.text.ends_with('\u{240d}')) {
            let length = last.text.len() - '\u{240d}'.len_utf8();
            self.lines.cut_last(length);
        }
    }

    /// Adds text without newlines to the open block.
    fn append(&mut self, piece: &str) {
        let Some(mut open) = self.open.filter(|_| !piece.is_empty()) else { return };
        if !open.is_started {
            self.lines.push(open.kind, Start::Block);
            open.is_started = true;
        }
        for _ in 0..std::mem::take(&mut open.newlines) {
            self.lines.push(open.kind, Start::Line);
        }
        for (number, run) in piece.split('\t').enumerate() {
            if number > 0 {
                let spaces = TAB_COLUMNS - open.column % TAB_COLUMNS;
                self.append_run(&"    "[..spaces], open.kind);
                open.column += spaces;
            }
            self.append_run(run, open.kind);
            open.column += text::width(run);
        }
        self.open = Some(open);
    }

    /// Adds text to the last line, splitting long lines.
    fn append_run(&mut self, mut run: &str, kind: LineKind) {
        while let Some(last) = self.lines.last() {
            let space = LINE_BYTES.saturating_sub(last.text.len());
            if run.len() <= space {
                return self.lines.push_str(run);
            }
            let (now, later) = run.split_at(floor(run, space));
            self.lines.push_str(now);
            let split = self.lines.last().map_or(0, |last| split_position(last.text));
            let rest = self.lines.cut_last(split);
            self.lines.push(kind, Start::Rest);
            self.lines.push_str(&rest);
            run = later;
        }
    }
}

/// Where a full line is split: after a space, or else between graphemes, never at its start.
fn split_position(full: &str) -> usize {
    let tail = floor(full, full.len().saturating_sub(BREAK_BYTES));
    let space = full[tail..].rfind(' ').map(|space| tail + space + 1);
    let grapheme = || full[tail..].grapheme_indices(true).next_back().map(|(at, _)| tail + at);
    space.or_else(grapheme).filter(|&at| at > tail).unwrap_or(full.len())
}

/// The last character boundary not after this byte.
fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
