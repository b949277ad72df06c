//! How changes of text are drawn: in questions, conversations and views alike.
//!
//! The lines are those of a unified diff (diff(1)), as `tools::diff` and git write them. A drawn line has its number, its
//! sign and its text, on the background of its kind; in a line that replaces another the changed words stand out.

mod colors;

use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{DiffOp, DiffTag};

use crate::base::text::sanitise;
use crate::domain::frame::{Color, Style, StyledLine};

pub use colors::{DiffColors, language_of};

/// Columns of a line number, at least.
const NUMBER_COLUMNS: usize = 4;
/// In longer lines no words are marked.
const MAX_LINE: usize = 1_000;
/// Lines of which fewer bytes are equal are different lines: in those no words are marked.
const LEAST_EQUAL: f64 = 0.4;
/// Added lines that a removed line may skip to find the one that replaces it.
const MAX_SKIPPED: usize = 3;
/// Pairs of lines whose words are compared, in one diff.
const MAX_PAIRS: usize = 1_000;

/// The change of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileDiff {
    pub path: PathBuf,
    /// What else is known: `new`, `deleted`, `renamed from x`, or why there are no lines. Empty for a usual change.
    pub about: String,
    pub removed: usize,
    pub added: usize,
    /// Those of its hunks, as they are in the file.
    pub lines: Vec<String>,
    /// The mode of a file that was deleted, if it is known.
    pub deleted_mode: Option<u32>,
}

impl FileDiff {
    /// `new, +2 -0 lines`.
    pub fn counts(&self) -> String {
        let counts = format!("{} lines", line_counts(self.added, self.removed));
        match (self.about.as_str(), self.lines.is_empty()) {
            ("", _) => counts,
            (about, true) => about.to_owned(),
            (about, false) => format!("{about}, {counts}"),
        }
    }

    /// For programs: each hunk with the line of the file that it changes first.
    pub fn as_json(&self) -> Value {
        let hunk =
            |lines: &Range<usize>| json!({"line": self.first_changed(lines), "lines": self.lines[lines.clone()]});
        json!({
            "path": self.path.to_string_lossy(),
            "about": self.about,
            "removed": self.removed,
            "added": self.added,
            "hunks": self.hunks().iter().map(hunk).collect::<Vec<_>>(),
        })
    }

    /// The number of the first line that a hunk changes, in the new text.
    pub fn first_changed(&self, lines: &Range<usize>) -> usize {
        let lines = &self.lines[lines.clone()];
        let begin = lines.first().and_then(|line| hunk(line)).map_or(1, |(_, new)| new);
        let same = lines.iter().filter(|line| hunk(line).is_none()).take_while(|line| line.starts_with(' ')).count();
        begin + same
    }

    /// Whether the change made it.
    pub fn is_new(&self) -> bool {
        self.about.split(", ").any(|about| about == "new")
    }

    /// The hunks of its lines. A new file is one.
    pub fn hunks(&self) -> Vec<Range<usize>> {
        let mut begins: Vec<usize> = (0..self.lines.len()).filter(|at| hunk(&self.lines[*at]).is_some()).collect();
        if begins.first() != Some(&0) && !self.lines.is_empty() {
            begins.insert(0, 0);
        }
        let ends = begins.iter().skip(1).copied().chain([self.lines.len()]);
        begins.iter().copied().zip(ends).map(|(begin, end)| begin..end).collect()
    }
}

/// Hunks of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHunks {
    /// Absolute.
    pub path: PathBuf,
    pub file: FileDiff,
    /// Counted from 0, in order.
    pub hunks: Vec<usize>,
}

impl fmt::Display for FileDiff {
    /// Begins with a line end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display().to_string();
        write!(f, "\n{}  {}", sanitise(&path), self.counts())?;
        self.lines.iter().try_for_each(|line| write!(f, "\n  {}", sanitise(line)))
    }
}

/// `+2 -1`.
pub fn line_counts(added: usize, removed: usize) -> String {
    format!("+{added} -{removed}")
}

