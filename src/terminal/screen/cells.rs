//! A row as cells, and the difference between two rows.

use std::ops::Range;

use super::Palette;
use crate::base::text;
use crate::domain::frame::{Color, Row, Style};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell<'a> {
    pub text: &'a str,
    pub style: Style,
    pub columns: u16,
    pub link: Option<&'a str>,
}

/// The cells of a row, without blanks at the end.
#[derive(Debug)]
pub(super) struct Cells<'a> {
    pub list: Vec<Cell<'a>>,
    /// Whether terminals disagree about the width of a cell, which makes the position of later cells unknown.
    pub is_disputed: bool,
    first_disputed: usize,
}

impl<'a> Cells<'a> {
    /// The part of the row that fits. Control characters are replaced.
    pub fn of(row: &'a Row, palette: Palette, width: u16) -> Self {
        let mut list: Vec<Cell<'a>> = Vec::with_capacity(usize::from(width));
        let mut left = width;
        for span in &row.spans {
            let style = palette.apply(span.style);
            for (_, grapheme) in text::graphemes(&span.text) {
                let text = if grapheme.contains(char::is_control) { "\u{fffd}" } else { grapheme };
                let columns = u16::try_from(text::grapheme_width(text)).unwrap_or(u16::MAX);
                match left.checked_sub(columns) {
                    // A combining mark alone would change the cell before it, which may not be drawn now.
                    _ if columns == 0 => continue,
                    Some(rest) => left = rest,
                    None => {
                        left = 0;
                        break;
                    }
                }
                list.push(Cell { text, style, columns, link: palette.link(span) });
            }
        }
        while list.last().is_some_and(Cell::is_blank) {
            list.pop();
        }
        let first_disputed = list.iter().position(Cell::is_disputed);
        Self { is_disputed: first_disputed.is_some(), first_disputed: first_disputed.unwrap_or(list.len()), list }
    }

    /// The column at which a cell starts.
    pub fn column(&self, cell: usize) -> u16 {
        self.list[..cell].iter().map(|cell| cell.columns).sum()
    }
}

impl Cell<'_> {
    fn is_blank(&self) -> bool {
        self.text == " " && !self.style.underline && !self.style.reverse && self.style.background == Color::Default
    }

    /// Whether some terminals have the cursor in another column after it.
    pub fn moves_cursor_elsewhere(&self) -> bool {
        self.is_disputed() && text::is_wider_in_parts(self.text)
    }

    /// Graphemes of several characters: joined emoji, flags, variation selectors, combining marks.
    fn is_disputed(&self) -> bool {
        self.text.chars().nth(1).is_some()
    }
}

/// Unchanged cells that are passed by moving the cursor, which takes as many bytes; fewer are written again.
const FEWEST_PASSED: usize = 8;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The cells to write, from left to right.
    pub parts: Vec<Range<usize>>,
    /// Whether to erase from the first of them to the end of the row before.
    pub erase_first: bool,
    /// Whether to erase the rest of the old row after the last of them.
    pub erase_after: bool,
}

/// The smallest change from the old row to the new one; `None` if they look the same.
pub(super) fn change(old: &Cells<'_>, new: &Cells<'_>) -> Option<Change> {
    let same = old.list.iter().zip(&new.list).take_while(|(old, new)| old == new).count();
    if same == old.list.len() && same == new.list.len() {
        return None;
    }
    if old.is_disputed || new.is_disputed {
        let start = same.min(new.first_disputed).min(old.first_disputed);
        let parts = std::iter::once(start..new.list.len()).collect();
        return Some(Change { parts, erase_first: start < old.list.len(), erase_after: false });
    }
    let (old_width, new_width) = (old.column(old.list.len()), new.column(new.list.len()));
    if old_width != new_width {
        let parts = parts(old, new, same..new.list.len());
        return Some(Change { parts, erase_first: false, erase_after: new_width < old_width });
    }
    let pairs = old.list[same..].iter().rev().zip(new.list[same..].iter().rev());
    let tail = pairs.take_while(|(old, new)| old == new).count();
    Some(Change { parts: parts(old, new, same..new.list.len() - tail), erase_first: false, erase_after: false })
}

/// The cells among these that are not shown yet, with those between them that cost less to write than to pass.
fn parts(old: &Cells<'_>, new: &Cells<'_>, cells: Range<usize>) -> Vec<Range<usize>> {
    let (mut old_column, mut new_column) = (old.column(cells.start.min(old.list.len())), new.column(cells.start));
    let mut parts: Vec<Range<usize>> = Vec::new();
    for at in cells {
        let (before, now) = (old.list.get(at), &new.list[at]);
        let is_shown = old_column == new_column && before == Some(now);
        old_column += before.map_or(0, |cell| cell.columns);
        new_column += now.columns;
        match parts.last_mut() {
            _ if is_shown => {}
            Some(part) if at - part.end < FEWEST_PASSED => part.end = at + 1,
            _ => parts.push(at..at + 1),
        }
    }
    parts
}
