//! Markdown as lines, while it arrives.
//!
//! Blocks that can no longer change are laid out once; the block at the end, which is open, is laid out again when a
//! frame is to show new text. Only complete lines decide what is finished, always after the same bytes, so that the
//! lines do not depend on how the text was split.
//!
//! ```text
//!   lines    │ finished blocks           │ open block │
//!   source   │ (not kept)                │ tail       │ pending: received, not parsed yet
//! ```
//!
//! Three blocks can be long, and are finished line by line: a fenced code block, a table, and whatever else is longer
//! than [`OPEN_BYTES`]. A list is finished item by item, a quote block by block.
//!
//! A link reference may come before its definition: finished pieces with such references are kept with their source,
//! and their lines are replaced when the definition is found.

mod boundary;
mod layout;
mod unresolved;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;

use pulldown_cmark::{BrokenLink, CowStr, Options, Parser};

use self::boundary::{Fence, Last};
use self::layout::{Gap, Laid, Layout, Piece};
pub(super) use self::unresolved::Unresolved;
use self::unresolved::Waiting;
use super::code::Code;
use super::form::{Columns, Form};
use super::writer::{Writer, floor};
use crate::domain::frame::Style;

/// An open block of this size is split: parsing it takes about 0.5 ms.
const OPEN_BYTES: usize = 16 * 1024;
/// The most bytes that wait until a terminal shows them.
const PENDING_BYTES: usize = 16 * 1024;
/// A block that was not finished is parsed again when it is longer by this part, so that the cost stays linear.
const GROWTH: usize = 8;

/// Definition lists are left out: they change a paragraph that is finished.
fn options() -> Options {
    Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_GFM
}

/// The targets and titles of link reference definitions, by label. The first one of a label counts.
#[derive(Debug, Clone, Default)]
struct Definitions {
    known: HashMap<String, (String, String)>,
    /// The labels that were looked for in vain since [`Definitions::record`].
    missed: RefCell<Option<BTreeSet<String>>>,
}

impl Definitions {
    fn normalised(label: &str) -> String {
        label.split_whitespace().collect::<Vec<&str>>().join(" ").to_lowercase()
    }

    fn add(&mut self, label: &str, target: &str, title: &str) {
        self.known.entry(Self::normalised(label)).or_insert_with(|| (target.to_owned(), title.to_owned()));
    }

    fn find<'a>(&self, label: &str) -> Option<(CowStr<'a>, CowStr<'a>)> {
        let mut missed = self.missed.borrow_mut();
        if self.known.is_empty() && missed.is_none() {
            return None;
        }
        let label = Self::normalised(label);
        let Some((target, title)) = self.known.get(&label) else {
            missed.iter_mut().for_each(|missed| missed.extend([label.clone()]));
            return None;
        };
        Some((target.clone().into(), title.clone().into()))
    }

    fn record(&self) {
        *self.missed.borrow_mut() = Some(BTreeSet::new());
    }

    fn take_missed(&self) -> BTreeSet<String> {
        self.missed.take().unwrap_or_default()
    }
}

fn parser<'a>(
    source: &'a str,
    definitions: &Definitions,
) -> Parser<'a, impl FnMut(BrokenLink<'a>) -> Option<(CowStr<'a>, CowStr<'a>)>> {
    let find = |link: BrokenLink<'a>| definitions.find(&link.reference);
    Parser::new_with_broken_link_callback(source, options(), Some(find))
}

#[derive(Debug, Clone, Default)]
enum Mode {
    #[default]
    Blocks,
    /// In a fenced code block; its lines have this form.
    Fence(Fence, Option<Rc<Form>>),
    /// In a table with this header and delimiter row, and with so many complete lines.
    Table(String, Rc<Columns>, usize),
}

