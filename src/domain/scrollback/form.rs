//! How a logical line is drawn if not as it is: with a prefix, as a rule, or as a row of a table.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use pulldown_cmark::Alignment;

use super::code::Code;
use super::lines::Line;
use super::links;
use crate::base::text;
use crate::domain::frame::Style;

/// Separates the cells in the text of a table row. Sanitised text does not contain it.
pub const CELL_END: char = '\u{1f}';
/// Before each line of a quote.
pub const QUOTE: &str = "│ ";
/// Between two cells on the screen.
const SEPARATOR: &str = " │ ";
const SEPARATOR_COLUMNS: usize = 3;
/// With less room for each column the rows of a table are drawn as `header: value`.
const LEAST_COLUMNS: usize = 4;
/// A word of a cell is broken only if it is wider than this.
const WORD_COLUMNS: usize = 8;

/// How a logical line is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// Before the first row of the line: a list marker, the bar of a quote, an indentation.
    pub first: Box<str>,
    /// Before its other rows; as wide as `first`.
    pub rest: Box<str>,
    /// The width of the prefixes.
    pub columns: u16,
    pub shape: Shape,
    /// The columns of the prefix that only draw.
    pub decoration: u16,
    /// The code block that it is a line of, if that has colours.
    pub code: Option<Rc<Code>>,
}

impl Form {
    pub fn new(first: &str, rest: &str, shape: Shape) -> Self {
        let columns = text::width(first).max(text::width(rest));
        let columns = u16::try_from(columns).unwrap_or(u16::MAX);
        Self { first: first.into(), rest: rest.into(), columns, shape, decoration: bars(first), code: None }
    }

    /// The prefix is no part of the text: it is not copied.
    pub fn only_drawn(self) -> Self {
        Self { decoration: self.columns, ..self }
    }

    /// This form for a line of a code block, which may have colours.
    pub fn of_code(self, code: Option<Rc<Code>>) -> Self {
        Self { code, ..self.only_drawn() }
    }
}

/// The columns of the bars of quotes with which a prefix begins.
fn bars(prefix: &str) -> u16 {
    let rest = prefix.trim_start_matches(QUOTE);
    u16::try_from(text::width(&prefix[..prefix.len() - rest.len()])).unwrap_or(u16::MAX)
}

#[derive(Debug, Clone)]
pub enum Shape {
    /// Wrapped text.
    Text,
    /// A horizontal rule; the line has no text.
    Rule,
    /// Cells between [`CELL_END`].
    Row { columns: Rc<Columns>, is_header: bool },
    /// Text at the left, and this at the right end of the row.
    Sides { mark: Mark, right: Box<str> },
}

/// The state of what a line summarises.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mark {
    #[default]
    None,
    /// A call that has no result.
    Running,
    Done,
    Failed,
    /// The model reasons.
    Thinking,
    Thought,
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text, Self::Text) | (Self::Rule, Self::Rule) => true,
            (Self::Row { columns, is_header }, Self::Row { columns: other, is_header: other_header }) => {
                Rc::ptr_eq(columns, other) && is_header == other_header
            }
            // They are replaced one by one.
            _ => false,
        }
    }
}

impl Eq for Shape {}

/// A row of the screen with its styles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drawn {
    pub text: String,
    pub styles: Vec<(Range<usize>, Style)>,
    /// Where parts of the text lead.
    pub links: Vec<(Range<usize>, Rc<str>)>,
}

