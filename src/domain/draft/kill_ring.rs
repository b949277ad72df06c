//! Killed texts, newest last, and the yank that the next key may replace.

use std::collections::VecDeque;
use std::ops::Range;

/// Texts that are kept.
const DEPTH: usize = 30;

#[derive(Debug, Clone, Default)]
pub(super) struct KillRing {
    texts: VecDeque<String>,
    /// Where the text that was yanked last is in the draft, and how many newer ones there are. Empty after any other key.
    yanked: Option<(Range<usize>, usize)>,
}

impl KillRing {
    /// Begins a new text; an empty one is not kept.
    pub fn begin(&mut self) {
        if self.texts.back().is_some_and(String::is_empty) {
            return;
        }
        if self.texts.len() == DEPTH {
            self.texts.pop_front();
        }
        self.texts.push_back(String::new());
    }

    /// Adds to the newest text.
    pub fn add(&mut self, killed: &str, is_before: bool) {
        if self.texts.is_empty() {
            self.begin();
        }
        if let Some(newest) = self.texts.back_mut() {
            newest.insert_str(if is_before { 0 } else { newest.len() }, killed);
        }
    }

    pub fn newest(&self) -> Option<String> {
        self.texts.back().cloned()
    }

    pub fn note_yank(&mut self, at: Range<usize>, newer: usize) {
        self.yanked = Some((at, newer));
    }

    pub fn forget_yank(&mut self) {
        self.yanked = None;
    }

    /// The text that replaces the one yanked last, round the ring: its place, how many are newer, and the text.
    pub fn older(&mut self) -> Option<(Range<usize>, usize, String)> {
        let (at, newer) = self.yanked.take()?;
        let newer = (newer + 1) % self.texts.len();
        let text = self.texts.iter().rev().nth(newer)?.clone();
        Some((at, newer, text))
    }

    pub fn contains(&self, is_such: impl Fn(char) -> bool) -> bool {
        self.texts.iter().any(|text| text.chars().any(&is_such))
    }
}
