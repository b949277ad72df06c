//! The visible part of the scrollback.
//!
//! The cost of every function here depends on the size of the viewport, not on that of the scrollback.

use std::ops::Range;
use std::rc::Rc;

use super::fold::Shown;
use super::form::{self, Drawn, Form, Mark, Shape, Sides};
use super::lines::Line;
use super::{LineKind, Scrollback, Start};
use crate::base::text;
use crate::domain::frame::{Copied, Style};

/// Hint on a folded block.
pub const OPENS: &str = "Ctrl+O opens";

/// A reader with its own scroll position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// All terminals that talk with the agent share one position.
    Shared,
    /// A read-only terminal, by its number.
    Watcher(u64),
    /// Always at the end.
    End,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VisibleRow {
    pub kind: LineKind,
    /// Printable text, not wider than the screen. Empty for the row between two blocks.
    pub text: String,
    /// The parts of the text with another style than that of the kind, as byte ranges, in order.
    pub styles: Vec<(Range<usize>, Style)>,
    /// Where parts of the text lead, in order.
    pub links: Vec<(Range<usize>, Rc<str>)>,
    pub copied: Copied,
    /// The state of what the line summarises.
    pub mark: Mark,
    pub is_first_of_block: bool,
    pub is_first_of_line: bool,
    /// Whether this is the blank row between two blocks, which belongs to no line.
    pub is_gap: bool,
}

/// A row: the blank row above a line, or the part of a line that contains a byte. The gap is before byte 0, so that
/// positions are in reading order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    line: i64,
    offset: Offset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Offset {
    Gap,
    Byte(usize),
}

/// The rows of the last line. While it grows only its last row is wrapped again.
#[derive(Debug, Clone, Default)]
pub(super) struct Wrapped {
    line: i64,
    width: u16,
    /// Start and end of each row in the line.
    rows: Vec<(usize, usize)>,
    /// The length of the line when it was wrapped.
    len: usize,
}

/// For this many widths the wrapped last line is cached. With more the line, at most 4 KiB, is wrapped again.
const WIDTHS: usize = 4;

impl Wrapped {
    /// The up-to-date rows of the last line for this width.
    fn at<'a>(all: &'a mut Vec<Self>, line: i64, width: u16, text: &str) -> &'a Self {
        let at = all.iter().position(|wrapped| wrapped.width == width).unwrap_or_else(|| {
            if all.len() == WIDTHS {
                all.remove(0);
            }
            all.push(Self { line, width, ..Self::default() });
            all.len() - 1
        });
        all[at].update(line, width, text);
        &all[at]
    }

    /// Wraps the text that was added since.
    fn update(&mut self, line: i64, width: u16, text: &str) {
        if (self.line, self.width) != (line, width) || text.len() < self.len {
            *self = Self { line, width, ..Self::default() };
        }
        let from = self.rows.pop().map_or(0, |(at, _)| at);
        let rows = text::wrap(&text[from..], usize::from(width));
        self.rows.extend(rows.map(|(at, row)| (from + at, from + at + row.len())));
        self.len = text.len();
    }
}

impl Scrollback {
    /// Whether the reader sees the last row on a screen of this size.
    pub fn shows_end(&self, reader: Reader, width: u16, height: u16) -> bool {
        let is_beyond = |top| self.bottom(width, height).is_none_or(|bottom| top >= self.aligned(bottom, width));
        self.top(reader).is_none_or(is_beyond)
    }

    /// Whether the reader sees the first row on a screen of this size, so that older text has to be loaded.
    pub fn is_at_top(&self, reader: Reader, width: u16, height: u16) -> bool {
        self.top_of_view(reader, width, height).is_none_or(|top| self.above(top, width).is_none())
    }

    /// `added` lines were inserted before this one: positions from it on are shifted.
    pub(super) fn shift_views_from(&mut self, line: i64, added: i64) {
        self.tops.iter_mut().filter(|(_, top)| top.line >= line).for_each(|(_, top)| top.line += added);
    }

    /// The next line that is shown.
    fn line_after(&self, line: i64) -> i64 {
        let mut next = line + 1;
        while let Some(fold) = self.folds.hiding(next) {
            next = fold.hidden_lines().end;
        }
        next
    }

    /// The last line before this one that is shown.
    fn line_before(&self, line: i64) -> i64 {
        let mut before = line - 1;
        while let Some(fold) = self.folds.hiding(before) {
            before = fold.hidden_lines().start - 1;
        }
        before
    }

    /// Whether the reader has scrolled back.
    pub fn has_position(&self, reader: Reader) -> bool {
        self.top(reader).is_some()
    }

