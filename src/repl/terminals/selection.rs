//! Text that is selected on the screen with the mouse.

use unicode_segmentation::UnicodeSegmentation as _;

use crate::base::text;
use crate::domain::frame::{Row, Style};
use crate::domain::key::MouseAction;

/// A column and a row, in the order of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    row: u16,
    column: u16,
}

/// The selection: from the cell where the button was pressed to the cell of the mouse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Selection {
    ends: Option<(Cell, Cell)>,
    is_dragging: bool,
}

impl Selection {
    /// Follows the mouse. Returns whether a selection is complete now.
    pub fn on_mouse(&mut self, action: MouseAction, column: u16, row: u16) -> bool {
        let cell = Cell { row, column };
        match (action, self.ends) {
            (MouseAction::Press, _) => {
                *self = Self { ends: Some((cell, cell)), is_dragging: false };
                false
            }
            (MouseAction::Drag, Some((start, _))) => {
                *self = Self { ends: Some((start, cell)), is_dragging: self.is_dragging || start != cell };
                false
            }
            (MouseAction::Release, Some(_)) if self.is_dragging => true,
            _ => {
                *self = Self::default();
                false
            }
        }
    }

    /// Whether releasing the button here is a click.
    pub fn is_click(&self, column: u16, row: u16) -> bool {
        !self.is_dragging && self.ends.is_some_and(|(start, _)| start == Cell { row, column })
    }

    /// Selects nothing. Returns whether something was selected.
    pub fn clear(&mut self) -> bool {
        std::mem::take(self).is_dragging
    }

    /// The selected columns of a row: the first, and the one after the last.
    fn columns(&self, row: u16) -> Option<(u16, u16)> {
        let (one, other) = self.ends.filter(|_| self.is_dragging)?;
        let (first, last) = (one.min(other), one.max(other));
        let start = if row == first.row { first.column } else { 0 };
        let end = if row == last.row { last.column.saturating_add(1) } else { u16::MAX };
        (first.row..=last.row).contains(&row).then_some((start, end))
    }

    /// Shows the selection by exchanging text and background.
    pub fn mark(&self, rows: &mut [Row]) {
        for (y, row) in (0..).zip(rows) {
            let Some(columns) = self.columns(y) else { continue };
            let mut marked = Row { copied: row.copied, ..Row::default() };
            for (grapheme, style, is_within) in cells(row, columns) {
                marked.push(grapheme, Style { reverse: style.reverse != is_within, ..style });
            }
            *row = marked;
        }
    }

    /// The selected text as it was before it was wrapped, without what only draws.
    pub fn text(&self, rows: &[Row]) -> String {
        let mut all = String::new();
        for (y, row) in (0..).zip(rows) {
            let Some((start, end)) = self.columns(y) else { continue };
            let start = start.max(row.copied.skipped);
            let text: String =
                cells(row, (start, end)).filter(|(.., is_within)| *is_within).map(|(grapheme, ..)| grapheme).collect();
            let is_first = self.columns(y.wrapping_sub(1)).is_none();
            all.push_str(row.copied.joined_by.filter(|_| !is_first).unwrap_or(if is_first { "" } else { "\n" }));
            all.push_str(text.trim_end());
        }
        all.trim_end().to_owned()
    }
}

/// The graphemes of a row with their style, and whether they begin in these columns.
fn cells(row: &Row, (start, end): (u16, u16)) -> impl Iterator<Item = (&str, Style, bool)> {
    let graphemes = row.spans.iter().flat_map(|span| span.text.graphemes(true).map(|text| (text, span.style)));
    let mut column = 0_u16;
    graphemes.map(move |(grapheme, style)| {
        let is_within = (start..end).contains(&column);
        column = column.saturating_add(u16::try_from(text::grapheme_width(grapheme)).unwrap_or(0));
        (grapheme, style, is_within)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::frame::Copied;

    fn rows() -> Vec<Row> {
        let row = |(text, copied): (&str, Copied)| Row { copied, ..Row::of(text, Style::default()) };
        let text = Copied { skipped: 2, joined_by: None };
        [("> one two", text), ("  日本語 text", text), ("-- agent 0 --", Copied::default())].map(row).into()
    }

    fn dragged(from: (u16, u16), to: (u16, u16)) -> Selection {
        let mut selection = Selection::default();
        assert!(!selection.on_mouse(MouseAction::Press, from.0, from.1));
        assert!(!selection.on_mouse(MouseAction::Drag, to.0, to.1));
        assert!(selection.on_mouse(MouseAction::Release, to.0, to.1));
        selection
    }

    #[test]
    fn a_drag_selects_in_the_order_of_reading_without_the_signs_on_the_left() {
        for (from, to) in [((0, 0), (5, 1)), ((5, 1), (0, 0))] {
            let selection = dragged(from, to);
            assert_eq!(selection.text(&rows()), "one two\n日本");
            let mut marked = rows();
            selection.mark(&mut marked);
            let reversed = |row: &Row| {
                row.spans.iter().filter(|span| span.style.reverse).map(|span| span.text.clone()).collect::<String>()
            };
            assert_eq!([0, 1, 2].map(|y: usize| reversed(&marked[y])), ["> one two", "  日本", ""]);
            assert_eq!(
                marked.iter().map(Row::text).collect::<Vec<_>>(),
                rows().iter().map(Row::text).collect::<Vec<_>>()
            );
        }
        assert_eq!(dragged((3, 2), (200, 300)).text(&rows()), "agent 0 --");
    }

    #[test]
    fn a_click_selects_nothing() {
        let mut selection = Selection::default();
        selection.on_mouse(MouseAction::Press, 3, 0);
        selection.on_mouse(MouseAction::Drag, 3, 0);
        assert!(!selection.on_mouse(MouseAction::Release, 3, 0));
        assert!(!selection.on_mouse(MouseAction::Drag, 5, 0), "without a button there is no drag");
        assert!(!selection.on_mouse(MouseAction::Release, 5, 0) && !selection.clear());
    }
}
