//! The part of Markdown that aggregation needs: headings, fences, list items and bold text, as in CommonMark 0.31.2,
//! sections 4.2 (ATX headings), 4.5 (fenced code) and 5.2 (list items). Underlined headings are taken for text.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// `#` to `######`, outside of code.
    Heading,
    Item,
    /// The first or last line of fenced code.
    Fence,
    Code,
    Text,
}

pub(super) fn lines(text: &str) -> impl Iterator<Item = (Line, &str)> {
    let mut open = None;
    text.split_inclusive('\n').map(move |line| (kind(line.trim_end_matches(['\n', '\r']), &mut open), line))
}

/// The character of an open fence and its length.
type Fence = (char, usize);

fn kind(line: &str, open: &mut Option<Fence>) -> Line {
    let body = line.trim_start_matches(' ');
    let is_indented_code = line.len() - body.len() > 3;
    let fence = if is_indented_code { None } else { fence(body) };
    match (*open, fence) {
        (Some((mark, least)), Some((same, count, ""))) if mark == same && count >= least => *open = None,
        (Some(_), _) => return Line::Code,
        (None, Some((mark, count, _))) => *open = Some((mark, count)),
        (None, None) if !is_indented_code && is_heading(body) => return Line::Heading,
        (None, None) if is_item(body) => return Line::Item,
        (None, None) => return Line::Text,
    }
    Line::Fence
}

/// The character of a fence, its length, and the text after it.
fn fence(body: &str) -> Option<(char, usize, &str)> {
    let mark = body.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let rest = body.trim_start_matches(mark);
    let count = body.len() - rest.len();
    let is_inline_code = mark == '`' && rest.contains('`');
    (count >= 3 && !is_inline_code).then(|| (mark, count, rest.trim()))
}

fn is_heading(body: &str) -> bool {
    let rest = body.trim_start_matches('#');
    (1..=6).contains(&(body.len() - rest.len())) && (rest.is_empty() || rest.starts_with([' ', '\t']))
}

fn is_item(body: &str) -> bool {
    let digits = body.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = match body.len() - digits.len() {
        0 => body.strip_prefix(['-', '*', '+']),
        1..=9 => digits.strip_prefix(['.', ')']),
        _ => None,
    };
    rest.is_some_and(|rest| rest.starts_with([' ', '\t']) && !rest.trim().is_empty())
}

/// Whether a line has bold text: `**` or `__` on both sides of a text without outer spaces.
pub(super) fn has_bold(line: &str) -> bool {
    ["**", "__"].iter().any(|mark| {
        line.match_indices(mark).any(|(at, _)| {
            let rest = &line[at + 2..];
            let within = rest.find(mark).map(|end| &rest[..end]);
            within.is_some_and(|within| !within.is_empty() && within.trim() == within)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Line> {
        lines(text).map(|(kind, _)| kind).collect()
    }

    #[test]
    fn lines_are_classified_as_in_commonmark() {
        for (line, kind) in [
            ("# one", Line::Heading),
            ("###### six", Line::Heading),
            ("   ## indented", Line::Heading),
            ("#", Line::Heading),
            ("#\ttab", Line::Heading),
            ("####### seven", Line::Text),
            ("#no-space", Line::Text),
            ("    # code", Line::Text),
            ("text # more", Line::Text),
            ("- item", Line::Item),
            ("  * item", Line::Item),
            ("12. item", Line::Item),
            ("3) item", Line::Item),
            ("-dash", Line::Text),
            ("---", Line::Text),
            ("**bold** text", Line::Text),
            ("1234567890. year", Line::Text),
            ("2.5 times", Line::Text),
            ("```rust", Line::Fence),
            ("~~~", Line::Fence),
            ("``two", Line::Text),
            ("```a` inline", Line::Text),
            ("", Line::Text),
        ] {
            assert_eq!(kinds(&format!("{line}\n")), [kind], "{line:?}");
        }
    }

    #[test]
    fn headings_inside_a_fence_are_code() {
        use Line::{Code, Fence, Heading};
        assert_eq!(kinds("```\n# a\n```\n# b\n"), [Fence, Code, Fence, Heading]);
        assert_eq!(kinds("````\n```\n# a\n````\r\n# b"), [Fence, Code, Code, Fence, Heading]);
        assert_eq!(kinds("~~~\n```\n# a\n~~~~\n# b"), [Fence, Code, Code, Fence, Heading]);
        assert_eq!(kinds("```\n# a\n``` no end\n# b"), [Fence, Code, Code, Code]);
    }

    #[test]
    fn no_text_is_lost() {
        for text in ["", "\n", "a", "a\nb", "a\r\n\r\nb\n", "```\nopen"] {
            assert_eq!(lines(text).map(|(_, line)| line).collect::<String>(), text);
        }
    }

    #[test]
    fn bold_text_needs_marks_on_both_sides() {
        for (line, is_bold) in [
            ("this is **bold** text", true),
            ("__bold__", true),
            ("**", false),
            ("****", false),
            ("2 ** 3 ** 4", false),
            ("**open", false),
            ("a ** b **c**", true),
        ] {
            assert_eq!(has_bold(line), is_bold, "{line:?}");
        }
    }
}
