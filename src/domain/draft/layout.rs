//! Wraps a draft for a screen.

use unicode_segmentation::UnicodeSegmentation as _;

use super::{Draft, is_marker};
use crate::base::text::{self, TAB_COLUMNS};
use crate::domain::attachment::{readable_text, references, text_files};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftLayout {
    /// Printable rows; at least one.
    pub rows: Vec<String>,
    /// Column and row of the cursor, from 0. The column is less than the width.
    pub cursor: (u16, usize),
}

impl Draft {
    /// Wraps the draft between graphemes, not at words, so that every typed space has a position for the cursor.
    pub fn layout(&self, columns: u16) -> DraftLayout {
        let mut pen = Pen { columns: usize::from(columns.max(1)), rows: vec![String::new()], column: 0 };
        let mut cursor = None;
        let mut at = 0;
        for piece in self.text.split_inclusive(is_marker) {
            let typed = piece.trim_end_matches(is_marker);
            for grapheme in typed.graphemes(true).chain([&piece[typed.len()..]]) {
                // Text typed before a combining mark joins it: the cursor is then inside a grapheme.
                if at >= self.cursor {
                    cursor.get_or_insert_with(|| pen.position());
                }
                match grapheme.chars().next().filter(|&c| is_marker(c)).and_then(|c| self.pasted(c)) {
                    Some(paste) => pen.write(&paste.label),
                    None => pen.put_grapheme(grapheme),
                }
                at += grapheme.len();
            }
        }
        let cursor = cursor.unwrap_or_else(|| pen.position());
        DraftLayout { rows: pen.rows, cursor }
    }
}

/// The marker of a folded paste, or of a file.
pub(super) fn label(number: usize, paste: &str) -> String {
    if references(paste).first().is_some_and(|file| file.range == (0..paste.len())) {
        return readable_text(paste).into_owned();
    }
    if let Some(file) = text_files(paste).first().filter(|file| file.range == (0..paste.len())) {
        return file.label();
    }
    let lines = text::counted(paste.lines().count(), "line", "lines");
    format!("[pasted #{number}: {lines}, {}]", size(paste.len()))
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}

struct Pen {
    columns: usize,
    rows: Vec<String>,
    column: usize,
}

impl Pen {
    fn write(&mut self, text: &str) {
        text::graphemes(text).for_each(|(_, grapheme)| self.put_grapheme(grapheme));
    }

    fn put_grapheme(&mut self, grapheme: &str) {
        match grapheme {
            "\n" | "\r\n" => self.break_row(),
            "\t" => (0..TAB_COLUMNS - self.column % TAB_COLUMNS).for_each(|_| self.put(" ", 1)),
            _ => {
                let safe = text::sanitise(grapheme);
                self.put(&safe, text::width(&safe));
            }
        }
    }

    fn position(&mut self) -> (u16, usize) {
        if self.column >= self.columns {
            self.break_row();
        }
        (u16::try_from(self.column).unwrap_or(u16::MAX), self.rows.len() - 1)
    }

    fn put(&mut self, grapheme: &str, columns: usize) {
        if self.column + columns > self.columns && self.column > 0 {
            self.break_row();
        }
        if let Some(row) = self.rows.last_mut() {
            row.push_str(grapheme);
        }
        self.column += columns;
    }

    fn break_row(&mut self) {
        self.rows.push(String::new());
        self.column = 0;
    }
}
