//! Titles of conversations.

use crate::base::text;

/// Columns of a title.
const COLUMNS: usize = 48;

/// The first words of the user's first message, on one line.
pub fn title(said: &str) -> String {
    let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let words = text::sanitise(line.trim()).split_whitespace().collect::<Vec<_>>().join(" ");
    if text::width(&words) <= COLUMNS {
        return words;
    }
    let cut = text::truncate(&words, COLUMNS - 1);
    let whole = cut.rsplit_once(' ').map_or(cut, |(whole, _)| whole);
    format!("{whole}…")
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
    }
}
