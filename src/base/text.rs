//! Text on a screen: sanitising, width, wrapping, plurals and the nearest name.
//!
//! All functions are stateless, so that text may arrive in parts. Columns are counted per grapheme.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::LazyLock;
use std::time::Duration;

use regex_syntax::hir::{Class, HirKind};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// A tab moves to the next multiple of this many columns.
pub const TAB_COLUMNS: usize = 4;

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A time in its largest unit: `3 s`, `2 min`, `5 h`, `3 d`.
pub fn age(age: Duration) -> String {
    match age.as_secs() {
        s @ 0..60 => format!("{s} s"),
        s @ 60..3600 => format!("{} min", s / 60),
        s @ 3600..86_400 => format!("{} h", s / 3600),
        s => format!("{} d", s / 86_400),
    }
}

/// Makes text safe for a terminal: every control character except tab and newline, and every character that reorders or
/// hides text, is replaced by a visible one. Works character by character, so text may be sanitised in parts.
pub fn sanitise(text: &str) -> Cow<'_, str> {
    match text.char_indices().find(|&(_, c)| safe_char(c) != c) {
        None => Cow::Borrowed(text),
        Some((clean, _)) => {
            let mut safe = String::with_capacity(text.len() + 8);
            safe.push_str(&text[..clean]);
            safe.extend(text[clean..].chars().map(safe_char));
            Cow::Owned(safe)
        }
    }
}

/// Makes a line of JSON safe for a terminal: what [`sanitise`] would replace becomes an escape, which means the same.
pub fn escape_json(line: &str) -> Cow<'_, str> {
    if !line.contains(|c| safe_char(c) != c) {
        return Cow::Borrowed(line);
    }
    let mut safe = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        if safe_char(c) == c {
            safe.push(c);
        } else {
            // Only strings contain them.
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| safe += &format!("\\u{unit:04x}"));
        }
    }
    Cow::Owned(safe)
}

/// The safe replacement of `c`. ZWJ, ZWNJ and variation selectors are unchanged: emoji and several scripts need them, and they
/// do not reorder text.
fn safe_char(c: char) -> char {
    match c {
        '\t' | '\n' | ' '..='~' => c,
        // The block "Control Pictures" is in the order of the control characters.
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}' => '\u{fffd}',
        // Terminals disagree about the width of a soft hyphen.
        '\u{ad}' => '-',
        _ if is_invisible_format(c) => '\u{fffd}',
        _ => c,
    }
}

/// Characters of the Unicode category Cf that reorder or hide text, line separators, and non-characters.
fn is_invisible_format(c: char) -> bool {
    matches!(c,
        '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
        || u32::from(c) & 0xfffe == 0xfffe
}

/// Characters that Unicode's tables call ignorable, blank or a format, and four that look blank: the empty Braille
/// pattern, two signs that only change others, and a note without a head.
const UNSEEN: &str =
    r"[\p{Default_Ignorable_Code_Point}\p{White_Space}\p{Z}\p{Cf}\u{2800}\u{13440}\u{16FE4}\u{1D159}--\p{ASCII}]";

/// Whether a reader does not see a character, or takes it for a space: also where a script or an emoji needs it. In order,
/// without gaps within a range.
pub fn is_unseen(c: char) -> bool {
    static RANGES: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
        let hir = regex_syntax::parse(UNSEEN).expect("a valid class");
        let HirKind::Class(Class::Unicode(class)) = hir.kind() else { unreachable!("it is a class of characters") };
        class.iter().map(|range| (range.start(), range.end())).collect()
    });
    let is_in = |(first, last): &(char, char)| {
        if c < *first {
            Ordering::Greater
        } else if c > *last {
            Ordering::Less
        } else {
            Ordering::Equal
        }
    };
    !c.is_ascii() && (is_invisible_format(c) || RANGES.binary_search_by(is_in).is_ok())
}

/// Columns of one line of text without control characters.
pub fn width(text: &str) -> usize {
    if is_plain(text) { text.len() } else { graphemes(text).map(|(_, grapheme)| grapheme_width(grapheme)).sum() }
}

/// Characters of one column that join no other: printable ASCII, letters of European languages, dashes and quotation
/// marks, and lines of boxes (UAX #29).
fn is_simple(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{c0}'..='\u{24f}' | '\u{400}'..='\u{481}' | '\u{2010}'..='\u{2027}' | '\u{2500}'..='\u{259f}')
}

