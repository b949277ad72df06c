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

mod calls;
mod code;
mod fold;
mod form;
mod inline;
mod lines;
mod links;
mod markdown;
mod message;
mod view;
mod writer;

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use crate::base::text::{self, TAB_COLUMNS};
use crate::domain::frame::Style;

pub use calls::Outcome;
use calls::{OpenCall, sides};
pub use code::{Code, CodeLines, LINE_BYTES, LINES};
pub use fold::Shown;
use fold::{Fold, Folds};
pub use form::Mark;
use form::Shape;
use lines::Lines;
use markdown::Markdown;
pub use view::{OPENS, Reader, VisibleRow};
use view::{Position, Wrapped};
use writer::{Writer, append};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum LineKind {
    /// Who speaks from here on: the person, or the agent.
    PersonName,
    AgentName,
    Person,
    Assistant,
    /// The model's reasoning.
    Thinking,
    ToolCall,
    ToolOutput,
    #[default]
    Note,
    /// A note that the person should act on.
    Warning,
    Error,
    /// A mark: a fork, a change of the model, the beginning of replay.
    Mark,
    /// The end of a turn.
    TurnEnd,
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
    folds: Folds,
    /// Calls that have no result yet.
    calls: Vec<OpenCall>,
    /// Replies are shown as they were written.
    is_raw: bool,
    epoch: u64,
    /// Lines before this one are printed on an inline terminal.
    printed: Option<i64>,
    /// How the last line was wrapped for each recent width.
    wrapped: RefCell<Vec<Wrapped>>,
}

