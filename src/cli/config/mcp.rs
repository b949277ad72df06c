//! MCP servers: `[mcp.NAME]` in the user's file, and a project's `.mcp.json`, which other agents read too.
//!
//! `${VARIABLE}` and `${VARIABLE:-default}` are replaced in the command, its arguments and variables, the URL and headers. A
//! server with a variable that is not set, or that holds the key of a provider, is left out with a warning.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::digest::sha256;
use serde_json::Value as Json;
use toml::de::DeValue;

use super::environment::ProcessEnvironment;
use super::file::{self, Diagnostics, Entry, FileReader};
use super::parse::whole;
use crate::base::project::ProjectDirectories;
use crate::domain::host::{HostPattern, Target};
use crate::domain::mcp::{
    CALL_TIMEOUT, McpServer, NAME_EXPECTED, START_TIMEOUT, Transport, is_http, is_pair, is_server_name,
};
use crate::sandbox::variables;

/// The file of a project.
pub const FILE: &str = ".mcp.json";
const OPTION: &str = "--mcp-config";
const MAX_SERVERS: usize = 64;

/// The keys of `[mcp.NAME]`.
pub const KEYS: &[(&str, &str)] = &[
    ("command", "Program to run in the sandbox; it serves on its standard input and output"),
    ("args", "Its arguments"),
    ("env", "Table of variables for its process"),
    ("net", "Hosts that it may reach; its first start asks"),
    ("write", "Whether it may write in the workspace; its first start asks (default false)"),
    ("url", "URL of a server over HTTP, instead of command"),
    ("headers", "Table of HTTP headers"),
    ("bearer_token_env_var", "Variable with the bearer token for the Authorization header"),
    ("start_timeout", "Seconds until it must have listed its tools (default 30)"),
    ("timeout", "Seconds that a call may take without progress (default 60)"),
    ("enabled_tools", "Only these tools are offered"),
    ("disabled_tools", "These tools are not offered"),
    ("remote", "Agents in ssh: and container: environments get it too (default false)"),
    ("enabled", "Whether the server is used (default true)"),
];

pub fn read(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Vec<McpServer> {
    let mut servers = Vec::new();
    let tables = reader.table(entry);
    if tables.len() > MAX_SERVERS {
        reader.error(entry, &format!("{} servers exceed the limit of {MAX_SERVERS}", tables.len()));
        return servers;
    }
    for inner in tables {
        if is_server_name(inner.name) {
            servers.extend(server(reader, &inner));
        } else {
            reader.error(&inner, NAME_EXPECTED);
        }
    }
    servers
}

/// The keys of a table, before it is known whether the server is a process.
#[derive(Default)]
struct Fields {
    command: Option<String>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    url: Option<String>,
    headers: Vec<(String, String)>,
}

impl Fields {
    fn transport(self) -> Result<Transport, &'static str> {
        let Self { command, args, env, url, headers } = self;
        match (command, url) {
            (Some(command), None) => Ok(Transport::Stdio { command, args, env }),
            (None, Some(url)) if is_http(&url) || url.starts_with("${") => Ok(Transport::Http { url, headers }),
            (None, Some(_)) => Err("url: expected a URL that begins with http:// or https://"),
            (Some(_), Some(_)) => Err("expected either command or url, not both"),
            (None, None) => Err("expected command or url"),
        }
    }
}

