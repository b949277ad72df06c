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
        (_, true) => format!("{}…", first_words(said, COLUMNS - 1).0),
    }
}

/// The same as the subject of a commit: longer, and without an ellipsis.
pub fn subject(said: &str) -> String {
    first_words(said, SUBJECT_COLUMNS).0
}

/// The words that fit, and whether there are more.
fn first_words(said: &str, columns: usize) -> (String, bool) {
    let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let words = text::sanitise(line.trim()).split_whitespace().collect::<Vec<_>>().join(" ");
    if text::width(&words) <= columns {
        return (words, false);
    }
    let cut = text::truncate(&words, columns);
    let is_whole = words[cut.len()..].starts_with(' ');
    let whole = cut.rsplit_once(' ').filter(|_| !is_whole).map_or(cut, |(whole, _)| whole);
    (whole.to_owned(), true)
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
            ("", ""),
        ] {
            assert_eq!(title(said), expected);
        }
        assert_eq!(subject(long), long);
        let longer = format!("{long} in each of them");
        assert_eq!(subject(&longer), long);
    }
}
