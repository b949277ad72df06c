//! Lines that are hidden until the reader opens them: the output of tools, the reasoning of models.
//!
//! A fold costs the same for any number of lines.

use std::collections::VecDeque;

/// Consecutive lines below a line that stands for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fold {
    /// The first line; the line before it is always shown.
    pub first: i64,
    /// The line after the last one.
    pub end: i64,
    /// So many of the first lines are shown all the same.
    pub shown: u32,
}

impl Fold {
    fn hidden(&self) -> std::ops::Range<i64> {
        self.first + i64::from(self.shown)..self.end
    }

    /// The number of lines that it hides.
    pub fn count(&self) -> usize {
        usize::try_from(self.hidden().end - self.hidden().start).unwrap_or(0)
    }
}

/// All folds in order.
#[derive(Debug, Clone, Default)]
pub struct Folds {
    list: VecDeque<Fold>,
    /// The reader has opened them all.
    pub are_open: bool,
}

impl Folds {
    /// No folds, to be shown like these.
    pub fn emptied(&self) -> Self {
        Self { are_open: self.are_open, ..Self::default() }
    }

    pub fn add(&mut self, fold: Fold) {
        if fold.count() > 0 {
            let at = self.list.partition_point(|other| other.first < fold.first);
            self.list.insert(at, fold);
        }
    }

    /// The fold that begins with this line.
    pub fn at(&self, first: i64) -> Option<&Fold> {
        let at = self.list.binary_search_by_key(&first, |fold| fold.first).ok()?;
        self.list.get(at)
    }

    /// The fold that hides this line now.
    pub fn hiding(&self, line: i64) -> Option<&Fold> {
        if self.are_open {
            return None;
        }
        let at = self.list.partition_point(|fold| fold.first <= line).checked_sub(1)?;
        self.list.get(at).filter(|fold| fold.hidden().contains(&line))
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
