//! How changes of text are drawn: in questions, conversations and views alike.
//!
//! The lines are those of a unified diff (diff(1)), as `tools::diff` and git write them. A drawn line has its number, its
//! sign and its text, on the background of its kind; in a line that replaces another the changed words stand out.

use std::ops::Range;

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{DiffOp, DiffTag};

use crate::domain::frame::{Color, Style, StyledLine};

/// Columns of a line number, at least.
const NUMBER_COLUMNS: usize = 4;
/// In longer lines no words are marked.
const MAX_LINE: usize = 1_000;
/// Lines of which fewer bytes are equal are different lines: in those no words are marked.
const LEAST_EQUAL: f64 = 0.4;
/// Pairs of lines whose words are compared, in one diff.
const MAX_PAIRS: usize = 1_000;

/// A line of a diff, and its number in the text that it is in.
struct Line<'a> {
    kind: Kind,
    number: usize,
    text: &'a str,
    /// The words that the line replaces or is replaced by.
    changed: Vec<Range<usize>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Same,
    Removed,
    Added,
    /// Between two hunks.
    Gap,
    /// A note, such as how many lines are left out.
    Note,
}

/// Whether a line begins a hunk, and the first line of that in the old and in the new text: `@@ -40,5 +40,6 @@ heading`.
pub fn hunk(line: &str) -> Option<(usize, usize)> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let first = |range: &str| range.split(',').next()?.parse().ok();
    Some((first(old)?, first(new)?))
}

/// Draws the lines of the hunks of one file. Lines before the first hunk are those of a new file.
pub fn draw<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<StyledLine> {
    let mut lines = parse(lines);
    mark_words(&mut lines);
    let digits = lines.iter().map(|line| line.number).max().unwrap_or(0).to_string().len();
    lines.iter().map(|line| line.draw(digits.max(NUMBER_COLUMNS))).collect()
}

fn parse<'a>(all: impl IntoIterator<Item = &'a str>) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    let (mut old, mut new) = (1, 1);
    for text in all {
        let line = |kind, number, text| Line { kind, number, text, changed: Vec::new() };
        if let Some(first) = hunk(text) {
            (old, new) = first;
            lines.extend((!lines.is_empty()).then(|| line(Kind::Gap, 0, "")));
            continue;
        }
        let (kind, number) = match text.as_bytes().first() {
            Some(b'-') => (Kind::Removed, old),
            Some(b'+') => (Kind::Added, new),
            Some(b' ') => (Kind::Same, new),
            _ => (Kind::Note, 0),
        };
        // The numbers come from the output of a tool.
        old = usize::saturating_add(old, usize::from(matches!(kind, Kind::Removed | Kind::Same)));
        new = usize::saturating_add(new, usize::from(matches!(kind, Kind::Added | Kind::Same)));
        lines.push(line(kind, number, if kind == Kind::Note { text } else { &text[1..] }));
    }
    lines
}

