//! Patterns for paths, as shells and ignore files write them: `*`, `?`, `[a-z]` and `**`, with alternatives `{a,b}` if wanted.
//!
//! A pattern becomes a small automaton, and all of its states are followed at once: a path costs its length times the
//! pattern's, whatever stands in either. Translated to a regular expression it would cost 160 kB of program more.

/// A pattern, ready to be compared with paths.
#[derive(Debug)]
pub struct Wildcard {
    steps: Vec<Step>,
}

/// What one state asks of the next character, or where it goes without one.
#[derive(Debug, PartialEq)]
enum Step {
    Char(char),
    /// `?`: any character of a name.
    One,
    /// `[…]`: one character of a name that is, or is not, in one of these ranges.
    Class {
        is_negated: bool,
        ranges: Vec<(char, char)>,
    },
    /// `*`: any number of characters of a name.
    Name,
    /// `**`: any number of characters, slashes too.
    Path,
    /// Goes on at each of these states.
    Split(Vec<usize>),
}

/// Whether `{a,b}` means one of two, or itself as in an ignore file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Braces {
    /// One of those between the commas.
    Alternatives,
    /// Themselves.
    Plain,
}

impl Wildcard {
    /// Reads a pattern. A backslash takes the meaning of the character after it away.
    ///
    /// # Errors
    /// What is wrong with it, in words without a full stop.
    pub fn new(pattern: &str, braces: Braces) -> Result<Self, &'static str> {
        let mut reading = Reading { rest: pattern.chars().peekable(), steps: Vec::new(), open: Vec::new(), braces };
        reading.pattern()?;
        Ok(Self { steps: reading.steps })
    }

    /// Whether the whole path fits. A slash is only matched by a slash and by `**`.
    pub fn is_match(&self, path: &str) -> bool {
        if self.is_seen_at_its_ends(path) {
            return false;
        }
        let (mut now, mut next) = (States::of(&self.steps), States::of(&self.steps));
        now.enter(0, &self.steps);
        for letter in path.chars() {
            for state in now.list.drain(..) {
                self.follow(state, letter, &mut next);
            }
            if next.list.is_empty() {
                return false;
            }
            now.is_in.fill(false);
            std::mem::swap(&mut now, &mut next);
        }
        now.is_in[self.steps.len()]
    }

    /// Whether a look at the first and the last character says that it cannot fit: most rules of an ignore file end here.
    fn is_seen_at_its_ends(&self, path: &str) -> bool {
        let is_other = |step: Option<&Step>, letter: Option<char>| match step {
            Some(Step::Char(wanted)) => letter != Some(*wanted),
            _ => false,
        };
        // Behind the last of several alternatives there may be a character that belongs to that one alone.
        let has_one_end = !self.steps.iter().any(|step| matches!(step, Step::Split(_)));
        is_other(self.steps.first(), path.chars().next())
            || has_one_end && is_other(self.steps.last(), path.chars().next_back())
    }

    fn follow(&self, state: usize, letter: char, next: &mut States) {
        let Some(step) = self.steps.get(state) else { return };
        match step {
            Step::Char(wanted) if *wanted == letter => next.enter(state + 1, &self.steps),
            Step::One if letter != '/' => next.enter(state + 1, &self.steps),
            Step::Class { is_negated, ranges } if letter != '/' && is_within(letter, ranges) != *is_negated => {
                next.enter(state + 1, &self.steps);
            }
            Step::Name if letter != '/' => next.enter(state, &self.steps),
            Step::Path => next.enter(state, &self.steps),
            _ => {}
        }
    }
}

fn is_within(letter: char, ranges: &[(char, char)]) -> bool {
    ranges.iter().any(|(from, to)| (*from..=*to).contains(&letter))
}

/// The states that a match may be in, each once; the one behind the last step is the end.
struct States {
    list: Vec<usize>,
    is_in: Vec<bool>,
}

impl States {
    fn of(steps: &[Step]) -> Self {
        Self { list: Vec::new(), is_in: vec![false; steps.len() + 1] }
    }

    /// Enters a state and those that are reached from it without a character.
    fn enter(&mut self, state: usize, steps: &[Step]) {
        let mut open = vec![state];
        while let Some(state) = open.pop() {
            if std::mem::replace(&mut self.is_in[state], true) {
                continue;
            }
            match steps.get(state) {
                Some(Step::Split(ways)) => open.extend(ways),
                Some(Step::Name | Step::Path) => {
                    self.list.push(state);
                    open.push(state + 1);
                }
                _ => self.list.push(state),
            }
        }
    }
}

