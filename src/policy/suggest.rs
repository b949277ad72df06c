//! The rules that the answer "always" gives.

use std::path::Path;

use super::readonly;
use super::shell::{self, SimpleCommand};
use crate::domain::rule::{Rule, Subject};

/// More rules than this cannot be read before they are saved.
const MAX_RULES: usize = 5;

/// Programs with subcommands that do not run what their arguments name.
const WITH_SUBCOMMANDS: &[(&str, &[&str])] = &[
    ("cargo", &["build", "check", "clippy", "doc", "fmt", "test", "tree", "metadata"]),
    ("git", &["add", "commit", "status", "switch"]),
    ("go", &["fmt", "test"]),
    ("npm", &["test", "run build", "run lint", "run test", "ls"]),
    ("pnpm", &["test", "run build", "run lint", "run test"]),
    ("yarn", &["test", "build", "lint"]),
    ("make", &["check", "test", "lint", "build"]),
    ("dotnet", &["build", "test"]),
];

/// The rules that would have allowed this command, the narrowest that are of use: a known subcommand with any arguments,
/// otherwise exactly this command. Empty if the command is not plain or too long for rules.
pub fn suggest_rules(command: &str, sandboxed: bool) -> Vec<Rule> {
    let Ok(commands) = shell::parse(command) else { return Vec::new() };
    let is_free =
        |command: &&SimpleCommand| readonly::reads(std::slice::from_ref(command), None, sandboxed, &|_| false).is_ok();
    let mut rules: Vec<Rule> = Vec::new();
    for command in commands.iter().filter(|command| !is_free(command)) {
        let Some(rule) = rule_for(command) else { return Vec::new() };
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
    let escaped = globset::escape(relative.to_str()?);
    let pattern = match relative.as_os_str().is_empty() {
        true => "*".to_owned(),
        false => format!("{}/**", escaped.trim_end_matches('/')),
    };
    Rule::new(subject, &pattern).ok()
}

fn rule_for(command: &SimpleCommand) -> Option<Rule> {
    let text = command.canonical();
    let subcommands = WITH_SUBCOMMANDS.iter().find(|(program, _)| *program == command.program());
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
