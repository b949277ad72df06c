//! Which commands a rule matches.
//!
//! Allowing is exact: the whole simple command, quoted where needed, must match. Denying and asking are generous: a
//! program is also known by its base name, behind a program that runs others, and in the text of commands that are not
//! plain. Still, a deny rule is no boundary: a program can be reached by names that no text shows.

use std::path::Path;

use super::shell::SimpleCommand;
use crate::domain::rule::{Rule, Subject};

/// Programs whose arguments contain another command.
const WRAPPERS: &[&str] = &[
    "ash", "bash", "builtin", "busybox", "chroot", "command", "dash", "doas", "env", "eval", "exec", "fd", "find",
    "flock", "ionice", "ksh", "nice", "nohup", "nsenter", "parallel", "script", "setsid", "sh", "ssh", "stdbuf",
    "strace", "su", "sudo", "taskset", "time", "timeout", "unshare", "watch", "xargs", "zsh",
];
/// Programs that execute what they read or what an argument contains, besides those that run another command.
const INTERPRETERS: &[&str] = &[
    ".", "awk", "bun", "deno", "ed", "eval", "ex", "gawk", "gdb", "lua", "m4", "nawk", "node", "patch", "perl", "php",
    "python", "ruby", "sed", "source", "tclsh", "tee", "vi", "vim",
];
const RESERVED: &[&str] =
    &["!", "if", "then", "elif", "else", "while", "until", "do", "time", "coproc", "in", "for", "case"];
/// A text with more words is not searched, and counts as a possible match.
const MAX_WORDS: usize = 512;

/// How surely a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    No,
    /// The text of the rule is there, but perhaps not as a command.
    Possible,
    Certain,
}

/// Whether the arguments of a program contain another command.
pub fn is_wrapper(program: &str) -> bool {
    WRAPPERS.contains(&base_name(program))
}

/// Whether a program runs another command, or what it reads: also with a version in its name, as `python3.12`.
pub fn runs_its_input(program: &str) -> bool {
    let name = interpreter(program);
    is_wrapper(program) || name.is_empty() || INTERPRETERS.contains(&name)
}

/// The name of a program without its directory and its version.
pub fn interpreter(program: &str) -> &str {
    base_name(program).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-')
}

/// Whether an allow rule covers this simple command. For a program that executes what it reads, a rule without a star
/// applies only if the program gets no input, which the rule does not mention.
pub fn allows(rule: &Rule, command: &SimpleCommand) -> bool {
    let is_of_more = || !rule.pattern().contains('*') && command.is_fed() && runs_its_input(command.program());
    rule.subject() == Subject::Bash && is_match(rule.pattern(), &command.canonical()) && !is_of_more()
}

/// How a deny or ask rule matches simple commands.
pub fn catches(rule: &Rule, commands: &[SimpleCommand]) -> Match {
    if rule.subject() != Subject::Bash {
        return Match::No;
    }
    let of_command = |command: &SimpleCommand| {
        let words: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
        let is_canonical = is_match(rule.pattern(), &command.canonical());
        if is_canonical || is_match_of_words(rule, &words) { Match::Certain } else { Match::No }
    };
    commands.iter().map(of_command).max().unwrap_or(Match::No)
}

/// How a deny or ask rule matches a text that is not plain.
pub fn catches_text(rule: &Rule, text: &str) -> Match {
    if rule.subject() != Subject::Bash {
        return Match::No;
    }
    let unquoted = text.replace(['\'', '"', '\\'], "");
    // Most texts do not contain the longest word of the rule.
    let literal = rule.pattern().split(|c: char| c == '*' || c.is_whitespace()).max_by_key(|part| part.len());
    let literal = literal.unwrap_or_default().trim_end_matches(':');
    if !unquoted.contains(literal) {
        return Match::No;
    }
    let is_separator = |c: char| ";&|\n(){}`".contains(c);
    if unquoted.split(|c: char| is_separator(c) || c.is_whitespace()).count() > MAX_WORDS {
        return Match::Possible;
    }
    unquoted.split(is_separator).map(|fragment| catches_fragment(rule, fragment)).max().unwrap_or(Match::No)
}

fn catches_fragment(rule: &Rule, fragment: &str) -> Match {
    let words: Vec<&str> = fragment.split_whitespace().collect();
    let is_prefix = |word: &&&str| RESERVED.contains(*word) || word.contains('=') || word.contains(['<', '>']);
    let skipped = words.iter().take_while(is_prefix).count();
    if is_match_of_words(rule, &words[skipped..]) {
        return Match::Certain;
    }
    let is_possible = (0..words.len()).any(|at| is_match_from(rule, &words[at..]));
    if is_possible { Match::Possible } else { Match::No }
}