/// The state of a block that may grow.
#[derive(Debug, Clone)]
struct Open {
    kind: LineKind,
    /// Its text, which is laid out as Markdown when somebody looks.
    markdown: Option<Box<Markdown>>,
    /// Newlines that were received but start no line yet: those at the end of a block are dropped.
    newlines: usize,
    /// Columns of the last line so far, for tabs.
    column: usize,
    is_started: bool,
    /// The line shown in place of the model's reasoning, and how long it took so far.
    thinking: Option<(i64, Option<Duration>)>,
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
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.close();
            let markdown = (kind == LineKind::Assistant && !self.is_raw).then(Box::default);
            self.open = Some(Open { kind, markdown, newlines: 0, column: 0, is_started: false, thinking: None });
        }
        let safe = text::sanitise(text);
        if let Some(markdown) = self.open.as_mut().and_then(|open| open.markdown.as_mut()) {
            markdown.push(&safe);
            if markdown.is_full() {
                self.update();
            }
            return;
        }
        for (number, piece) in safe.split('\n').enumerate() {
            if number > 0 {
                self.end_line();
            }
            self.append(piece);
        }
    }

    /// Adds to the model's reasoning, which began this long ago.
    pub fn extend_thinking(&mut self, text: &str, elapsed: Option<Duration>) {
        self.extend(LineKind::Thinking, text);
        if let Some((_, so_far)) = self.open.as_mut().and_then(|open| open.thinking.as_mut()) {
            *so_far = elapsed;
        }
    }

    /// Lays out the text that was added, to be shown. Every function that changes the scrollback or the position of a reader
    /// does that itself.
    pub fn update(&mut self) {
        let Some(open) = self.open.as_mut() else { return };
        let Some(markdown) = open.markdown.as_mut().filter(|markdown| markdown.has_news()) else { return };
        self.wrapped.take();
        self.lines.drop_last(markdown.open_lines());
        let start = if markdown.has_finished_lines() { Start::Line } else { Start::Block };
        markdown.update(&mut Writer::new(&mut self.lines, open.kind, start));
        open.is_started = markdown.has_finished_lines() || markdown.open_lines() > 0;
        self.lay_resolved();
    }

    /// Lays out again what refers to links that were defined later, unless it is printed.
    fn lay_resolved(&mut self) {
        let resolved = |open: &mut Open| open.markdown.as_mut().map(|markdown| markdown.take_resolved());
        let resolved = self.open.as_mut().and_then(resolved).unwrap_or_default();
        // The last comes first, so that the others keep their numbers.
        for piece in resolved.into_iter().rev() {
            let lines = piece.lines.clone();
            let begin = self.lines.get(lines.start).filter(|_| self.printed.is_none_or(|end| end <= lines.start));
            let Some((start, open)) = begin.map(|line| line.start).zip(self.open.as_mut()) else { continue };
            let Some(markdown) = open.markdown.as_mut() else { continue };
            let after = self.lines.split_off(lines.end);
            self.lines.drop_last(usize::try_from(lines.end - lines.start).unwrap_or(0));
            markdown.lay_again(piece, &mut Writer::new(&mut self.lines, open.kind, start));
            let added = self.lines.end() - lines.end;
            self.lines.append(after);
            if added != 0 {
                self.shift_from(lines.end, added);
            }
        }
    }

    /// Ends the open block: text of the same kind begins another.
    pub fn close(&mut self) {
        self.update();
        self.wrapped.take();
        if let Some(markdown) = self.open.as_mut().and_then(|open| open.markdown.as_mut()) {
            markdown.end();
            self.lay_resolved();
        }
        let Some(open) = self.open.take().filter(|open| open.is_started) else { return };
        self.finish_line();
        let is_blank = |line: &lines::Line<'_>| {
            line.text.is_empty() && line.form.is_none_or(|form| form.shape == Shape::Text && form.first == form.rest)
        };
        while let Some(last) = self.lines.last().filter(is_blank) {
            let begins_block = last.start == Start::Block;
            self.lines.pop();
            if begins_block {
                break;
            }
            self.finish_line();
        }
        if let Some((line, elapsed)) = open.thinking {
            let seconds = elapsed.map_or(0, |elapsed| elapsed.as_secs());
            let right = if seconds > 0 { format!("{seconds} s") } else { String::new() };
            self.lines.replace_form(line, sides(Mark::Thought, &right));
            self.folds.add(Fold::new(line + 1, self.lines.end(), Shown::NONE));
        }
        self.lines.shrink();
    }

    /// Adds a complete block above the open one, or at the end if there is none. Returns its lines if it is above one: they
    /// keep their numbers.
    pub fn insert(&mut self, kind: LineKind, text: &str) -> Option<Range<i64>> {
        self.update();
        self.wrapped.take();
        // Nothing is shown of the open block.
        let Some(open) = self.open.take_if(|open| open.is_started) else {
            let open = self.open.take();
            self.push(kind, text);
            self.open = open;
            return None;
        };
        let is_start = |(number, line): (i64, lines::Line<'_>)| (line.start == Start::Block).then_some(number);
        let block_start = self.lines.iter().rev().find_map(is_start).unwrap_or(self.lines.first());
        // The name of the speaker stays with the reply.
        let is_name = |number: &i64| self.lines.get(*number).is_some_and(|line| line.kind == LineKind::AgentName);
        let block_start = Some(block_start - 1).filter(is_name).unwrap_or(block_start);
        let block_start = self.printed.map_or(block_start, |printed| block_start.max(printed));
        let open_lines = self.lines.split_off(block_start);
        self.push(kind, text);
        let added = self.lines.end() - block_start;
        self.lines.append(open_lines);
        let thinking = open.thinking.map(|(line, elapsed)| (line + added, elapsed));
        self.open = Some(Open { thinking, ..open });
        self.shift_from(block_start, added);
        Some(block_start..block_start + added)
    }

    /// Puts the lines of another scrollback before these. Scroll positions do not change.
    pub fn prepend(&mut self, mut older: Self) {
        older.close();
        let shift = self.lines.first() - older.lines.end();
        self.folds.prepend(older.folds, shift);
        self.prepend_calls(older.calls, shift);
        self.lines.prepend(older.lines);
    }

    /// Whether replies are shown as they were written.
    pub fn is_raw(&self) -> bool {
        self.is_raw
    }

    /// A scrollback without lines, with the same folding.
    pub fn without_lines(&self, is_raw: bool) -> Self {
        Self { is_raw, folds: self.folds.without_folds(), epoch: self.epoch + 1, ..Self::default() }
    }

    /// The kind of the first line.
    pub fn begins_with(&self) -> Option<LineKind> {
        self.lines.get(self.lines.first()).map(|line| line.kind)
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
        let Some(open) = self.open.as_mut().filter(|_| !piece.is_empty()) else { return };
        if !open.is_started {
            open.is_started = true;
            if open.kind == LineKind::Thinking {
                self.lines.push(open.kind, Start::Block);
                self.lines.set_form(sides(Mark::Thinking, ""));
                open.thinking = Some((self.lines.end() - 1, None));
                self.lines.push(open.kind, Start::Line);
            } else {
                self.lines.push(open.kind, Start::Block);
            }
        }
        for _ in 0..std::mem::take(&mut open.newlines) {
            self.lines.push(open.kind, Start::Line);
        }
        for (number, run) in piece.split('\t').enumerate() {
            if number > 0 {
                let spaces = TAB_COLUMNS - open.column % TAB_COLUMNS;
                append(&mut self.lines, open.kind, &"    "[..spaces], Style::default());
                open.column += spaces;
            }
            append(&mut self.lines, open.kind, run, Style::default());
            open.column += text::width(run);
        }
    }
}

#[cfg(test)]
mod tests;
