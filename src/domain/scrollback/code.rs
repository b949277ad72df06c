//! Code blocks whose colours are computed elsewhere, and drawn when they arrive.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use super::lines::Line;
use super::{Reader, Scrollback, Start};
use crate::domain::frame::{Color, Style};

/// Longer lines have no colours.
pub const LINE_BYTES: usize = 2 * 1024;
/// The lines of a block that have colours.
pub const LINES: usize = 2_000;

/// Before the lines of a diff.
const SIGNS: [char; 3] = [' ', '-', '+'];

/// A block of code in one language. All of its lines refer to it.
#[derive(Debug)]
pub struct Code {
    pub language: Box<str>,
    /// Its lines are those of a diff: each begins with a sign, and has other styles too.
    is_diff: bool,
    /// Its id where the colours are computed; set there.
    pub id: Cell<Option<u64>>,
    /// The number that its first line had when it was needed last.
    first: Cell<i64>,
    /// Lines handed out for colouring.
    taken: Cell<usize>,
    colors: RefCell<Vec<Colors>>,
}

/// The colours of a line: up to which byte each goes.
type Colors = Box<[(u16, Color)]>;

impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Code {}

impl Code {
    pub fn new(language: &str) -> Rc<Self> {
        Self::of(language, false)
    }

    /// The lines of a diff.
    pub fn of_diff(language: &str) -> Rc<Self> {
        Self::of(language, true)
    }

    fn of(language: &str, is_diff: bool) -> Rc<Self> {
        Rc::new(Self {
            language: language.into(),
            is_diff,
            id: Cell::default(),
            first: Cell::default(),
            taken: Cell::default(),
            colors: RefCell::default(),
        })
    }

    /// Colours the lines from this index on: the parts of each that are not in the colour of text, in order.
    pub fn set_colors(&self, first: usize, lines: &[Vec<(Range<usize>, Color)>]) {
        let mut colors = self.colors.borrow_mut();
        let count = colors.len().max(first + lines.len());
        colors.resize(count, Box::default());
        for (known, parts) in colors[first..].iter_mut().zip(lines) {
            *known = pack_colors(parts);
        }
    }

    /// Its language has no colours: no more lines are handed out.
    pub fn give_up(&self) {
        self.taken.set(LINES);
    }

    /// The colours are computed again from the first line on.
    pub fn start_again(&self) {
        self.taken.set(0);
    }

    /// The lines whose colours are known.
    pub fn colored(&self) -> usize {
        self.colors.borrow().len()
    }

    /// The parts of a line of so many bytes that are not in the colour of text.
    pub fn parts(&self, index: usize, length: usize) -> Vec<(Range<usize>, Color)> {
        let colors = self.colors.borrow();
        let mut begin = 0;
        let part = |(end, color): &(u16, Color)| {
            let end = usize::from(*end).min(length);
            let range = std::mem::replace(&mut begin, end)..end;
            (range, *color)
        };
        let parts = colors.get(index).into_iter().flat_map(|line| line.iter()).map(part);
        parts.filter(|(range, color)| !range.is_empty() && *color != Color::Default).collect()
    }
}

fn pack_colors(parts: &[(Range<usize>, Color)]) -> Colors {
    let offset = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
    let mut packed = Vec::with_capacity(parts.len() * 2);
    for (range, color) in parts {
        if packed.last().map_or(0, |(end, _)| *end) < offset(range.start) {
            packed.push((offset(range.start), Color::Default));
        }
        packed.push((offset(range.end), *color));
    }
    packed.into()
}

/// Lines of a code block that need colours. Lines that have none are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeLines {
    pub code: Rc<Code>,
    /// The index of the first of them in the block.
    pub first: usize,
    pub lines: Vec<String>,
}