    fn top(&self, reader: Reader) -> Option<Position> {
        self.tops.iter().find(|(other, _)| *other == reader).map(|(_, top)| *top)
    }

    /// Scrolls to the end and follows new text.
    pub fn to_bottom(&mut self, reader: Reader) {
        self.tops.retain(|(other, _)| *other != reader);
    }

    pub fn to_top(&mut self, reader: Reader) {
        self.update();
        if !self.lines.is_empty() {
            self.go(reader, Position { line: self.lines.first(), offset: Offset::Byte(0) });
        }
    }

    /// The first row of the screen stays the first.
    pub(super) fn pin(&mut self, reader: Reader, width: u16, height: u16) {
        if let Some(top) = self.top_of_view(reader, width, height) {
            self.go(reader, top);
        }
    }

    /// Makes this line the first of the screen.
    pub(super) fn go_to(&mut self, reader: Reader, line: i64) {
        self.go(reader, Position { line, offset: Offset::Byte(0) });
    }

    fn go(&mut self, reader: Reader, top: Position) {
        self.to_bottom(reader);
        self.tops.push((reader, top));
    }

    /// Scrolls by rows, negative towards older text. At the end the reader follows new text.
    pub fn scroll(&mut self, reader: Reader, rows: isize, width: u16, height: u16) {
        self.update();
        let Some(mut top) = self.top_of_view(reader, width, height) else { return };
        for _ in 0..rows.unsigned_abs() {
            let next = if rows < 0 { self.above(top, width) } else { self.below(top, width) };
            match next {
                Some(next) => top = next,
                None => break,
            }
        }
        self.go(reader, top);
        self.follow_if_at_end(reader, &[(width, height)]);
    }

    /// The rows for a screen of this size, or fewer if there are fewer.
    pub fn visible(&self, reader: Reader, width: u16, height: u16) -> Vec<VisibleRow> {
        self.numbered_rows(reader, width, height).into_iter().map(|(_, row)| row).collect()
    }

    /// The rows of `visible`, each with the number of its line.
    pub fn numbered_rows(&self, reader: Reader, width: u16, height: u16) -> Vec<(i64, VisibleRow)> {
        let mut rows = Vec::with_capacity(usize::from(height));
        let mut next = self.top_of_view(reader, width, height);
        while let Some(position) = next.filter(|_| rows.len() < usize::from(height)) {
            let parts = self.parts(position.line, width);
            let from = row_of(&parts, position.offset);
            let wanted = usize::from(height) - rows.len();
            rows.extend(
                parts[from..].iter().take(wanted).map(|part| (position.line, self.row(position.line, width, part))),
            );
            next = self.first_of(self.line_after(position.line), width);
        }
        rows
    }

    /// The numbers of the lines that may be on a screen of this size.
    pub(super) fn visible_lines(&self, reader: Reader, width: u16, height: u16) -> Vec<i64> {
        let top = self.top_of_view(reader, width, height).map(|top| top.line);
        let next = |line: &i64| Some(self.line_after(*line)).filter(|line| *line < self.lines.end());
        std::iter::successors(top, next).take(height.into()).collect()
    }

    /// Whether the first and the last of these lines are on a screen of this size.
    pub fn shows(&self, lines: &Range<i64>, reader: Reader, width: u16, height: u16) -> bool {
        let visible = self.numbered_rows(reader, width, height);
        let ends = [lines.start, self.line_before(lines.end)];
        ends.iter().all(|end| visible.iter().any(|(line, row)| line == end && !row.is_gap))
    }

    /// Lets a reader follow new text if all of its screens show the last row.
    pub fn follow_if_at_end(&mut self, reader: Reader, screens: &[(u16, u16)]) {
        self.update();
        if screens.iter().all(|(width, height)| self.shows_end(reader, *width, *height)) {
            self.to_bottom(reader);
        }
    }

    /// The position of the first row of a screen of this size, which is filled as far as possible; `None` without text.
    fn top_of_view(&self, reader: Reader, width: u16, height: u16) -> Option<Position> {
        let bottom = self.bottom(width, height)?;
        Some(self.top(reader).map_or(bottom, |top| self.aligned(top, width).min(bottom)))
    }

    /// The position of the first row of a screen whose last row is the last row of the text.
    fn bottom(&self, width: u16, height: u16) -> Option<Position> {
        let mut line = self.line_before(self.lines.end());
        let mut wanted = usize::from(height.max(1));
        loop {
            let parts = self.parts(line, width);
            if parts.len() >= wanted {
                let offset = parts[parts.len() - wanted].offset();
                return Some(Position { line, offset });
            }
            wanted -= parts.len();
            match self.first_of(self.line_before(line), width) {
                Some(_) => line = self.line_before(line),
                None => return self.first_of(self.lines.first(), width),
            }
        }
    }

