//! What this program uses of a project's `.claude`, once it is trusted: commands, and what its settings refuse or ask
//! about. Its hooks are read in `hooks`, its definitions of agents in `tools::definitions`.

use std::path::Path;

use serde_json::Value as Json;

use super::custom;
use super::file::{self, FoundFile};
use crate::base::project::ProjectDirectories;
use crate::domain::front_matter;
use crate::domain::rule::{Rule, Rules, Subject};

const COMMANDS: &str = ".claude/commands";
const PERMISSIONS: &str = "permissions";
/// Keys in the header of a command that have no effect here.
const UNUSED: [&str; 4] = ["allowed-tools", "model", "hooks", "agent"];
/// The files of the workspace, and all files, as patterns of rules.
const IN_WORKSPACE: &str = "**";
const ANYWHERE: &str = "/**";
/// Tools of Claude Code that do nothing here which needs a permission, or that are not here.
const WITHOUT_COUNTERPART: [&str; 15] = [
    "AskUserQuestion",
    "BashOutput",
    "EnterPlanMode",
    "ExitPlanMode",
    "KillBash",
    "KillShell",
    "NotebookEdit",
    "NotebookRead",
    "Skill",
    "SlashCommand",
    "TaskOutput",
    "TaskStop",
    "TodoRead",
    "TodoWrite",
    "WebSearch",
];
/// Precedes a command whose output other agents put into the text.
const OUTPUT_OF: &str = "!`";

/// The files of commands of a project, also in folders; the nearest last.
pub fn command_files(project: &ProjectDirectories) -> Vec<FoundFile> {
    project.places(&[COMMANDS]).iter().rev().flat_map(|place| file::files_below(place, custom::EXTENSIONS)).collect()
}

/// One line about keys of these commands that have no effect here.
pub fn unused_in_commands(files: &[FoundFile]) -> Option<String> {
    let texts = files.iter().filter_map(|file| Some((file, std::str::from_utf8(file.bytes.as_ref().ok()?).ok()?)));
    let mut unused: Vec<&str> = Vec::new();
    let mut first = None;
    for (file, text) in texts {
        let Ok((header, body)) = front_matter::split(text) else { continue };
        let before = unused.len();
        unused.extend(header.present_fields(&UNUSED));
        unused.extend(body.contains(OUTPUT_OF).then_some("!`COMMAND`, which is sent as text"));
        first = first.or_else(|| (unused.len() > before).then_some(file));
    }
    unused.sort_unstable();
    unused.dedup();
    let path = first?.path.display();
    Some(format!("{path} and the commands beside it: not supported, and ignored: {}", unused.join(", ")))
}

/// Whether these settings refuse something or ask about it.
pub fn has_rules(json: &Json) -> bool {
    ["deny", "ask"].iter().any(|list| json[PERMISSIONS][list].as_array().is_some_and(|list| !list.is_empty()))
}

/// What these settings refuse and ask about. Other entries, and what they allow, become warnings. `root` is their
/// directory, if agents work in another one below it.
pub fn rules(path: &Path, bytes: &[u8], root: Option<&Path>, warnings: &mut Vec<String>) -> Rules {
    let source = path.display();
    // Invalid JSON is reported with the hooks.
    let json: Json = serde_json::from_slice(bytes).unwrap_or_default();
    let mut rules = Rules::default();
    for (name, list) in [("deny", &mut rules.deny), ("ask", &mut rules.ask)] {
        for text in json[PERMISSIONS][name].as_array().into_iter().flatten() {
            match text.as_str().and_then(|text| rules_of(text, root, ANYWHERE)) {
                Some(found) => list.extend(found.into_iter().map(|rule| rule.from_source(&source))),
                None => {
                    let text = file::quote_key(text.as_str().unwrap_or_default());
                    warnings.push(format!("{source}: {PERMISSIONS}.{name}: {text}: not supported, and ignored"));
                }
            }
        }
    }
    warnings.extend(unused_permissions(path, &json));
    rules
}

/// One line about what these settings would allow: only the person allows.
pub fn unused_permissions(path: &Path, json: &Json) -> Option<String> {
    let is_set = |value: &Json| !(value.is_null() || value.as_array().is_some_and(Vec::is_empty));
    let unused: Vec<&str> = json[PERMISSIONS]
        .as_object()?
        .iter()
        .filter(|(key, value)| !["deny", "ask"].contains(&key.as_str()) && is_set(value))
        .map(|(key, _)| key.as_str())
        .collect();
    let names = unused.iter().map(|key| file::quote_key(key)).collect::<Vec<_>>().join(", ");
    (!unused.is_empty()).then(|| {
        format!(
            "{}: {PERMISSIONS}: not read: {names}; what is allowed is in [rules] of your configuration",
            path.display()
        )
    })
}

/// Our rules for a list of tools, as options of Claude Code take it: with commas or spaces between them. What allows a tool
/// that names no files is for those of the workspace. Rules of our own form are taken too.
pub(in crate::cli) fn tool_rules(list: &str, is_allowed: bool) -> Result<Vec<String>, String> {
    let everywhere = if is_allowed { IN_WORKSPACE } else { ANYWHERE };
    let mut rules = Vec::new();
    for tool in split_tools(list) {
        if tool.matches('(').count() != tool.matches(')').count() {
            return Err(format!("{tool:?}: a parenthesis is not closed"));
        }
        // A child with the same provider needs no permission, and another provider asks.
        if WITHOUT_COUNTERPART.contains(&tool) || is_allowed && matches!(tool, "Task" | "Agent") {
            continue;
        }
        match rules_of(tool, None, everywhere).or_else(|| tool.parse().ok().map(|rule| vec![rule])) {
            Some(found) => rules.extend(found.iter().map(ToString::to_string)),
            None => {
                return Err(format!(
                    "{tool:?} is no tool: expected Bash, Bash(COMMAND:*), Read, Edit, Write, WebFetch, Task, \
                     mcp__SERVER__TOOL or a rule such as net(example.org)"
                ));
            }
        }
    }
    Ok(rules)
}

