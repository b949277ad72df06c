//! A person's message: the middle of a long one is folded.

use super::calls::sides;
use super::fold::{Fold, Shown};
use super::form::Mark;
use super::writer::Writer;
use super::{LineKind, Scrollback, Start};
use crate::base::text;
use crate::domain::frame::Style;

/// The lines at the beginning and at the end that are always shown, and the fewest between them that are folded.
const FIRST: i64 = 6;
const LAST: i64 = 3;
const FOLDED: i64 = 6;

impl Scrollback {
    pub(super) fn is_of_message(&self, line: i64) -> bool {
        self.lines.get(line).is_some_and(|line| line.kind == LineKind::Person)
    }

    /// Whether this line replaces the folded lines of a message.
    pub(super) fn is_fold_of_message(&self, line: i64) -> bool {
        self.is_of_message(line) && self.folds.at(line + 1).is_some()
    }

    /// Adds a message of the person as a block.
    pub fn push_message(&mut self, text: &str) {
        self.close();
        let begin = self.lines.end();
        self.push(LineKind::Person, text);
        let count = self.lines.end() - begin - FIRST - LAST;
        if count < FOLDED {
            return;
        }
        self.wrapped.take();
        let first = begin + FIRST;
        let rest = self.lines.split_off(first);
        let mut out = Writer::new(&mut self.lines, LineKind::Person, Start::Line);
        out.begin(Some(sides(Mark::None, "")));
        let lines = text::with_commas(u64::try_from(count).unwrap_or(0));
        out.unsplit(&format!("… {lines} lines"), Style::DIM);
        self.lines.append(rest);
        self.folds.add(Fold::new(first + 1, first + 1 + count, Shown::NONE));
        self.lines.shrink();
    }
}
