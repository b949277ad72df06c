//! Hooks: `[[hooks.EVENT]]` in the files of the user and of a project, and the `hooks` of a project's `.claude/settings.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value as Json;
use toml::Spanned;
use toml::de::DeValue;

use super::claude;
use super::file::{self, Entry, FileReader};
use super::parse::whole;
use super::project;
use super::trust::Trusted;
use super::user_tools::place;
use crate::base::project::ProjectDirectories;
use crate::domain::hook::{Hook, HookEvent, HookScript, TIME_LIMIT};
use crate::domain::skill::Author;
use crate::tools::hooks::{is_matcher, scripts};

/// Hooks of one file.
const MAX_HOOKS: usize = 100;
/// The file of a project, in which other agents have their hooks.
const CLAUDE_FILE: &str = ".claude/settings.json";
const CLAUDE_LOCAL_FILE: &str = ".claude/settings.local.json";
const LONGEST_TIME_LIMIT: u32 = 3600;
const MATCHER_EXPECTED: &str = "expected a regular expression, such as \"bash|edit_file\"";

/// The keys of `[[hooks.EVENT]]`.
pub const KEYS: &[(&str, &str)] = &[
    ("command", "Program: a list of words, or a string for sh -c"),
    ("matcher", "Regular expression for the whole name of a tool, or for a source, trigger or type (default: all)"),
    ("timeout", "Seconds after which it has failed (default 60)"),
    ("required", "Whether a failure refuses the call (default false)"),
];

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
                _ => {
                    hook.command = reader.texts(&inner);
                    // No shell reads these words, which the manual writes with ~/.
                    hook.command.iter_mut().for_each(|word| place(word, reader.home, None));
                }
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
        scripts: Vec::new(),
    }
}

/// The files of their project that hooks name.
pub fn scripts_of(hooks: &[Hook]) -> Vec<(PathBuf, Result<Vec<u8>, String>)> {
    let mut files = BTreeMap::new();
    for (hook, root) in hooks.iter().filter_map(|hook| Some((hook, hook.project.as_ref()?))) {
        let there = scripts::named_paths(&hook.command, root).into_iter().filter(|path| scripts::is_there(root, path));
        files.extend(there.map(|path| (root.join(&path), scripts::read(root, &path))));
    }
    files.into_iter().collect()
}

/// The files in this directory that the hooks of the person name. Agents must not change them without a question either.
pub fn files_of_person(hooks: &[Hook], root: &Path) -> Vec<PathBuf> {
    let named = hooks.iter().flat_map(|hook| scripts::named_paths(&hook.command, root));
    let there: BTreeSet<PathBuf> = named.filter(|path| scripts::is_there(root, path)).collect();
    there.into_iter().filter_map(|path| root.join(path).canonicalize().ok()).collect()
}

/// Notes which contents of their files the person has trusted, and warns of others. Returns the files.
pub fn bind_scripts(hooks: &mut [Hook], trusted: &Trusted, warnings: &mut Vec<String>) -> Vec<PathBuf> {
    let mut changed = BTreeSet::new();
    let mut guarded = BTreeSet::new();
    for hook in hooks {
        let Some(root) = hook.project.clone() else { continue };
        for path in scripts::named_paths(&hook.command, &root) {
            let digest = trusted.digest_at(&root.join(&path)).map(str::to_owned);
            // The trust in a project as a whole is kept under the name of its directory.
            let digest = digest.filter(|_| !path.ends_with(project::DIRECTORY));
            if digest.is_some() || scripts::is_there(&root, &path) {
                hook.scripts.push(HookScript { path: path.clone(), digest });
                guarded.extend([root.join(&path).canonicalize().unwrap_or_default(), root.join(path)]);
            }
        }
        changed.extend(scripts::changed(hook, &root));
    }
    warnings.extend(changed.into_iter().map(|why| format!("{why}; meanwhile the hooks that name it ask")));
    guarded.remove(Path::new(""));
    guarded.into_iter().collect()
}

fn shell(text: &str) -> Vec<String> {
    if text.trim().is_empty() { Vec::new() } else { vec!["sh".into(), "-c".into(), text.into()] }
}

/// The nearest `.claude/settings.json` of a project, if it has hooks or refuses something.
pub fn claude_file(project: &ProjectDirectories) -> Option<(PathBuf, Result<Vec<u8>, String>)> {
    let path = project.nearest_file(CLAUDE_FILE)?;
    let bytes = file::read_regular(&path).transpose()?;
    is_used(&bytes).then_some((path, bytes))
}

