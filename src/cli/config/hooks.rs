//! Hooks: `[[hooks.EVENT]]` in the files of the user and of a project, and the `hooks` of a project's `.claude/settings.json`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value as Json;
use toml::Spanned;
use toml::de::DeValue;

use super::file::{self, Entry, FileReader};
use super::parse::whole;
use crate::base::file::ancestors_in_repository;
use crate::domain::hook::{Hook, HookEvent, TIME_LIMIT};
use crate::domain::skill::Author;
use crate::tools::hooks::is_matcher;

/// Hooks of one file.
const MAX_HOOKS: usize = 100;
/// The file of a project, in which other agents have their hooks.
const CLAUDE_FILE: &str = ".claude/settings.json";
const LONGEST_TIME_LIMIT: u32 = 3600;
const MATCHER_EXPECTED: &str = "expected a regular expression for names of tools, such as \"bash|edit_file\"";

/// The keys of `[[hooks.EVENT]]`.
pub const KEYS: &[(&str, &str)] = &[
    ("command", "Program: a list of words, or a string for sh -c"),
    ("matcher", "Regular expression for the whole name of a tool (default: all tools)"),
    ("timeout", "Seconds after which it has failed (default 60)"),
    ("required", "Whether a failure refuses the call (default false)"),
];

/// Reads `[hooks]`.
pub fn read(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Vec<Hook> {
    let mut hooks = Vec::new();
    for of_event in reader.table(entry) {
        let Some((event, ..)) = HookEvent::ALL.iter().find(|(_, name, _)| *name == of_event.name) else {
            reader.unknown(&of_event, HookEvent::ALL.iter().map(|(_, name, _)| *name));
            continue;
        };
        let Some(list) = of_event.value.get_ref().as_array() else {
            reader.error(&of_event, "expected tables: write [[hooks.EVENT]]");
            continue;
        };
        hooks.extend(list.iter().filter_map(|item| hook(reader, *event, &of_event, item)));
    }
    if hooks.len() > MAX_HOOKS {
        reader.error(entry, &format!("{} hooks exceed the limit of {MAX_HOOKS}", hooks.len()));
        hooks.clear();
    }
    hooks
}

fn hook<'t>(
    reader: &mut FileReader<'_>,
    event: HookEvent,
    list: &Entry<'t>,
    item: &'t Spanned<DeValue<'t>>,
) -> Option<Hook> {
    let entry = Entry { key: list.key.clone(), name: list.name, value: item, span: item.span() };
    let author = if reader.is_project() { Author::Project } else { Author::Person };
    let project = reader.root.map(|root| root.canonicalize().unwrap_or_else(|_| root.to_owned()));
    let mut hook = new_hook(event, author, reader.location(&item.span()).to_string(), project);
    for inner in reader.table(&entry) {
        match inner.name {
            "command" => match inner.value.get_ref() {
                DeValue::String(text) => hook.command = shell(text),
                _ => hook.command = reader.texts(&inner),
            },
            "matcher" => hook.matcher = reader.text(&inner).unwrap_or_default(),
            "timeout" => match whole(&file::value_of(inner.value.get_ref()), 1).filter(|s| *s <= LONGEST_TIME_LIMIT) {
                Some(seconds) => hook.timeout = Duration::from_secs(seconds.into()),
                None => reader.error(&inner, "expected a whole number of seconds from 1 to 3600"),
            },
            "required" => hook.is_required = reader.boolean(&inner).unwrap_or_default(),
            _ => reader.unknown(&inner, KEYS.iter().map(|(key, _)| *key)),
        }
    }
    if !hook.matcher.is_empty() && !is_matcher(&hook.matcher) {
        reader.error(&entry, MATCHER_EXPECTED);
        return None;
    }
    if hook.command.first().is_none_or(|program| program.trim().is_empty()) {
        reader.error(&entry, "expected command");
        return None;
    }
    Some(hook)
}

fn new_hook(event: HookEvent, author: Author, source: String, project: Option<PathBuf>) -> Hook {
    Hook {
        event,
        matcher: String::new(),
        command: Vec::new(),
        timeout: TIME_LIMIT,
        is_required: false,
        author,
        has_claude_names: false,
        source,
        project,
    }
}

fn shell(text: &str) -> Vec<String> {
    if text.trim().is_empty() { Vec::new() } else { vec!["sh".into(), "-c".into(), text.into()] }
}

