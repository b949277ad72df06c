//! The way back: what a draft was before each group of edits.

/// How many groups can be taken back.
const DEPTH: usize = 100;

/// The kind of a change. Changes of one kind that follow each other are one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Edit {
    /// Letters were typed.
    Insert,
    /// Spaces were typed: they belong to the word before them.
    Space,
    /// Single graphemes were deleted.
    Delete,
    /// Text was killed.
    Kill,
    /// Anything else, or a move: always ends a group.
    #[default]
    Other,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Undo {
    earlier: std::collections::VecDeque<(String, usize)>,
    last: Edit,
}

impl Undo {
    /// Remembers the text as it was, if the edit that comes begins a group.
    pub(super) fn before(&mut self, edit: Edit, text: &str, cursor: usize) {
        if !self.continues(edit) {
            if self.earlier.len() == DEPTH {
                self.earlier.pop_front();
            }
            self.earlier.push_back((text.to_owned(), cursor));
        }
        self.last = edit;
    }

    /// Whether such an edit belongs to the group of the last one.
    pub(super) fn continues(&self, edit: Edit) -> bool {
        match edit {
            Edit::Other => false,
            Edit::Space => matches!(self.last, Edit::Insert | Edit::Space),
            Edit::Insert | Edit::Delete | Edit::Kill => self.last == edit,
        }
    }

    /// The next edit begins a group, whatever it is.
    pub(super) fn end_group(&mut self) {
        self.last = Edit::Other;
    }

    /// The text and cursor before the last group.
    pub(super) fn pop(&mut self) -> Option<(String, usize)> {
        self.last = Edit::Other;
        self.earlier.pop_back()
    }
}