/// Whether settings have hooks or refuse something, or may do so and are not valid.
fn is_used(bytes: &Result<Vec<u8>, String>) -> bool {
    bytes.as_ref().is_ok_and(|bytes| match serde_json::from_slice::<Json>(bytes) {
        Ok(json) => has_hooks(&json) || claude::has_rules(&json),
        Err(_) => {
            let text = String::from_utf8_lossy(bytes);
            text.contains("\"hooks\"") || text.contains("\"deny\"")
        }
    })
}

fn has_hooks(json: &Json) -> bool {
    json.get("hooks").is_some_and(|all| all.as_object().is_none_or(|all| !all.is_empty()))
}

/// Lines about settings of a project that are not used: personal ones, and those that only allow something.
pub fn unread_files(project: &ProjectDirectories) -> Vec<String> {
    let nearest = |name: &str| {
        let path = project.nearest_file(name)?;
        Some((file::read_regular(&path).transpose()?, path))
    };
    let local = nearest(CLAUDE_LOCAL_FILE).filter(|(bytes, _)| is_used(bytes));
    let local =
        local.map(|(_, path)| format!("{}: not read; use [[hooks]] and [rules] in your configuration", path.display()));
    let shared = nearest(CLAUDE_FILE)
        .filter(|(bytes, _)| !is_used(bytes))
        .and_then(|(bytes, path)| claude::unused_permissions(&path, &serde_json::from_slice(&bytes.ok()?).ok()?));
    local.into_iter().chain(shared).collect()
}

/// The hooks in that file. Unknown entries become warnings.
pub fn of_claude(path: &Path, bytes: &[u8], warnings: &mut Vec<String>) -> Vec<Hook> {
    let source = path.display().to_string();
    let mut warn = |what: &str| warnings.push(format!("{source}: {what}"));
    let json: Json = match serde_json::from_slice(bytes) {
        Ok(json) => json,
        Err(error) => {
            warn(&format!("hooks: ignored: invalid JSON: {error}"));
            return Vec::new();
        }
    };
    if json["hooks"].is_null() {
        return Vec::new();
    }
    if json["disableAllHooks"] == true {
        warn("hooks: none, because of disableAllHooks");
        return Vec::new();
    }
    let Some(events) = json["hooks"].as_object() else {
        warn("hooks: ignored: expected an object with lists for events");
        return Vec::new();
    };
    let mut hooks = Vec::new();
    for (name, groups) in events {
        let Some((event, ..)) = HookEvent::ALL.iter().find(|(.., wire)| wire == name) else {
            warn(&format!("hooks: {}: ignored: there is no such event here", file::quote_key(name)));
            continue;
        };
        let Some(groups) = groups.as_array() else {
            warn(&format!("hooks: {name}: ignored: expected a list"));
            continue;
        };
        for found in groups.iter().flat_map(of_group) {
            match found.and_then(|(matcher, item)| of_item(matcher, item)) {
                Ok((hook, left_out)) => {
                    let project = path.parent().and_then(Path::parent).map(Path::to_owned);
                    let own = new_hook(*event, Author::Project, source.clone(), project);
                    hooks.push(Hook { event: own.event, source: own.source, project: own.project, ..hook });
                    left_out
                        .into_iter()
                        .for_each(|key| warn(&format!("hooks: {name}: {key}: not supported, and ignored")));
                }
                Err(problem) => warn(&format!("hooks: {name}: ignored: {problem}")),
            }
        }
    }
    if hooks.len() > MAX_HOOKS {
        warn(&format!("hooks: only the first {MAX_HOOKS} of {} are used", hooks.len()));
        hooks.truncate(MAX_HOOKS);
    }
    hooks
}

/// The items of one group, each with its matcher.
fn of_group(group: &Json) -> Vec<Result<(&str, &Json), &'static str>> {
    let matcher = match &group["matcher"] {
        Json::Null => "",
        Json::String(matcher) if matcher.is_empty() || is_matcher(matcher) => matcher,
        _ => return vec![Err(MATCHER_EXPECTED)],
    };
    match group["hooks"].as_array() {
        Some(items) => items.iter().map(|item| Ok((matcher, item))).collect(),
        None => vec![Err("expected a list hooks in each item")],
    }
}