/// A reply while it is received.
#[derive(Debug, Clone, Default)]
pub struct Markdown {
    pending: String,
    /// The open block: complete lines and the beginning of the next.
    tail: String,
    mode: Mode,
    definitions: Definitions,
    /// Finished pieces with references that are not defined yet.
    waiting: Waiting,
    /// The code blocks of the open block, as they were laid out last.
    codes: Vec<Rc<Code>>,
    /// The beginning of the tail.
    piece: Piece,
    /// The line before the last is blank.
    is_after_blank: bool,
    /// The size in bytes at which the tail is parsed again.
    parse_at: usize,
    /// The tail begins within a line.
    is_rest: bool,
    has_finished_lines: bool,
    /// Lines of the open block, the last in the scrollback.
    open_lines: usize,
}

impl Markdown {
    /// Adds sanitised text.
    pub fn push(&mut self, text: &str) {
        self.pending.push_str(text);
    }

    /// Whether so much text is pending that it should be laid out even if no terminal shows it.
    pub fn is_full(&self) -> bool {
        self.pending.len() >= PENDING_BYTES
    }

    pub fn has_news(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The lines at the end that may still change.
    pub fn open_lines(&self) -> usize {
        self.open_lines
    }

    /// The lines at the end that may still change or be drawn with wider columns.
    pub fn unsettled_lines(&self) -> usize {
        // A table's columns become wider as it goes on.
        self.open_lines + if let Mode::Table(_, _, lines) = self.mode { lines } else { 0 }
    }

    /// Whether some of its lines do not change any more.
    pub fn has_finished_lines(&self) -> bool {
        self.has_finished_lines
    }

    /// Lays out what was received. The lines of the open block must have been removed.
    pub fn update(&mut self, out: &mut Writer<'_>) {
        let pending = std::mem::take(&mut self.pending);
        pending.split_inclusive('\n').for_each(|piece| self.take(piece, out));
        let finished = out.added();
        self.has_finished_lines |= finished > 0;
        self.lay_open(out);
        self.open_lines = out.added() - finished;
    }

    /// Takes a line, or a part of one.
    fn take(&mut self, mut piece: &str, out: &mut Writer<'_>) {
        while self.tail.len() + piece.len() > OPEN_BYTES {
            let at = floor(piece, OPEN_BYTES - self.tail.len());
            self.tail.push_str(&piece[..at]);
            piece = &piece[at..];
            self.cut(out);
        }
        self.tail.push_str(piece);
        if piece.ends_with('\n') {
            self.end_line();
            self.on_line(out);
        }
    }

    /// Removes the sign of a carriage return before the newline.
    fn end_line(&mut self) {
        if self.tail.ends_with("\u{240d}\n") {
            self.tail.truncate(self.tail.len() - "\u{240d}\n".len());
            self.tail.push('\n');
        }
    }

    fn on_line(&mut self, out: &mut Writer<'_>) {
        match std::mem::take(&mut self.mode) {
            Mode::Blocks => self.on_block_line(out),
            Mode::Fence(fence, _) if !self.is_rest && fence.is_closed_by(&self.tail) => {
                self.tail.clear();
                self.piece = Piece::after_block();
            }
            Mode::Fence(fence, form) => {
                self.lay_code(&fence, form.clone(), out);
                self.tail.clear();
                self.is_rest = false;
                self.mode = Mode::Fence(fence, form);
            }
            Mode::Table(head, columns, lines) => self.on_table_line(head, columns, lines, out),
        }
    }

    fn on_table_line(&mut self, head: String, columns: Rc<Columns>, lines: usize, out: &mut Writer<'_>) {
        let begin = out.end();
        self.definitions.record();
        if self.table_row(&head, &columns, false, out) {
            let row = format!("{head}{}", std::mem::take(&mut self.tail));
            self.await_definitions(begin..out.end(), &row, Vec::new(), Some((columns.clone(), true)));
            self.mode = Mode::Table(head, columns, lines + count(begin..out.end()));
        } else {
            self.definitions.take_missed();
            self.piece = Piece::after_block();
            self.is_after_blank = true;
            self.on_block_line(out);
        }
    }

    fn on_block_line(&mut self, out: &mut Writer<'_>) {
        let line = last_line(&self.tail);
        let (is_blank, may_interrupt) = (line.trim().is_empty(), boundary::may_interrupt(line));
        if is_blank && self.tail.trim().is_empty() {
            // The rest of an oversized block ends with it.
            if self.is_rest {
                (self.is_rest, self.piece) = (false, Piece::after_block());
            }
            self.tail.clear();
        }
        let may_begin_block = !is_blank && (std::mem::take(&mut self.is_after_blank) || may_interrupt);
        self.is_after_blank = is_blank;
        let length = self.tail.len();
        if length >= self.parse_at && (may_begin_block || length >= 2 * self.parse_at.max(512)) {
            self.finish_blocks(out);
        }
    }

    /// Lays out the blocks that can no longer change.
    fn finish_blocks(&mut self, out: &mut Writer<'_>) {
        let source = std::mem::take(&mut self.tail);
        let found = boundary::find(&source, &mut self.definitions, &self.piece);
        self.finish(&source[..found.end], out);
        if found.end > 0 {
            (self.piece, self.is_rest) = (found.next, false);
        }
        let rest = &source[found.end..];
        match found.last {
            Last::Fence(fence) => self.begin_fence(rest, fence, out),
            Last::Table => self.begin_table(rest, out),
            Last::Other => rest.clone_into(&mut self.tail),
        }
        let is_same = found.end == 0 && matches!(self.mode, Mode::Blocks);
        self.parse_at = if is_same { source.len() + source.len() / GROWTH } else { 0 };
    }

    fn lay(&self, source: &str, out: &mut Writer<'_>) -> Laid {
        if self.is_rest {
            out.continue_line();
        }
        let mut layout = Layout::new(source, &self.piece, out);
        layout.keep_codes(&self.codes);
        layout.run(parser(source, &self.definitions))
    }

    /// Lays out what can no longer change, except for links without a definition so far. Returns its last code block.
    fn finish(&mut self, source: &str, out: &mut Writer<'_>) -> Option<Rc<Code>> {
        let begin = out.end();
        self.definitions.record();
        let mut laid = self.lay(source, out);
        self.codes.drain(..laid.codes.len().min(self.codes.len()));
        self.await_definitions(begin..out.end(), source, laid.codes.clone(), None);
        laid.codes.pop()
    }

    /// Keeps a piece that was laid out, if links in it are not defined yet.
    fn await_definitions(
        &mut self,
        lines: Range<i64>,
        source: &str,
        codes: Vec<Rc<Code>>,
        table: Option<(Rc<Columns>, bool)>,
    ) {
        let labels = self.definitions.take_missed();
        if !labels.is_empty() {
            let (source, piece) = (source.to_owned(), self.piece.clone());
            self.waiting.add(Unresolved { lines, source, piece, labels, codes, table });
        }
    }

    /// The finished pieces whose definitions have arrived since, in order. They have to be laid out again.
    pub fn take_resolved(&mut self) -> Vec<Unresolved> {
        self.waiting.take_resolved(&self.definitions)
    }

    /// Lays out a piece in place of its lines, which must have been removed.
    pub fn lay_again(&mut self, piece: Unresolved, out: &mut Writer<'_>) {
        let begin = out.end();
        self.definitions.record();
        let mut layout = Layout::new(&piece.source, &piece.piece, out);
        layout.keep_codes(&piece.codes);
        match &piece.table {
            Some((columns, true)) => layout.continue_table(columns.clone(), false),
            Some((columns, false)) => layout.keep_columns(columns.clone()),
            None => {}
        }
        layout.run(parser(&piece.source, &self.definitions));
        let labels = self.definitions.take_missed();
        if !labels.is_empty() {
            self.waiting.add(Unresolved { lines: begin..out.end(), labels, ..piece });
        }
    }

    /// Lines were inserted before the line with this number.
    pub fn shift_from(&mut self, line: i64, added: i64) {
        self.waiting.shift_from(line, added);
    }

    /// Nothing follows: definitions of the open block are complete.
    pub fn end(&mut self) {
        if !self.waiting.is_empty() && matches!(self.mode, Mode::Blocks) {
            boundary::find(&self.tail, &mut self.definitions, &self.piece);
        }
    }

    /// Goes on line by line from a fenced code block that is not closed, with which this source begins.
    fn begin_fence(&mut self, source: &str, fence: Fence, out: &mut Writer<'_>) {
        let code = self.finish(source, out);
        self.mode = Mode::Fence(fence, Some(layout::code_form(code)));
    }

    fn begin_table(&mut self, source: &str, out: &mut Writer<'_>) {
        let begin = out.end();
        self.definitions.record();
        let Laid { columns, codes } = Layout::new(source, &self.piece, out).run(parser(source, &self.definitions));
        let table = columns.clone().map(|columns| (columns, false));
        self.await_definitions(begin..out.end(), source, codes, table);
        let head: String = source.split_inclusive('\n').take(2).collect();
        match columns {
            Some(columns) => self.mode = Mode::Table(head, columns, count(begin..out.end())),
            None => self.piece = Piece::after_block(),
        }
    }

    /// Lays out the tail if it is a row of the table.
    fn table_row(&self, head: &str, columns: &Rc<Columns>, is_open: bool, out: &mut Writer<'_>) -> bool {
        let source = format!("{head}{}", self.tail);
        let is_row = boundary::is_table_with_one_row(&source, &self.definitions);
        if is_row {
            let mut layout = Layout::new(&source, &self.piece, out);
            layout.continue_table(columns.clone(), is_open);
            layout.run(parser(&source, &self.definitions));
        }
        is_row
    }

    fn lay_code(&self, fence: &Fence, form: Option<Rc<Form>>, out: &mut Writer<'_>) {
        if self.is_rest {
            out.continue_line();
        }
        out.begin(form);
        out.text(fence.content(self.tail.trim_end_matches('\n'), self.is_rest), Style::default());
    }

    /// Lays out the beginning of an oversized block.
    fn cut(&mut self, out: &mut Writer<'_>) {
        match std::mem::take(&mut self.mode) {
            Mode::Fence(fence, form) => {
                self.lay_code(&fence, form.clone(), out);
                self.tail.clear();
                self.is_rest = true;
                self.mode = Mode::Fence(fence, form);
            }
            Mode::Blocks => self.cut_block(out),
            Mode::Table(..) => {
                self.piece = Piece::after_block();
                self.cut_block(out);
            }
        }
    }

    fn cut_block(&mut self, out: &mut Writer<'_>) {
        let mut source = std::mem::take(&mut self.tail);
        let line_end = source.rfind('\n').map(|at| at + 1);
        let word_end = || source.rfind(' ').map(|at| at + 1);
        let at = line_end.or_else(word_end).unwrap_or(source.len());
        self.tail = source.split_off(at);
        let found = boundary::find(&source, &mut self.definitions, &self.piece);
        self.finish(&source, out);
        self.is_rest = line_end.is_none();
        (self.piece, self.parse_at) = (Piece::default(), 0);
        if let Some(fence) = found.inner_fence {
            self.mode = Mode::Fence(fence, out.form());
        }
    }

    /// Lays out the open block as if nothing followed.
    fn lay_open(&mut self, out: &mut Writer<'_>) {
        match &self.mode {
            _ if self.tail.is_empty() => {}
            Mode::Blocks => self.codes = self.lay(&self.tail, out).codes,
            Mode::Fence(fence, _) if !self.is_rest && fence.is_closed_by(&self.tail) => {}
            Mode::Fence(fence, form) => self.lay_code(fence, form.clone(), out),
            Mode::Table(head, columns, _) => {
                columns.forget_open();
                if !self.table_row(head, columns, true, out) {
                    Layout::new(&self.tail, &Piece { gap: Gap::Blank, ..Piece::default() }, out)
                        .run(parser(&self.tail, &self.definitions));
                }
            }
        }
    }
}

fn count(lines: Range<i64>) -> usize {
    usize::try_from(lines.end - lines.start).unwrap_or(0)
}

fn last_line(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.rfind('\n').map_or(text, |at| &text[at + 1..])
}

#[cfg(test)]
mod tests;
