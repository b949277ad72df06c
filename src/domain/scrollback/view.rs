//! The part of the scrollback that stands on the screen.
//!
//! Every walk here begins at the view and ends a viewport further, whatever lies beyond.

use super::{Line, LineKind, Scrollback, Start};
use crate::base::text;

/// Who reads: each has a place of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Who talk with the agent: they share one place, on whatever screens.
    Shared,
    /// Somebody who only watches, by the number of their terminal.
    Watcher(u64),
}

/// One row of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibleRow {
    /// Who speaks.
    pub kind: LineKind,
    /// Printable text, not wider than was asked for. Empty for the row between two blocks.
    pub text: String,
    /// Whether a block begins here.
    pub is_first_of_block: bool,
    /// Whether a logical line begins here.
    pub is_first_of_line: bool,
    /// Whether this is the blank row between two blocks, which is in no line.
    pub is_gap: bool,
}

/// What stands in a row: the blank row above a line, or the part of the line that starts at or before a byte.
/// The gap comes before the byte 0, so places are ordered as they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    line: i64,
    part: Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Gap,
    Byte(usize),
}

/// The rows of the last line, which grows at its end while a reply streams: all but the last row stay as they are.
#[derive(Debug, Clone, Default)]
pub(super) struct Wrapped {
    line: i64,
    width: u16,
    /// Where each row begins and ends in the line.
    rows: Vec<(usize, usize)>,
    /// How long the line was.
    len: usize,
}

/// Of so many widths the last line is followed at once: more screens than that on one agent wrap it anew, 4 KiB at most.
const WIDTHS: usize = 4;

