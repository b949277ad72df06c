//! Titles of conversations.

use crate::base::text;

/// Columns of a title.
const COLUMNS: usize = 48;

/// Columns of the subject of a commit.
const SUBJECT_COLUMNS: usize = 72;

/// The first words of the user's first message, on one line.
pub fn title(said: &str) -> String {
    match first_words(said, COLUMNS) {
        (words, false) => words,
        (words, true) if text::width(&words) < COLUMNS => words + "…",
        (_, true) => first_words(said, COLUMNS - 1).0 + "…",
    }
}

/// The same as the subject of a commit: longer, and without an ellipsis.
pub fn subject(said: &str) -> String {
    first_words(said, SUBJECT_COLUMNS).0
}

/// The words that fit, and whether there are more.
fn first_words(said: &str, columns: usize) -> (String, bool) {
    let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let (mut words, mut used) = (String::with_capacity(columns + '…'.len_utf8()), 0);
    for word in line.split_whitespace().map(text::sanitise) {
        let space = usize::from(used > 0);
        let width = space + text::width(&word);
        if used + width > columns {
            if words.is_empty() {
                words += text::truncate(&word, columns);
            }
            return (words, true);
        }
        if space > 0 {
            words.push(' ');
        }
        words += &word;
        used += width;
    }
    (words, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_words_of_the_first_line() {
        let long = "please find out why the total of the cart ignores the count of its lines";
        for (said, expected) in [
            ("why?", "why?"),
            ("\n\n  fix   the build \nand more", "fix the build"),
            (long, "please find out why the total of the cart…"),
            ("\u{1b}[2Jx", "␛[2Jx"),
            (&"x".repeat(49), &format!("{}…", "x".repeat(47))),
            (&"x".repeat(48), &"x".repeat(48)),
            (&"数 ".repeat(20), &format!("{}…", ["数"; 16].join(" "))),
            ("", ""),
        ] {
            assert_eq!(title(said), expected);
        }
        assert_eq!(subject(long), long);
        let longer = format!("{long} in each of them");
        assert_eq!(subject(&longer), long);
    }
}
