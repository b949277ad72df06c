//! A regular expression that lines are asked about one by one: whether it matches, never where.
//!
//! That needs two of the engines that `regex` is made of and none of its choosing between all of them, which is 370 kB:
//! the automaton that is built as it is needed, and for lines that it gives up (those that are not ASCII, where `\b` is
//! asked for) the one that follows all states.

use std::error::Error;

use regex_automata::Input;
use regex_automata::hybrid::dfa::{self, DFA};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;

/// A compiled expression with the memory that it is searched with.
pub struct Expression {
    all: (PikeVM, pikevm::Cache),
    /// Left out where the expression is too large for it.
    quick: Option<(DFA, dfa::Cache)>,
}

impl Expression {
    /// Compiles it, each engine to at most `memory` bytes.
    ///
    /// # Errors
    /// Why it cannot be, in words of the parser, which show the place.
    pub fn new(pattern: &str, is_case_ignored: bool, memory: usize) -> Result<Self, String> {
        let syntax = syntax::Config::new().utf8(false).case_insensitive(is_case_ignored);
        let compiler =
            thompson::Config::new().utf8(false).which_captures(WhichCaptures::None).nfa_size_limit(Some(memory));
        let all = PikeVM::builder().syntax(syntax).thompson(compiler).build(pattern);
        let all = all.map_err(|error| match (error.size_limit(), error.source()) {
            (Some(_), _) => format!("it would take more than {memory} bytes."),
            (None, Some(source)) => source.to_string(),
            (None, None) => error.to_string(),
        })?;
        let config = DFA::config().unicode_word_boundary(true).cache_capacity(memory);
        let quick = DFA::builder().configure(config).build_from_nfa(all.get_nfa().clone()).ok();
        let with_memory = |quick: DFA| (quick.create_cache(), quick);
        let quick = quick.map(with_memory).map(|(cache, quick)| (quick, cache));
        let cache = all.create_cache();
        Ok(Self { all: (all, cache), quick })
    }

    /// Whether it matches somewhere in a line, whatever bytes that holds.
    pub fn is_match(&mut self, line: &[u8]) -> bool {
        let input = Input::new(line).earliest(true);
        let quick = self.quick.as_mut().and_then(|(quick, cache)| quick.try_search_fwd(cache, &input).ok());
        quick.map_or_else(|| self.all.0.is_match(&mut self.all.1, line), |end| end.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: usize = 8 << 20;

    #[test]
    fn lines_match_by_letters_of_all_languages_and_by_bytes_of_none() {
        for (pattern, line, expected) in [
            ("needle", "a needle in hay", true),
            ("^needle$", "a needle", false),
            (r"\bfoo\b", "a foo b", true),
            (r"\bfoo\b", "ä foo ö", true),
            (r"\bfoo\b", "äfoo", false),
            (r"\bé\b", "un é là", true),
            (r"^\w+$", "größe", true),
            (r"^\d+\s\D$", "42 x", true),
            ("a.c", "aäc", true),
            ("(?i)ÄRGER", "ärger", true),
            ("(?:foo|ba[rz]){2}", "xfoobaz", true),
            ("x*", "", true),
        ] {
            assert_eq!(
                Expression::new(pattern, false, MEMORY).unwrap().is_match(line.as_bytes()),
                expected,
                "{pattern}"
            );
        }
        let mut ignoring = Expression::new("STRASSE|Ñ", true, MEMORY).unwrap();
        assert!(ignoring.is_match(b"\xff strasse") && ignoring.is_match("ñ".as_bytes()) && !ignoring.is_match(b"\xf1"));
        assert!(Expression::new(r"(?-u)\xff", false, MEMORY).unwrap().is_match(b"a\xff"));
    }

    #[test]
    fn one_that_is_too_large_for_the_quick_engine_is_searched_for_all_the_same() {
        let mut large = Expression::new(r"a{50}[\w\s]{20}b", false, 1 << 19).unwrap();
        large.quick = None;
        let line = format!("{}{}b", "a".repeat(50), "ä ".repeat(10));
        assert!(large.is_match(line.as_bytes()) && !large.is_match(b"aab"));
    }

    #[test]
    fn what_cannot_be_compiled_is_told_with_its_place() {
        let told = |pattern| Expression::new(pattern, false, MEMORY).err().unwrap();
        let words = told("a(b");
        assert!(words.contains("a(b\n") && words.contains("unclosed group"), "{words}");
        assert!(told("(?=a)").contains("look-around"));
        assert_eq!(told("(a{1000}){1000}"), "it would take more than 8388608 bytes.");
    }
}