/// Finds the changed words where lines replace others.
fn mark_words(lines: &mut [Line<'_>]) {
    let mut left = MAX_PAIRS;
    let count = |lines: &[Line<'_>], kind| lines.iter().take_while(|line| line.kind == kind).count();
    let mut at = 0;
    while at < lines.len() && left > 0 {
        let removed = count(&lines[at..], Kind::Removed);
        let added = count(&lines[at + removed..], Kind::Added);
        let pairs = removed.min(added).min(left);
        left -= pairs;
        for one in at..at + pairs {
            let other = one + removed;
            if let Some((old, new)) = changed_words(lines[one].text, lines[other].text) {
                (lines[one].changed, lines[other].changed) = (old, new);
            }
        }
        at += (removed + added).max(1);
    }
}

/// The parts of two lines that are different; `None` if they have too little in common.
fn changed_words(old: &str, new: &str) -> Option<(Vec<Range<usize>>, Vec<Range<usize>>)> {
    if old.len().max(new.len()) > MAX_LINE {
        return None;
    }
    let (old_words, new_words) = (words(old), words(new));
    let olds: Vec<&str> = old_words.iter().map(|word| &old[word.clone()]).collect();
    let news: Vec<&str> = new_words.iter().map(|word| &new[word.clone()]).collect();
    let mut hook = Compact::new(Replace::new(Capture::new()), &olds[..], &news[..]);
    let Ok(()) = myers::diff(&mut hook, &olds[..], 0..olds.len(), &news[..], 0..news.len());
    let ops = hook.into_inner().into_inner().into_ops();
    let equal: usize =
        ops.iter().filter(|op| op.tag() == DiffTag::Equal).map(|op| bytes(&old_words, op.old_range())).sum();
    let is_alike = equal as f64 >= LEAST_EQUAL * old.trim().len().max(new.trim().len()) as f64;
    let of = |words: &[Range<usize>], range: fn(&DiffOp) -> Range<usize>| {
        let changed = ops.iter().filter(|op| op.tag() != DiffTag::Equal).map(range).filter(|range| !range.is_empty());
        changed.map(|range| words[range.start].start..words[range.end - 1].end).collect()
    };
    is_alike.then(|| (of(&old_words, DiffOp::old_range), of(&new_words, DiffOp::new_range)))
}

fn bytes(words: &[Range<usize>], range: Range<usize>) -> usize {
    words[range].iter().map(|word| word.len()).sum()
}

/// Words, runs of blanks, and other characters one by one.
fn words(line: &str) -> Vec<Range<usize>> {
    let class = |c: char| {
        if c.is_alphanumeric() || c == '_' {
            'w'
        } else if c.is_whitespace() {
            ' '
        } else {
            c
        }
    };
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut before = None;
    for (at, c) in line.char_indices() {
        let end = at + c.len_utf8();
        let continues = before == Some(class(c)) && matches!(class(c), 'w' | ' ');
        match words.last_mut().filter(|_| continues) {
            Some(word) => word.end = end,
            None => words.push(at..end),
        }
        before = Some(class(c));
    }
    words
}

impl Line<'_> {
    fn draw(&self, digits: usize) -> StyledLine {
        let number = |sign: &str, style| StyledLine {
            prefix: format!("{:>digits$} ", self.number),
            parts: vec![(sign.to_owned(), style)],
        };
        match self.kind {
            Kind::Note => StyledLine::of(self.text, Style::DIM),
            Kind::Gap => StyledLine { prefix: format!("{:>digits$} ", "…"), parts: Vec::new() },
            Kind::Same => {
                let mut line = number(" ", Style::default());
                line.push(self.text, Style::default());
                line
            }
            Kind::Removed => self.with_words(number("-", Style::color(Color::Removed).on(Color::RemovedLine))),
            Kind::Added => self.with_words(number("+", Style::color(Color::Added).on(Color::AddedLine))),
        }
    }

    fn with_words(&self, mut line: StyledLine) -> StyledLine {
        let (background, word) = match self.kind {
            Kind::Removed => (Color::RemovedLine, Color::RemovedWord),
            _ => (Color::AddedLine, Color::AddedWord),
        };
        let mut at = 0;
        for changed in &self.changed {
            line.push(&self.text[at..changed.start], Style::default().on(background));
            line.push(&self.text[changed.clone()], Style::BOLD.on(word));
            at = changed.end;
        }
        line.push(&self.text[at..], Style::default().on(background));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: &[StyledLine]) -> Vec<String> {
        lines.iter().map(StyledLine::text).collect()
    }

    #[test]
    fn lines_have_their_numbers_in_the_text_that_they_are_in() {
        let lines = ["@@ -4,3 +4,3 @@", " a", "-b", "+c", " d", "@@ -20 +20,0 @@ fn f", "-z", "… 3 more lines"];
        let drawn = draw(lines);
        let expected = ["   4  a", "   5 -b", "   5 +c", "   6  d", "   … ", "  20 -z", "… 3 more lines"];
        assert_eq!(texts(&drawn), expected);
        assert_eq!(drawn[1].parts[0].1, Style::color(Color::Removed).on(Color::RemovedLine));
        assert_eq!(texts(&draw(["+a", "+b"])), ["   1 +a", "   2 +b"]);
        assert_eq!(texts(&draw(["@@ -99999 +99999 @@", "-", "+é"])), ["99999 -", "99999 +é"]);
        let last = format!("@@ -{0} +{0} @@", usize::MAX);
        assert_eq!(draw([last.as_str(), " a", " b"]).len(), 2);
    }

    #[test]
    fn changed_words_of_a_replaced_line_stand_out() {
        let marked = |lines: &[&str]| -> Vec<Vec<String>> {
            let is_word = |style: &Style| matches!(style.background, Color::AddedWord | Color::RemovedWord);
            let drawn = draw(lines.iter().copied());
            let of = |line: &StyledLine| -> Vec<String> {
                line.parts.iter().filter(|part| is_word(&part.1)).map(|part| part.0.clone()).collect()
            };
            drawn.iter().map(of).collect()
        };
        let one = ["-    self.lines.iter().map(|l| l.price).sum()", "+    self.lines.iter().map(|l| l.cost).sum()"];
        assert_eq!(marked(&one), [["price"], ["cost"]]);
        assert_eq!(marked(&["-one", "+completely different"]), [[""; 0]; 2]);
        assert_eq!(marked(&["-a b c", "+a b d", "+x"]), [vec!["c"], vec!["d"], vec![]]);
    }

    #[test]
    fn hunks_of_git_have_a_heading() {
        assert_eq!(hunk("@@ -40,5 +41,6 @@ fn total() {"), Some((40, 41)));
        assert_eq!(hunk("@@ -1 +1 @@"), Some((1, 1)));
        for other in ["@@ -x +1 @@", "@@", "-@@ -1 +1 @@", "@@ -1 +1"] {
            assert_eq!(hunk(other), None, "{other}");
        }
    }
}
