//! Proves that a shell command is plain: its text alone determines what bash will run.
//!
//! A plain command is a list or pipeline of simple commands whose words are literal, each with literal values for
//! variables that are only settings. Everything else is not plain, with a reason: substitutions, variables, other
//! assignments, redirects to files, background jobs, compound commands, comments. Two readers that share nothing have
//! to agree on every word: the lexer here, which reads only the plain subset, and a bash grammar (feature
//! `shell-grammar`). Without the grammar no command is plain.
//!
//! The proof holds for `bash --norc --noprofile -c` without variables that change the meaning of a command, such as
//! `BASH_ENV`, `BASH_FUNC_*`, `IFS`, `CDPATH` and `SHELLOPTS`.

use std::ops::Range;

#[cfg(feature = "shell-grammar")]
mod grammar;
#[cfg(feature = "shell-grammar")]
mod lexer;

/// A longer command is not parsed, in bytes.
#[cfg(any(test, feature = "shell-grammar"))]
pub const MAX_LENGTH: usize = 16 * 1024;
/// More simple commands are not parsed: the grammar calls itself for each.
#[cfg(feature = "shell-grammar")]
const MAX_COMMANDS: usize = 64;

/// A simple command as bash runs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimpleCommand {
    /// The variables that are set for the program, and their values.
    pub assignments: Vec<(String, String)>,
    /// The program and its arguments; at least one.
    pub words: Vec<Word>,
    /// The file that standard input is read from (`< FILE`).
    pub input: Option<String>,
    /// It reads the output of the command before it.
    pub is_piped: bool,
}

/// A word after the shell has removed its quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    /// It contains an unquoted `*`, `?` or `[`: bash may replace it by names of files, which may begin with `-`.
    pub is_glob: bool,
    /// Which bytes of the text were quoted; only kept for a pattern, where that makes a difference.
    pub quoted: Vec<Range<usize>>,
}

impl SimpleCommand {
    pub fn program(&self) -> &str {
        self.words.first().map_or("", |word| word.text.as_str())
    }

    pub fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }

    /// Whether it gets input.
    pub fn is_fed(&self) -> bool {
        self.is_piped || self.input.is_some()
    }

    /// The command on one line, quoted where needed, so that two different commands never look alike.
    pub fn canonical(&self) -> String {
        let assignments = self.assignments.iter().map(|(name, value)| format!("{name}={}", quote(value)));
        assignments.chain(self.words.iter().map(Word::canonical)).collect::<Vec<_>>().join(" ")
    }
}

impl Word {
    fn canonical(&self) -> String {
        if matches!(self.text.as_str(), "[" | "]") {
            return self.text.clone();
        }
        if self.is_glob {
            return self.canonical_pattern();
        }
        quote(&self.text)
    }

    /// A pattern with the same characters quoted: `'a b?'` is one file, `'a b'?` are many.
    fn canonical_pattern(&self) -> String {
        let (mut pattern, mut at) = (String::new(), 0);
        for Range { start, end } in &self.quoted {
            pattern += &self.text[at..*start];
            pattern += &single_quoted(&self.text[*start..*end]);
            at = *end;
        }
        pattern + &self.text[at..]
    }
}

fn quote(text: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-^~{}".contains(c);
    if !text.is_empty() && text.chars().all(is_safe) { text.to_owned() } else { single_quoted(text) }
}

fn single_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The simple commands of a plain command, in the order of the text.
///
/// # Errors
/// The command is not plain; the message says what it contains.
#[cfg(feature = "shell-grammar")]
pub fn parse(command: &str) -> Result<Vec<SimpleCommand>, &'static str> {
    if command.len() > MAX_LENGTH {
        return Err("more than 16 KiB");
    }
    let lexed = lexer::lex(command)?;
    grammar::confirm(command, &lexed)?;
    Ok(lexed.into_iter().map(|command| command.simple).collect())
}

/// No command is plain, since there is no grammar to prove it.
#[cfg(not(feature = "shell-grammar"))]
pub fn parse(_: &str) -> Result<Vec<SimpleCommand>, &'static str> {
    Err("this build cannot parse commands")
}

#[cfg(all(test, feature = "shell-grammar"))]
mod tests {
    use super::*;