/// A hook of any event, and its keys that have no meaning here.
fn of_item(matcher: &str, item: &Json) -> Result<(Hook, Vec<String>), &'static str> {
    let command = item["command"].as_str().filter(|_| item["type"] == "command");
    let command = command.ok_or("only hooks of the type command are run")?;
    let shell = match &item["shell"] {
        Json::Null => "sh",
        Json::String(shell) if shell == "bash" => "bash",
        _ => return Err("shell: expected bash"),
    };
    if command.trim().is_empty() {
        return Err("its command is empty");
    }
    let timeout = match &item["timeout"] {
        Json::Null => TIME_LIMIT,
        // Some files have milliseconds, which are too many seconds.
        value => match value.as_f64().filter(|seconds| *seconds > 0.0) {
            Some(seconds) => Duration::from_secs_f64(seconds.min(LONGEST_TIME_LIMIT.into())),
            None => return Err("timeout: expected a number of seconds"),
        },
    };
    let is_unknown = |(key, value): &(&String, &Json)| {
        !["type", "command", "timeout", "shell", "statusMessage"].contains(&key.as_str())
            && **value != Json::Bool(false)
    };
    let left_out = item.as_object().into_iter().flatten().filter(is_unknown).map(|(key, _)| file::quote_key(key));
    let hook = Hook {
        matcher: matcher.to_owned(),
        command: vec![shell.into(), "-c".into(), command.to_owned()],
        timeout,
        has_claude_names: true,
        ..new_hook(HookEvent::PreTool, Author::Project, String::new(), None)
    };
    Ok((hook, left_out.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files in the shapes that projects have.
    #[test]
    fn each_file_of_a_project_is_read_and_what_is_not_supported_is_said_in_one_line() {
        for (name, expected, said) in [
            ("guard", &["PreToolUse Bash 60s sh", "PreToolUse Edit|Write|MultiEdit 10s sh"][..], &[][..]),
            ("format", &["PostToolUse Write|Edit 30s bash", "Stop  60s sh"], &["PostToolUse: async: not supported"]),
            (
                "events",
                &["Notification permission_prompt 60s sh", "SessionStart startup 60s sh", "UserPromptSubmit  60s sh"],
                &["SessionEnd: ignored: there is no such event"],
            ),
            (
                "types",
                &["PreToolUse mcp__.*__write.* 3600s sh"],
                &[
                    "PreToolUse: ignored: only hooks of the type command",
                    "PreToolUse: ignored: only hooks of the type command",
                    "PreToolUse: once: not supported",
                    "PreToolUse: ignored: shell: expected bash",
                    "PreToolUse: ignored: timeout: expected a number",
                ],
            ),
            ("wrong", &[], &["PreToolUse: ignored: expected a list hooks", "Stop: ignored: expected a list"]),
            ("comments", &[], &["hooks: ignored: invalid JSON"]),
            ("disabled", &[], &["hooks: none, because of disableAllHooks"]),
        ] {
            let file = format!("{}/fixtures/projects/settings/{name}.json", env!("CARGO_MANIFEST_DIR"));
            let bytes = std::fs::read(&file).expect(name);
            assert!(is_used(&Ok(bytes.clone())), "{name}");
            let mut warnings = Vec::new();
            let hooks = of_claude(Path::new("/p/.claude/settings.json"), &bytes, &mut warnings);
            let found = hooks.iter().map(|hook| {
                format!("{} {} {:?} {}", hook.event.wire_name(), hook.matcher, hook.timeout, hook.command[0])
            });
            assert_eq!(found.collect::<Vec<_>>(), expected, "{name}");
            assert_eq!(warnings.len(), said.len(), "{name}: {warnings:#?}");
            for part in said {
                assert!(warnings.iter().any(|warning| warning.contains(part)), "{name}: {part}: {warnings:#?}");
            }
        }
    }

    #[test]
    fn hooks_of_other_agents_are_read_and_what_is_unknown_is_named() {
        let json = r#"{"permissions": {"allow": ["Bash(*)"]}, "hooks": {
            "PreToolUse": [{"matcher": "Edit|Write", "hooks": [
                {"type": "command", "command": "./check.sh", "timeout": 5}, {"type": "prompt", "prompt": "x"}]},
                {"matcher": "(", "hooks": [{"type": "command", "command": "x"}]}],
            "Stop": [{"hooks": [{"type": "command", "command": "true"}]}],
            "SessionEnd": [{"hooks": [{"type": "command", "command": "true"}]}]
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
