//! A regular expression as the `grep` of POSIX reads it, for finding the files in which it is worth searching.
//!
//! The result matches every line that the original matches, and perhaps more: what ASCII cannot express becomes "some
//! other bytes", and parts that match no text (word boundaries) are left out. The search itself is done here.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Bytes that are no printable ASCII characters.
const OTHERS: &str = "[^ -~]+";
/// Maximum length of a pattern, in bytes.
const MAX_LENGTH: usize = 2000;

/// None if it would match every line.
pub fn superset(pattern: &str, ignores_case: bool) -> Option<String> {
    let mut parser = ParserBuilder::new().case_insensitive(ignores_case).utf8(false).build();
    let hir = parser.parse(pattern).ok()?;
    if hir.properties().minimum_len().unwrap_or(0) == 0 {
        return None;
    }
    Some(extended(&hir)).filter(|pattern| !pattern.is_empty() && pattern.len() <= MAX_LENGTH)
}

fn extended(hir: &Hir) -> String {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => String::new(),
        HirKind::Literal(literal) => of_bytes(&literal.0),
        HirKind::Class(class) => of_class(class),
        HirKind::Capture(capture) => group(&extended(&capture.sub)),
        HirKind::Concat(parts) => parts.iter().map(extended).collect(),
        HirKind::Alternation(parts) => {
            let parts: Vec<String> = parts.iter().map(extended).collect();
            let may_be_empty = parts.iter().any(String::is_empty);
            let some: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
            if some.is_empty() {
                return String::new();
            }
            format!("({}){}", some.join("|"), if may_be_empty { "?" } else { "" })
        }
        HirKind::Repetition(repetition) => {
            let part = group(&extended(&repetition.sub));
            match (part.is_empty(), repetition.min, repetition.max) {
                (true, ..) => part,
                (_, 0, Some(1)) => part + "?",
                (_, 0, _) => part + "*",
                (_, _, Some(1)) => part,
                _ => part + "+",
            }
        }
    }
}

fn group(part: &str) -> String {
    if part.is_empty() { String::new() } else { format!("({part})") }
}

fn is_plain(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte)
}

fn of_bytes(bytes: &[u8]) -> String {
    let mut text = String::new();
    for part in bytes.chunk_by(|one, other| is_plain(*one) == is_plain(*other)) {
        if !is_plain(part[0]) {
            text.push_str(OTHERS);
            continue;
        }
        for byte in part {
            if b"\\^.[$()|*+?{".contains(byte) {
                text.push('\\');
            }
            text.push(char::from(*byte));
        }
    }
    text
}

fn of_class(class: &Class) -> String {
    let ranges: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => class.iter().map(|range| (range.start().into(), range.end().into())).collect(),
        Class::Bytes(class) => class.iter().map(|range| (range.start().into(), range.end().into())).collect(),
    };
    let has = |byte: u8| ranges.iter().any(|(start, end)| (*start..=*end).contains(&u32::from(byte)));
    let plain: Vec<u8> = (b' '..=b'~').filter(|byte| has(*byte)).collect();
    let has_others = ranges.iter().any(|(start, end)| *start < u32::from(b' ') || *end > u32::from(b'~'));
    match (plain.is_empty(), has_others) {
        (true, _) => OTHERS.to_owned(),
        (_, false) => bracket(&plain),
        (_, true) => format!("({}|{OTHERS})", bracket(&plain)),
    }
}

/// The signs are placed where they have no special meaning: `]` first, `^` not first, `[` and `-` last.
fn bracket(plain: &[u8]) -> String {
    if plain == b"^" {
        return r"\^".to_owned();
    }
    let special = |byte: u8| plain.contains(&byte).then_some(char::from(byte));
    let mut text = String::from("[");
    text.extend(special(b']'));
    text.extend(plain.iter().filter(|byte| !b"][^-".contains(byte)).map(|byte| char::from(*byte)));
    if text == "[" && plain.contains(&b'^') {
        // Only `[` and `-` are left to place before it.
        text.extend(special(b'['));
        text.push('^');
    } else {
        text.extend(special(b'^').into_iter().chain(special(b'[')));
    }
    text.extend(special(b'-'));
    text.push(']');
    text
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    fn matches(grep: &[&str], pattern: &str, line: &str) -> bool {
        let mut command = Command::new(grep[0]);
        command.args(&grep[1..]).args(["-q", "-E", "-e", pattern]).env("LC_ALL", "C").stdin(Stdio::piped());
        let mut child = command.spawn().expect("grep");
        writeln!(child.stdin.take().unwrap(), "{line}").unwrap();
        child.wait().unwrap().success()
    }

    #[test]
    fn every_line_that_matches_is_found() {
        let mut greps = vec![vec!["grep"]];
        greps.extend(Command::new("busybox").arg("true").output().is_ok().then(|| vec!["busybox", "grep"]));
        for (pattern, line, other) in [
            (r"fn \w+\(", "pub fn größe(x)", "pub struct"),
            (r"\bfoo\b", "a foo b", "a fo b"),
            (r"(?i)straße", "Die STRASSE: Straße", "Weg"),
            (r"a{2,3}b|c?d", "xaab", "xyz"),
            (r"[\]\[^-]x", "^x", "ax"),
            (r"[^a-z]\d+\.\d", "V1.2", "Vx"),
            (r"a\tb", "a\tb", "ab"),
            (r"x(|y)z", "xz", "xaz"),
            (r"\$\{HOME\}", "${HOME}", "HOME"),
            (r"naïve", "so naïve", "so naive"),
            (r"^start|end$", "the end", "middle"),
        ] {
            let found = superset(pattern, false).unwrap_or_else(|| panic!("{pattern}"));
            for grep in &greps {
                assert!(matches(grep, &found, line), "{grep:?} {pattern}: {found} on {line}");
                assert!(!matches(grep, &found, other), "{grep:?} {pattern}: {found} on {other}");
            }
        }
        assert!(matches(&["grep"], &superset("kiss", true).unwrap(), "KISS"));
    }

    #[test]
    fn a_pattern_that_may_match_nothing_restricts_nothing() {
        for pattern in ["a*", "^", r"\b", "x?", "(|a)"] {
            assert_eq!(superset(pattern, false), None, "{pattern}");
        }
    }
}
