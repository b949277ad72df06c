//! Tool calls: one line each, with their output folded below it.

use std::rc::Rc;

use super::code::Code;
use super::fold::{Fold, Shown};
use super::form::{Form, Mark, Shape};
use super::writer::Writer;
use super::{LineKind, Reader, Scrollback, Start};
use crate::base::text;
use crate::domain::frame::{Style, StyledLine};

/// A call without a result so far.
#[derive(Debug, Clone)]
pub(super) struct OpenCall {
    id: String,
    line: i64,
}

impl OpenCall {
    pub(super) fn line(&self) -> i64 {
        self.line
    }
}

/// How a call ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    pub is_error: bool,
    /// The text at the right of the call.
    pub note: String,
    pub output: Vec<StyledLine>,
    /// It is a diff of code in this language.
    pub diff_of: Option<Box<str>>,
    /// Lines of a folded output that stay visible.
    pub shown: Shown,
}

impl Scrollback {
    /// Adds a line with something at its right end.
    pub fn push_line(&mut self, kind: LineKind, left: &str, right: &str) {
        self.close();
        self.begin_sides(kind, Mark::None, left, right);
    }

    /// Adds a tool call that has no result.
    pub fn begin_call(&mut self, id: &str, title: &str) {
        self.close();
        self.begin_sides(LineKind::ToolCall, Mark::Running, title, "");
        self.calls.push(OpenCall { id: id.to_owned(), line: self.lines.end() - 1 });
    }

    /// Adds the result of a call; a call that is not here is added by its title.
    pub fn end_call(&mut self, id: &str, title: &str, outcome: &Outcome) {
        self.update();
        let at = self.calls.iter().rposition(|call| call.id == id);
        let line = match at.map(|at| self.calls.remove(at).line) {
            Some(line) => line,
            None => {
                self.begin_call(id, title);
                self.calls.pop().map_or(0, |call| call.line)
            }
        };
        let mark = if outcome.is_error { Mark::Failed } else { Mark::Done };
        self.lines.replace_form(line, sides(mark, &outcome.note));
        self.wrapped.take();
        self.insert_output(line + 1, outcome);
    }

    /// No result is awaited any more: calls without one were refused or interrupted.
    pub fn forget_calls(&mut self) {
        for call in std::mem::take(&mut self.calls) {
            self.lines.replace_form(call.line, sides(Mark::Failed, ""));
        }
    }

    /// Calls of other lines, which get numbers higher by `shift`, may still get their results.
    pub(super) fn prepend_calls(&mut self, older: Vec<OpenCall>, shift: i64) {
        self.calls.extend(older.into_iter().map(|call| OpenCall { line: call.line + shift, ..call }));
    }

    /// Unfolds what is folded, or folds it again.
    pub fn toggle_folds(&mut self) {
        self.folds.toggle_all();
    }

    /// The call or the reasoning to which a row on a screen of this size belongs, if there is something folded: its number.
    pub fn fold_at(&self, reader: Reader, width: u16, height: u16, row: u16) -> Option<i64> {
        let (line, _) =
            self.numbered_rows(reader, width, height).into_iter().nth(row.into()).filter(|(_, row)| !row.is_gap)?;
        self.folds.with_line(line).map(|fold| fold.first - 1)
    }

    /// The next call or reasoning before or after this one that has something folded; without one, the last on the
    /// screen.
    pub fn next_fold(&self, reader: Reader, screen: (u16, u16), from: Option<i64>, is_before: bool) -> Option<i64> {
        let after_screen = || self.visible_lines(reader, screen.0, screen.1).last().map(|line| line + 1);
        let fold = match from {
            Some(line) => self.folds.next(line + 1, is_before)?,
            None => self.folds.next(after_screen()?, true)?,
        };
        Some(fold.first - 1)
    }

    /// Unfolds what is folded below this line, or folds it again. The rows above it do not move.
    pub fn toggle_fold(&mut self, line: i64, reader: Reader, width: u16, height: u16) {
        self.pin(reader, width, height);
        self.folds.toggle(line + 1);
        self.follow_if_at_end(reader, &[(width, height)]);
    }

    /// Scrolls so that the line is on the screen.
    pub fn reveal(&mut self, line: i64, reader: Reader, width: u16, height: u16) {
        if !self.visible_lines(reader, width, height).contains(&line) {
            self.go_to(reader, line);
            self.follow_if_at_end(reader, &[(width, height)]);
        }
    }

    fn insert_output(&mut self, first: i64, outcome: &Outcome) {
        let after = self.lines.split_off(first);
        let code = outcome.diff_of.as_deref().map(Code::of_diff);
        let mut out = Writer::new(&mut self.lines, LineKind::ToolOutput, Start::Block);
        for line in &outcome.output {
            let prefix = text::sanitise(&line.prefix);
            let rest = " ".repeat(text::width(&prefix));
            let form = || Rc::new(Form::new(&prefix, &rest, Shape::Text).of_code(code.clone()));
            out.begin((!prefix.is_empty() || code.is_some()).then(form));
            line.parts.iter().for_each(|(part, style)| out.text(&text::sanitise(&part.replace('\n', " ")), *style));
        }
        let added = i64::try_from(out.added()).unwrap_or(0);
        if after.is_empty() {
            self.lines.shrink();
        } else {
            self.lines.append(after);
        }
        self.shift_from(first, added);
        self.folds.add(Fold::new(first, first + added, outcome.shown));
    }

    /// Lines were inserted before the line with this number.
    pub(super) fn shift_from(&mut self, line: i64, added: i64) {
        self.shift_views_from(line, added);
        self.folds.shift_from(line, added);
        let markdown = self.open.as_mut().and_then(|open| open.markdown.as_mut());
        markdown.into_iter().for_each(|markdown| markdown.shift_from(line, added));
        self.calls.iter_mut().filter(|call| call.line >= line).for_each(|call| call.line += added);
    }

    pub(super) fn begin_sides(&mut self, kind: LineKind, mark: Mark, left: &str, right: &str) {
        self.wrapped.take();
        let mut out = Writer::new(&mut self.lines, kind, Start::Block);
        out.begin(Some(sides(mark, right)));
        out.unsplit(&text::sanitise(&left.replace(['\n', '\t'], " ")), Style::default());
    }
}

/// The form of a line with a mark, and text at its right end.
pub(super) fn sides(mark: Mark, right: &str) -> Rc<Form> {
    let right = text::sanitise(&right.replace(['\n', '\t'], " ")).into();
    Rc::new(Form::new("", "", Shape::Sides { mark, right }))
}