/// The most bytes of a grapheme; a longer one is cut. The longest emoji have about 40; longer ones are letters with
/// many combining marks.
const MAX_GRAPHEME: usize = 128;

/// The most bytes of a row of this many columns: a longer one is cut although it has room.
const fn most_bytes(columns: usize) -> usize {
    MAX_GRAPHEME.saturating_mul(columns)
}

/// The graphemes of a text with their positions in bytes. Quick where they are simple characters, as most are.
pub fn graphemes(text: &str) -> Graphemes<'_> {
    Graphemes { text, at: 0 }
}

/// See [`graphemes`].
pub struct Graphemes<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Graphemes<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<(usize, &'a str)> {
        let (at, rest) = (self.at, &self.text[self.at..]);
        let mut chars = rest.chars();
        let first = chars.next()?;
        let is_alone = is_simple(first) && chars.next().is_none_or(|next| next.is_ascii() || is_simple(next));
        let grapheme = match is_alone {
            true => &rest[..first.len_utf8()],
            false => rest[..rest.floor_char_boundary(MAX_GRAPHEME)].graphemes(true).next()?,
        };
        self.at += grapheme.len();
        Some((at, grapheme))
    }
}

/// Whether a terminal that counts characters one by one gives the grapheme other columns: emoji of several characters.
pub fn is_wider_in_parts(grapheme: &str) -> bool {
    let parts: usize = grapheme.chars().filter_map(unicode_width::UnicodeWidthChar::width).sum();
    parts != grapheme_width(grapheme)
}

/// Columns of one grapheme.
pub fn grapheme_width(grapheme: &str) -> usize {
    let mut chars = grapheme.chars();
    let is_simple = chars.next().is_some_and(is_simple) && chars.next().is_none();
    if is_simple { 1 } else { grapheme.width() }
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// The longest prefix of the text that fits into this many columns.
pub fn truncate(text: &str, columns: usize) -> &str {
    if text.len() <= columns && is_plain(text) {
        return text;
    }
    let (mut used, most) = (0, most_bytes(columns));
    for (at, grapheme) in graphemes(text) {
        used += grapheme_width(grapheme);
        if used > columns || at + grapheme.len() > most {
            return &text[..at];
        }
    }
    text
}

/// The text, or its beginning with an ellipsis, in at most this many columns.
pub fn shortened(text: &str, columns: usize) -> Cow<'_, str> {
    if text.len() <= most_bytes(columns) && width(text) <= columns {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", truncate(text, columns.saturating_sub(1))))
}

/// The first line of a text, cut off with an ellipsis after this many characters.
pub fn first_line(text: &str, most: usize) -> String {
    let text = text.trim();
    let first = text.lines().next().unwrap_or_default();
    let is_whole = first.len() == text.len() && first.chars().count() <= most;
    if is_whole { first.to_owned() } else { first.chars().take(most).chain(" …".chars()).collect() }
}

/// Replaces every tab by spaces up to the next tab stop of its line.
pub fn expand_tabs(text: &str) -> Cow<'_, str> {
    if !text.contains('\t') {
        return Cow::Borrowed(text);
    }
    let mut expanded = String::with_capacity(text.len() + 16);
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            expanded.push('\n');
        }
        let mut column = 0;
        for (number, piece) in line.split('\t').enumerate() {
            if number > 0 {
                let spaces = TAB_COLUMNS - column % TAB_COLUMNS;
                expanded.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            expanded.push_str(piece);
            column += width(piece);
        }
    }
    Cow::Owned(expanded)
}

/// The last lines of a text, at most so many.
pub fn last_lines(text: &str, count: usize) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().rev().take(count).collect();
    lines.reverse();
    lines
}

/// Wraps one logical line to rows of this many columns: at spaces or beside wide characters, otherwise between graphemes.
/// Spaces at a break are dropped. An empty line is one empty row; a grapheme wider than the screen is a row of its own.
pub fn wrap(line: &str, columns: usize) -> Wrap<'_> {
    Wrap { line, next: Some(0), columns: columns.max(1) }
}

/// See [`wrap`]. Yields each row with the byte offset at which it starts.
#[derive(Debug, Clone)]
pub struct Wrap<'a> {
    line: &'a str,
    next: Option<usize>,
    columns: usize,
}

impl<'a> Iterator for Wrap<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<(usize, &'a str)> {
        let start = self.next?;
        let rest = &self.line[start..];
        let (end, resume) = row_end(rest, self.columns);
        self.next = (resume < rest.len()).then_some(start + resume);
        Some((start, &rest[..end]))
    }
}

