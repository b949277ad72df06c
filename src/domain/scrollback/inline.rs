//! The part of the conversation that can be printed permanently, on a terminal that keeps it in its own scrollback.

use super::{Scrollback, VisibleRow};

impl Scrollback {
    /// The line before which no line changes any more, nor the columns of its table.
    pub fn settled_end(&self) -> i64 {
        let mut end = self.calls.iter().map(|call| call.line()).fold(self.lines.end(), i64::min);
        let Some(open) = &self.open else { return end };
        let growing = match &open.markdown {
            Some(markdown) => i64::try_from(markdown.unsettled_lines()).unwrap_or(i64::MAX),
            None => i64::from(open.is_started),
        };
        end = end.min(self.lines.end() - growing);
        end = open.thinking.map_or(end, |(line, _)| end.min(line));
        // Blank lines at the end of a block are dropped when it ends.
        while end > self.lines.first() && self.lines.get(end - 1).is_some_and(|line| line.text.is_empty()) {
            end -= 1;
        }
        end
    }

    /// The line after the last one.
    pub fn end(&self) -> i64 {
        self.lines.end()
    }

    /// The first line.
    pub fn first(&self) -> i64 {
        self.lines.first()
    }

    /// Changes when all lines are forgotten and read again.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Lines before this one are printed: nothing is inserted above it any more.
    pub fn note_printed(&mut self, end: i64) {
        self.printed = self.printed.max(Some(end));
    }

    /// The rows of these lines, without those that are folded. A message is printed whole, because a printed fold
    /// cannot be opened.
    pub fn rows_between(&self, from: i64, end: i64, width: u16) -> Vec<VisibleRow> {
        let mut rows = Vec::new();
        let mut line = from;
        while line < end {
            line = match self.folds.hiding(line).filter(|_| !self.is_of_message(line)) {
                Some(fold) => fold.end,
                None if self.is_fold_of_message(line) => line + 1,
                None => {
                    rows.extend(self.parts(line, width).iter().map(|part| self.row(line, width, part)));
                    line + 1
                }
            };
        }
        rows
    }
}
