//! Finds text that moved up or down between two frames.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::domain::frame::Row;

/// Cost of a scroll in bytes, with its share of a synchronized update; it must save more.
const SCROLL_BYTES: usize = 16;
/// Bytes that are sent for a row in addition to its text.
const ROW_BYTES: usize = 8;

/// The number of rows by which the text moved up (negative: down); 0 if scrolling saves nothing.
pub(super) fn find(old: &[Row], new: &[Row]) -> isize {
    if old.iter().zip(new).filter(|(old, new)| old != new).nth(1).is_none() {
        return 0;
    }
    let (old, new): (Vec<_>, Vec<_>) = (old.iter().map(RowHash::of).collect(), new.iter().map(RowHash::of).collect());
    let rows = isize::try_from(new.len()).unwrap_or(isize::MAX);
    let still = cost(&old, &new, 0);
    let best = (1 - rows..rows).filter(|&up| up != 0).map(|up| (cost(&old, &new, up) + SCROLL_BYTES, up)).min();
    best.filter(|&(bytes, _)| bytes < still).map_or(0, |(_, up)| up)
}

/// Moves the rows as the terminal does, and fills with blank ones.
pub(super) fn apply(rows: &mut [Row], up: isize) {
    let count = up.unsigned_abs().min(rows.len());
    if up > 0 {
        rows.rotate_left(count);
        let remaining = rows.len() - count;
        rows[remaining..].fill(Row::default());
    } else {
        rows.rotate_right(count);
        rows[..count].fill(Row::default());
    }
}

/// A hash of a row. A collision costs bytes but is not an error.
#[derive(Clone, Copy)]
struct RowHash {
    text: u64,
    bytes: usize,
}

impl RowHash {
    fn of(row: &Row) -> Self {
        let mut hasher = DefaultHasher::new();
        row.spans.iter().for_each(|span| hasher.write(span.text.as_bytes()));
        row.spans.len().hash(&mut hasher);
        Self { text: hasher.finish(), bytes: row.spans.iter().map(|span| span.text.len()).sum() }
    }
}

fn cost(old: &[RowHash], new: &[RowHash], up: isize) -> usize {
    let row = |(y, new): (usize, &RowHash)| match y.checked_add_signed(up).and_then(|from| old.get(from)) {
        Some(old) if old.text == new.text => 0,
        None if new.bytes == 0 => 0,
        _ => new.bytes + ROW_BYTES,
    };
    new.iter().enumerate().map(row).sum()
}
