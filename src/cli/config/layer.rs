//! Reads the tables and keys of one file into a layer of the configuration. An unknown key is a warning, an invalid value an
//! error; `file` has the messages.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeValue;

use super::agent_hosts::{self, FileHost};
use super::file::{self, Entry, FileReader};
use super::providers::{self, FileProvider};
use super::settings::{Files, SETTINGS, Setting, Values};
use super::source::{Location, Value, absolute};
use super::{hooks, mcp, user_tools};
use crate::domain::environment::{EnvironmentEntry, is_built_in};
use crate::domain::hook::Hook;
use crate::domain::keymap::{self, KeyMap};
use crate::domain::mcp::McpServer;
use crate::domain::project_rules;
use crate::domain::rule::{Rule, Rules};
use crate::domain::user_tool::UserToolEntry;

/// The valid part of a file.
#[derive(Debug, Clone, Default)]
pub struct Layer {
    /// Settings by their index in `SETTINGS`.
    pub settings: Vec<(usize, Value, Location)>,
    /// `[providers.NAME]`, in order.
    pub providers: Vec<FileProvider>,
    /// `[environments.NAME]`, in order.
    pub environments: Vec<(EnvironmentEntry, Location)>,
    pub mcp: Vec<McpServer>,
    /// `[hosts.NAME]`, in order.
    pub hosts: Vec<FileHost>,
    /// `[tools.NAME]`, in order.
    pub user_tools: Vec<UserToolEntry>,
    pub hooks: Vec<Hook>,
    pub rules: Rules,
    /// `[projects.DIRECTORY]`.
    pub project_rules: Vec<(PathBuf, Rules)>,
    /// The lists of `[sandbox]` and `[tools]`.
    pub opened: Opened,
    pub keymap: KeyMap,
    /// `fallback` of all providers.
    pub fallback: Vec<String>,
}

/// What a person makes accessible to commands in the sandbox.
#[derive(Debug, Clone, Default)]
pub struct Opened {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub variables: Vec<String>,
}

const TABLES: [&str; 18] = [
    "done",
    "worktree",
    "history",
    "fallback",
    "providers",
    "environments",
    "mcp",
    "hosts",
    "hooks",
    "rules",
    "projects",
    "limits",
    "team",
    "display",
    "theme",
    "sandbox",
    "tools",
    "keys",
];
/// Environments can contain each other; this bounds the depth of the search.
const MAX_ENVIRONMENTS: usize = 100;
pub const ENVIRONMENT: &[(&str, &str)] = &[
    ("tools", "Tools, and environments whose tools are included"),
    ("directory", "Working directory"),
    ("system", "Instructions of the agents"),
];

/// Lists that only the user's file may contain.
pub const OPENED: &[(&str, &str)] = &[
    ("sandbox.read", "Paths that commands may read, besides the workspace and the tool chains"),
    ("sandbox.write", "Paths that commands may write, besides the workspace"),
    ("tools.environment", "Names of variables that commands get, besides the usual ones"),
];
const ONLY_STRICTER: &str = "ignored: a project can only make the sandbox stricter";

pub fn read(reader: &mut FileReader<'_>) -> Layer {
    let mut layer = Layer::default();
    let text = reader.text;
    let Some(table) = reader.parse(text) else { return layer };
    for entry in file::entries("", &table) {
        match entry.name {
            "providers" => layer.providers = providers::read(reader, &entry),
            "environments" => layer.environments = environments(reader, &entry),
            "mcp" if reader.is_project() => {
                reader.warn(&entry, "ignored: a project declares MCP servers in .mcp.json");
            }
            "mcp" => layer.mcp = mcp::read(reader, &entry),
            "hosts" if reader.is_project() => {
                reader.warn(
                    &entry,
                    "ignored: a project cannot choose which programs answer; set it in your own configuration",
                );
            }
            "hosts" => layer.hosts = agent_hosts::read(reader, &entry),
            "hooks" => layer.hooks = hooks::read(reader, &entry),
            "rules" => layer.rules = rules(reader, &entry),
            project_rules::TABLE if reader.is_project() => {
                reader.warn(&entry, "ignored: a project cannot allow anything; set it in your own configuration");
            }
            project_rules::TABLE => layer.project_rules = projects(reader, &entry),
            "done" | "worktree" | "history" | "limits" | "team" | "display" | "theme" => {
                for inner in reader.table(&entry) {
                    setting(reader, &inner, &mut layer);
                }
            }
            "sandbox" | "tools" => {
                for inner in reader.table(&entry) {
                    read_sandbox_and_tools(reader, &inner, &mut layer);
                }
            }
            "keys" if reader.is_project() => {
                reader.warn(&entry, "ignored: a project cannot change your keys");
            }
            "keys" => layer.keymap = keymap(reader, &entry),
            "fallback" => layer.fallback = providers::fallback(reader, &entry).unwrap_or_default(),
            _ => setting(reader, &entry, &mut layer),
        }
    }
    layer
}