fn server(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<McpServer> {
    let (mut fields, mut is_enabled) = (Fields::default(), true);
    let mut server = new_server(entry.name, reader.location(&entry.span).to_string());
    for inner in reader.table(entry) {
        match inner.name {
            "command" => fields.command = reader.text(&inner),
            "args" => fields.args = reader.texts(&inner),
            "env" => fields.env = pairs(reader, &inner),
            "url" => fields.url = reader.text(&inner),
            "headers" => fields.headers = pairs(reader, &inner),
            "bearer_token_env_var" => {
                let token = reader.text(&inner).map(|name| format!("Bearer ${{{name}}}"));
                fields.headers.extend(token.map(|token| ("Authorization".to_owned(), token)));
            }
            "net" => server.net = hosts(reader, &inner),
            "write" => server.may_write = reader.boolean(&inner).unwrap_or(false),
            "start_timeout" => server.start_timeout = seconds(reader, &inner).unwrap_or(START_TIMEOUT),
            "timeout" => server.call_timeout = seconds(reader, &inner).unwrap_or(CALL_TIMEOUT),
            "enabled_tools" => server.enabled_tools = reader.texts(&inner),
            "disabled_tools" => server.disabled_tools = reader.texts(&inner),
            "remote" => server.is_remote = reader.boolean(&inner).unwrap_or(false),
            "enabled" => is_enabled = reader.boolean(&inner).unwrap_or(true),
            _ => reader.unknown(&inner, KEYS.iter().map(|(key, _)| *key)),
        }
    }
    match fields.transport() {
        Ok(transport) => is_enabled.then_some(McpServer { transport, ..server }),
        Err(problem) => {
            reader.error(entry, problem);
            None
        }
    }
}

/// A server whose transport is not known yet.
fn new_server(name: &str, source: String) -> McpServer {
    let transport = Transport::Stdio { command: String::new(), args: Vec::new(), env: Vec::new() };
    McpServer::new(name, transport, source)
}

pub(super) fn pairs(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for inner in reader.table(entry) {
        match inner.value.get_ref() {
            DeValue::String(text) if is_pair(inner.name, text) => {
                pairs.push((inner.name.to_owned(), text.clone().into_owned()));
            }
            _ => reader.error(&inner, "expected a name and a string without line breaks"),
        }
    }
    pairs
}

pub(super) fn hosts(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Vec<HostPattern> {
    let mut hosts = Vec::new();
    for text in reader.texts(entry) {
        match text.parse::<HostPattern>() {
            Ok(host) => hosts.push(host),
            Err(error) => reader.error(entry, &error.message),
        }
    }
    hosts
}

pub(super) fn seconds(reader: &mut FileReader<'_>, entry: &Entry<'_>) -> Option<Duration> {
    let seconds = whole(&file::value_of(entry.value.get_ref()), 1);
    if seconds.is_none() {
        reader.error(entry, "expected a whole number of seconds, at least 1");
    }
    seconds.map(|seconds| Duration::from_secs(seconds.into()))
}

/// The `.mcp.json` of a project, or another file of this form.
#[derive(Debug, Clone)]
pub struct ProjectFile {
    pub path: PathBuf,
    pub bytes: Result<Vec<u8>, String>,
}

impl ProjectFile {
    /// The nearest one of a project.
    pub fn of(project: &ProjectDirectories) -> Option<Self> {
        project.iter().map(|above| above.join(FILE)).find(|path| file::exists(path)).map(Self::at)
    }

    fn at(path: PathBuf) -> Self {
        let bytes = file::read_regular(&path).and_then(|bytes| bytes.ok_or_else(|| "does not exist".into()));
        Self { path, bytes }
    }

    /// SHA-256 of its contents, in hexadecimal.
    pub fn digest(&self) -> String {
        sha256(self.bytes.as_deref().unwrap_or_default())
    }

    /// The servers that the project in its directory has by it. Unknown entries become warnings.
    pub fn servers_of_project(&self, warnings: &mut Vec<String>) -> Vec<McpServer> {
        let (servers, problems) = self.servers();
        warnings.extend(problems.into_iter().map(|(place, why)| format!("{place}: ignored: {why}")));
        let project = self.path.parent().map(Path::to_path_buf);
        servers.into_iter().map(|server| McpServer { project: project.clone(), ..server }).collect()
    }

    /// The servers in it, and what is wrong with others: where, and why.
    fn servers(&self) -> (Vec<McpServer>, Vec<(String, String)>) {
        let path = self.path.display();
        let parsed = self
            .bytes
            .clone()
            .and_then(|bytes| serde_json::from_slice::<Json>(&bytes).map_err(|error| format!("invalid JSON: {error}")));
        let json = match parsed {
            Ok(json) => json,
            Err(why) => return (Vec::new(), vec![(path.to_string(), why)]),
        };
        let (mut servers, mut problems) = (Vec::new(), Vec::new());
        if !json["mcpServers"].is_object() {
            problems.push((path.to_string(), "expected an object mcpServers".into()));
        }
        for (name, entry) in json["mcpServers"].as_object().into_iter().flatten().take(MAX_SERVERS) {
            let declared = if is_server_name(name) { declared(entry) } else { Err(NAME_EXPECTED) };
            match declared {
                Ok(transport) => {
                    let may_write = entry["write"] == true;
                    servers.push(McpServer { transport, may_write, ..new_server(name, path.to_string()) });
                }
                Err(problem) => problems.push((format!("{path}: mcpServers.{name}"), problem.to_owned())),
            }
        }
        (servers, problems)
    }
}

/// Whether a value of `--mcp-config` is the text of a file rather than its name.
pub fn is_text(value: &str) -> bool {
    value.trim_start().starts_with('{')
}

/// The user's servers, and those of `--mcp-config` in place of others of the same name; each value is a file or its text. All
/// agents have them, wherever they work.
pub fn with_named(
    user: Vec<McpServer>,
    values: &[String],
    env: &ProcessEnvironment,
    diagnostics: &mut Diagnostics,
) -> Vec<McpServer> {
    let mut all = user;
    for value in values {
        let file = match is_text(value) {
            true => ProjectFile { path: OPTION.into(), bytes: Ok(value.clone().into_bytes()) },
            false => ProjectFile::at(env.directory.join(value)),
        };
        let (servers, problems) = file.servers();
        problems.into_iter().for_each(|(place, why)| diagnostics.error(format!("{place}: {why}")));
        all.retain(|known| !servers.iter().any(|server| server.name == known.name));
        all.extend(servers);
    }
    all
}

fn declared(entry: &Json) -> Result<Transport, &'static str> {
    let text = |name: &str| entry[name].as_str().map(str::to_owned);
    let args = entry["args"].as_array().into_iter().flatten();
    let pairs = |name: &str| -> Option<Vec<(String, String)>> {
        let pair = |(name, value): (&String, &Json)| {
            let value = value.as_str().filter(|value| is_pair(name, value))?;
            Some((name.clone(), value.to_owned()))
        };
        entry[name].as_object().into_iter().flatten().map(pair).collect()
    };
    let fields = Fields {
        command: text("command"),
        args: args.map(|arg| arg.as_str().map(str::to_owned)).collect::<Option<_>>().ok_or("args: expected strings")?,
        env: pairs("env").ok_or("env: expected names and strings without line breaks")?,
        url: text("url"),
        headers: pairs("headers").ok_or("headers: expected names and strings without line breaks")?,
    };
    match entry["type"].as_str() {
        Some("sse") => Err("the transport sse is not supported; use http"),
        None | Some("stdio" | "http" | "streamable-http") => fields.transport(),
        Some(_) => Err("unknown type: expected stdio or http"),
    }
}

/// Replaces variables in the user's servers and those of the project that have other names.
pub fn all(
    user: Vec<McpServer>,
    project: Vec<McpServer>,
    env: &ProcessEnvironment,
    withheld: &[String],
    diagnostics: &mut Diagnostics,
) -> Vec<McpServer> {
    let mut all: Vec<McpServer> = Vec::new();
    for mut server in user.into_iter().chain(project) {
        let (name, source) = (server.name.clone(), server.source.clone());
        if all.iter().any(|known| known.name == name) {
            diagnostics
                .warnings
                .push(format!("{source}: mcp server {name}: ignored: your configuration has a server of this name"));
            continue;
        }
        let expanded = expand_transport(&server.transport, &|variable| variable_value(variable, env, withheld));
        match expanded {
            Ok(transport) => {
                warn_of_plain_http(&transport, &name, &source, diagnostics);
                server.written = std::mem::replace(&mut server.transport, transport);
                all.push(server);
            }
            Err(why) => diagnostics.warnings.push(format!("{source}: mcp server {name}: ignored: {why}")),
        }
    }
    all
}

/// The value of a variable for a program of tools.
pub(super) fn variable_value(
    variable: &str,
    env: &ProcessEnvironment,
    withheld: &[String],
) -> Result<Option<String>, String> {
    if withheld.iter().any(|key| key == variable) {
        Err(format!("{variable} holds the key of a provider; use another variable"))
    } else if variables::is_never_given(variable) {
        Err(format!("{variable} is never given to programs of tools"))
    } else {
        Ok(env.text(variable))
    }
}

fn warn_of_plain_http(transport: &Transport, name: &str, source: &str, diagnostics: &mut Diagnostics) {
    let Transport::Http { url, headers } = transport else { return };
    if !headers.is_empty() && url.strip_prefix("http://").is_some_and(|rest| !is_local(rest)) {
        diagnostics.warnings.push(format!("{source}: mcp server {name}: its headers are sent unencrypted: use https"));
    }
}

/// Whether a URL without its scheme leads to this machine.
fn is_local(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    Target::parse(host, Some(80)).is_some_and(|target| target.is_loopback())
}

pub(super) type Variable<'a> = &'a dyn Fn(&str) -> Result<Option<String>, String>;

fn expand_transport(transport: &Transport, variable: Variable<'_>) -> Result<Transport, String> {
    let pairs = |pairs: &[(String, String)]| {
        pairs.iter().map(|(name, value)| Ok((name.clone(), expand(value, variable)?))).collect::<Result<_, String>>()
    };
    Ok(match transport {
        Transport::Stdio { command, args, env } => Transport::Stdio {
            command: expand(command, variable)?,
            args: args.iter().map(|arg| expand(arg, variable)).collect::<Result<_, _>>()?,
            env: pairs(env)?,
        },
        Transport::Http { url, headers } => Transport::Http { url: expand(url, variable)?, headers: pairs(headers)? },
    })
}

/// `$VARIABLE` without braces stays as it is.
pub(super) fn expand(text: &str, variable: Variable<'_>) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, after) = after.split_once('}').ok_or("missing } after ${")?;
        let (name, default) = inside.split_once(":-").map_or((inside, None), |(name, value)| (name, Some(value)));
        let value = variable(name)?.or_else(|| default.map(str::to_owned));
        expanded.push_str(before);
        expanded
            .push_str(&value.ok_or_else(|| format!("{name} is not set: export it, or write ${{{name}:-DEFAULT}}"))?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_or_the_server_is_refused() {
        let variable = |name: &str| match name {
            "SET" => Ok(Some("value".to_owned())),
            "KEY" => Err("a key".to_owned()),
            _ => Ok(None),
        };
        let expand = |text: &str| expand(text, &variable);
        assert_eq!(expand("a ${SET} $SET ${UNSET:-default}").unwrap(), "a value $SET default");
        for refused in ["${UNSET}", "${KEY}", "${KEY:-x}", "${open"] {
            assert!(expand(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn only_loopback_hosts_are_local() {
        for local in ["localhost:1/x", "127.0.0.1/", "[::1]:80/mcp", "user:key@localhost"] {
            assert!(is_local(local), "{local}");
        }
        for remote in ["example.org/", "localhost:x@example.org/", "[2001:db8::1]:80/", "127.0.0.1.example.org", ""] {
            assert!(!is_local(remote), "{remote}");
        }
    }

    #[test]
    fn a_project_file_declares_servers_as_other_agents_know_them() {
        let json = r#"{"mcpServers": {
            "files": {"command": "npx", "args": ["-y", "server"], "env": {"A": "1"}},
            "web": {"type": "http", "url": "https://example.org/mcp", "headers": {"X": "y"}},
            "old": {"type": "sse", "url": "https://example.org/sse"},
            "a b": {"command": "x"},
            "none": {}
        }}"#;
        let file = ProjectFile { path: "/p/.mcp.json".into(), bytes: Ok(json.into()) };
        let mut warnings = Vec::new();
        let servers = file.servers_of_project(&mut warnings);
        let shown: Vec<String> = servers.iter().map(|server| server.transport.about()).collect();
        assert_eq!(shown, ["A=… npx -y server", "https://example.org/mcp"]);
        assert!(servers.iter().all(|server| server.project.as_deref() == Some(Path::new("/p"))));
        assert_eq!(warnings.len(), 3, "{warnings:?}");
    }
}