/// The entries of a list; commas and spaces in parentheses belong to one.
fn split_tools(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let parts = list.split(move |c: char| {
        depth = match c {
            '(' => depth + 1,
            ')' => depth.saturating_sub(1),
            _ => depth,
        };
        depth == 0 && (c == ',' || c.is_whitespace())
    });
    parts.filter(|part| !part.is_empty())
}

/// Our rules for one of Claude Code, such as `Bash(curl:*)`, `Read(./.env)` or `mcp__server__tool`. `everywhere` are the
/// files of a tool for which none are named.
fn rules_of(text: &str, root: Option<&Path>, everywhere: &str) -> Option<Vec<Rule>> {
    let (tool, pattern) = match text.trim().split_once('(') {
        Some((tool, rest)) => (tool, Some(rest.strip_suffix(')')?.trim())),
        None => (text.trim(), None),
    };
    let (subject, patterns) = match tool {
        "Bash" => (Subject::Bash, vec![pattern.unwrap_or("*").to_owned()]),
        "Read" | "Grep" | "Glob" | "LS" => (Subject::Read, paths(pattern, root, everywhere)),
        "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => (Subject::Edit, paths(pattern, root, everywhere)),
        "WebFetch" => {
            let host = pattern.map_or(Some("*"), |pattern| pattern.strip_prefix("domain:"))?;
            (Subject::Net, vec![host.trim().to_owned()])
        }
        "Task" | "Agent" if pattern.is_none() => (Subject::Fork, vec!["*".to_owned()]),
        _ => {
            let name = tool.strip_prefix("mcp__").filter(|_| pattern.is_none())?;
            let (server, tool) = name.split_once("__").unwrap_or((name, "*"));
            (Subject::Mcp, vec![format!("{server}.{tool}")])
        }
    };
    patterns.iter().map(|pattern| Rule::new(subject, pattern).ok()).collect()
}

/// Patterns of gitignore(5) as patterns of our rules: what they match, and all below it.
fn paths(pattern: Option<&str>, root: Option<&Path>, everywhere: &str) -> Vec<String> {
    let Some(pattern) = pattern else { return vec![everywhere.to_owned()] };
    let anchored = pattern.strip_prefix("./").or_else(|| pattern.strip_prefix('/'));
    let relative = anchored.unwrap_or(pattern);
    let mut found = match pattern {
        absolute if absolute.starts_with("//") => vec![absolute[1..].to_owned()],
        home if home.starts_with("~/") => vec![home.to_owned()],
        _ => {
            let is_name = anchored.is_none() && !pattern.trim_end_matches('/').contains('/');
            let anywhere = is_name.then(|| format!("**/{relative}"));
            let above = root.map(|root| format!("{}/{relative}", globset::escape(&root.to_string_lossy())));
            [relative.to_owned()].into_iter().chain(anywhere).chain(above).collect()
        }
    };
    let below = |pattern: &String| match pattern {
        all if all.ends_with("**") => None,
        other => Some(format!("{}/**", other.trim_end_matches('/'))),
    };
    let below: Vec<String> = found.iter().filter_map(below).collect();
    found.retain(|pattern| !pattern.ends_with('/'));
    found.extend(below);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_claude_code_become_ours() {
        for (theirs, ours) in [
            ("Bash(curl:*)", &["bash(curl:*)"][..]),
            ("Bash", &["bash(*)"]),
            ("Read(./.env)", &["read(.env)", "read(.env/**)"]),
            ("Read(.env)", &["read(.env)", "read(**/.env)", "read(.env/**)", "read(**/.env/**)"]),
            ("Read(secrets/**)", &["read(secrets/**)"]),
            ("Edit(/build/)", &["edit(build/**)"]),
            ("Write(~/.ssh)", &["edit(~/.ssh)", "edit(~/.ssh/**)"]),
            ("Read(//etc/passwd)", &["read(/etc/passwd)", "read(/etc/passwd/**)"]),
            ("Read", &["read(/**)"]),
            ("WebFetch(domain:example.com)", &["net(example.com)"]),
            ("WebFetch", &["net(*)"]),
            ("mcp__github__delete_repo", &["mcp(github.delete_repo)"]),
            ("mcp__github", &["mcp(github.*)"]),
            ("Task", &["fork(*)"]),
        ] {
            let found = rules_of(theirs, None, ANYWHERE).unwrap_or_else(|| panic!("{theirs}"));
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ours, "{theirs}");
        }
        for unknown in ["WebSearch", "Bash(", "Read(../x)", "WebFetch(x)", "Task(reviewer)", ""] {
            assert_eq!(rules_of(unknown, None, ANYWHERE), None, "{unknown}");
        }
        let above = rules_of("Read(./a)", Some(Path::new("/p")), ANYWHERE).unwrap();
        assert!(above.contains(&"read(/p/a)".parse().unwrap()), "{above:?}");
    }
}
