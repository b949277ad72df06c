//! Fuzzy matching of names and paths, as pickers do it.

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// A query that texts are matched against.
pub struct Fuzzy {
    matcher: Matcher,
    pattern: Pattern,
    buffer: Vec<char>,
}

impl Fuzzy {
    /// For names and sentences.
    pub fn words(query: &str) -> Self {
        Self::new(query, Config::DEFAULT)
    }

    /// For paths: a match at the start of a component counts more.
    pub fn paths(query: &str) -> Self {
        Self::new(query, Config::DEFAULT.match_paths())
    }

    fn new(query: &str, config: Config) -> Self {
        let pattern = Pattern::new(query, CaseMatching::Smart, Normalization::Smart, AtomKind::Fuzzy);
        Self { matcher: Matcher::new(config), pattern, buffer: Vec::new() }
    }

    /// How well the text matches, more for a better match; `None` if it does not. An empty query matches everything.
    pub fn score(&mut self, text: &str) -> Option<u32> {
        self.pattern.score(Utf32Str::new(text, &mut self.buffer), &mut self.matcher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_match_in_order_and_best_side_by_side() {
        let mut fuzzy = Fuzzy::paths("draft");
        assert!(fuzzy.score("src/domain/draft.rs") > fuzzy.score("src/domain/read_after.rs").max(Some(0)));
        assert!(fuzzy.score("src/domain/draft.rs") > fuzzy.score("src/d/r/a/f/t.rs"));
        assert_eq!(fuzzy.score("src/main.rs"), None);
        assert!(Fuzzy::words("").score("anything").is_some());
    }
}
