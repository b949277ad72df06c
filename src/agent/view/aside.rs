//! Notes put above a reply while it was being written. What a command printed there may never have been on the screen.

use std::collections::VecDeque;
use std::ops::Range;

use crate::domain::scrollback::LineKind;

/// The newest notes that are kept, and the most bytes of each.
const KEPT: usize = 8;
const BYTES: usize = 16 * 1024;

/// A note above a reply.
#[derive(Debug)]
pub struct Aside {
    pub kind: LineKind,
    pub text: String,
    /// Its lines in the scrollback.
    pub lines: Range<i64>,
}

impl Aside {
    pub(super) fn new(kind: LineKind, text: &str, lines: Range<i64>) -> Self {
        Self { kind, text: text[..text.floor_char_boundary(BYTES)].to_owned(), lines }
    }
}

/// The newest ones, in order.
#[derive(Debug, Default)]
pub(super) struct Asides {
    kept: VecDeque<Aside>,
    count: u64,
}

impl Asides {
    pub fn add(&mut self, aside: Aside) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(aside);
        self.count += 1;
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Those after the first `seen`.
    pub fn after(&self, seen: u64) -> impl DoubleEndedIterator<Item = &Aside> {
        let new = usize::try_from(self.count.saturating_sub(seen)).unwrap_or(KEPT);
        self.kept.iter().skip(self.kept.len().saturating_sub(new))
    }

    /// Called when the lines of the scrollback are replaced.
    pub fn forget(&mut self) {
        self.kept.clear();
    }
}
