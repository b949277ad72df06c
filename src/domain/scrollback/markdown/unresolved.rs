//! Finished pieces of a reply that refer to links which are not defined yet. They are laid out again when the definition
//! comes.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use super::Definitions;
use super::layout::Piece;
use crate::domain::scrollback::code::Code;
use crate::domain::scrollback::form::Columns;

/// The most pieces of a reply that wait for definitions; later ones are not laid out again.
const PIECES: usize = 1_024;
/// The most bytes of their source: laying them all out takes about 10 ms.
const BYTES: usize = 256 * 1024;

#[derive(Debug, Clone)]
pub struct Unresolved {
    /// The numbers of its lines.
    pub lines: Range<i64>,
    pub(super) source: String,
    pub(super) piece: Piece,
    /// The labels without definition.
    pub(super) labels: BTreeSet<String>,
    pub(super) codes: Vec<Rc<Code>>,
    /// The columns of the table, if the source is the beginning of one, or its header and one further row. They do not
    /// become narrower when a link becomes shorter than its source.
    pub(super) table: Option<(Rc<Columns>, bool)>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Waiting {
    pieces: Vec<Unresolved>,
    bytes: usize,
    /// The number of definitions when the pieces were last compared with them.
    compared: usize,
}

impl Waiting {
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub fn add(&mut self, piece: Unresolved) {
        if self.pieces.len() < PIECES && self.bytes + piece.source.len() <= BYTES {
            self.bytes += piece.source.len();
            self.pieces.push(piece);
        }
    }

    /// Removes the pieces for which there is a definition now.
    pub fn take_resolved(&mut self, definitions: &Definitions) -> Vec<Unresolved> {
        let count = definitions.known.len();
        if std::mem::replace(&mut self.compared, count) == count {
            return Vec::new();
        }
        let is_resolved = |piece: &Unresolved| piece.labels.iter().any(|label| definitions.known.contains_key(label));
        let (resolved, waiting) = std::mem::take(&mut self.pieces).into_iter().partition(is_resolved);
        self.pieces = waiting;
        self.bytes = self.pieces.iter().map(|piece| piece.source.len()).sum();
        resolved
    }

    /// Lines were inserted before the line with this number, or removed if `added` is negative.
    pub fn shift_from(&mut self, line: i64, added: i64) {
        for piece in self.pieces.iter_mut().filter(|piece| piece.lines.start >= line) {
            piece.lines = piece.lines.start + added..piece.lines.end + added;
        }
    }
}