/// The nearest `.claude/settings.json` that has hooks, in this directory or above it, up to the root of the repository.
pub fn claude_file(directory: &Path) -> Option<(PathBuf, Result<Vec<u8>, String>)> {
    let above = ancestors_in_repository(directory).find(|above| file::exists(&above.join(CLAUDE_FILE)))?;
    let path = above.canonicalize().ok()?.join(CLAUDE_FILE);
    // The directory must not be a link out of the project.
    let is_inside = path.parent().is_some_and(|parent| parent.canonicalize().is_ok_and(|real| real == parent));
    let bytes = file::read_regular(&path).transpose().filter(|_| is_inside)?;
    let has_hooks = bytes.as_ref().is_ok_and(|bytes| {
        serde_json::from_slice::<Json>(bytes)
            .is_ok_and(|json| json["hooks"].as_object().is_some_and(|all| !all.is_empty()))
    });
    has_hooks.then_some((path, bytes))
}

/// The hooks in that file. What is not understood is a warning.
pub fn of_claude(path: &Path, bytes: &[u8], warnings: &mut Vec<String>) -> Vec<Hook> {
    let json: Json = serde_json::from_slice(bytes).unwrap_or_default();
    let project = path.parent().and_then(Path::parent).map(Path::to_owned);
    let mut hooks = Vec::new();
    let source = path.display().to_string();
    let mut warn = |what: &str| warnings.push(format!("{source}: hooks: {what}"));
    for (name, groups) in json["hooks"].as_object().into_iter().flatten() {
        let Some((event, ..)) = HookEvent::ALL.iter().find(|(.., wire)| wire == name) else {
            warn(&format!("{}: ignored: there is no such event here", file::shown(name)));
            continue;
        };
        for group in groups.as_array().into_iter().flatten() {
            let matcher = group["matcher"].as_str().unwrap_or_default();
            if !matcher.is_empty() && !is_matcher(matcher) {
                warn(&format!("{name}: ignored: {MATCHER_EXPECTED}"));
                continue;
            }
            for item in group["hooks"].as_array().into_iter().flatten() {
                let Some(command) = item["command"].as_str().filter(|_| item["type"] == "command") else {
                    warn(&format!("{name}: ignored: only hooks of the type command are run"));
                    continue;
                };
                let seconds = item["timeout"].as_u64().map(|seconds| seconds.clamp(1, LONGEST_TIME_LIMIT.into()));
                hooks.push(Hook {
                    matcher: matcher.to_owned(),
                    command: shell(command),
                    timeout: seconds.map_or(TIME_LIMIT, Duration::from_secs),
                    has_claude_names: true,
                    ..new_hook(*event, Author::Project, source.clone(), project.clone())
                });
            }
        }
    }
    hooks.truncate(MAX_HOOKS);
    hooks.retain(|hook| !hook.command.is_empty());
    hooks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_of_other_agents_are_read_and_what_is_unknown_is_named() {
        let json = r#"{"permissions": {"allow": ["Bash(*)"]}, "hooks": {
            "PreToolUse": [{"matcher": "Edit|Write", "hooks": [
                {"type": "command", "command": "./check.sh", "timeout": 5}, {"type": "prompt", "prompt": "x"}]},
                {"matcher": "(", "hooks": [{"type": "command", "command": "x"}]}],
            "Stop": [{"hooks": [{"type": "command", "command": "true"}]}],
            "SessionStart": [{"hooks": [{"type": "command", "command": "true"}]}]
        }}"#;
        let mut warnings = Vec::new();
        let hooks = of_claude(Path::new("/p/.claude/settings.json"), json.as_bytes(), &mut warnings);
        let found: Vec<_> = hooks.iter().map(|hook| (hook.event, hook.matcher.as_str(), &hook.command[2..])).collect();
        let expected = [
            (HookEvent::PreTool, "Edit|Write", &["./check.sh".to_owned()][..]),
            (HookEvent::Stop, "", &["true".to_owned()][..]),
        ];
        assert_eq!(found, expected);
        assert!(
            hooks.iter().all(|hook| hook.author == Author::Project && hook.project.as_deref() == Some(Path::new("/p")))
        );
        assert_eq!((hooks[0].timeout, warnings.len()), (Duration::from_secs(5), 3), "{warnings:?}");
    }
}