/// A pattern that is being read.
struct Reading<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    steps: Vec<Step>,
    /// Those that have no `}` yet.
    open: Vec<Open>,
    braces: Braces,
}

/// Alternatives that are being read.
struct Open {
    /// The state that leads to each of them.
    start: usize,
    /// The states that lead out of them.
    ends: Vec<usize>,
    /// Whether a name begins with them.
    is_start: bool,
}

impl Reading<'_> {
    fn pattern(&mut self) -> Result<(), &'static str> {
        let mut is_start = true;
        while let Some(letter) = self.rest.next() {
            let has_braces = self.braces == Braces::Alternatives;
            let was_start = std::mem::replace(&mut is_start, letter == '/');
            match letter {
                '\\' => self.escaped()?,
                '?' => self.steps.push(Step::One),
                '[' => self.class()?,
                '*' => is_start = self.stars(was_start),
                '{' | ',' | '}' if has_braces => is_start = self.brace(letter, was_start)?,
                _ => self.steps.push(Step::Char(letter)),
            }
        }
        if self.open.is_empty() { Ok(()) } else { Err("a { has no }") }
    }

    fn escaped(&mut self) -> Result<(), &'static str> {
        self.steps.push(Step::Char(self.rest.next().ok_or("there is nothing after the last \\")?));
        Ok(())
    }

    /// One or more stars; two are for whole directories only where they stand alone between slashes. Whether a name can
    /// begin after them, because a slash was taken with them.
    fn stars(&mut self, is_start: bool) -> bool {
        let mut count = 1;
        while self.rest.next_if_eq(&'*').is_some() {
            count += 1;
        }
        let after = self.rest.peek().copied();
        let is_end = after.is_none_or(|letter| letter == '/' || !self.open.is_empty() && ",}".contains(letter));
        if count != 2 || !is_start || !is_end {
            self.steps.push(Step::Name);
            return false;
        }
        if self.rest.next_if_eq(&'/').is_none() {
            self.steps.push(Step::Path);
            return false;
        }
        // No directory at all is one of "any number".
        let here = self.steps.len();
        self.steps.extend([Step::Split(vec![here + 1, here + 3]), Step::Path, Step::Char('/')]);
        true
    }

    /// A brace or a comma, and whether a name could begin with it. Whether one may begin after it.
    fn brace(&mut self, letter: char, is_start: bool) -> Result<bool, &'static str> {
        let here = self.steps.len();
        if letter == '{' {
            self.steps.push(Step::Split(vec![here + 1]));
            self.open.push(Open { start: here, ends: Vec::new(), is_start });
            return Ok(is_start);
        }
        let Some(open) = self.open.last_mut() else {
            self.steps.push(Step::Char(letter));
            return if letter == ',' { Ok(false) } else { Err("a } has no {") };
        };
        // What leads out of an alternative learns where to when the last of them is over.
        open.ends.push(here);
        self.steps.push(Step::Split(Vec::new()));
        if letter == '}' {
            self.close(here + 1);
            return Ok(false);
        }
        if let Step::Split(ways) = &mut self.steps[open.start] {
            ways.push(here + 1);
        }
        Ok(open.is_start)
    }

    /// Leads all of the newest alternatives to where the pattern goes on.
    fn close(&mut self, after: usize) {
        for end in self.open.pop().map(|open| open.ends).unwrap_or_default() {
            self.steps[end] = Step::Split(vec![after]);
        }
    }

    fn class(&mut self) -> Result<(), &'static str> {
        const UNCLOSED: &str = "a [ has no ]";
        let is_negated = self.rest.next_if(|letter| "!^".contains(*letter)).is_some();
        let mut ranges = Vec::new();
        loop {
            let letter = self.rest.next().ok_or(UNCLOSED)?;
            if letter == ']' && !ranges.is_empty() {
                break;
            }
            let from = self.plain(letter).ok_or(UNCLOSED)?;
            ranges.push((from, self.end_of_range(from)?));
        }
        self.steps.push(Step::Class { is_negated, ranges });
        Ok(())
    }

    fn plain(&mut self, letter: char) -> Option<char> {
        if letter == '\\' { self.rest.next() } else { Some(letter) }
    }

    /// What `-` leads to, if it does: the last in a class means itself.
    fn end_of_range(&mut self, from: char) -> Result<char, &'static str> {
        let mut ahead = self.rest.clone();
        if ahead.next() != Some('-') || ahead.next().is_none_or(|letter| letter == ']') {
            return Ok(from);
        }
        self.rest.next();
        let to = self.rest.next().and_then(|letter| self.plain(letter)).unwrap_or(from);
        if from <= to { Ok(to) } else { Err("a range in [ ] runs backwards") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, path: &str) -> bool {
        Wildcard::new(pattern, Braces::Alternatives).unwrap().is_match(path)
    }

    fn fits_only(pattern: &str, yes: &[&str], no: &[&str]) {
        for (paths, expected) in [(yes, true), (no, false)] {
            for path in paths {
                assert_eq!(fits(pattern, path), expected, "{pattern} {path}");
            }
        }
    }

    #[test]
    fn each_sign_means_what_it_means_in_a_shell() {
        for (pattern, yes, no) in [
            ("a.c", &["a.c"][..], &["a", "a.cc", "ba.c", "x/a.c", ""][..]),
            ("*.c", &["a.c", ".c", "ä.c"], &["a.h", "x/a.c", "a.c/"]),
            ("a?c", &["abc", "aäc"], &["ac", "a/c", "abbc"]),
            ("[a-cx]", &["a", "b", "x"], &["d", "-", ""]),
            ("[!a-c]", &["d", "-"], &["a", "/", "dd"]),
            ("[^a]", &["b"], &["a"]),
            ("[]a]", &["]", "a"], &["b"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[\\]-]x", &["]x", "-x"], &["\\x"]),
            ("\\*\\{", &["*{"], &["a{", "\\*{"]),
            ("***", &["a", ""], &["a/b"]),
            ("a*b*c", &["abc", "aXbYc", "abbcc"], &["acb", "a/bc"]),
            ("a,b", &["a,b"], &["a", "b"]),
        ] {
            fits_only(pattern, yes, no);
        }
    }

    #[test]
    fn two_stars_are_any_number_of_directories() {
        for (pattern, yes, no) in [
            ("**", &["a", "a/b/c"][..], &[][..]),
            ("**/a", &["a", "x/a", "x/y/a"], &["xa", "a/x"]),
            ("a/**", &["a/b", "a/b/c"], &["a", "ab"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["ab", "a/xb", "a/x"]),
            ("**/a/**/*.c", &["a/b.c", "x/a/y/b.c"], &["b.c", "x/b.c"]),
            ("x**/a", &["x/a", "xy/a"], &["x/y/a", "a"]),
            ("{**/a,b}/c", &["a/c", "x/y/a/c", "b/c"], &["x/b/c"]),
        ] {
            fits_only(pattern, yes, no);
        }
    }

    #[test]
    fn alternatives_stand_anywhere_and_in_each_other() {
        for (pattern, yes, no) in [
            ("*.{rs,toml}", &["a.rs", "a.toml"][..], &["a.r", "a.rstoml", "a.{rs,toml}"][..]),
            ("{a,b{c,d}}e", &["ae", "bce", "bde"], &["be", "abce", "ace"]),
            ("a{,b}", &["a", "ab"], &["b", "abb"]),
            ("{a/,}b", &["a/b", "b"], &["a", "ab"]),
            ("{a}", &["a"], &["{a}"]),
        ] {
            fits_only(pattern, yes, no);
        }
        let plain = Wildcard::new("{a,b}", Braces::Plain).unwrap();
        assert!(plain.is_match("{a,b}") && !plain.is_match("a"));
    }

    #[test]
    fn what_is_no_pattern_is_told_in_words() {
        for (pattern, words) in [
            ("a[", "a [ has no ]"),
            ("a[]", "a [ has no ]"),
            ("a[\\", "a [ has no ]"),
            ("[z-a]", "a range in [ ] runs backwards"),
            ("{a", "a { has no }"),
            ("a}", "a } has no {"),
            ("a\\", "there is nothing after the last \\"),
        ] {
            assert_eq!(Wildcard::new(pattern, Braces::Alternatives).unwrap_err(), words, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_full_of_stars_costs_no_more_than_its_length_times_the_paths() {
        assert!(!fits(&"*a".repeat(400), &"a".repeat(399)));
        assert!(!fits(&format!("{}b", "**/".repeat(300)), &"a/".repeat(400)));
        assert!(!fits(&format!("{}b", "{a,a}".repeat(150)), &"a".repeat(151)));
    }
}