    /// The position of the row that contains this position at this width.
    fn aligned(&self, position: Position, width: u16) -> Position {
        if self.folds.hiding(position.line).is_some() {
            let line = self.line_before(position.line);
            return self.parts(line, width).last().map_or(position, |last| Position { line, offset: last.offset() });
        }
        let parts = self.parts(position.line, width);
        match parts.get(row_of(&parts, position.offset)) {
            Some(part) => Position { line: position.line, offset: part.offset() },
            None => position,
        }
    }

    fn above(&self, position: Position, width: u16) -> Option<Position> {
        let parts = self.parts(position.line, width);
        match row_of(&parts, position.offset).checked_sub(1) {
            Some(row) => Some(Position { line: position.line, offset: parts[row].offset() }),
            None => {
                let line = self.line_before(position.line);
                let offset = self.parts(line, width).last()?.offset();
                Some(Position { line, offset })
            }
        }
    }

    fn below(&self, position: Position, width: u16) -> Option<Position> {
        let parts = self.parts(position.line, width);
        match parts.get(row_of(&parts, position.offset) + 1) {
            Some(part) => Some(Position { line: position.line, offset: part.offset() }),
            None => self.first_of(self.line_after(position.line), width),
        }
    }

    fn first_of(&self, line: i64, width: u16) -> Option<Position> {
        Some(Position { line, offset: self.parts(line, width).first()?.offset() })
    }

    /// The rows of a line, including the blank row above it; empty if there is no such line.
    pub(super) fn parts(&self, number: i64, width: u16) -> Vec<RowPart<'_>> {
        let Some(line) = self.lines.get(number) else { return Vec::new() };
        let mut parts = Vec::with_capacity(1 + line.text.len() / usize::from(width.max(1)));
        if self.has_gap(number, line) {
            parts.push(RowPart::Gap);
        }
        let room = width.saturating_sub(prefix_columns(line.form, width)).max(1);
        match line.form.map(|form| &form.shape) {
            Some(Shape::Rule) => parts.push(RowPart::Drawn(0, form::rule(room.into()))),
            Some(Shape::Row { columns, is_header }) => {
                let rows = form::table_rows(&line, columns, *is_header, room.into());
                parts.extend(rows.into_iter().enumerate().map(|(at, row)| RowPart::Drawn(at, row)));
            }
            Some(Shape::Sides { mark, right }) => {
                let rows = self.sides(number, &line, *mark, right, room.into());
                parts.extend(rows.into_iter().enumerate().map(|(at, row)| RowPart::Drawn(at, row)));
            }
            Some(Shape::Text) | None if number == self.lines.end() - 1 => {
                let mut all = self.wrapped.borrow_mut();
                let wrapped = Wrapped::at(&mut all, number, room, line.text);
                parts.extend(wrapped.rows.iter().map(|(at, end)| RowPart::Text(*at, &line.text[*at..*end])));
            }
            Some(Shape::Text) | None => {
                parts.extend(text::wrap(line.text, usize::from(room)).map(|(at, row)| RowPart::Text(at, row)));
            }
        }
        parts
    }

    /// The rows of a line with two sides, which may summarise the lines below it.
    fn sides(&self, number: i64, line: &Line<'_>, mark: Mark, right: &str, room: usize) -> Vec<Drawn> {
        let fold = self.folds.at(number + 1);
        let is_worth_a_hint = mark != Mark::Done || fold.is_some_and(|fold| fold.shown != Shown::NONE);
        let is_open = fold.map_or(self.folds.are_open(), |fold| self.folds.is_open(fold));
        let hint = if fold.is_some() && !is_open && is_worth_a_hint { OPENS } else { "" };
        if matches!(mark, Mark::Thinking | Mark::Thought) {
            let verb = if mark == Mark::Thinking { "thinking" } else { "thought" };
            let time = if right.is_empty() { String::new() } else { format!(" for {right}") };
            let short = format!("{verb}{time}");
            let long = format!("{short}, {hint}");
            let said = if hint.is_empty() || text::width(&long) > room { short } else { long };
            return text::wrap(&said, room).map(|(_, part)| Drawn::of(part)).collect();
        }
        // The duration is at the end.
        let (note, time) = right.rsplit_once("  ").unwrap_or((right, ""));
        let notes: Vec<&str> = [note, hint].into_iter().filter(|note| !note.is_empty()).collect();
        let right = [notes.join(", ").as_str(), time]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("  ");
        Sides { right: &right, is_whole: is_open, room }.rows(line)
    }

    /// How a row of the line is copied from the screen.
    fn copy_row(&self, number: i64, width: u16, part: &RowPart<'_>, line: &Line<'_>) -> Copied {
        let prefix = prefix_columns(line.form, width);
        let decoration = line.form.map_or(0, |form| form.decoration).min(prefix);
        let is_rest = line.start == Start::Rest;
        let before = match part {
            RowPart::Text(0, _) if is_rest => self.lines.get(number - 1).map(|before| before.text),
            RowPart::Text(at @ 1.., _) => Some(&line.text[..*at]),
            _ => None,
        };
        match before {
            Some(before) => Copied { skipped: prefix, joined_by: Some(if before.ends_with(' ') { " " } else { "" }) },
            None => Copied { skipped: decoration, joined_by: None },
        }
    }

    /// A blank row separates blocks of different kinds, except what belongs together.
    fn has_gap(&self, number: i64, line: Line<'_>) -> bool {
        let before = self.lines.get(number - 1).map(|line| line.kind);
        line.start == Start::Block && before.is_some_and(|before| before != line.kind && !belongs_to(line.kind, before))
    }

    pub(super) fn row(&self, number: i64, width: u16, part: &RowPart<'_>) -> VisibleRow {
        let Some(line) = self.lines.get(number) else { return VisibleRow::default() };
        let at = part.at();
        let mut drawn = Drawn::default();
        if let Some(form) = line.form.filter(|_| at.is_some()) {
            let prefix = if at == Some(0) { &form.first } else { &form.rest };
            let columns = prefix_columns(line.form, width);
            let prefix = if columns == form.columns { prefix } else { end_of(prefix, columns.into()) };
            let indent = prefix.len() - prefix.trim_start_matches(' ').len();
            drawn.push(&prefix[..indent], Style::default());
            drawn.push(&prefix[indent..], Style::DIM);
        }
        match part {
            RowPart::Gap => {}
            RowPart::Text(at, text) => {
                let part = *at..*at + text.len();
                match self.code_styles(number, &line) {
                    styles if styles.is_empty() => drawn.push_part(&line, part),
                    styles => drawn.push_styled(line.text, part, styles.into_iter()),
                }
            }
            RowPart::Drawn(_, row) => drawn.push_row(row),
        }
        let mark = match line.form.map(|form| &form.shape) {
            Some(Shape::Sides { mark, .. }) => *mark,
            _ => Mark::None,
        };
        VisibleRow {
            mark,
            kind: line.kind,
            text: drawn.text,
            styles: drawn.styles,
            links: drawn.links,
            copied: self.copy_row(number, width, part, &line),
            is_first_of_block: at == Some(0) && line.start == Start::Block,
            is_first_of_line: at == Some(0) && line.start != Start::Rest,
            is_gap: at.is_none(),
        }
    }
}