impl Drawn {
    pub fn of(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    pub fn push(&mut self, text: &str, style: Style) {
        let begin = self.text.len();
        self.text.push_str(text);
        if style != Style::default() && !text.is_empty() {
            self.styles.push((begin..self.text.len(), style));
        }
    }

    pub fn push_row(&mut self, row: &Self) {
        let shift = self.text.len();
        self.text.push_str(&row.text);
        self.styles.extend(row.styles.iter().map(|(range, style)| (range.start + shift..range.end + shift, *style)));
        let links = row.links.iter().map(|(range, to)| (range.start + shift..range.end + shift, Rc::clone(to)));
        self.links.extend(links);
    }

    /// Appends a part of a line.
    pub fn push_part(&mut self, line: &Line<'_>, part: Range<usize>) {
        let shift = self.text.len();
        for (range, to) in links::of(line) {
            let (begin, end) = (range.start.max(part.start), range.end.min(part.end));
            if begin < end {
                self.links.push((begin - part.start + shift..end - part.start + shift, to));
            }
        }
        self.push_styled(line.text, part, line.styles());
    }

    /// Appends a part of a text with styled ranges.
    pub fn push_styled(&mut self, text: &str, part: Range<usize>, styles: impl Iterator<Item = (Range<usize>, Style)>) {
        let shift = self.text.len();
        self.text.push_str(&text[part.clone()]);
        for (range, style) in styles {
            let (begin, end) = (range.start.max(part.start), range.end.min(part.end));
            if begin < end {
                self.styles.push((begin - part.start + shift..end - part.start + shift, style));
            }
        }
    }
}

/// The columns that the rows of a table share. Their widths grow with the rows.
#[derive(Debug, Default)]
pub struct Columns {
    alignments: Vec<Alignment>,
    headers: RefCell<Vec<String>>,
    sizes: RefCell<Vec<Size>>,
    /// The sizes of the row that is still being received.
    open_sizes: RefCell<Vec<Size>>,
    /// The widths of the columns for a width of the screen: all rows of a frame need the same.
    fitted: RefCell<Option<Fitted>>,
}

/// A width of the screen, and the widths of the columns of a table on it; `None` if they do not fit.
type Fitted = (usize, Option<Rc<[usize]>>);

/// The columns of the widest cell, and of the longest word in any.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    cell: usize,
    word: usize,
}

impl Columns {
    pub fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, ..Self::default() }
    }

    pub fn set_headers(&self, row: &str) {
        *self.headers.borrow_mut() = row.split(CELL_END).map(str::to_owned).collect();
    }

    /// Makes room for a row. One that is still being received counts until the next is added.
    pub fn add(&self, row: &str, is_open: bool) {
        self.forget_open();
        self.fitted.take();
        let mut sizes = if is_open { self.open_sizes.borrow_mut() } else { self.sizes.borrow_mut() };
        for (at, cell) in row.split(CELL_END).enumerate() {
            if sizes.len() <= at {
                sizes.push(Size::default());
            }
            let word = cell.split(' ').map(text::width).max().unwrap_or(0);
            sizes[at] = Size { cell: sizes[at].cell.max(text::width(cell)), word: sizes[at].word.max(word) };
        }
    }

    /// The row that was being received is removed.
    pub fn forget_open(&self) {
        self.open_sizes.borrow_mut().clear();
        self.fitted.take();
    }

    /// The width of each column on a screen of this many columns; `None` if they do not fit.
    fn widths(&self, room: usize) -> Option<Rc<[usize]>> {
        let mut fitted = self.fitted.borrow_mut();
        match &*fitted {
            Some((known, widths)) if *known == room => widths.clone(),
            _ => fitted.insert((room, self.fit(room).map(Rc::from))).1.clone(),
        }
    }

    fn fit(&self, room: usize) -> Option<Vec<usize>> {
        let (sizes, open) = (self.sizes.borrow(), self.open_sizes.borrow());
        let count = sizes.len().max(open.len());
        let room = room.checked_sub(count.saturating_sub(1) * SEPARATOR_COLUMNS)?;
        let size = |at: usize| {
            let (size, open) = (sizes.get(at).copied().unwrap_or_default(), open.get(at).copied().unwrap_or_default());
            Size { cell: size.cell.max(open.cell), word: size.word.max(open.word) }
        };
        let all: Vec<Size> = (0..count).map(size).collect();
        let least: Vec<usize> = all.iter().map(|size| size.word.clamp(1, WORD_COLUMNS)).collect();
        let fits = count * LEAST_COLUMNS <= room && least.iter().sum::<usize>() <= room;
        fits.then(|| shrunk(all.iter().map(|size| size.cell.max(1)).collect(), &least, room))
    }
}