/// Whether the rule matches this command, or the one that it runs.
fn is_match_of_words(rule: &Rule, words: &[&str]) -> bool {
    let Some((program, rest)) = words.split_first() else { return false };
    let is_inner = |at: usize| {
        let is_script = rest[at].contains(char::is_whitespace);
        is_match_from(rule, &rest[at..]) || (is_script && catches_text(rule, rest[at]) == Match::Certain)
    };
    let is_wrapper = is_wrapper(program);
    is_match_from(rule, words) || (is_wrapper && (0..rest.len().min(MAX_WORDS)).any(is_inner))
}

/// Whether the rule matches the command that begins with the first of these words.
fn is_match_from(rule: &Rule, words: &[&str]) -> bool {
    let Some(program) = words.first() else { return false };
    let joined = words.join(" ");
    let by_base_name = format!("{}{}", base_name(program), &joined[program.len()..]);
    is_match(rule.pattern(), &joined) || is_match(rule.pattern(), &by_base_name)
}

pub fn base_name(program: &str) -> &str {
    Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program)
}

/// `*` matches any text, and ` *` and `:*` at the end any arguments or none.
pub fn is_match(pattern: &str, command: &str) -> bool {
    match pattern.strip_suffix(":*").or_else(|| pattern.strip_suffix(" *")) {
        Some(prefix) => is_wildcard(prefix, command) || is_wildcard(&format!("{prefix} *"), command),
        None => is_wildcard(pattern, command),
    }
}

/// Matches with `*` for any text, in at most `pattern * text` steps.
pub fn is_wildcard(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut from) = (0, 0);
    // The last star, and where in the text its end was tried last.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, from));
            at += 1;
        } else if pattern.get(at) == Some(&text[from]) {
            (at, from) = (at + 1, from + 1);
        } else if let Some((position, tried)) = star {
            star = Some((position, tried + 1));
            (at, from) = (position + 1, tried + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str) -> Rule {
        Rule::new(Subject::Bash, pattern).unwrap()
    }

    #[test]
    fn a_star_matches_text_and_at_the_end_arguments() {
        for (pattern, command, expected) in [
            ("git status", "git status", true),
            ("git status", "git status -s", false),
            ("git status*", "git status -s", true),
            ("git status*", "git statusx", true),
            ("ls *", "ls", true),
            ("ls *", "lsof", false),
            ("cargo test:*", "cargo test", true),
            ("cargo test:*", "cargo test --all", true),
            ("cargo test:*", "cargo tests", false),
            ("git * main", "git push origin main", true),
            ("*", "anything at all", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
        ] {
            assert_eq!(is_match(pattern, command), expected, "{pattern} {command}");
        }
    }

    #[test]
    fn a_deny_rule_finds_its_command_in_text_that_is_not_plain() {
        let rm = rule("rm *");
        for (text, expected) in [
            ("echo $(rm -rf x)", Match::Certain),
            ("FOO=1 r\\m -rf x", Match::Certain),
            ("if true; then /bin/rm x; fi", Match::Certain),
            ("sudo -u root 'rm' x > log", Match::Certain),
            ("cat <<E\n`rm x`\nE", Match::Certain),
            ("bash -c \"cd x && rm -rf y\" > log", Match::Certain),
            ("echo please rm it > log", Match::Possible),
            ("$X rm", Match::Possible),
            ("echo rmdir x > log", Match::No),
        ] {
            assert_eq!(catches_text(&rm, text), expected, "{text}");
        }
    }

    #[cfg(feature = "shell-grammar")]
    #[test]
    fn a_deny_rule_finds_its_command_behind_wrappers_and_paths_only() {
        let rm = rule("rm *");
        for (text, expected) in [
            ("ls && /usr/bin/rm x", Match::Certain),
            ("timeout 5 nice rm x", Match::Certain),
            ("find . -exec rm x +", Match::Certain),
            ("sh -c 'ls; rm x'", Match::Certain),
            ("git commit -m 'rm x'", Match::No),
            ("echo rm x", Match::No),
        ] {
            assert_eq!(catches(&rm, &super::super::shell::parse(text).unwrap()), expected, "{text}");
        }
    }
}