impl Scrollback {
    /// The complete lines without colours of all code blocks on a screen of this size. Each line is returned once.
    pub fn take_uncoloured(&self, reader: Reader, width: u16, height: u16) -> Vec<CodeLines> {
        let mut all: Vec<CodeLines> = Vec::new();
        for number in self.visible_lines(reader, width, height) {
            let Some(code) = self.lines.get(number).and_then(code_of) else { continue };
            if code.taken.get() < LINES && all.last().is_none_or(|last| last.code != *code) {
                all.extend(self.take_lines(number, code));
            }
        }
        all
    }

    fn take_lines(&self, number: i64, code: &Rc<Code>) -> Option<CodeLines> {
        let begin = self.first_line_of(number, code);
        let first = code.taken.get();
        let is_colored = |line: &Line<'_>| line.text.len() <= LINE_BYTES && line.start != Start::Rest;
        let text = |number| {
            let line = self.lines.get(number).filter(|line| code_of(*line) == Some(code))?;
            let code_text = if code.is_diff { line.text.strip_prefix(SIGNS).unwrap_or_default() } else { line.text };
            Some(if is_colored(&line) { code_text.to_owned() } else { String::new() })
        };
        let from = begin + i64::try_from(first).unwrap_or(0);
        let lines: Vec<String> = (from..self.complete_end()).take(LINES - first).map_while(text).collect();
        code.taken.set(first + lines.len());
        (!lines.is_empty()).then(|| CodeLines { code: Rc::clone(code), first, lines })
    }

    /// The number of the line after the last complete one.
    fn complete_end(&self) -> i64 {
        let markdown = self.open.as_ref().and_then(|open| open.markdown.as_ref());
        self.lines.end() - i64::from(markdown.is_some_and(|markdown| markdown.open_lines() > 0))
    }

    /// The number of the first line of the code block to which a line belongs.
    fn first_line_of(&self, number: i64, code: &Rc<Code>) -> i64 {
        let is_in_block = |number: i64| self.lines.get(number).and_then(code_of) == Some(code);
        let known = code.first.get();
        if known > number || !is_in_block(known) || is_in_block(known - 1) {
            let before = (self.lines.first()..number).rev().take_while(|number| is_in_block(*number)).count();
            code.first.set(number - i64::try_from(before).unwrap_or(0));
        }
        code.first.get()
    }

    /// The colours of a line of code.
    pub(super) fn code_styles(&self, number: i64, line: &Line<'_>) -> Vec<(Range<usize>, Style)> {
        let Some(code) = code_of(*line).filter(|code| !code.colors.borrow().is_empty()) else { return Vec::new() };
        let index = usize::try_from(number - self.first_line_of(number, code)).unwrap_or(usize::MAX);
        if !code.is_diff {
            let parts = code.parts(index, line.text.len()).into_iter();
            return parts.map(|(range, color)| (range, Style::color(color))).collect();
        }
        let parts = code.parts(index, line.text.len().saturating_sub(1)).into_iter();
        with_colors(line, &parts.map(|(range, color)| (range.start + 1..range.end + 1, color)).collect::<Vec<_>>())
    }
}

/// The styles of a line, in which these parts have the colours of code.
fn with_colors(line: &Line<'_>, colors: &[(Range<usize>, Color)]) -> Vec<(Range<usize>, Style)> {
    let styles: Vec<(Range<usize>, Style)> = line.styles().collect();
    let ends = styles.iter().map(|(range, _)| range).chain(colors.iter().map(|(range, _)| range));
    let mut ends: Vec<usize> = ends.flat_map(|range| [range.start, range.end]).collect();
    ends.sort_unstable();
    ends.dedup();
    let part = |ends: &[usize]| {
        let (begin, end) = (ends[0], ends[1]);
        let style =
            styles.iter().find(|(range, _)| range.contains(&begin)).map(|(_, style)| *style).unwrap_or_default();
        let color = colors.iter().find(|(range, _)| range.contains(&begin)).map_or(style.color, |(_, color)| *color);
        (begin..end, Style { color, ..style })
    };
    ends.windows(2).map(part).filter(|(_, style)| *style != Style::default()).collect()
}

fn code_of(line: Line<'_>) -> Option<&Rc<Code>> {
    line.form?.code.as_ref()
}