/// Shrinks the widest columns first, and none below its least width.
fn shrunk(mut widths: Vec<usize>, least: &[usize], room: usize) -> Vec<usize> {
    let mut excess = widths.iter().sum::<usize>().saturating_sub(room);
    while excess > 0 {
        let can_shrink = |at: &usize| widths[*at] > least[*at];
        let Some(widest) = (0..widths.len()).filter(can_shrink).max_by_key(|at| widths[*at]) else { break };
        let next = (0..widths.len()).filter(|at| *at != widest && can_shrink(at)).map(|at| widths[at]).max();
        let step = widths[widest].saturating_sub(next.unwrap_or(0).max(least[widest])).clamp(1, excess);
        widths[widest] -= step;
        excess -= step;
    }
    widths
}

/// The rows of a table row on a screen of this many columns.
pub fn table_rows(line: &Line<'_>, columns: &Columns, is_header: bool, room: usize) -> Vec<Drawn> {
    let cells = cells_of(line.text);
    match columns.widths(room) {
        Some(widths) => {
            let mut rows = side_by_side(line, &cells, columns, &widths);
            if is_header {
                rows.push(rule_between(&widths));
            }
            rows
        }
        None if is_header => vec![rule(room)],
        None => {
            let mut rows = one_by_one(line, &cells, columns, room);
            rows.push(rule(room));
            rows
        }
    }
}

/// How a line with two sides is drawn.
pub struct Sides<'a> {
    pub right: &'a str,
    /// Nothing of the left side is left out.
    pub is_whole: bool,
    pub room: usize,
}

/// Between the two sides of a line.
const SPACE_BETWEEN_SIDES: usize = 2;
/// The left side of a line is not shortened to less.
const LEAST_LEFT: usize = 16;

impl Sides<'_> {
    pub fn rows(&self, line: &Line<'_>) -> Vec<Drawn> {
        let right_columns = text::width(self.right);
        let beside = match right_columns {
            0 => self.room,
            columns => self.room.saturating_sub(columns + SPACE_BETWEEN_SIDES),
        };
        let left_columns = text::width(line.text);
        if left_columns <= beside {
            return vec![self.join_right(line, 0..line.text.len(), "")];
        }
        if self.is_whole {
            let mut parts = wrap_part(line.text, &(0..line.text.len()), self.room);
            let last = parts.pop().unwrap_or(0..0);
            let is_beside = text::width(&line.text[last.clone()]) <= beside;
            let mut rows: Vec<Drawn> = parts.into_iter().map(|part| self.left_part(line, part, "")).collect();
            rows.push(if is_beside { self.join_right(line, last, "") } else { self.left_part(line, last, "") });
            return if is_beside { rows } else { self.with_right_below(rows) };
        }
        let room = if beside < LEAST_LEFT { self.room } else { beside };
        if left_columns <= room {
            return self.with_right_below(vec![self.left_part(line, 0..line.text.len(), "")]);
        }
        let part = 0..text::truncate(line.text, room.saturating_sub(1)).len();
        if beside < LEAST_LEFT {
            return self.with_right_below(vec![self.left_part(line, part, "…")]);
        }
        vec![self.join_right(line, part, "…")]
    }

    fn left_part(&self, line: &Line<'_>, part: Range<usize>, end: &str) -> Drawn {
        let mut row = Drawn::default();
        row.push_part(line, part);
        row.push(end, Style::default());
        row
    }

    fn join_right(&self, line: &Line<'_>, part: Range<usize>, end: &str) -> Drawn {
        let mut row = self.left_part(line, part, end);
        if !self.right.is_empty() {
            let space = self.room.saturating_sub(text::width(&row.text) + text::width(self.right));
            row.push(&" ".repeat(space), Style::default());
            row.push(self.right, Style::DIM);
        }
        row
    }

    fn with_right_below(&self, mut rows: Vec<Drawn>) -> Vec<Drawn> {
        let parts = text::wrap(self.right, self.room).filter(|(_, part)| !part.is_empty());
        rows.extend(parts.map(|(_, part)| {
            let mut row = Drawn::default();
            row.push(part, Style::DIM);
            row
        }));
        rows
    }
}

