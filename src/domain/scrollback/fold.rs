//! Lines that are hidden until the reader opens them: the output of tools, the reasoning of models.
//!
//! A fold costs the same for any number of lines.

use std::collections::VecDeque;
use std::ops::Range;

/// Lines of a folded block that stay visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    First(u32),
    Last(u32),
}

impl Shown {
    pub const NONE: Self = Self::First(0);
}

impl Default for Shown {
    fn default() -> Self {
        Self::NONE
    }
}

/// Consecutive lines below a line that is shown in their place when they are folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fold {
    /// The first line; the line before it is always shown.
    pub first: i64,
    /// The line after the last one.
    pub end: i64,
    /// The lines of a folded block that stay visible.
    pub shown: Shown,
    /// It is open where the others are folded, or folded where they are open.
    pub is_exception: bool,
}

impl Fold {
    pub fn new(first: i64, end: i64, shown: Shown) -> Self {
        Self { first, end, shown, is_exception: false }
    }

    /// The lines that it hides when it is folded.
    pub fn hidden_lines(&self) -> Range<i64> {
        match self.shown {
            Shown::First(count) => (self.first + i64::from(count)).min(self.end)..self.end,
            Shown::Last(count) => self.first..(self.end - i64::from(count)).max(self.first),
        }
    }

    /// The number of lines that it hides.
    pub fn count(&self) -> usize {
        let Range { start, end } = self.hidden_lines();
        usize::try_from(end - start).unwrap_or(0)
    }
}

/// All folds in order.
#[derive(Debug, Clone, Default)]
pub struct Folds {
    list: VecDeque<Fold>,
    /// The reader has opened them all, except for some.
    are_open: bool,
}

impl Folds {
    /// No folds, to be shown like these.
    pub fn without_folds(&self) -> Self {
        Self { are_open: self.are_open, ..Self::default() }
    }

    pub fn add(&mut self, fold: Fold) {
        if fold.count() > 0 {
            let at = self.list.partition_point(|other| other.first < fold.first);
            self.list.insert(at, fold);
        }
    }

    /// Opens all, or folds them again.
    pub fn toggle_all(&mut self) {
        self.are_open = !self.are_open;
        self.list.iter_mut().for_each(|fold| fold.is_exception = false);
    }

    /// Opens or closes the fold that begins with this line.
    pub fn toggle(&mut self, first: i64) {
        if let Ok(at) = self.list.binary_search_by_key(&first, |fold| fold.first) {
            self.list[at].is_exception = !self.list[at].is_exception;
        }
    }

    /// Whether all are open, except for some.
    pub fn are_open(&self) -> bool {
        self.are_open
    }

    pub fn is_open(&self, fold: &Fold) -> bool {
        self.are_open != fold.is_exception
    }

    /// The one that this line belongs to, whether or not it is shown.
    pub fn with_line(&self, line: i64) -> Option<&Fold> {
        let at = self.list.partition_point(|fold| fold.first <= line + 1).checked_sub(1)?;
        self.list.get(at).filter(|fold| line < fold.end)
    }

    /// The next one that begins before this line, or after it.
    pub fn next(&self, line: i64, is_before: bool) -> Option<&Fold> {
        let at = self.list.partition_point(|fold| fold.first < line);
        match is_before {
            true => at.checked_sub(1).and_then(|at| self.list.get(at)),
            false => self.list.get(at + usize::from(self.list.get(at).is_some_and(|fold| fold.first == line))),
        }
    }

    /// The fold that begins with this line.
    pub fn at(&self, first: i64) -> Option<&Fold> {
        let at = self.list.binary_search_by_key(&first, |fold| fold.first).ok()?;
        self.list.get(at)
    }

    /// The fold that hides this line now.
    pub fn hiding(&self, line: i64) -> Option<&Fold> {
        let at = self.list.partition_point(|fold| fold.first <= line).checked_sub(1)?;
        self.list.get(at).filter(|fold| fold.hidden_lines().contains(&line) && !self.is_open(fold))
    }

    /// Lines were inserted before this line, which is in no fold.
    pub fn shift_from(&mut self, line: i64, added: i64) {
        for fold in self.list.iter_mut().rev().take_while(|fold| fold.first >= line) {
            fold.first += added;
            fold.end += added;
        }
    }

    /// Puts the folds of other lines, which get numbers higher by `shift`, before these.
    pub fn prepend(&mut self, other: Self, shift: i64) {
        for fold in other.list.into_iter().rev() {
            self.list.push_front(Fold { first: fold.first + shift, end: fold.end + shift, ..fold });
        }
    }
}
