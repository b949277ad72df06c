//! Which part of a text can no longer change, whatever follows.
//!
//! Everything up to the end of the last but one block is finished. The end is not the start of the last block: between
//! them there may be a link definition whose title continues, so that the last block becomes part of it.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Tag};

use super::layout::{Gap, Piece};
use super::{Definitions, parser};

/// What was found in the open part of a reply.
pub(super) struct Found {
    /// The text up to here is finished.
    pub end: usize,
    /// How the text after that continues.
    pub next: Piece,
    pub last: Last,
    /// The fenced code block within other blocks with which the text ends.
    pub inner_fence: Option<Fence>,
}

/// The block after the finished ones.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// A fenced code block that is not closed.
    Fence(Fence),
    Table,
    Other,
}

/// How a fenced code block was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fence {
    marker: char,
    length: usize,
    /// Spaces before the fence, which are removed from each line.
    indent: usize,
    /// It is within a list or a quote.
    is_inner: bool,
}

impl Fence {
    /// From the line that opens the block.
    fn open(line: &str) -> Option<Self> {
        let content = line.trim_start_matches([' ', '>']);
        let marker = content.chars().next().filter(|marker| matches!(marker, '`' | '~'))?;
        let length = content.len() - content.trim_start_matches(marker).len();
        (length >= 3).then(|| Self { marker, length, indent: line.len() - content.len(), is_inner: false })
    }

    /// Whether the line closes the block (CommonMark 0.31, section 4.5).
    pub fn is_closed_by(&self, line: &str) -> bool {
        let content = line.trim_start_matches(if self.is_inner { &[' ', '>'][..] } else { &[' '] });
        let is_indented = line.len() - content.len() > 3 && !self.is_inner;
        let rest = content.trim_start_matches(self.marker);
        !is_indented && content.len() - rest.len() >= self.length && rest.trim().is_empty()
    }

    /// A line of the block without its indentation.
    pub fn content<'a>(&self, line: &'a str, is_rest: bool) -> &'a str {
        if is_rest {
            return line;
        }
        let removed = |c: char| c == ' ' || self.is_inner && c == '>';
        let count = line.chars().take(self.indent).take_while(|c| removed(*c)).count();
        &line[count..]
    }
}

/// Whether the line may end a paragraph.
pub(super) fn may_interrupt(line: &str) -> bool {
    let first = line.trim_start().chars().next();
    first.is_some_and(|c| c.is_ascii_digit() || "#-*+>`~|=_:<[".contains(c))
}

/// The blocks of the outermost level that matter here.
#[derive(Default)]
struct Scan {
    /// The end of the last but one block.
    before_last: usize,
    last: Range<usize>,
    kind: Kind,
    /// Where the last item of a list or the last block of a quote begins, and how many there are.
    child: (usize, u64),
    inner_fence: Option<Range<usize>>,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Kind {
    #[default]
    Other,
    Fence,
    Table,
    List(Option<u64>),
    Quote,
}

impl Scan {
    fn of(source: &str, definitions: &mut Definitions) -> Self {
        let events = parser(source, definitions).into_offset_iter();
        let mut found: Vec<(usize, String, String, String)> = Vec::new();
        for (label, definition) in events.reference_definitions().iter() {
            let title = definition.title.as_deref().unwrap_or_default();
            found.push((definition.span.start, label.to_owned(), definition.dest.to_string(), title.to_owned()));
        }
        let mut scan = Self::default();
        let mut depth = 0_usize;
        for (event, range) in events {
            scan.note(&event, &range, depth);
            match event {
                Event::Start(_) => depth += 1,
                Event::End(_) => depth -= 1,
                _ => {}
            }
        }
        found.sort();
        found.iter().for_each(|(_, label, target, title)| definitions.add(label, target, title));
        scan
    }

    fn note(&mut self, event: &Event<'_>, range: &Range<usize>, depth: usize) {
        let is_block_start = matches!(event, Event::Start(_) | Event::Rule);
        if depth == 0 && is_block_start {
            self.before_last = self.last.end;
            self.last = range.clone();
            self.child = (range.start, 0);
            self.kind = match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => Kind::Fence,
                Event::Start(Tag::Table(_)) => Kind::Table,
                Event::Start(Tag::List(first)) => Kind::List(*first),
                Event::Start(Tag::BlockQuote(_)) => Kind::Quote,
                _ => Kind::Other,
            };
        } else if depth == 1 && is_block_start && matches!(self.kind, Kind::List(_) | Kind::Quote) {
            self.child = (range.start, self.child.1 + 1);
        }
        if depth > 0 && matches!(event, Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_)))) {
            self.inner_fence = Some(range.clone());
        }
    }
}

