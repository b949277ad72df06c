//! A list with one marked entry: a filter, the keys that move the mark, and the rows around it.

use std::cmp::Reverse;

use crate::base::text;
use crate::domain::frame::{Color, Row, Style};
use crate::domain::key::KeyCode;

/// Entries per page.
const PAGE: isize = 10;

#[derive(Debug)]
pub(crate) struct List<T> {
    entries: Vec<T>,
    /// The indices of the entries that pass the filter, in the order of display.
    shown: Vec<usize>,
    /// The index of the mark in `shown`.
    at: usize,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), shown: Vec::new(), at: 0 }
    }
}

impl<T> List<T> {
    /// Shows all of these entries. The mark stays with its entry, or at its position if the entry is gone.
    pub fn replace(&mut self, entries: Vec<T>, is_same: impl Fn(&T, &T) -> bool) {
        let same = self.marked().and_then(|marked| entries.iter().position(|entry| is_same(entry, marked)));
        self.shown = (0..entries.len()).collect();
        self.entries = entries;
        self.mark(same.unwrap_or(self.at));
    }

    /// Shows all of these entries, best first. The mark stays with its entry if it was moved there, else it goes to the first.
    pub fn offer(&mut self, entries: Vec<T>, is_same: impl Fn(&T, &T) -> bool) {
        let chosen = self.marked().filter(|_| self.at > 0);
        self.at = chosen.and_then(|chosen| entries.iter().position(|entry| is_same(entry, chosen))).unwrap_or(0);
        self.shown = (0..entries.len()).collect();
        self.entries = entries;
    }

    /// Shows the entries that have a score, those with the highest first. The mark stays with its entry, or else goes to the
    /// first.
    pub fn filter(&mut self, mut score: impl FnMut(&T) -> Option<u32>) {
        let marked = self.shown.get(self.at).copied();
        let scored = self.entries.iter().enumerate();
        let mut scored: Vec<_> = scored.filter_map(|(at, entry)| Some((Reverse(score(entry)?), at))).collect();
        scored.sort_unstable();
        self.shown = scored.into_iter().map(|(_, at)| at).collect();
        self.at = self.shown.iter().position(|at| Some(*at) == marked).unwrap_or(0);
    }

    /// All entries, including those that the filter hides.
    pub fn all(&self) -> &[T] {
        &self.entries
    }

    /// The entries that are shown.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.shown.iter().map(|at| &self.entries[*at])
    }

    pub fn len(&self) -> usize {
        self.shown.len()
    }

    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    pub fn at(&self) -> usize {
        self.at
    }

    pub fn marked(&self) -> Option<&T> {
        self.iter().nth(self.at)
    }

    pub fn mark(&mut self, at: usize) {
        self.at = at.min(self.len().saturating_sub(1));
    }

    pub fn step(&mut self, by: isize) {
        self.mark(self.at.saturating_add_signed(by));
    }

    /// Marks the next or the previous entry, and wraps around at the ends.
    pub fn cycle(&mut self, is_forward: bool) {
        let at = if is_forward { self.at + 1 } else { self.at + self.len().saturating_sub(1) };
        self.at = at.checked_rem(self.len()).unwrap_or(0);
    }

    /// Moves the mark if this is a key for that.
    pub fn on_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-PAGE),
            KeyCode::PageDown => self.step(PAGE),
            KeyCode::Home => self.mark(0),
            KeyCode::End => self.mark(usize::MAX),
            KeyCode::Tab => self.cycle(true),
            KeyCode::BackTab => self.cycle(false),
            _ => {}
        }
    }

    /// As many rows as there is room for, the marked entry in their middle, or nearer to an end of the list. An entry whose
    /// heading is not that of the entry before has it above.
    pub fn rows(&self, room: usize, heading: impl Fn(&T) -> Row, row: impl Fn(&T, bool) -> Row) -> Vec<Row> {
        let first = self.at.saturating_sub(room);
        let before = first.checked_sub(1).and_then(|before| self.iter().nth(before));
        let mut above = before.map(&heading).unwrap_or_default();
        let (mut rows, mut marked) = (Vec::new(), 0);
        for (at, entry) in self.iter().enumerate().skip(first).take(2 * room + 1) {
            let own = heading(entry);
            if own != above {
                rows.push(own.clone());
                above = own;
            }
            marked = if at == self.at { rows.len() } else { marked };
            rows.push(row(entry, at == self.at));
        }
        let hidden = marked.saturating_sub(room / 2).min(rows.len().saturating_sub(room));
        rows.into_iter().skip(hidden).take(room).collect()
    }
}

/// A choice and its description, which starts after this many columns.
pub(super) fn choice_row((choice, about): (&str, &str), is_marked: bool, columns: usize) -> Row {
    let (sign, style) = if is_marked { ("> ", Style::BOLD) } else { ("  ", Style::default()) };
    let shown = text::sanitise(choice).replace('\n', "␊");
    let padding = if about.is_empty() { 0 } else { columns.saturating_sub(text::width(&shown)) + 2 };
    let mut row = Row::of(sign, Style::color(Color::User));
    row.push(shown, style);
    row.push(format!("{}{}", " ".repeat(padding), text::sanitise(about)), Style::DIM);
    row
}
