//! Long results of tools made short: their first and last lines, and how much was left out between them.

/// Lines that are kept at each end.
const LINES: usize = 5;
/// Bytes that are kept at each end, at most.
const BYTES: usize = 600;
/// More than the note about what was left out ever takes.
const NOTE_BYTES: usize = 80;

/// The text in at most 11 lines and 1,280 bytes. What fits stays as it is, so doing it twice is doing it once; it never
/// grows.
pub(super) fn compact(content: &str) -> Option<String> {
    if content.len() <= 2 * BYTES + NOTE_BYTES && content.lines().count() <= 2 * LINES + 1 {
        return None;
    }
    let (head, rest) = content.split_at(end_of_head(content));
    let (middle, tail) = rest.split_at(start_of_tail(rest));
    let note = format!("[… {} lines, {} bytes left out …]", middle.lines().count(), middle.len());
    let between = |is_line_end: bool| if is_line_end { "" } else { "\n" };
    let short = format!("{head}{}{note}\n{tail}", between(head.ends_with('\n')));
    (short.len() < content.len()).then_some(short)
}

/// Behind the first lines, newline included; earlier if they are long.
fn end_of_head(text: &str) -> usize {
    let lines = text.match_indices('\n').nth(LINES - 1).map_or(text.len(), |(at, _)| at + 1);
    (0..=lines.min(BYTES)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Before the last lines; later if they are long.
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
    fn the_first_and_the_last_lines_stay_and_the_rest_is_counted() {
        let content: String = (1..=100).map(|n| format!("line {n}\n")).collect();
        let short = compact(&content).expect("it is long");
        assert!(short.starts_with("line 1\n") && short.ends_with("line 100\n"), "{short}");
        assert!(short.contains("line 5\n[… 90 lines, 716 bytes left out …]\nline 96\n"), "{short}");
    }

    #[test]
    fn what_is_short_stays_as_it_is() {
        for content in ["", "\n", "one line", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n"] {
            assert_eq!(compact(content), None);
        }
    }

    #[test]
    fn whatever_is_made_short_never_grows_and_is_short_enough_for_good() {
        let letters = ["a", "語", "👨‍👩‍👧", "\n", "\n", "\r\n", " ", "0123456789abcdef"];
        let mut seed = 5_u32;
        for round in 0..3000 {
            let mut content = String::new();
            for _ in 0..round % 700 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                content.push_str(letters[(seed >> 24) as usize % letters.len()]);
            }
            let Some(short) = compact(&content) else { continue };
            assert!(short.len() < content.len() && short.len() <= 2 * BYTES + NOTE_BYTES, "{content:?}");
            assert!(short.lines().count() <= 2 * LINES + 1, "{short:?} of {content:?}");
            assert_eq!(compact(&short), None, "{short:?}");
        }
    }

    #[test]
    fn one_endless_line_is_cut_between_characters() {
        let short = compact(&"語".repeat(10_000)).expect("it is long");
        assert!(short.starts_with('語') && short.ends_with('語') && short.contains("left out"));
    }
}
