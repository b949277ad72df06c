//! A short line diff, for the user to approve and for the model.

use std::time::{Duration, Instant};

use crate::domain::diff::line_counts;
use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::udiff::UnifiedHunkHeader;
use similar::{ChangeTag, DiffOp, group_diff_ops};

/// The diff is computed on the loop's thread; after this time the rest is shown as removed and added.
const TIME_LIMIT: Duration = Duration::from_millis(50);

/// How many unchanged lines are shown around a change.
const CONTEXT: usize = 2;

/// The diff of two texts, cut off after a number of lines.
pub struct Summary {
    pub removed: usize,
    pub added: usize,
    /// Lines that start with a space, `-` or `+`, below headers such as `@@ -40,5 +40,6 @@`.
    pub lines: Vec<String>,
}

impl Summary {
    /// All lines as they are, as git writes them: to be applied again.
    pub fn exact(old: &str, new: &str) -> Self {
        Self::of(old, new, usize::MAX, exact_line)
    }

    /// At most `limit` lines and one more that says how many were left out.
    pub fn new(old: &str, new: &str, limit: usize) -> Self {
        Self::of(old, new, limit, |tag, text| vec![line(tag, text)])
    }

    fn of(old: &str, new: &str, limit: usize, line: fn(ChangeTag, &str) -> Vec<String>) -> Self {
        let (old_lines, new_lines) = (split_lines(old), split_lines(new));
        let ops = changes(&old_lines, &new_lines);
        let (mut removed, mut added) = (0, 0);
        for op in ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. })) {
            removed += op.old_range().len();
            added += op.new_range().len();
        }
        let mut lines = Vec::new();
        for group in group_diff_ops(ops, CONTEXT) {
            // A new file has nothing before or after the added lines.
            lines.extend((!old.is_empty()).then(|| UnifiedHunkHeader::new(&group).to_string()));
            let changes = group.iter().flat_map(|op| op.iter_changes(&old_lines[..], &new_lines[..]));
            lines.extend(changes.flat_map(|change| line(change.tag(), change.value())));
        }
        let left_out = lines.len().saturating_sub(limit);
        lines.truncate(limit);
        if left_out > 0 {
            lines.push(format!("… {left_out} more lines"));
        }
        Self { removed, added, lines }
    }

    /// `+2 -1 lines`.
    pub fn counts(&self) -> String {
        format!("{} lines", line_counts(self.added, self.removed))
    }
}

/// From one text to the other. Only this algorithm is used: a `TextDiff` would add the code of all of them, for each kind of
/// text.
fn changes(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let mut hook = Compact::new(Replace::new(Capture::new()), old, new);
    let deadline = Instant::now() + TIME_LIMIT;
    let Ok(()) = myers::diff_deadline(&mut hook, old, 0..old.len(), new, 0..new.len(), Some(deadline));
    hook.into_inner().into_inner().into_ops()
}

/// With their line ends, so that a missing last newline or another kind of line end is a difference.
fn split_lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn exact_line(tag: ChangeTag, text: &str) -> Vec<String> {
    match text.strip_suffix('\n') {
        Some(text) => vec![format!("{tag}{text}")],
        None => vec![format!("{tag}{text}"), "\\ No newline at end of file".to_owned()],
    }
}

fn line(tag: ChangeTag, text: &str) -> String {
    match text.strip_suffix('\n') {
        Some(text) => format!("{tag}{}", super::visible(text)),
        None => format!("{tag}{} (no newline at end of file)", super::visible(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &str, new: &str) -> Vec<String> {
        Summary::new(old, new, 40).lines
    }

    #[test]
    fn a_changed_line_is_shown_with_its_neighbours() {
        let old = "a\nb\nc\nd\ne\nf\ng\n";
        assert_eq!(shown(old, "a\nb\nc\nD\ne\nf\ng\n"), ["@@ -2,5 +2,5 @@", " b", " c", "-d", "+D", " e", " f"]);
    }

    #[test]
    fn distant_changes_are_separated_and_shared_context_is_not_repeated() {
        let old = "a\n1\n2\n3\n4\n5\n6\nb\nx\nc\n";
        let new = "A\n1\n2\n3\n4\n5\n6\nB\nx\nC\n";
        let first = ["@@ -1,3 +1,3 @@", "-a", "+A", " 1", " 2"];
        let second = ["@@ -6,5 +6,5 @@", " 5", " 6", "-b", "+B", " x", "-c", "+C"];
        assert_eq!(shown(old, new), [&first[..], &second[..]].concat());
    }

    #[test]
    fn line_ends_are_differences() {
        assert_eq!(shown("a\n", "a"), ["@@ -1 +1 @@", "-a", "+a (no newline at end of file)"]);
        assert_eq!(shown("a\n", "a\r\n"), ["@@ -1 +1 @@", "-a", "+a\\r"]);
    }

    #[test]
    fn a_long_diff_is_cut() {
        let old: String = (0..3000).map(|n| format!("old {n}\n")).collect();
        let new: String = (0..3000).map(|n| format!("new {n}\n")).collect();
        let diff = Summary::new(&old, &new, 40);
        assert_eq!((diff.removed, diff.added, diff.lines.len()), (3000, 3000, 41));
        assert_eq!(diff.lines[40], "… 5961 more lines");
    }

    #[test]
    fn nothing_changed_shows_nothing() {
        let diff = Summary::new("a\n", "a\n", 40);
        assert_eq!((diff.counts().as_str(), diff.lines), ("+0 -0 lines", Vec::new()));
    }
}