/// The text without the change of this hunk.
///
/// # Errors
/// The text is not as it was after the change, or the lines are not exactly those of the file.
pub fn revert_hunk(text: &str, lines: &[String]) -> Result<String, &'static str> {
    let begins = lines.first().is_some_and(|line| hunk(line).is_some());
    let first = lines.first().filter(|_| begins);
    let (start, size) = first.and_then(|line| Some((hunk(line)?.1, hunk_size(line)?.1))).unwrap_or((1, 1));
    let is_exact = |line: &String| line.starts_with([' ', '+', '-', '\\']) && !line.contains('\u{fffd}');
    if !lines[usize::from(begins)..].iter().all(is_exact) {
        return Err("not all lines of this hunk are known exactly, nothing was reverted");
    }
    let (mut old, mut new): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut ended = ' ';
    for line in &lines[usize::from(begins)..] {
        let (sign, rest) = (line.chars().next().unwrap_or(' '), line.get(1..).unwrap_or_default());
        if sign == '\\' {
            // The line before has no end.
            old.last_mut().filter(|_| ended != '+').map(String::pop);
            new.last_mut().filter(|_| ended != '-').map(String::pop);
            continue;
        }
        old.extend((sign != '+').then(|| format!("{rest}\n")));
        new.extend((sign != '-').then(|| format!("{rest}\n")));
        ended = sign;
    }
    let known: Vec<&str> = text.split_inclusive('\n').collect();
    // A hunk without lines of the new text has the number of the line before.
    let at = if size == 0 { start } else { start.saturating_sub(1) };
    if known.get(at..at + new.len()).is_none_or(|known| known != new) {
        return Err("the file changed after this hunk was shown, nothing was reverted: open the review again (Alt+R)");
    }
    Ok([&known[..at].concat(), &old.concat(), &known[at + new.len()..].concat()].map(String::as_str).concat())
}

/// The files of a diff by git, whose paths have the prefixes `a/` and `b/` (git-diff(1), "Generating patch text").
pub fn parse_git(text: &str) -> Vec<FileDiff> {
    let mut files: Vec<FileDiff> = Vec::new();
    // How many lines of the hunk are left, of the old text and of the new one.
    let mut left = (0, 0);
    // A carriage return is a part of its line.
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        if left == (0, 0) && line.starts_with("diff --git ") {
            files.push(FileDiff { path: path_of_header(line), ..FileDiff::default() });
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        if left == (0, 0) && !line.starts_with('\\') {
            match hunk_size(line) {
                Some(size) => left = size,
                None => {
                    file.parse_header_line(line);
                    continue;
                }
            }
        } else {
            let (old, new) = (!line.starts_with('+'), !line.starts_with('-'));
            let is_note = line.starts_with('\\');
            left.0 -= usize::from(old && !is_note).min(left.0);
            left.1 -= usize::from(new && !is_note).min(left.1);
            file.removed += usize::from(line.starts_with('-'));
            file.added += usize::from(line.starts_with('+'));
        }
        file.lines.push(line.to_owned());
    }
    files
}

impl FileDiff {
    fn parse_header_line(&mut self, line: &str) {
        let about =
            |about: String, more: &str| if about.is_empty() { more.to_owned() } else { format!("{about}, {more}") };
        let known = std::mem::take(&mut self.about);
        self.about = match line.split_once(' ') {
            Some(("+++", path)) if path != "/dev/null" => {
                self.path = unquoted(path, "b/");
                known
            }
            Some(("rename", rest)) if rest.starts_with("to ") => {
                self.path = unquoted(&rest[3..], "");
                known
            }
            Some(("rename", rest)) => about(known, &format!("renamed {rest}")),
            Some(("new", rest)) if rest.starts_with("file mode") => about(known, "new"),
            Some(("new", rest)) => about(known, rest),
            Some(("deleted", rest)) => {
                self.deleted_mode = rest.strip_prefix("file mode ").and_then(|mode| u32::from_str_radix(mode, 8).ok());
                about(known, "deleted")
            }
            Some(("Binary", _)) => about(known, "binary"),
            _ => known,
        };
    }
}

/// The path in `diff --git a/x b/x`, which is the same twice unless the file was renamed.
fn path_of_header(line: &str) -> PathBuf {
    let paths = line.trim_start_matches("diff --git ");
    // Of a renamed file the header says it again.
    let Some((old, new)) = paths.split_at_checked(paths.len() / 2) else { return PathBuf::from(paths) };
    let new = new.trim_start();
    let is_same = old.trim_end().trim_start_matches("\"").get(2..) == new.trim_start_matches("\"").get(2..);
    if is_same { unquoted(new, "b/") } else { PathBuf::from(paths) }
}