/// Where the first row of `rest` ends, and where the row after it starts.
fn row_end(rest: &str, columns: usize) -> (usize, usize) {
    if rest.len() <= columns && is_plain(rest) {
        return (rest.len(), rest.len());
    }
    plain_row_end(rest, columns).unwrap_or_else(|| grapheme_row_end(rest, columns))
}

/// A fast path for rows of printable ASCII, which most are; `None` for other rows.
fn plain_row_end(rest: &str, columns: usize) -> Option<(usize, usize)> {
    let head = rest.get(..=columns).filter(|head| is_plain(head))?;
    let row = &head[..columns];
    if head.ends_with(' ') {
        return Some(after_spaces(rest, row.trim_end_matches(' ').len(), columns));
    }
    let word = row.rfind(' ').map_or(0, |space| space + 1);
    match row[..word].trim_end_matches(' ').len() {
        0 => Some((columns, columns)),
        end => Some((end, word)),
    }
}

fn grapheme_row_end(rest: &str, columns: usize) -> (usize, usize) {
    let mut used = 0;
    let mut break_at = None;
    let mut word_end = 0;
    let mut in_space = false;
    let most = most_bytes(columns);
    for (at, grapheme) in graphemes(rest) {
        if at > 0 && at + grapheme.len() > most {
            return (at, at);
        }
        let wide = grapheme_width(grapheme);
        if grapheme == " " {
            if !in_space {
                word_end = at;
            }
            in_space = true;
            if used + wide > columns {
                return after_spaces(rest, word_end, at);
            }
        } else {
            if in_space && word_end > 0 {
                break_at = Some((word_end, at));
            } else if wide > 1 && at > 0 && !in_space {
                break_at = Some((at, at));
            }
            if used + wide > columns {
                return break_at.unwrap_or(if at == 0 { (grapheme.len(), grapheme.len()) } else { (at, at) });
            }
            in_space = false;
            if wide > 1 {
                break_at = Some((at + grapheme.len(), at + grapheme.len()));
            }
        }
        used += wide;
    }
    (rest.len(), rest.len())
}

/// The end of a row within the run of spaces around `at`. The run is dropped unless it begins the row.
fn after_spaces(rest: &str, word_end: usize, at: usize) -> (usize, usize) {
    let run = rest[at..].len() - rest[at..].trim_start_matches(' ').len();
    let end = if word_end == 0 { at } else { word_end };
    (end, at + run)
}

/// A count with its noun: `1 child`, `2 children`.
pub fn counted(count: usize, singular: &str, plural: &str) -> String {
    if count == 1 { format!("1 {singular}") } else { format!("{count} {plural}") }
}

/// A number with a comma before every third digit from the right.
pub fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Billionths of a dollar in dollars, for programs.
pub fn as_dollars(billionths: u64) -> f64 {
    billionths as f64 / 1e9
}

/// Billionths of a dollar as dollars: two decimals, or as many as show two significant digits.
pub fn dollars(billionths: u64) -> String {
    let exact = format!("{}.{:09}", billionths / 1_000_000_000, billionths % 1_000_000_000);
    let (whole, rest) = exact.split_once('.').unwrap_or((&exact, ""));
    let significant = rest.bytes().position(|digit| digit != b'0').map_or(2, |first| first + 2);
    format!("{whole}.{}", &rest[..significant.clamp(2, rest.len())])
}

