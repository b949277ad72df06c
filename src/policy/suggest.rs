//! The rules that the answer "always" gives.

use std::path::Path;

use super::matching::{interpreter, runs_its_input};
use super::readonly;
use super::shell::{self, SimpleCommand};
use crate::domain::rule::{Rule, Subject};

/// More rules than this cannot be read before they are saved.
const MAX_RULES: usize = 5;

/// Programs with subcommands of everyday use. Their options can run other programs (`cargo --config`, `npm
/// --script-shell`), so any arguments are allowed only in the sandbox.
const WITH_SUBCOMMANDS: &[(&str, &[&str])] = &[
    ("cargo", &["build", "check", "clippy", "doc", "fmt", "test", "tree", "metadata"]),
    ("git", &["add", "status"]),
    ("go", &["fmt", "test"]),
    ("npm", &["test", "run build", "run lint", "run test", "ls"]),
    ("pnpm", &["test", "run build", "run lint", "run test"]),
    ("yarn", &["test", "build", "lint"]),
    ("dotnet", &["build", "test"]),
    ("python", PYTHON_MODULES),
    ("python3", PYTHON_MODULES),
];

const PYTHON_MODULES: &[&str] = &["-m black", "-m flake8", "-m mypy", "-m pytest", "-m ruff", "-m unittest"];

/// Interpreters that take the program from a file, if their first argument names one.
const OF_FILES: &[&str] = &["bun", "deno", "lua", "node", "perl", "php", "python", "ruby"];

/// The rules that would have allowed this command, the narrowest useful ones: a known subcommand with any arguments in
/// the sandbox, otherwise exactly this command. Empty if the command is not plain, too long for rules, or executes its
/// input.
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
    if command.input.is_some() {
        return None;
    }
    let text = command.canonical();
    let without = SimpleCommand { assignments: Vec::new(), ..command.clone() }.canonical();
    let assignments = &text[..text.len() - without.len()];
    let subcommands = WITH_SUBCOMMANDS.iter().find(|(program, _)| sandboxed && *program == command.program());
    let known = subcommands.and_then(|(program, names)| {
        let prefixes = names.iter().map(|name| format!("{program} {name}"));
        prefixes.into_iter().find(|prefix| without == *prefix || without.starts_with(&format!("{prefix} ")))
    });
    match known {
        // A star of an assignment would become one of the rule.
        Some(prefix) if !assignments.contains('*') => {
            Rule::new(Subject::Bash, &format!("{assignments}{prefix}:*")).ok()
        }
        _ if runs_its_input(command.program()) && !runs_a_file(command) => None,
        // A star of the command would become one of the rule.
        _ if text.contains('*') => None,
        _ => Rule::new(Subject::Bash, &text).ok(),
    }
}

/// Whether the arguments of an interpreter name the file that it runs, and it gets no other input.
fn runs_a_file(command: &SimpleCommand) -> bool {
    let first = command.arguments().first().map_or("", |word| word.text.as_str());
    let names_file = !first.is_empty() && !first.starts_with('-');
    names_file && !command.is_fed() && OF_FILES.contains(&interpreter(command.program()))
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
