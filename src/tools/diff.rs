//! A short line diff for a person who is asked whether a file may be changed.
//!
//! Exact where it is cheap: what both texts start and end with is set aside, and the rest is compared by longest common
//! subsequence. Where the rest is large, all of it is shown as removed and added, which is true if not minimal.

/// How many pairs of lines are compared at most; the question is put together on the loop's thread.
const COMPARED_PAIRS: usize = 250_000;

/// How many unchanged lines stand around a change.
const CONTEXT: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// How many lines are removed and added from `old` to `new`, and the changes with their surroundings: lines starting with
/// a blank, `-` or `+`, at most `cap` of them, and a last one that says how many more there are.
pub fn summary(old: &str, new: &str, cap: usize) -> (usize, usize, Vec<String>) {
    let script = script(&lines(old), &lines(new));
    let removed = script.iter().filter(|line| matches!(line, Line::Removed(_))).count();
    let added = script.iter().filter(|line| matches!(line, Line::Added(_))).count();
    let shown = with_context(&script);
    let left_out = shown.len().saturating_sub(cap);
    let mut shown: Vec<String> = shown.into_iter().take(cap).collect();
    if left_out > 0 {
        shown.push(format!("… {left_out} more lines"));
    }
    (removed, added, shown)
}

/// The lines with what ends them, so that a missing last newline or another kind of line end is a difference.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn script<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let after = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old_rest[..old_rest.len() - after], &new_rest[..new_rest.len() - after]);
    let mut script: Vec<Line<'a>> = old[..before].iter().map(|line| Line::Same(line)).collect();
    if old_rest.len().saturating_mul(new_rest.len()) <= COMPARED_PAIRS {
        script.extend(compare(old_rest, new_rest));
    } else {
        script.extend(old_rest.iter().map(|line| Line::Removed(line)));
        script.extend(new_rest.iter().map(|line| Line::Added(line)));
    }
    script.extend(old[old.len() - after..].iter().map(|line| Line::Same(line)));
    script
}

/// The way from `old` to `new` along a longest common subsequence. `longest[i][j]` is its length from line `i` of the
/// old and line `j` of the new text on.
fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let mut longest = vec![vec![0u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i][j] =
                if old[i] == new[j] { longest[i + 1][j + 1] + 1 } else { longest[i + 1][j].max(longest[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut script) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            script.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || longest[i + 1][j] >= longest[i][j + 1]) {
            script.push(Line::Removed(old[i]));
            i += 1;
        } else {
            script.push(Line::Added(new[j]));
            j += 1;
        }
    }
    script
}

/// The changed lines and what stands close to them; a gap is one line with dots.
fn with_context(script: &[Line<'_>]) -> Vec<String> {
    let changed: Vec<usize> =
        script.iter().enumerate().filter(|(_, line)| !matches!(line, Line::Same(_))).map(|(at, _)| at).collect();
    let mut shown = Vec::new();
    let mut next = 0;
    for at in changed {
        let start = at.saturating_sub(CONTEXT).max(next);
        if start > next {
            shown.push("…".into());
        }
        let unchanged_after = script[at + 1..].iter().take(CONTEXT).take_while(|line| matches!(line, Line::Same(_)));
        let end = at + 1 + unchanged_after.count();
        shown.extend(script[start..end.max(start)].iter().map(show));
        next = next.max(end);
    }
    shown
}

fn show(line: &Line<'_>) -> String {
    let (mark, text) = match line {
        Line::Same(text) => (' ', text),
        Line::Removed(text) => ('-', text),
        Line::Added(text) => ('+', text),
    };
    let Some(whole) = text.strip_suffix('\n') else {
        return format!("{mark}{} (no newline at the end)", super::visible(text));
    };
    format!("{mark}{}", super::visible(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &str, new: &str) -> Vec<String> {
        summary(old, new, 40).2
    }

    #[test]
    fn a_changed_line_stands_between_its_neighbours() {
        let old = "a\nb\nc\nd\ne\nf\ng\n";
        assert_eq!(shown(old, "a\nb\nc\nD\ne\nf\ng\n"), ["…", " b", " c", "-d", "+D", " e", " f"]);
    }

    #[test]
    fn changes_far_apart_are_parted_and_close_ones_are_not_repeated() {
        let old = "a\n1\n2\n3\n4\n5\n6\nb\nx\nc\n";
        let new = "A\n1\n2\n3\n4\n5\n6\nB\nx\nC\n";
        assert_eq!(shown(old, new), ["-a", "+A", " 1", " 2", "…", " 5", " 6", "-b", "+B", " x", "-c", "+C"]);
    }

    #[test]
    fn the_script_leads_from_the_old_text_to_the_new_one() {
        let mut seed = 7u32;
        let mut text = || {
            let mut line = || {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ["a\n", "b\n", "c\n"][(seed >> 24) as usize % 3]
            };
            (0..12).map(|_| line()).collect::<String>()
        };
        for _ in 0..200 {
            let (old, new) = (text(), text());
            let script = script(&lines(&old), &lines(&new));
            let of_old = |line: &Line<'_>| matches!(line, Line::Same(_) | Line::Removed(_));
            let of_new = |line: &Line<'_>| matches!(line, Line::Same(_) | Line::Added(_));
            let words = |line: Line<'_>| match line {
                Line::Same(text) | Line::Removed(text) | Line::Added(text) => text.to_owned(),
            };
            assert_eq!(script.iter().copied().filter(of_old).map(words).collect::<String>(), old);
            assert_eq!(script.iter().copied().filter(of_new).map(words).collect::<String>(), new);
        }
    }

    #[test]
    fn line_ends_are_differences() {
        assert_eq!(shown("a\n", "a"), ["-a", "+a (no newline at the end)"]);
        assert_eq!(shown("a\n", "a\r\n"), ["-a", "+a\\r"]);
    }

    #[test]
    fn a_long_diff_is_cut_and_a_huge_one_is_not_compared_pair_by_pair() {
        let old: String = (0..3000).map(|n| format!("old {n}\n")).collect();
        let new: String = (0..3000).map(|n| format!("new {n}\n")).collect();
        let (removed, added, shown) = summary(&old, &new, 40);
        assert_eq!((removed, added, shown.len()), (3000, 3000, 41));
        assert_eq!(shown[40], "… 5960 more lines");
    }

    #[test]
    fn nothing_changed_shows_nothing() {
        assert_eq!(summary("a\n", "a\n", 40), (0, 0, Vec::new()));
    }
}