    fn canonical(command: &str) -> Result<Vec<String>, &'static str> {
        parse(command).map(|commands| commands.iter().map(SimpleCommand::canonical).collect())
    }

    #[test]
    fn a_pattern_never_looks_like_another_word() {
        let written = [
            "'a b?'", "'a b'?", "a' b'?", "a\\ b?", "a?", "'a?'", "a'?'", "'*'?", "*?", "*'?'", "[a-z]", "[a'-'z]",
            "'[a-z]'", "''*", "*", "'*'",
        ];
        let canonical = |word: &str| canonical(&format!("rm {word}")).unwrap().remove(0);
        let same = [("'a b'?", "a' b'?"), ("''*", "*"), ("'a?'", "a'?'")];
        for one in written {
            for other in written {
                let may_be_same = one == other || same.contains(&(one, other)) || same.contains(&(other, one));
                let is_same = canonical(one) == canonical(other);
                assert!(!is_same || may_be_same, "{one} and {other} are both {}", canonical(one));
            }
            // The canonical form is the same command.
            assert_eq!(parse(&canonical(one)), parse(&format!("rm {one}")), "{one}");
        }
        assert_eq!(canonical("'a b'?"), "rm 'a b'?");
        assert_eq!(canonical("'a b?'"), "rm 'a b?'");
    }

    #[test]
    fn a_plain_command_is_taken_apart_and_quotes_are_removed() {
        for (command, expected) in [
            ("ls -la", &["ls -la"] as &[&str]),
            ("cd src && grep -rn 'a b' . | head -5; pwd", &["cd src", "grep -rn 'a b' .", "head -5", "pwd"]),
            ("a |\n\nb\n\n c;", &["a", "b", "c"]),
            (r#"r\m 'a'"b"c "x\"y" "\n""#, &[r#"rm abc 'x"y' '\n'"#]),
            ("echo 'it'\\''s'", &[r"echo 'it'\''s'"]),
            ("ls *.rs 'a*'", &["ls *.rs 'a*'"]),
            ("find . ! -name x -o -size +1", &["find . '!' -name x -o -size +1"]),
            ("ls 2>&1 >/dev/null 2> /dev/null | wc", &["ls", "wc"]),
            ("[ -f x ] && git show HEAD~1 HEAD@{1} HEAD^ {}", &["[ -f x ]", "git show HEAD~1 HEAD@{1} HEAD^ {}"]),
            ("A=1 B_2='x y' C= make test", &["A=1 B_2='x y' C='' make test"]),
            (
                "PYTHONPATH=src python -m pytest -q && X=\"a\"b ./run",
                &["PYTHONPATH=src python -m pytest -q", "X=ab ./run"],
            ),
            ("grep foo\\$ 'ü' a#b", &["grep 'foo$' 'ü' 'a#b'"]),
        ] {
            let expected: Vec<String> = expected.iter().map(|&text| text.to_owned()).collect();
            assert_eq!(canonical(command).as_ref(), Ok(&expected), "{command}");
        }
        assert_eq!(parse("sort <in -u").unwrap()[0].input.as_deref(), Some("in"));
        assert!(parse("ls *").unwrap()[0].words[1].is_glob && !parse("ls '*'").unwrap()[0].words[1].is_glob);
    }

    #[test]
    fn assignments_that_are_more_than_a_setting_are_not_plain() {
        for command in [
            "A=1",
            "A=1; make",
            "export A=1 | A=2",
            "LD_PRELOAD=./x make",
            "PATH=. make",
            "A=1 GIT_PAGER=x git log",
            "A=$B make",
            "A=~/x make",
            "A=* make",
            "A=(1 2) make",
            "A+=1 make",
            "A[0]=1 make",
            "'A'=1 make",
            "A=1 >/dev/null make",
            "A=1 if",
            "A=`x` make",
            "A=a:~/x make",
            "A={1,2} make",
        ] {
            assert!(parse(command).is_err(), "{command}");
        }
        assert!(parse("A=1 make").is_ok_and(|commands| commands[0].program() == "make"));
        assert!(parse("a |\nb").is_ok_and(|commands| commands[1].is_piped && !commands[0].is_piped));
        assert!(parse("a || b; c").is_ok_and(|commands| commands.iter().all(|command| !command.is_piped)));
    }
}
