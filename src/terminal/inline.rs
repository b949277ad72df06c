//! Frames on the main screen of the terminal: printed lines stay in its own scrollback, and only the live area below
//! them is drawn again.
//!
//! ```text
//!   printed rows      belong to the terminal, never changed
//!   live area         drawn at every change
//! ```
//! The cursor is never placed by an absolute position, because after a resize only the terminal has the positions of its
//! rows. It moves the cursor with its text, so the first row of the live area is as many rows above the cursor as the rows
//! between them take at the new width.

use std::fmt::Write as _;

use super::screen::{Palette, Screen};
use crate::base::text;
use crate::domain::frame::Row;
use crate::domain::theme::Theme;

/// The live area that the terminal shows.
#[derive(Debug, Default)]
struct Shown {
    rows: Vec<Row>,
    /// Column and row of the cursor in it.
    cursor: (u16, u16),
    columns: u16,
}

/// The main screen, as far as it is known.
#[derive(Debug)]
pub struct Inline {
    printer: Screen,
    shown: Shown,
    /// The content of the screen from the live area on is unknown.
    is_unknown: bool,
    /// Whether the terminal wraps its rows again when its width changes.
    reflows: bool,
}

impl Inline {
    pub fn new(palette: Palette, reflows: bool) -> Self {
        Self { printer: Screen::new(palette), shown: Shown::default(), is_unknown: false, reflows }
    }

    pub fn set_theme(&mut self, theme: Theme) {
        self.printer.set_theme(theme);
        self.shown.rows.iter_mut().for_each(|row| *row = Row::default());
    }

    /// Draws the whole live area next time: something else may have been written over it.
    pub fn invalidate(&mut self) {
        self.is_unknown = true;
    }

    /// Prints rows permanently above the live area, which becomes `live`. The live area is not higher than the screen.
    pub fn draw(&mut self, printed: &[Row], live: Vec<Row>, cursor: (u16, u16), columns: u16) -> Vec<u8> {
        let next = Shown { rows: live, cursor, columns };
        let is_unknown = std::mem::take(&mut self.is_unknown);
        let is_same = !is_unknown && printed.is_empty() && next.columns == self.shown.columns;
        let body = match is_same && next.rows.len() == self.shown.rows.len() {
            true => self.changes(&next),
            false => self.redraw(printed, &next),
        };
        self.shown = next;
        if body.is_empty() {
            return body;
        }
        [b"\x1b[?2026h", body.as_slice(), b"\x1b[?2026l"].concat()
    }

    /// Removes the live area. The cursor is then where the next printed row begins.
    pub fn erase(&mut self, columns: u16) -> Vec<u8> {
        let out = format!("{}\x1b[J", self.to_first_row(columns));
        self.shown = Shown { columns, ..Shown::default() };
        out.into_bytes()
    }

    /// To the first column of the first row of the live area.
    fn to_first_row(&self, columns: u16) -> String {
        let Shown { rows, cursor: (column, row), columns: before } = &self.shown;
        let columns = usize::from(columns.max(1));
        let has_wrapped = self.reflows && usize::from(*before) > columns;
        let height = |row: &Row| if has_wrapped { text::width(&row.text()).div_ceil(columns).max(1) } else { 1 };
        let above: usize = rows.iter().take((*row).into()).map(height).sum();
        let within = if has_wrapped { usize::from(*column) / columns } else { 0 };
        up(above + within)
    }

    fn redraw(&self, printed: &[Row], next: &Shown) -> Vec<u8> {
        let mut out = self.to_first_row(next.columns).into_bytes();
        out.extend_from_slice(b"\x1b[J");
        out.extend(self.printer.rows_as_lines(printed, next.columns));
        out.extend(self.rows(&next.rows, next.columns));
        let last = next.rows.len().saturating_sub(1);
        out.extend(self.to_cursor(last, next));
        out
    }

    /// Draws the rows that have changed.
    fn changes(&self, next: &Shown) -> Vec<u8> {
        let mut out = Vec::new();
        let mut at = usize::from(self.shown.cursor.1);
        for (number, row) in next.rows.iter().enumerate().filter(|(number, row)| self.shown.rows[*number] != **row) {
            out.extend(vertical(at, number).into_bytes());
            out.extend_from_slice(b"\r");
            out.extend(self.rows(std::slice::from_ref(row), next.columns));
            out.extend_from_slice(b"\x1b[K");
            at = number;
        }
        if !out.is_empty() || next.cursor != self.shown.cursor {
            out.extend(self.to_cursor(at, next));
        }
        out
    }

    /// Rows without a line break after the last one.
    fn rows(&self, rows: &[Row], columns: u16) -> Vec<u8> {
        let mut out = self.printer.rows_as_lines(rows, columns);
        out.truncate(out.len().saturating_sub(b"\r\n".len()));
        out
    }

    fn to_cursor(&self, from: usize, next: &Shown) -> Vec<u8> {
        let (column, row) = next.cursor;
        let mut out = vertical(from, row.into());
        out.push('\r');
        if column > 0 {
            // Writing to a string cannot fail.
            let _ = write!(out, "\x1b[{column}C");
        }
        out.into_bytes()
    }
}

fn up(rows: usize) -> String {
    if rows == 0 { "\r".to_owned() } else { format!("\r\x1b[{rows}A") }
}

/// From one row of the live area to another.
fn vertical(from: usize, to: usize) -> String {
    match to.checked_sub(from) {
        Some(0) => String::new(),
        Some(down) => format!("\x1b[{down}B"),
        None => format!("\x1b[{}A", from - to),
    }
}
