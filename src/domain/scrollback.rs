//! What a person is shown of one agent: logical lines, and the places where people read.
//!
//! Lines are kept as text and wrapped only where they are looked at, so that a frame costs what the viewport costs and
//! a resize costs nothing. A place is a line and a byte in it, never a row: it survives new text below, older text
//! above and every width.
//!
//! ```text
//!   first ─► │ line │ line │ line │ ... │ line │ ◄─ open block grows here
//!            ▲ prepend             ▲ top: what stands in a reader's first row, if not at the bottom
//! ```

mod view;

use std::cell::RefCell;
use std::collections::VecDeque;

use unicode_segmentation::UnicodeSegmentation as _;

use crate::base::text::{self, TAB_COLUMNS};

use view::{Place, Wrapped};
pub use view::{Reader, VisibleRow};

/// A line is broken at so many bytes, so that one line never costs a frame.
const LINE_BYTES: usize = 4 * 1024;
/// A line that must be broken is broken at a space, if there is one among so many of its last bytes.
const BREAK_BYTES: usize = 256;

/// Who or what speaks in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LineKind {
    /// The person.
    Person,
    /// The agent's reply.
    Assistant,
    /// What the model thought before it replied.
    Thinking,
    /// A tool was called.
    ToolCall,
    /// What the tool said.
    ToolOutput,
    /// The program tells something.
    Note,
    /// Something went wrong.
    Error,
    /// A mark between parts: a fork, a switch of the model, where replay begins.
    Mark,
}

#[derive(Debug, Clone)]
struct Line {
    text: String,
    kind: LineKind,
    start: Start,
}

/// What begins with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Block,
    Line,
    /// Nothing: the line before was too long.
    Rest,
}

/// The lines of one agent.
#[derive(Debug, Clone, Default)]
pub struct Scrollback {
    lines: VecDeque<Line>,
    /// The absolute number of the first line that is held. Falls below zero as older text is put in front.
    first: i64,
    /// What stands in the first row for each reader; who is not named is at the bottom, wherever that is.
    tops: Vec<(Reader, Place)>,
    /// The kind of the last block, while it may grow.
    open: Option<Open>,
    /// How the last line was wrapped when it was last looked at, for each width.
    wrapped: RefCell<Vec<Wrapped>>,
}

/// The state of a block that may grow.
#[derive(Debug, Clone, Copy)]
struct Open {
    kind: LineKind,
    /// Newlines that came but are not lines yet: at the end of a block they never will be.
    newlines: usize,
    /// The columns of the last line so far, for tabs.
    column: usize,
    is_started: bool,
}

impl Scrollback {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of logical lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Forgets everything; everybody is at the bottom.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds a whole block. Newlines around it are dropped; a block without text is none.
    pub fn push(&mut self, kind: LineKind, text: &str) {
        self.close();
        self.extend(kind, text);
        self.close();
    }

    /// Adds text to the last block if it is open and of this kind, else opens one. Where the text was cut into pieces
    /// makes no difference.
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

    /// Ends the block that was open: text of the same kind will begin another.
    pub fn close(&mut self) {
        self.wrapped.take();
        if !self.open.take().is_some_and(|open| open.is_started) {
            return;
        }
        while let Some(last) = self.lines.back_mut() {
            finish(last);
            if !last.text.is_empty() {
                break;
            }
            let begins_block = last.start == Start::Block;
            self.lines.pop_back();
            if begins_block {
                break;
            }
        }
    }

    /// Adds a whole block above the block that is open, or at the end if none is.
    pub fn insert(&mut self, kind: LineKind, text: &str) {
        let Some(open) = self.open.filter(|open| open.is_started) else { return self.push(kind, text) };
        self.wrapped.take();
        let begins = self.lines.iter().rposition(|line| line.start == Start::Block).unwrap_or(0);
        let written = self.lines.split_off(begins);
        let before = self.lines.len();
        self.open = None;
        self.push(kind, text);
        let added = self.lines.len() - before;
        self.lines.extend(written);
        self.open = Some(open);
        self.shift_views_after(before, added);
    }

    /// Puts older blocks in front, given from old to new. What is on the screen stays where it is.
    pub fn prepend(&mut self, older: Vec<(LineKind, String)>) {
        let mut front = Self::new();
        for (kind, text) in older {
            front.push(kind, &text);
        }
        for line in front.lines.into_iter().rev() {
            self.lines.push_front(line);
            self.first -= 1;
        }
    }

    fn end_line(&mut self) {
        let Some(open) = self.open.as_mut().filter(|open| open.is_started) else { return };
        open.newlines += 1;
        open.column = 0;
        if let Some(last) = self.lines.back_mut() {
            finish(last);
        }
    }

    /// Adds text without newlines to the open block.
    fn append(&mut self, piece: &str) {
        let Some(mut open) = self.open.filter(|_| !piece.is_empty()) else { return };
        if !open.is_started {
            self.add_line(open.kind, Start::Block);
            open.is_started = true;
        }
        for _ in 0..std::mem::take(&mut open.newlines) {
            self.add_line(open.kind, Start::Line);
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

    /// Adds text to the last line, broken into lines of bounded size.
    fn append_run(&mut self, mut run: &str, kind: LineKind) {
        while let Some(last) = self.lines.back_mut() {
            let room = LINE_BYTES.saturating_sub(last.text.len());
            if run.len() <= room {
                last.text.push_str(run);
                return;
            }
            let (now, later) = run.split_at(floor(run, room));
            last.text.push_str(now);
            let rest = last.text.split_off(break_place(&last.text));
            last.text.shrink_to_fit();
            self.add_line(kind, Start::Rest);
            if let Some(last) = self.lines.back_mut() {
                last.text = rest;
            }
            run = later;
        }
    }

    fn add_line(&mut self, kind: LineKind, start: Start) {
        self.lines.push_back(Line { text: String::new(), kind, start });
    }
}

/// A line that will not grow any more: a carriage return before the newline is no text, and memory is given back.
fn finish(line: &mut Line) {
    if line.text.ends_with('\u{240d}') {
        line.text.pop();
    }
    line.text.shrink_to_fit();
}

/// Where a line that is full is broken: behind a space, else between graphemes, and never at its start.
fn break_place(full: &str) -> usize {
    let tail = floor(full, full.len().saturating_sub(BREAK_BYTES));
    let space = full[tail..].rfind(' ').map(|space| tail + space + 1);
    let grapheme = || full[tail..].grapheme_indices(true).next_back().map(|(at, _)| tail + at);
    space.or_else(grapheme).filter(|&at| at > tail).unwrap_or(full.len())
}

/// The last place between two characters that is not behind this byte.
fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
