//! Programs that are tools: `[tools.NAME]`, with `${VARIABLE}` in `env` as for MCP servers.
//!
//! The program of a project lies in its `.polylogue/tools`, which is trusted with its contents and which agents cannot change;
//! it gets neither variables nor the network.

use std::path::{Path, PathBuf};

use toml::de::DeValue;

use super::environment::ProcessEnvironment;
use super::file::{Diagnostics, Entry, FileReader, FoundFile, MAX_BYTES};
use super::layer::Layer;
use super::mcp::{expand, hosts, pairs, seconds, variable_value};
use super::source::absolute;
use crate::domain::mcp::{PREFIX, is_server_name};
use crate::domain::user_tool::UserToolEntry;
use crate::tools;

/// The directory of a project's programs, in its `.polylogue`.
pub const DIRECTORY: &str = "tools";
const MAX_TOOLS: usize = 32;
const ONLY_USER: &str = "ignored: a project gives its tools neither variables nor hosts";

/// The keys of `[tools.NAME]`.
pub const KEYS: &[(&str, &str)] = &[
    ("command", "List of the program and its first arguments"),
    ("env", "Table of variables for its process; not in a project's file"),
    ("net", "Hosts that it may reach; not in a project's file"),
    ("timeout", "Seconds that a call may take (default: as a command)"),
];

/// Whether an entry of `[tools]` declares a tool.
pub fn is_tool(entry: &Entry<'_>) -> bool {
    matches!(entry.value.get_ref(), DeValue::Table(_))
}

pub fn read(reader: &mut FileReader<'_>, entry: &Entry<'_>, layer: &mut Layer) {
    if !is_server_name(entry.name) {
        return reader.error(entry, "expected a name of letters, digits, - and _");
    }
    if tools::find(entry.name).is_some() || entry.name.starts_with(PREFIX) {
        return reader.error(entry, "another tool has this name");
    }
    if layer.user_tools.len() == MAX_TOOLS {
        return reader.error(entry, &format!("more than {MAX_TOOLS} tools"));
    }
    layer.user_tools.extend(tool(reader, entry));
}

fn tool(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<UserToolEntry> {
    let mut tool = UserToolEntry {
        name: entry.name.to_owned(),
        command: Vec::new(),
        env: Vec::new(),
        net: Vec::new(),
        timeout: None,
        project: reader.root.map(Path::to_owned),
        source: reader.location(&entry.span).to_string(),
    };
    for inner in reader.table(entry) {
        match inner.name {
            "command" => tool.command = reader.texts(&inner),
            "env" | "net" if reader.is_project() => reader.warn(&inner, ONLY_USER),
            "env" => tool.env = pairs(reader, &inner),
            "net" => tool.net = hosts(reader, &inner),
            "timeout" => tool.timeout = seconds(reader, &inner),
            _ => reader.unknown(&inner, KEYS.iter().map(|(key, _)| *key)),
        }
    }
    if tool.command.is_empty() {
        reader.error(entry, "expected command, a list of the program and its first arguments");
        return None;
    }
    for word in &mut tool.command {
        place(word, reader.home, reader.root);
    }
    Some(tool)
}

/// Replaces the beginning of a word of a command: `~/` by the home directory, `./` and `.polylogue/` by the project.
pub(super) fn place(word: &mut String, home: Option<&Path>, root: Option<&Path>) {
    let placed = match root {
        _ if word.starts_with("~/") => absolute(word, home),
        Some(root) if word.starts_with("./") || word.starts_with(".polylogue/") => Some(root.join(&*word)),
        _ => None,
    };
    if let Some(text) = placed.and_then(|path| path.into_os_string().into_string().ok()) {
        *word = text;
    }
}

/// The tools of the person, and those of a project that have other names and trusted programs.
pub fn all(
    user: Vec<UserToolEntry>,
    project: Vec<UserToolEntry>,
    trusted: &[FoundFile],
    (env, withheld): (&ProcessEnvironment, &[String]),
    diagnostics: &mut Diagnostics,
) -> Vec<UserToolEntry> {
    let mut all: Vec<UserToolEntry> = Vec::new();
    for mut tool in user.into_iter().chain(project) {
        let problem = if all.iter().any(|known| known.name == tool.name) {
            Some("your configuration has a tool of this name".to_owned())
        } else if tool.project.is_some() && !is_trusted(&tool.command[0], trusted) {
            Some("its program is not a file in the .polylogue/tools of the project".to_owned())
        } else {
            expand_all(&mut tool.env, env, withheld).err()
        };
        match problem {
            None => all.push(tool),
            Some(why) => {
                diagnostics.warnings.push(format!("{}: tool {}: ignored: {why}", tool.source, tool.name));
            }
        }
    }
    all
}

fn expand_all(pairs: &mut [(String, String)], env: &ProcessEnvironment, withheld: &[String]) -> Result<(), String> {
    for (_, value) in pairs {
        *value = expand(value, &|variable| variable_value(variable, env, withheld))?;
    }
    Ok(())
}

/// Whether the contents of a program were shown to the person who trusts the project.
fn is_trusted(program: &str, trusted: &[FoundFile]) -> bool {
    let Ok(path) = PathBuf::from(program).canonicalize() else { return false };
    let is_whole = |file: &FoundFile| file.bytes.as_ref().is_ok_and(|bytes| bytes.len() <= MAX_BYTES);
    trusted.iter().any(|file| is_whole(file) && file.path == path)
}