/// A path as git writes it: in quotes with escapes if it has special characters; after a tab follows nothing.
fn unquoted(path: &str, prefix: &str) -> PathBuf {
    let path = path.trim_end_matches('\t');
    let Some(quoted) = path.strip_prefix('"').and_then(|path| path.strip_suffix('"')) else {
        return path.strip_prefix(prefix).unwrap_or(path).into();
    };
    let mut bytes = Vec::new();
    let mut rest = quoted.bytes().peekable();
    while let Some(byte) = rest.next() {
        bytes.push(match (byte, rest.peek().copied()) {
            (b'\\', Some(b'0'..=b'3')) => (0..3).fold(0_u8, |value, _| {
                value.wrapping_mul(8).wrapping_add(rest.next().unwrap_or(b'0').wrapping_sub(b'0'))
            }),
            (b'\\', Some(escaped)) => {
                rest.next();
                match escaped {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'a' => 7,
                    b'b' => 8,
                    b'v' => 11,
                    b'f' => 12,
                    other => other,
                }
            }
            (byte, _) => byte,
        });
    }
    let bytes = bytes.strip_prefix(prefix.as_bytes()).map(<[u8]>::to_vec).unwrap_or(bytes);
    OsString::from_vec(bytes).into()
}

/// The lines of a hunk in the old and the new text, from its first line.
fn hunk_size(line: &str) -> Option<(usize, usize)> {
    hunk(line)?;
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let size = |range: &str| range.split_once(',').map_or(Some(1), |(_, size)| size.parse().ok());
    Some((size(old)?, size(rest.split_once(" @@")?.0)?))
}

/// A part of a line of code, as bytes, and its colour.
pub type CodeColor = (Range<usize>, Color);

/// Parts of a line, as bytes.
type Parts = Vec<Range<usize>>;

/// A line of a diff, and its number in the text that it is in.
struct Line<'a> {
    kind: Kind,
    number: usize,
    text: &'a str,
    /// The words that the line replaces or is replaced by.
    changed: Vec<Range<usize>>,
    colors: &'a [CodeColor],
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

/// What git says of the place of a hunk: the function that it is in. Empty for other lines.
pub fn heading_of(line: &str) -> &str {
    let heading = hunk(line).and_then(|_| line.get(3..)?.split_once(" @@ "));
    heading.map_or("", |(_, heading)| heading)
}

/// Draws the lines of the hunks of one file. Lines before the first hunk are those of a new file.
pub fn draw<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<StyledLine> {
    draw_code(lines.into_iter().map(|line| (line, &[][..])))
}

/// The same with the colours of code: those of the parts of each line without its sign that are not in the colour of text.
pub fn draw_code<'a>(lines: impl IntoIterator<Item = (&'a str, &'a [CodeColor])>) -> Vec<StyledLine> {
    let mut lines = parse(lines);
    mark_words(&mut lines);
    let digits = lines.iter().map(|line| line.number).max().unwrap_or(0).to_string().len();
    lines.iter().map(|line| line.draw(digits.max(NUMBER_COLUMNS))).collect()
}

fn parse<'a>(all: impl IntoIterator<Item = (&'a str, &'a [CodeColor])>) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    let (mut old, mut new) = (1, 1);
    for (text, colors) in all {
        let line = |kind, number, text| Line { kind, number, text, changed: Vec::new(), colors };
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
        let (mut next, end) = (at + removed, at + removed + added);
        for one in at..at + removed {
            let candidates = (next..end.min(next + MAX_SKIPPED + 1)).take(left);
            left -= candidates.len();
            let mut words = candidates.map(|other| (other, changed_words(lines[one].text, lines[other].text)));
            if let Some((other, (old, new))) = words.find_map(|(other, words)| Some((other, words?))) {
                (lines[one].changed, lines[other].changed) = (old, new);
                next = other + 1;
            }
        }
        at += (removed + added).max(1);
    }
}

