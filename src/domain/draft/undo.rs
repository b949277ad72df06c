//! The undo history of a draft.

use std::collections::VecDeque;

/// The number of groups that can be undone.
const DEPTH: usize = 100;

/// The kind of a change. Consecutive changes of one kind are one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Edit {
    Insert,
    /// Spaces were typed: they belong to the word before them.
    Space,
    /// Single graphemes were deleted.
    Delete,
    Kill,
    /// Anything else: always begins a new group.
    #[default]
    Other,
}

/// Text and cursor.
type State = (String, usize);

#[derive(Debug, Clone, Default)]
pub(super) struct Undo {
    earlier: VecDeque<State>,
    /// What was undone, the last undone last. Empty after an edit.
    undone: Vec<State>,
    last: Edit,
}

impl Undo {
    /// Saves the text if the coming edit begins a group.
    pub(super) fn before(&mut self, edit: Edit, text: &str, cursor: usize) {
        self.undone.clear();
        if !self.continues(edit) {
            if self.earlier.len() == DEPTH {
                self.earlier.pop_front();
            }
            self.earlier.push_back((text.to_owned(), cursor));
        }
        self.last = edit;
    }

    /// Whether the edit belongs to the group of the last one.
    pub(super) fn continues(&self, edit: Edit) -> bool {
        match edit {
            Edit::Other => false,
            Edit::Space => matches!(self.last, Edit::Insert | Edit::Space),
            Edit::Insert | Edit::Delete | Edit::Kill => self.last == edit,
        }
    }

    /// Lets the next edit begin a new group.
    pub(super) fn end_group(&mut self) {
        self.last = Edit::Other;
    }

    /// The text and cursor before the last group, given those of now.
    pub(super) fn undo(&mut self, text: &str, cursor: usize) -> Option<State> {
        self.last = Edit::Other;
        let before = self.earlier.pop_back()?;
        self.undone.push((text.to_owned(), cursor));
        Some(before)
    }

    /// The text and cursor before the last undo, given those of now.
    pub(super) fn redo(&mut self, text: &str, cursor: usize) -> Option<State> {
        self.last = Edit::Other;
        let after = self.undone.pop()?;
        self.earlier.push_back((text.to_owned(), cursor));
        Some(after)
    }
}