/// Whether a block of one kind follows directly below one of another.
fn belongs_to(kind: LineKind, before: LineKind) -> bool {
    const STEPS: [LineKind; 3] = [LineKind::ToolCall, LineKind::ToolOutput, LineKind::Thinking];
    matches!(before, LineKind::PersonName | LineKind::AgentName)
        || kind == LineKind::TurnEnd
        || STEPS.contains(&kind) && STEPS.contains(&before)
}

pub(super) enum RowPart<'a> {
    Gap,
    /// A part of the line, and where it begins there.
    Text(usize, &'a str),
    /// The row of this number of a line that is not simply wrapped.
    Drawn(usize, Drawn),
}

impl RowPart<'_> {
    /// The position in the line.
    fn at(&self) -> Option<usize> {
        match self {
            RowPart::Gap => None,
            RowPart::Text(at, _) | RowPart::Drawn(at, _) => Some(*at),
        }
    }

    fn offset(&self) -> Offset {
        self.at().map_or(Offset::Gap, Offset::Byte)
    }
}

/// The columns of the prefix: at most half of the screen, and few enough that a wide character fits after it.
fn prefix_columns(form: Option<&Rc<Form>>, width: u16) -> u16 {
    let Some(form) = form else { return 0 };
    form.columns.min(width / 2).min(width.saturating_sub(2))
}

/// The end of a prefix in this many columns, because markers are there.
fn end_of(prefix: &str, columns: usize) -> &str {
    let mut end = prefix;
    while text::width(end) > columns {
        let mut chars = end.chars();
        chars.next();
        end = chars.as_str();
    }
    end
}

/// The index of the row that contains this offset.
fn row_of(parts: &[RowPart<'_>], offset: Offset) -> usize {
    parts.partition_point(|row| row.offset() <= offset).saturating_sub(1)
}
