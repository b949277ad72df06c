//! The rules that the answer "always" gives.

use std::path::Path;

use super::matching::{base_name, is_wrapper};
use super::readonly;
use super::shell::{self, SimpleCommand};
use crate::domain::rule::{Rule, Subject};

/// More rules than this cannot be read before they are saved.
const MAX_RULES: usize = 5;

/// Programs with subcommands of everyday use. Their options can run other programs (`cargo --config`, `npm --script-shell`),
/// so any arguments are allowed only where the sandbox holds them.
const WITH_SUBCOMMANDS: &[(&str, &[&str])] = &[
    ("cargo", &["build", "check", "clippy", "doc", "fmt", "test", "tree", "metadata"]),
    ("git", &["add", "status"]),
    ("go", &["fmt", "test"]),
    ("npm", &["test", "run build", "run lint", "run test", "ls"]),
    ("pnpm", &["test", "run build", "run lint", "run test"]),
    ("yarn", &["test", "build", "lint"]),
    ("dotnet", &["build", "test"]),
];

/// Programs that carry out what they read or what an argument says, besides those that run another command.
const INTERPRETERS: &[&str] = &[
    ".", "awk", "bun", "deno", "ed", "eval", "ex", "gawk", "gdb", "lua", "m4", "nawk", "node", "patch", "perl", "php",
    "python", "ruby", "sed", "source", "tclsh", "tee", "vi", "vim",
];

/// The rules that would have allowed this command, the narrowest that are of use: a known subcommand with any arguments
/// in the sandbox, otherwise exactly this command. Empty if the command is not plain, too long for rules, or does what its
/// input says.
pub fn suggest_rules(command: &str, sandboxed: bool) -> Vec<Rule> {
    let Ok(commands) = shell::parse(command) else { return Vec::new() };
    let is_free =
        |command: &&SimpleCommand| readonly::reads(std::slice::from_ref(command), None, sandboxed, &|_| false).is_ok();
    let mut rules: Vec<Rule> = Vec::new();
    for command in commands.iter().filter(|command| !is_free(command)) {
        let Some(rule) = rule_for(command, sandboxed) else { return Vec::new() };
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    if rules.len() > MAX_RULES { Vec::new() } else { rules }
}

/// The rule for all files of a directory and below, relative to the workspace, if it is there. Of the workspace itself only
/// for the files that are directly in it.
pub fn suggest_directory(subject: Subject, directory: &Path, workspace: &Path) -> Option<Rule> {
    let relative = directory.strip_prefix(workspace).unwrap_or(directory);
    let text = relative.to_str()?;
    // As the beginning of a pattern it would mean another directory.
    let means_another = text.starts_with(['~', '!']) || text.trim() != text;
    if means_another || text.contains('\\') {
        return None;
    }
    let escaped = globset::escape(text);
    let pattern = match relative.as_os_str().is_empty() {
        true => "*".to_owned(),
        false => format!("{}/**", escaped.trim_end_matches('/')),
    };
    Rule::new(subject, &pattern).ok()
}

fn rule_for(command: &SimpleCommand, sandboxed: bool) -> Option<Rule> {
    if command.input.is_some() || runs_its_input(command.program()) {
        return None;
    }
    let text = command.canonical();
    let subcommands = WITH_SUBCOMMANDS.iter().find(|(program, _)| sandboxed && *program == command.program());
    let known = subcommands.and_then(|(program, names)| {
        let prefixes = names.iter().map(|name| format!("{program} {name}"));
        prefixes.into_iter().find(|prefix| text == *prefix || text.starts_with(&format!("{prefix} ")))
    });
    match known {
        Some(prefix) => Rule::new(Subject::Bash, &format!("{prefix}:*")).ok(),
        // A star of the command would become one of the rule.
        None if text.contains('*') => None,
        None => Rule::new(Subject::Bash, &text).ok(),
    }
}

/// Whether a program runs another command, or what it reads: also with a version in its name, as `python3.12`.
fn runs_its_input(program: &str) -> bool {
    let name = base_name(program).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    is_wrapper(program) || name.is_empty() || INTERPRETERS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_suggested_only_under_a_name_that_means_itself() {
        let suggest = |below: &str| {
            let workspace = Path::new("/home/me/w");
            let rule = suggest_directory(Subject::Edit, &workspace.join(below), workspace)?;
            let matcher = rule.path_matcher(workspace, Some(Path::new("/home/me"))).unwrap();
            assert!(matcher.is_match(workspace.join(below).join("x")), "{rule}");
            assert!(!matcher.is_match("/home/me/.bashrc") && !matcher.is_match("/etc/passwd"), "{rule}");
            Some(rule.to_string())
        };
        assert_eq!(suggest("src").as_deref(), Some("edit(src/**)"));
        assert_eq!(suggest("").as_deref(), Some("edit(*)"));
        assert_eq!(suggest("a*b").as_deref(), Some("edit(a[*]b/**)"));
        for odd in ["~", "~/src", " ", " src", "src ", r"a\b"] {
            assert_eq!(suggest(odd), None, "{odd:?}");
        }
    }
}