/// Finds what is finished, and keeps the link definitions.
pub(super) fn find(source: &str, definitions: &mut Definitions, piece: &Piece) -> Found {
    let scan = Scan::of(source, definitions);
    let open = open_fence(source, &scan.last);
    let mut found =
        Found { end: 0, next: Piece::default(), last: Last::Other, inner_fence: inner_fence(source, &scan) };
    if scan.before_last > 0 {
        found.end = line_end(source, scan.before_last);
        found.next = Piece::after_block();
    }
    let carried = piece.number.filter(|_| found.end == 0);
    let child_line = line_start(source, scan.child.0);
    match scan.kind {
        Kind::Fence if let Some(fence) = open => {
            found.last = Last::Fence(fence);
            found.end = line_start(source, scan.last.start);
        }
        Kind::Table => {
            found.last = Last::Table;
            found.end = line_start(source, scan.last.start);
        }
        Kind::List(first) if scan.child.1 > 1 => {
            let number = first.map(|first| carried.unwrap_or(first).saturating_add(scan.child.1 - 1));
            let gap = if is_after_blank_line(source, child_line) { Gap::Blank } else { Gap::None };
            (found.end, found.next) = (child_line, Piece { gap, number });
        }
        Kind::List(Some(_)) => found.next.number = carried,
        Kind::Quote if scan.child.1 > 1 && source[child_line..].trim_start().starts_with('>') => {
            let gap = if is_after_blank_line(source, child_line) { Gap::Quoted } else { Gap::None };
            (found.end, found.next) = (child_line, Piece { gap, number: None });
        }
        _ => {}
    }
    if found.end == 0 || found.last != Last::Other && scan.before_last == 0 {
        found.next = piece.clone();
    }
    found
}

/// The fence of the code block in this range, if it is not closed.
fn open_fence(source: &str, range: &Range<usize>) -> Option<Fence> {
    let block = &source[line_start(source, range.start)..];
    let mut lines = block.lines();
    let fence = Fence::open(lines.next()?)?;
    (!lines.any(|line| fence.is_closed_by(line))).then_some(fence)
}

fn inner_fence(source: &str, scan: &Scan) -> Option<Fence> {
    let range = scan.inner_fence.as_ref().filter(|range| range.end >= source.trim_end().len())?;
    let mut lines = source[range.clone()].lines();
    let first = lines.next()?;
    let indent = range.start - line_start(source, range.start);
    let fence = Fence { indent, is_inner: true, ..Fence::open(first)? };
    (!lines.any(|line| fence.is_closed_by(line))).then_some(fence)
}

/// Whether this is a table with one row besides its header, and nothing else.
pub(super) fn is_table_with_one_row(source: &str, definitions: &Definitions) -> bool {
    let (mut depth, mut blocks, mut rows) = (0_usize, 0, 0);
    for event in parser(source, definitions) {
        match event {
            Event::Start(tag) => {
                blocks += usize::from(depth == 0);
                rows += usize::from(tag == Tag::TableRow);
                depth += 1;
            }
            Event::End(_) => depth -= 1,
            Event::Rule => blocks += 1,
            _ => {}
        }
    }
    (blocks, rows) == (1, 1)
}

fn line_end(source: &str, at: usize) -> usize {
    if source[..at].ends_with('\n') {
        return at;
    }
    source[at..].find('\n').map_or(source.len(), |end| at + end + 1)
}

fn line_start(source: &str, at: usize) -> usize {
    source[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// Whether the line before the one that contains this byte is blank, apart from the marks of quotes.
pub(super) fn is_after_blank_line(source: &str, at: usize) -> bool {
    let Some(before) = source[..line_start(source, at)].strip_suffix('\n') else { return false };
    before[line_start(before, before.len())..].trim_matches([' ', '\t', '>']).is_empty()
}