impl Wrapped {
    /// The last line as it was wrapped at this width, brought up to date.
    fn at<'a>(all: &'a mut Vec<Self>, line: i64, width: u16, text: &str) -> &'a Self {
        let at = all.iter().position(|one| one.width == width).unwrap_or_else(|| {
            if all.len() == WIDTHS {
                all.remove(0);
            }
            all.push(Self { line, width, ..Self::default() });
            all.len() - 1
        });
        all[at].follow(line, width, text);
        &all[at]
    }

    /// Wraps what has come since it last looked at this line.
    fn follow(&mut self, line: i64, width: u16, text: &str) {
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
    /// Whether the last row stands on the reader's screen of this size.
    pub fn shows_end(&self, reader: Reader, width: u16, height: u16) -> bool {
        let is_beyond = |top| self.bottom(width, height).is_none_or(|bottom| top >= self.aligned(bottom, width));
        self.top(reader).is_none_or(is_beyond)
    }

    /// Whether the first row that there is stands on a screen of this size: time to load older text.
    pub fn is_at_top(&self, reader: Reader, width: u16, height: u16) -> bool {
        self.top_of_view(reader, width, height).is_none_or(|top| self.above(top, width).is_none())
    }

    /// Lines were added after the first `before`: views that stand behind them stay on their text.
    pub(super) fn shift_views_after(&mut self, before: usize, added: usize) {
        let (before, added) = (i64::try_from(before).unwrap_or(i64::MAX), i64::try_from(added).unwrap_or(0));
        for (_, top) in self.tops.iter_mut().filter(|(_, top)| top.line - self.first >= before) {
            top.line += added;
        }
    }

    fn top(&self, reader: Reader) -> Option<Place> {
        self.tops.iter().find(|(one, _)| *one == reader).map(|(_, top)| *top)
    }

    /// Goes to the end, and stays there as it grows.
    pub fn to_bottom(&mut self, reader: Reader) {
        self.tops.retain(|(one, _)| *one != reader);
    }

    /// Goes to the beginning.
    pub fn to_top(&mut self, reader: Reader) {
        if !self.lines.is_empty() {
            self.go(reader, Place { line: self.first, part: Part::Byte(0) });
        }
    }

    fn go(&mut self, reader: Reader, top: Place) {
        self.to_bottom(reader);
        self.tops.push((reader, top));
    }

    /// Moves the view by rows, negative towards older text. Costs as many rows as it moves. At the end it stays at the
    /// bottom.
    pub fn scroll(&mut self, reader: Reader, rows: isize, width: u16, height: u16) {
        let Some(mut top) = self.top_of_view(reader, width, height) else { return };
        for _ in 0..rows.unsigned_abs() {
            let next = if rows < 0 { self.above(top, width) } else { self.below(top, width) };
            match next {
                Some(next) => top = next,
                None => break,
            }
        }
        self.go(reader, top);
        self.settle(reader, &[(width, height)]);
    }

    /// The rows for a screen of this size, from the top; fewer if there are fewer. Changes nothing: the same reader may
    /// look at several screens.
    pub fn visible(&self, reader: Reader, width: u16, height: u16) -> Vec<VisibleRow> {
        let mut rows = Vec::with_capacity(usize::from(height));
        let mut next = self.top_of_view(reader, width, height);
        while let Some(place) = next.filter(|_| rows.len() < usize::from(height)) {
            let parts = self.parts(place.line, width);
            let from = row_of(&parts, place.part);
            let wanted = usize::from(height) - rows.len();
            rows.extend(parts[from..].iter().take(wanted).map(|part| self.row(place.line, part)));
            next = self.first_of(place.line + 1, width);
        }
        rows
    }

    /// Makes a reader who sees the last row on every screen (by scrolling, or because the screens grew) one who is at the
    /// bottom. Where only the larger of two screens shows it, the smaller one keeps its place.
    pub fn settle(&mut self, reader: Reader, screens: &[(u16, u16)]) {
        if screens.iter().all(|(width, height)| self.shows_end(reader, *width, *height)) {
            self.to_bottom(reader);
        }
    }

    /// The place in the first row of a screen of this size, which is never filled less than it could be; none if there is
    /// no text.
    fn top_of_view(&self, reader: Reader, width: u16, height: u16) -> Option<Place> {
        let bottom = self.bottom(width, height)?;
        Some(self.top(reader).map_or(bottom, |top| self.aligned(top, width).min(bottom)))
    }

    /// The place in the first row of a screen that shows the last row in its last row.
    fn bottom(&self, width: u16, height: u16) -> Option<Place> {
        let mut line = self.end() - 1;
        let mut wanted = usize::from(height.max(1));
        loop {
            let parts = self.parts(line, width);
            if parts.len() >= wanted {
                let part = parts[parts.len() - wanted].part();
                return Some(Place { line, part });
            }
            wanted -= parts.len();
            match self.first_of(line - 1, width) {
                Some(_) => line -= 1,
                None => return self.first_of(self.first, width),
            }
        }
    }

    /// The place of the row that shows this place at this width.
    fn aligned(&self, place: Place, width: u16) -> Place {
        let parts = self.parts(place.line, width);
        match parts.get(row_of(&parts, place.part)) {
            Some(part) => Place { line: place.line, part: part.part() },
            None => place,
        }
    }

    fn above(&self, place: Place, width: u16) -> Option<Place> {
        let parts = self.parts(place.line, width);
        match row_of(&parts, place.part).checked_sub(1) {
            Some(row) => Some(Place { line: place.line, part: parts[row].part() }),
            None => {
                let part = self.parts(place.line - 1, width).last()?.part();
                Some(Place { line: place.line - 1, part })
            }
        }
    }

    fn below(&self, place: Place, width: u16) -> Option<Place> {
        let parts = self.parts(place.line, width);
        match parts.get(row_of(&parts, place.part) + 1) {
            Some(part) => Some(Place { line: place.line, part: part.part() }),
            None => self.first_of(place.line + 1, width),
        }
    }

    fn first_of(&self, line: i64, width: u16) -> Option<Place> {
        Some(Place { line, part: self.parts(line, width).first()?.part() })
    }

    /// The rows of a line, with the blank row above it if there is one; none if there is no such line.
    fn parts(&self, number: i64, width: u16) -> Vec<RowPart<'_>> {
        let Some(line) = self.line(number) else { return Vec::new() };
        let mut parts = Vec::with_capacity(1 + line.text.len() / usize::from(width.max(1)));
        if self.has_gap(number, line) {
            parts.push(RowPart::Gap);
        }
        if number == self.first + self.lines.len() as i64 - 1 {
            let mut all = self.wrapped.borrow_mut();
            let wrapped = Wrapped::at(&mut all, number, width, &line.text);
            parts.extend(wrapped.rows.iter().map(|(at, end)| RowPart::Text(*at, &line.text[*at..*end])));
        } else {
            parts.extend(text::wrap(&line.text, usize::from(width)).map(|(at, row)| RowPart::Text(at, row)));
        }
        parts
    }

    /// One blank row stands between blocks of different kinds, but a tool's output belongs to its call.
    fn has_gap(&self, number: i64, line: &Line) -> bool {
        let before = self.line(number - 1).map(|line| line.kind);
        line.start == Start::Block
            && before.is_some_and(|before| before != line.kind)
            && (before, line.kind) != (Some(LineKind::ToolCall), LineKind::ToolOutput)
    }

    fn row(&self, number: i64, part: &RowPart<'_>) -> VisibleRow {
        let (kind, start) = self.line(number).map_or((LineKind::Note, Start::Rest), |line| (line.kind, line.start));
        let (at, text) = match *part {
            RowPart::Gap => (None, ""),
            RowPart::Text(at, text) => (Some(at), text),
        };
        VisibleRow {
            kind,
            text: text.to_owned(),
            is_first_of_block: at == Some(0) && start == Start::Block,
            is_first_of_line: at == Some(0) && start != Start::Rest,
            is_gap: at.is_none(),
        }
    }

    fn line(&self, number: i64) -> Option<&Line> {
        self.lines.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The number of the line after the last one.
    fn end(&self) -> i64 {
        self.first + i64::try_from(self.lines.len()).unwrap_or(i64::MAX)
    }
}

/// One row of a line.
enum RowPart<'a> {
    Gap,
    Text(usize, &'a str),
}

impl RowPart<'_> {
    fn part(&self) -> Part {
        match *self {
            RowPart::Gap => Part::Gap,
            RowPart::Text(at, _) => Part::Byte(at),
        }
    }
}

/// Which of the rows shows this part of the line.
fn row_of(parts: &[RowPart<'_>], part: Part) -> usize {
    parts.partition_point(|row| row.part() <= part).saturating_sub(1)
}
