//! Appends styled text to the last line, and splits long lines.

use std::rc::Rc;

use unicode_segmentation::UnicodeSegmentation as _;

use super::form::{Form, Shape};
use super::lines::Lines;
use super::{LineKind, Start};
use crate::base::text::{self, TAB_COLUMNS};
use crate::domain::frame::Style;

/// Longer lines are split, to limit the cost of a frame.
pub const LINE_BYTES: usize = 4 * 1024;
/// A long line is split at a space, if there is one in this many of its last bytes.
const BREAK_BYTES: usize = 256;

/// Writes the lines of one block.
pub struct Writer<'a> {
    lines: &'a mut Lines,
    kind: LineKind,
    /// The kind of start of the next line.
    start: Start,
    /// Columns of the last line so far, for tabs.
    column: usize,
    added: usize,
}

impl<'a> Writer<'a> {
    /// `start` is the kind of start of the first line.
    pub fn new(lines: &'a mut Lines, kind: LineKind, start: Start) -> Self {
        Self { lines, kind, start, column: 0, added: 0 }
    }

    /// The number of lines that were written.
    pub fn added(&self) -> usize {
        self.added
    }

    /// The number of the next line.
    pub fn end(&self) -> i64 {
        self.lines.end()
    }

    /// The text of the line that was begun last.
    pub fn line(&self) -> &str {
        self.lines.last().map_or("", |line| line.text)
    }

    /// The form of the line that was begun last.
    pub fn form(&self) -> Option<Rc<Form>> {
        self.lines.last().and_then(|line| line.form).cloned()
    }

    /// The next line continues the one before.
    pub fn continue_line(&mut self) {
        if self.start == Start::Line {
            self.start = Start::Rest;
        }
    }

    /// Begins an empty line.
    pub fn begin(&mut self, form: Option<Rc<Form>>) {
        self.lines.push(self.kind, std::mem::replace(&mut self.start, Start::Line));
        form.into_iter().for_each(|form| self.lines.set_form(form));
        self.column = 0;
        self.added += 1;
    }

    /// Adds text without newlines to the line.
    pub fn text(&mut self, text: &str, style: Style) {
        for (number, run) in text.split('\t').enumerate() {
            if number > 0 {
                let spaces = TAB_COLUMNS - self.column % TAB_COLUMNS;
                self.append(&" ".repeat(spaces), style);
                self.column += spaces;
            }
            self.append(run, style);
            self.column += text::width(run);
        }
    }

    /// Adds unchanged text to a line that is not split.
    pub fn unsplit(&mut self, text: &str, style: Style) {
        self.lines.push_str(text, style);
    }

    /// Removes the last line.
    pub fn drop_last(&mut self) {
        self.start = self.lines.last().map_or(self.start, |line| line.start);
        self.lines.drop_last(1);
        self.added -= 1;
    }

    fn append(&mut self, run: &str, style: Style) {
        self.added += append(self.lines, self.kind, run, style);
    }
}

/// Adds text to the last line, splitting long lines. Returns how many lines were added.
pub fn append(lines: &mut Lines, kind: LineKind, mut run: &str, style: Style) -> usize {
    let mut added = 0;
    while let Some(last) = lines.last() {
        let space = LINE_BYTES.saturating_sub(last.text.len());
        if run.len() <= space {
            lines.push_str(run, style);
            break;
        }
        let (now, later) = run.split_at(floor(run, space));
        lines.push_str(now, style);
        let split = lines.last().map_or(0, |last| split_position(last.text));
        let form = lines.last().and_then(|last| last.form).map(|form| rest_of(form));
        let rest = lines.cut_last(split);
        lines.push(kind, Start::Rest);
        form.into_iter().for_each(|form| lines.set_form(form));
        lines.push_cut(&rest);
        added += 1;
        run = later;
    }
    added
}

/// The form of what continues a line of this form.
fn rest_of(form: &Form) -> Rc<Form> {
    Rc::new(Form::new(&form.rest, &form.rest, Shape::Text).of_code(form.code.clone()))
}

/// Where a full line is split: after a space, or else between graphemes, never at its start.
fn split_position(full: &str) -> usize {
    let tail = floor(full, full.len().saturating_sub(BREAK_BYTES));
    let space = full[tail..].rfind(' ').map(|space| tail + space + 1);
    let grapheme = || full[tail..].grapheme_indices(true).next_back().map(|(at, _)| tail + at);
    space.or_else(grapheme).filter(|&at| at > tail).unwrap_or(full.len())
}

/// The last character boundary not after this byte.
pub fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}