/// The parts of two lines that are different; `None` if they have too little in common.
fn changed_words(old: &str, new: &str) -> Option<(Parts, Parts)> {
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
                self.push(&mut line, 0..self.text.len(), Style::default());
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
            self.push(&mut line, at..changed.start, Style::default().on(background));
            self.push(&mut line, changed.clone(), Style::BOLD.on(word));
            at = changed.end;
        }
        self.push(&mut line, at..self.text.len(), Style::default().on(background));
        line
    }

    /// Appends a part of the text in this style, in the colours of code.
    fn push(&self, line: &mut StyledLine, part: Range<usize>, style: Style) {
        let mut at = part.start;
        for (range, color) in self.colors {
            let (begin, end) = (range.start.clamp(at, part.end), range.end.clamp(at, part.end));
            line.push(&self.text[at..begin], style);
            line.push(&self.text[begin..end], Style { color: *color, ..style });
            at = end;
        }
        line.push(&self.text[at..part.end], style);
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
        assert_eq!(marked(&["-a b c", "+# new", "+a b d"]), [vec!["c"], vec![], vec!["d"]]);
        assert_eq!(marked(&["-gone", "-a b c", "+a b d"]), [vec![], vec!["c"], vec!["d"]]);
    }

    #[test]
    fn code_keeps_its_colours_on_the_background_of_its_line() {
        let colors = [(0..2, Color::Keyword), (3..4, Color::Number)];
        let drawn = draw_code([("-fn 1", &colors[..]), ("+fn 2", &colors[..])]);
        let added = |color, background| Style { color, ..Style::default() }.on(background);
        let expected = [
            ("+".to_owned(), added(Color::Added, Color::AddedLine)),
            ("fn".to_owned(), added(Color::Keyword, Color::AddedLine)),
            (" ".to_owned(), added(Color::Default, Color::AddedLine)),
            ("2".to_owned(), Style { bold: true, ..added(Color::Number, Color::AddedWord) }),
        ];
        assert_eq!(drawn[1].parts, expected);
    }

    #[test]
    fn hunks_of_git_have_a_heading() {
        assert_eq!(hunk("@@ -40,5 +41,6 @@ fn total() {"), Some((40, 41)));
        assert_eq!(hunk("@@ -1 +1 @@"), Some((1, 1)));
        for other in ["@@ -x +1 @@", "@@", "-@@ -1 +1 @@", "@@ -1 +1"] {
            assert_eq!(hunk(other), None, "{other}");
        }
    }

    #[test]
    fn files_of_a_diff_by_git_are_told_apart_also_where_their_lines_look_like_headers() {
        let text = "diff --git a/src/a b.rs b/src/a b.rs\nindex 1..2 100644\n--- a/src/a b.rs\t\n+++ b/src/a b.rs\t\n\
                    @@ -1,2 +1,2 @@ fn x\n--- a/y\n++++ b/y\n diff --git a/z b/z\n@@ -9 +9 @@\n-a\n\\ No newline at end of file\n+b\n\
                    diff --git a/new b/new\nnew file mode 100755\nindex 0..1\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n\
                    diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
                    diff --git a/old b/later\nsimilarity index 100%\nrename from old\nrename to later\n\
                    diff --git a/p.png b/p.png\nBinary files a/p.png and b/p.png differ\n\
                    diff --git a/run b/run\nold mode 100644\nnew mode 100755\n\
                    diff --git \"a/\\303\\244\\\"\" \"b/\\303\\244\\\"\"\nnew file mode 100644\n";
        let files = parse_git(text);
        let shown: Vec<String> =
            files.iter().map(|file| format!("{}  {}", file.path.display(), file.counts())).collect();
        let expected = [
            "src/a b.rs  +2 -2 lines",
            "new  new, +1 -0 lines",
            "gone  deleted, +0 -1 lines",
            "later  renamed from old",
            "p.png  binary",
            "run  mode 100755",
            "ä\"  new",
        ];
        assert_eq!(shown, expected);
        assert_eq!(files[0].hunks(), [0..4, 4..8]);
        assert_eq!(files[0].lines[1], "--- a/y");
    }

    #[test]
    fn a_hunk_is_taken_back_if_the_text_is_as_the_hunk_left_it() {
        let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
        for (new, hunk, old) in [
            ("a\nB\nc\n", "@@ -1,3 +1,3 @@ x\n a\n-b\n+B\n c", "a\nb\nc\n"),
            ("a\n", "@@ -1,2 +1 @@\n a\n-b", "a\nb\n"),
            ("a\nb", "@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n\\ No newline at end of file", "a"),
            ("a\nc\n", "@@ -2 +1,0 @@\n-b", "a\nb\nc\n"),
            ("", "@@ -1,2 +0,0 @@\n-a\n-b", "a\nb\n"),
            ("x\ny\n", "+x\n+y", ""),
        ] {
            assert_eq!(revert_hunk(new, &lines(hunk)).as_deref(), Ok(old), "{hunk}");
        }
        for (new, hunk) in [("a\n", "@@ -1 +1 @@\n-a\n+b"), ("", "@@ -9 +9 @@\n-a\n+b"), ("b", "@@ -1 +1 @@\n-a\n+b")] {
            assert!(revert_hunk(new, &lines(hunk)).is_err(), "{hunk}");
        }
    }
}