/// The known name closest to the typed one, if at most two characters differ.
pub fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, name) = known.map(|name| (strsim::levenshtein(name, typed), name)).min()?;
    (distance <= 2).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_with_escapes_means_the_same() {
        for text in ["plain", "a\u{7f}\u{9b}31m\u{202e}b", "\u{e0041}\u{1b}]52;c;eA==\u{7}", "e\u{301} 日本 \u{ad}"] {
            let line = serde_json::to_string(text).unwrap();
            let escaped = escape_json(&line);
            assert_eq!(sanitise(&escaped), escaped);
            assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        }
    }

    #[test]
    fn numbers_have_commas() {
        assert_eq!([0, 999, 1_000, 3_210_000].map(with_commas), ["0", "999", "1,000", "3,210,000"]);
    }

    fn rows(line: &str, columns: usize) -> Vec<&str> {
        wrap(line, columns).map(|(_, row)| row).collect()
    }

    #[test]
    fn control_sequences_become_visible() {
        for (raw, safe) in [
            ("a\tb\nc", "a\tb\nc"),
            ("\u{1b}[2J", "␛[2J"),
            ("\u{1b}]52;c;eA==\u{7}", "␛]52;c;eA==␇"),
            ("\r\0\u{7f}", "␍␀␡"),
            ("\u{9b}31m", "\u{fffd}31m"),
            ("\u{202e}txt\u{2066}", "\u{fffd}txt\u{fffd}"),
            ("\u{2028}\u{e0041}\u{feff}", "\u{fffd}\u{fffd}\u{fffd}"),
            ("👨‍👩‍👧 ❤️ é नमस्ते", "👨‍👩‍👧 ❤️ é नमस्ते"),
        ] {
            assert_eq!(sanitise(raw), safe, "{raw:?}");
        }
    }

    #[test]
    fn what_nobody_sees_is_known_and_what_is_read_is_not_among_it() {
        for range in [
            '\u{ad}'..='\u{ad}',
            '\u{34f}'..='\u{34f}',
            '\u{61c}'..='\u{61c}',
            '\u{115f}'..='\u{1160}',
            '\u{17b4}'..='\u{17b5}',
            '\u{180b}'..='\u{180f}',
            '\u{200b}'..='\u{200f}',
            '\u{2028}'..='\u{202f}',
            '\u{2060}'..='\u{206f}',
            '\u{2800}'..='\u{2800}',
            '\u{3164}'..='\u{3164}',
            '\u{fe00}'..='\u{fe0f}',
            '\u{feff}'..='\u{feff}',
            '\u{ffa0}'..='\u{ffa0}',
            '\u{fff9}'..='\u{fffb}',
            '\u{13430}'..='\u{13440}',
            '\u{16fe4}'..='\u{16fe4}',
            '\u{1bca0}'..='\u{1bca3}',
            '\u{1d159}'..='\u{1d159}',
            '\u{1d173}'..='\u{1d17a}',
            '\u{e0000}'..='\u{e0fff}',
            '\u{a0}'..='\u{a0}',
            '\u{1680}'..='\u{1680}',
            '\u{2000}'..='\u{200a}',
            '\u{205f}'..='\u{205f}',
            '\u{3000}'..='\u{3000}',
            '\u{85}'..='\u{85}',
        ] {
            range.for_each(|c| assert!(is_unseen(c), "{}", c.escape_unicode()));
        }
        let read = (' '..='~').chain("äßçéñ日本語한국어नमस्ते❤👨→─█ “”…€\u{301}".chars().filter(|c| *c != ' '));
        read.for_each(|c| assert!(!is_unseen(c), "{}", c.escape_unicode()));
    }

    #[test]
    fn a_heap_of_marks_is_cut_into_graphemes_and_rows() {
        let heap = format!("e{}x", "\u{301}".repeat(500_000));
        assert!(graphemes(&heap).all(|(_, grapheme)| grapheme.len() <= MAX_GRAPHEME));
        let rows = rows(&heap, 80);
        assert!(truncate(&heap, 80).len() <= most_bytes(80) && shortened(&heap, 80).len() <= most_bytes(80));
        assert!(rows.len() > 50 && rows.iter().all(|row| row.len() <= most_bytes(80)), "{}", rows.len());
        assert_eq!(rows.concat(), heap);
    }

    #[test]
    fn text_can_be_sanitised_in_parts() {
        let text = "a\u{1b}[31mé\u{202e}語\r\n\u{85}👨‍👩‍👧\u{7f}";
        for (cut, _) in text.char_indices() {
            let pieces = format!("{}{}", sanitise(&text[..cut]), sanitise(&text[cut..]));
            assert_eq!(pieces, sanitise(text));
        }
    }

    #[test]
    fn no_control_character_survives_except_tab_and_newline() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let safe = sanitise(c.encode_utf8(&mut [0; 4])).chars().next();
            assert!(safe.is_some_and(|s| !s.is_control() || s == '\t' || s == '\n'), "{c:?} became {safe:?}");
        }
    }

    #[test]
    fn width_counts_graphemes_and_not_characters() {
        for (text, columns) in [("", 0), ("abc", 3), ("語", 2), ("e\u{301}", 1), ("👨‍👩‍👧", 2), ("🇩🇪", 2), ("한", 2)]
        {
            assert_eq!(width(text), columns, "{text:?}");
        }
    }

    #[test]
    fn lines_break_at_spaces_else_between_graphemes() {
        for (line, columns, expected) in [
            ("", 5, vec![""]),
            ("hello", 5, vec!["hello"]),
            ("hello world", 5, vec!["hello", "world"]),
            ("hello   world", 6, vec!["hello", "world"]),
            ("hello     ", 5, vec!["hello"]),
            ("a bc def", 4, vec!["a bc", "def"]),
            ("abcdefgh", 3, vec!["abc", "def", "gh"]),
            ("x abcdefgh", 4, vec!["x", "abcd", "efgh"]),
            ("  abcdef", 4, vec!["  ab", "cdef"]),
            ("語語語", 4, vec!["語語", "語"]),
            ("語語語", 5, vec!["語語", "語"]),
            ("ab語cd", 3, vec!["ab", "語", "cd"]),
            ("語", 1, vec!["語"]),
            ("👨‍👩‍👧👨‍👩‍👧", 3, vec!["👨‍👩‍👧", "👨‍👩‍👧"]),
            ("e\u{301}e\u{301}", 1, vec!["e\u{301}", "e\u{301}"]),
            ("      x", 3, vec!["   ", "x"]),
        ] {
            assert_eq!(rows(line, columns), expected, "{line:?} at {columns}");
        }
    }

    #[test]
    fn rows_of_ascii_break_where_rows_of_graphemes_do() {
        let mut rng = fastrand::Rng::with_seed(3);
        for round in 0..20_000 {
            let mut line = String::new();
            for _ in 0..round % 40 {
                line.push_str(rng.choice([" ", "a", "b", "-", "c", "  ", "語"]).unwrap_or_default());
            }
            let columns = 1 + round % 9;
            if let Some(end) = plain_row_end(&line, columns) {
                assert_eq!(end, grapheme_row_end(&line, columns), "{line:?} at {columns}");
            }
        }
    }

    #[test]
    fn graphemes_are_those_of_the_unicode_algorithm_and_never_wider_than_their_bytes() {
        let mut rng = fastrand::Rng::with_seed(8);
        let parts = [
            "a",
            " ",
            "~",
            "ß",
            "─",
            "…",
            "Ж",
            "\r",
            "\n",
            "\t",
            "\0",
            "\u{301}",
            "é",
            "👨‍👩‍👧",
            "🇩",
            "\u{200d}",
            "각",
            "ᄀ",
            "क्ष",
            "\u{600}",
        ];
        for round in 0..5_000 {
            let text: String = (0..round % 12).map(|_| *rng.choice(&parts).expect("parts")).collect();
            let expected: Vec<(usize, &str)> = text.grapheme_indices(true).collect();
            assert_eq!(graphemes(&text).collect::<Vec<_>>(), expected, "{text:?}");
            for (_, grapheme) in expected {
                assert_eq!(grapheme_width(grapheme), grapheme.width(), "{grapheme:?}");
                assert!(grapheme_width(grapheme) <= grapheme.len(), "{grapheme:?}");
            }
        }
    }

    #[test]
    fn simple_characters_have_one_column_and_are_graphemes() {
        for c in ('\0'..=char::MAX).filter(|c| is_simple(*c)) {
            let twice = format!("{c}{c}");
            assert_eq!((c.to_string().width(), twice.graphemes(true).count()), (1, 2), "{c:?}");
        }
    }

    #[test]
    fn wrapped_rows_fit_and_lose_only_spaces() {
        let mut rng = fastrand::Rng::with_seed(7);
        let letters = [" ", "a", "b", "語", "👨‍👩‍👧", "\u{301}", "é", "  "];
        for round in 0..2_000 {
            let mut line = String::new();
            for _ in 0..round % 60 {
                line.push_str(rng.choice(letters).unwrap_or_default());
            }
            let columns = round % 9;
            let all = rows(&line, columns);
            let fits = |row: &&str| width(row) <= columns.max(1) || row.graphemes(true).count() == 1;
            assert!(all.iter().all(fits), "{line:?} at {columns}: {all:?}");
            assert_eq!(all.concat().replace(' ', ""), line.replace(' ', ""));
            assert!(wrap(&line, columns).all(|(at, row)| line[at..].starts_with(row)));
        }
    }

    #[test]
    fn tabs_reach_the_next_stop_and_truncation_keeps_graphemes() {
        assert_eq!(expand_tabs("\ta\tbc\n語\tx"), "    a   bc\n語  x");
        assert_eq!(truncate("語語", 3), "語");
        assert_eq!(truncate("e\u{301}x", 1), "e\u{301}");
        assert_eq!(truncate("abc", 9), "abc");
    }
}
