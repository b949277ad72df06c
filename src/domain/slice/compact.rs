//! Shortens long tool results to their first and last lines.

/// Lines kept at each end.
const LINES: usize = 5;
/// The most bytes kept at each end.
const BYTES: usize = 600;
/// An upper bound of the size of the note about omitted text.
const NOTE_BYTES: usize = 80;

/// Shortens text to at most 11 lines and 1,280 bytes; `None` if it is short enough. Idempotent; the text never grows.
pub(super) fn compact(content: &str) -> Option<String> {
    if content.len() <= 2 * BYTES + NOTE_BYTES && content.lines().count() <= 2 * LINES + 1 {
        return None;
    }
    let (head, rest) = content.split_at(end_of_head(content));
    let (middle, tail) = rest.split_at(start_of_tail(rest));
    let note = format!("[… {} lines, {} bytes omitted …]", middle.lines().count(), middle.len());
    let between = |is_line_end: bool| if is_line_end { "" } else { "\n" };
    let short = format!("{head}{}{note}\n{tail}", between(head.ends_with('\n')));
    (short.len() < content.len()).then_some(short)
}

/// The end of the first lines, including the newline; earlier if they are long.
fn end_of_head(text: &str) -> usize {
    let lines = text.match_indices('\n').nth(LINES - 1).map_or(text.len(), |(at, _)| at + 1);
    (0..=lines.min(BYTES)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The start of the last lines; later if they are long.
fn start_of_tail(text: &str) -> usize {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let lines = body.rmatch_indices('\n').nth(LINES - 1).map_or(0, |(at, _)| at + 1);
    let earliest = lines.max(text.len().saturating_sub(BYTES));
    (earliest..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_last_lines_are_kept_and_the_rest_is_counted() {
        let content: String = (1..=100).map(|n| format!("line {n}\n")).collect();
        let short = compact(&content).expect("it is long");
        assert!(short.starts_with("line 1\n") && short.ends_with("line 100\n"), "{short}");
        assert!(short.contains("line 5\n[… 90 lines, 716 bytes omitted …]\nline 96\n"), "{short}");
    }

    #[test]
    fn short_text_is_unchanged() {
        for content in ["", "\n", "one line", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n"] {
            assert_eq!(compact(content), None);
        }
    }

    #[test]
    fn shortened_text_never_grows_and_is_not_shortened_again() {
        let letters = ["a", "語", "👨‍👩‍👧", "\n", "\n", "\r\n", " ", "0123456789abcdef"];
        let mut rng = fastrand::Rng::with_seed(5);
        for round in 0..3000 {
            let mut content = String::new();
            for _ in 0..round % 700 {
                content.push_str(rng.choice(letters).unwrap_or_default());
            }
            let Some(short) = compact(&content) else { continue };
            assert!(short.len() < content.len() && short.len() <= 2 * BYTES + NOTE_BYTES, "{content:?}");
            assert!(short.lines().count() <= 2 * LINES + 1, "{short:?} of {content:?}");
            assert_eq!(compact(&short), None, "{short:?}");
        }
    }

    #[test]
    fn one_long_line_is_cut_between_characters() {
        let short = compact(&"語".repeat(10_000)).expect("it is long");
        assert!(short.starts_with('語') && short.ends_with('語') && short.contains("omitted"));
    }
}