/// `[keys]`: `leader` and the keys of actions, each one key or a list.
fn keymap(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> KeyMap {
    let (mut leader, mut chosen) = (keymap::DEFAULT_LEADER.to_owned(), Vec::new());
    for inner in reader.table(entry) {
        let keys = match file::value_of(inner.value.get_ref()) {
            Value::Text(key) => vec![key],
            _ => reader.texts(&inner),
        };
        let is_leader = inner.name == "leader";
        let problem = if is_leader {
            let [key] = keys.as_slice() else {
                reader.error(&inner, "expected one key");
                continue;
            };
            KeyMap::with(key, &[]).map(|_| leader.clone_from(key)).err()
        } else {
            let one = (inner.name.to_owned(), keys);
            KeyMap::with(&leader, std::slice::from_ref(&one)).map(|_| chosen.push(one)).err()
        };
        if let Some(problem) = problem {
            reader.error(&inner, &problem);
        }
    }
    KeyMap::with(&leader, &chosen).unwrap_or_else(|problem| {
        reader.error(entry, &problem);
        KeyMap::default()
    })
}

/// `[sandbox]` and `[tools]`.
fn read_sandbox_and_tools(reader: &mut FileReader<'_>, entry: &Entry<'_>, layer: &mut Layer) {
    if entry.key.starts_with("tools.") && user_tools::is_tool(entry) {
        return user_tools::read(reader, entry, layer);
    }
    let is_list = OPENED.iter().any(|(key, _)| *key == entry.key);
    if !is_list {
        return setting(reader, entry, layer);
    }
    if reader.is_project() {
        return reader.warn(entry, ONLY_STRICTER);
    }
    let texts = reader.texts(entry);
    if entry.name == "environment" {
        layer.opened.variables = texts;
        return;
    }
    let paths: Option<Vec<PathBuf>> = texts.iter().map(|text| absolute(text, reader.home)).collect();
    match (paths, entry.name) {
        (None, _) => reader.error(entry, "expected paths that begin with / or ~/"),
        (Some(paths), "read") => layer.opened.read = paths,
        (Some(paths), _) => layer.opened.write = paths,
    }
}

fn setting(reader: &mut FileReader<'_>, entry: &Entry<'_>, layer: &mut Layer) {
    let Some(index) = SETTINGS.iter().position(|setting| is_in_files(setting) && setting.key == entry.key) else {
        let table = entry.key.strip_suffix(entry.name).unwrap_or_default();
        let settings = SETTINGS.iter().filter(|setting| is_in_files(setting));
        let keys = settings.map(|setting| setting.key).chain(OPENED.iter().map(|(key, _)| *key));
        let siblings = keys.filter_map(|key| key.strip_prefix(table)).filter(|key| !key.contains('.'));
        let tables = if table.is_empty() { &TABLES[..] } else { &[] };
        return reader.unknown(entry, siblings.chain(tables.iter().copied()));
    };
    if reader.is_project() && SETTINGS[index].files == Files::User {
        return reader.error(entry, "a project cannot set this: set it in your own configuration");
    }
    let value = file::value_of(entry.value.get_ref());
    if reader.is_project() && !SETTINGS[index].is_open_to_projects(&value) {
        return reader.warn(entry, ONLY_STRICTER);
    }
    match SETTINGS[index].set(&mut Values::default(), &value, reader.home) {
        Ok(()) => layer.settings.push((index, value, reader.location(&entry.value.span()))),
        Err(expected) => reader.error(entry, &format!("expected {expected}")),
    }
}

fn is_in_files(setting: &Setting) -> bool {
    setting.files != Files::None
}

fn environments(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Vec<(EnvironmentEntry, Location)> {
    let mut environments = Vec::new();
    let tables = reader.table(entry);
    if tables.len() > MAX_ENVIRONMENTS {
        reader.error(entry, &format!("{} environments exceed the limit of {MAX_ENVIRONMENTS}", tables.len()));
        return environments;
    }
    for inner in tables {
        if !is_name(inner.name) {
            reader.error(&inner, NAME_EXPECTED);
            continue;
        }
        let location = reader.location(&inner.span);
        environments.extend(environment(reader, &inner).map(|environment| (environment, location)));
    }
    environments
}

/// `None` if it must not be used.
fn environment(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<EnvironmentEntry> {
    let mut is_inside = true;
    let is_replacement = is_built_in(entry.name);
    if is_replacement && reader.is_project() {
        reader.warn(entry, "ignored: a project cannot replace a built-in environment; choose another name");
        return None;
    }
    // A built-in environment keeps what is not set.
    let tools = if is_replacement { vec![entry.name.to_owned()] } else { Vec::new() };
    let mut environment = EnvironmentEntry { name: entry.name.to_owned(), tools, ..EnvironmentEntry::default() };
    for inner in reader.table(entry) {
        match inner.name {
            "tools" => environment.tools = reader.texts(&inner),
            "directory" => {
                environment.directory = directory(reader, &inner);
                if let (Some(root), Some(path)) = (reader.root, &environment.directory) {
                    environment.directory = below(root, path);
                    is_inside = environment.directory.is_some();
                }
                if !is_inside {
                    reader.warn(entry, "ignored: its directory is outside of the project");
                }
            }
            "system" => environment.system = reader.text(&inner),
            _ => reader.unknown(&inner, ENVIRONMENT.iter().map(|(key, _)| *key)),
        }
    }
    is_inside.then_some(environment)
}

/// The path without symbolic links, if it leads to the root or below it.
fn below(root: &Path, path: &Path) -> Option<PathBuf> {
    let root = root.canonicalize().ok()?;
    file::resolved(path).filter(|path| path.starts_with(root))
}

/// The keys of `[rules]`.
pub const RULES: &[(&str, &str)] = &[
    ("allow", "What runs without a question; not in a project's file"),
    ("ask", "What asks under every policy"),
    ("deny", "What is refused under every policy"),
];

/// The rules of each directory. What is allowed applies only to a directory with exactly this path, because a symbolic
/// link may change. What asks and what is refused also applies where the path leads to.
fn projects(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Vec<(PathBuf, Rules)> {
    let mut projects = Vec::new();
    for inner in reader.table(entry) {
        match absolute(inner.name, reader.home) {
            Some(path) => {
                let path = in_real_home(path, reader.home);
                let rules = rules(reader, &inner);
                if let Ok(real) = path.canonicalize()
                    && real != path
                {
                    if !rules.allow.is_empty() {
                        let note = format!("allow applies to no agent: write the real path, {}", real.display());
                        reader.warn(&inner, &note);
                    }
                    projects.push((real, Rules { allow: Vec::new(), ..rules.clone() }));
                }
                projects.push((path, rules));
            }
            None => reader.error(&inner, "expected a directory that begins with / or ~/ as the name"),
        }
    }
    projects
}

/// The home directory is the person's, wherever it is.
fn in_real_home(path: PathBuf, home: Option<&Path>) -> PathBuf {
    let below = home.and_then(|home| Some((home.canonicalize().ok()?, path.strip_prefix(home).ok()?)));
    below.map_or_else(|| path.clone(), |(home, rest)| home.join(rest))
}

/// A project can only restrict: what it allows is ignored.
fn rules(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Rules {
    let mut rules = Rules::default();
    for inner in reader.table(entry) {
        match inner.name {
            "allow" if reader.is_project() => {
                let location = reader.location(&inner.span);
                let message = "ignored: a project cannot allow anything; set it in your own configuration";
                reader.diagnostics.warnings.push(format!("{location}: {}: {message}", inner.key));
            }
            "allow" => rules.allow = rule_list(reader, &inner),
            "ask" => rules.ask = rule_list(reader, &inner),
            "deny" => rules.deny = rule_list(reader, &inner),
            _ => reader.unknown(&inner, RULES.iter().map(|(key, _)| *key)),
        }
    }
    rules
}

fn rule_list(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Vec<Rule> {
    let mut rules = Vec::new();
    let spans: Vec<_> = entry.value.get_ref().as_array().into_iter().flatten().map(Spanned::span).collect();
    for (text, span) in reader.texts(entry).into_iter().zip(spans) {
        match text.parse::<Rule>() {
            Ok(rule) => rules.push(rule.from_source(&reader.location(&span))),
            Err(error) => reader.error(entry, &error.message),
        }
    }
    for (rule, caution) in
        rules.iter().filter_map(|rule| Some((rule, rule.surprise()?))).filter(|_| entry.name == "allow")
    {
        let location = reader.location(&entry.value.span());
        reader.diagnostics.warnings.push(format!("{location}: {}: {rule}: {caution}", entry.key));
    }
    rules
}

/// In a project's file, a path can be relative to the project.
fn directory(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<PathBuf> {
    let DeValue::String(text) = entry.value.get_ref() else {
        reader.error(entry, "expected a path in quotes");
        return None;
    };
    let path = absolute(text, reader.home).or_else(|| reader.root.map(|root| root.join(text.as_ref())));
    if path.is_none() {
        reader.error(entry, "expected a path in quotes that begins with / or ~/");
    }
    path
}

pub const NAME_EXPECTED: &str = "expected a name of lower-case letters, digits and -";

/// Whether this can name a provider, an environment or a command.
pub fn is_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=64).contains(&name.len()) && name.chars().all(is_fine)
}