/// A horizontal rule.
pub fn rule(columns: usize) -> Drawn {
    let mut row = Drawn::default();
    row.push(&"─".repeat(columns), Style::DIM);
    row
}

fn rule_between(widths: &[usize]) -> Drawn {
    let parts: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    let mut row = Drawn::default();
    row.push(&parts.join("─┼─"), Style::DIM);
    row
}

/// The bytes of each cell.
fn cells_of(row: &str) -> Vec<Range<usize>> {
    let mut at = 0;
    let cell = |cell: &str| {
        let range = at..at + cell.len();
        at = range.end + CELL_END.len_utf8();
        range
    };
    row.split(CELL_END).map(cell).collect()
}

fn side_by_side(line: &Line<'_>, cells: &[Range<usize>], columns: &Columns, widths: &[usize]) -> Vec<Drawn> {
    let wrapped: Vec<Vec<Range<usize>>> =
        cells.iter().zip(widths).map(|(cell, width)| wrap_part(line.text, cell, *width)).collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or(1);
    let mut rows = vec![Drawn::default(); height];
    for (y, row) in rows.iter_mut().enumerate() {
        for (x, width) in widths.iter().enumerate() {
            let part = wrapped.get(x).and_then(|parts| parts.get(y)).cloned().unwrap_or(0..0);
            let space = width.saturating_sub(text::width(&line.text[part.clone()]));
            let before = match columns.alignments.get(x) {
                Some(Alignment::Right) => space,
                Some(Alignment::Center) => space / 2,
                _ => 0,
            };
            if x > 0 {
                row.push(SEPARATOR, Style::DIM);
            }
            row.push(&" ".repeat(before), Style::default());
            row.push_part(line, part);
            // Nothing is drawn after the last cell.
            let after = if x + 1 < widths.len() { space - before } else { 0 };
            row.push(&" ".repeat(after), Style::default());
        }
    }
    rows
}

/// Each cell on rows of its own: `header: value`.
fn one_by_one(line: &Line<'_>, cells: &[Range<usize>], columns: &Columns, room: usize) -> Vec<Drawn> {
    let headers = columns.headers.borrow();
    let mut rows = Vec::new();
    for (x, cell) in cells.iter().enumerate() {
        let header = headers.get(x).map(|header| format!("{header}:")).unwrap_or_default();
        let header_rows: Vec<&str> = text::wrap(&header, room).map(|(_, row)| row).collect();
        let (last, above) = header_rows.split_last().unwrap_or((&"", &[]));
        let bold = |text: &str| {
            let mut row = Drawn::default();
            row.push(text, Style::BOLD);
            row
        };
        rows.extend(above.iter().map(|text| bold(text)));
        let value = &line.text[cell.clone()];
        if text::width(last) + 1 + text::width(value) <= room {
            let mut row = bold(last);
            row.push(if last.is_empty() { "" } else { " " }, Style::default());
            row.push_part(line, cell.clone());
            rows.push(row);
            continue;
        }
        rows.extend((!last.is_empty()).then(|| bold(last)));
        for part in wrap_part(line.text, cell, room) {
            let mut row = Drawn::default();
            row.push_part(line, part);
            rows.push(row);
        }
    }
    rows
}

/// The rows of a part of a text, as bytes of the text.
fn wrap_part(whole: &str, part: &Range<usize>, columns: usize) -> Vec<Range<usize>> {
    let rows = text::wrap(&whole[part.clone()], columns);
    rows.map(|(at, row)| part.start + at..part.start + at + row.len()).collect()
}
