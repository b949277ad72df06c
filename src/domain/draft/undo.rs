//! The undo history of a draft.

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

#[derive(Debug, Clone, Default)]
pub(super) struct Undo {
    earlier: std::collections::VecDeque<(String, usize)>,
    last: Edit,
}

impl Undo {
    /// Saves the text if the coming edit begins a group.
    pub(super) fn before(&mut self, edit: Edit, text: &str, cursor: usize) {
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

    /// The text and cursor before the last group.
    pub(super) fn pop(&mut self) -> Option<(String, usize)> {
        self.last = Edit::Other;
        self.earlier.pop_back()
    }
}
