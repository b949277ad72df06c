//! `[hosts.NAME]`: other agent programs as models. A host of the built-in table needs no entry; what an entry leaves out is
//! as in the table.

use std::path::PathBuf;

use super::catalog::{KeySource, KnownProvider};
use super::environment::ProcessEnvironment;
use super::file::{Diagnostics, Entry, FileReader};
use super::mcp::{expand, hosts, pairs};
use super::source::absolute;
use crate::domain::agent_host::{AgentHost, KNOWN};
use crate::domain::endpoint::{HOSTS, ModelFacts, ProviderEntry};
use crate::domain::mcp::{NAME_EXPECTED, is_server_name};
use crate::provider::host::STALL_TIMEOUT;

/// The keys of `[hosts.NAME]`.
pub const KEYS: &[(&str, &str)] = &[
    ("command", "The program and its arguments, as a list"),
    ("env", "Table of variables for its process; ${VARIABLE} is replaced"),
    ("net", "Hosts of the network that it may reach, instead of those built in"),
    ("write", "What it may write besides the workspace, instead of what is built in"),
    ("model", "The model, as the host names it"),
];

/// A host as a file has it, with what it leaves out.
#[derive(Debug, Clone, Default)]
pub struct FileHost {
    host: AgentHost,
    has_net: bool,
    has_write: bool,
    source: String,
}

pub fn read(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Vec<FileHost> {
    let mut all = Vec::new();
    for inner in reader.table(entry) {
        if is_server_name(inner.name) {
            all.extend(host(reader, &inner));
        } else {
            reader.error(&inner, NAME_EXPECTED);
        }
    }
    all
}

fn host(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<FileHost> {
    let mut file = FileHost { source: reader.location(&entry.span).to_string(), ..FileHost::default() };
    entry.name.clone_into(&mut file.host.name);
    for inner in reader.table(entry) {
        match inner.name {
            "command" => file.host.command = reader.texts(&inner),
            "env" => file.host.env = pairs(reader, &inner),
            "net" => (file.host.net, file.has_net) = (hosts(reader, &inner), true),
            "write" => (file.host.write, file.has_write) = (paths(reader, &inner), true),
            "model" => file.host.model = reader.text(&inner),
            _ => reader.unknown(&inner, KEYS.iter().map(|(key, _)| *key)),
        }
    }
    if file.host.command.is_empty() && !KNOWN.iter().any(|known| known.name == entry.name) {
        reader.error(entry, "expected command, a list of the program and its arguments");
        return None;
    }
    Some(file)
}

fn paths(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Vec<PathBuf> {
    let texts = reader.texts(entry);
    let paths: Option<Vec<PathBuf>> = texts.iter().map(|text| absolute(text, reader.home)).collect();
    if paths.is_none() {
        reader.error(entry, "expected paths that begin with / or ~/");
    }
    paths.unwrap_or_default()
}

/// The hosts of the user's file, then those of the table that it does not name.
pub fn all(files: Vec<FileHost>, env: &ProcessEnvironment, diagnostics: &mut Diagnostics) -> Vec<AgentHost> {
    let home = env.home();
    let mut all: Vec<AgentHost> = Vec::new();
    for file in files {
        let known = KNOWN.iter().find(|known| known.name == file.host.name);
        let known = known.map(|known| AgentHost::known(known, home.as_deref())).unwrap_or_default();
        let variable = |name: &str| Ok(env.text(name));
        let expanded = |(name, value): &(String, String)| Ok((name.clone(), expand(value, &variable)?));
        let variables: Result<Vec<_>, String> = file.host.env.iter().map(expanded).collect();
        match variables {
            Ok(variables) => all.push(AgentHost {
                command: if file.host.command.is_empty() { known.command } else { file.host.command },
                net: if file.has_net { file.host.net } else { known.net },
                write: if file.has_write { file.host.write } else { known.write },
                env: variables,
                install: known.install,
                ..file.host
            }),
            Err(why) => {
                diagnostics.warnings.push(format!("{}: [hosts.{}] is ignored: {why}", file.source, file.host.name))
            }
        }
    }
    let others = KNOWN.iter().filter(|known| !all.iter().any(|host| host.name == known.name));
    let others: Vec<AgentHost> = others.map(|known| AgentHost::known(known, home.as_deref())).collect();
    all.into_iter().chain(others).collect()
}

/// The provider whose models are the hosts.
pub fn provider(files: &[FileHost]) -> KnownProvider {
    let named = files.iter().map(|file| file.host.name.as_str());
    let others = KNOWN.iter().map(|known| known.name).filter(|name| !named.clone().any(|other| other == *name));
    let models = named.clone().chain(others).map(|name| (name.to_owned(), ModelFacts::default())).collect();
    KnownProvider {
        entry: ProviderEntry {
            name: HOSTS.to_owned(),
            kind: HOSTS.to_owned(),
            models,
            stall_timeout: Some(STALL_TIMEOUT),
            is_assumed: files.is_empty(),
            ..ProviderEntry::default()
        },
        key: KeySource::None,
        url_source: "built in".to_owned(),
        is_service: false,
        is_in_file: !files.is_empty(),
        is_project: false,
    }
}
