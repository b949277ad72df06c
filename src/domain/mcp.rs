//! Servers of the Model Context Protocol (MCP) as the person declares them, and the tools that they offer.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::host::HostPattern;
use crate::domain::http::is_token;
use crate::domain::tool::ToolDeclaration;

/// How long a server may take until its tools are known: Python servers take five seconds to start, and package runners
/// may first have to download.
pub const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a call may take without a sign of progress.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The revision of the newer era of the protocol, and the one of the older era that is asked for.
#[cfg(feature = "mcp")]
pub const MODERN: &str = "2026-07-28";
#[cfg(feature = "mcp")]
pub const LEGACY: &str = "2025-11-25";

/// A server as the configuration declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Letters, digits, `-` and `_`.
    pub name: String,
    /// How it is reached.
    pub transport: Transport,
    /// The transport as declared, with the names of variables instead of their values. Only this is shown.
    pub written: Transport,
    /// The hosts that its process may reach.
    pub net: Vec<HostPattern>,
    /// Whether its process may write in the workspace; otherwise it reads there.
    pub may_write: bool,
    /// How long it may take until its tools are known.
    pub start_timeout: Duration,
    /// How long a call may take without a sign of progress.
    pub call_timeout: Duration,
    /// If not empty, only these tools are offered.
    pub enabled_tools: Vec<String>,
    /// These tools are not offered.
    pub disabled_tools: Vec<String>,
    /// It comes from a project in this directory, and only agents that work there get it.
    pub project: Option<PathBuf>,
    /// Agents that work elsewhere get it as well, although it runs on this machine.
    pub is_remote: bool,
    /// The file and line of the declaration.
    pub source: String,
}

impl McpServer {
    /// A server with nothing else declared.
    pub fn new(name: &str, transport: Transport, source: String) -> Self {
        Self {
            name: name.to_owned(),
            written: transport.clone(),
            transport,
            net: Vec::new(),
            may_write: false,
            start_timeout: START_TIMEOUT,
            call_timeout: CALL_TIMEOUT,
            enabled_tools: Vec::new(),
            disabled_tools: Vec::new(),
            project: None,
            is_remote: false,
            source,
        }
    }

    /// Whether it needs the network.
    pub fn uses_network(&self) -> bool {
        !self.net.is_empty() || matches!(self.transport, Transport::Http { .. })
    }
}

/// The tool that starts a server with [`McpServer::net`].
pub const START: &str = "start";

/// How a server is reached. Values of variables and headers may be secrets, and are not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Transport {
    /// A process that reads and writes messages, one on each line.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment variables besides those of every command.
        env: Vec<(String, String)>,
    },
    /// Streamable HTTP.
    Http {
        /// The URL of its endpoint.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, String)>,
    },
}

/// A server that a client declares for one agent, as long as it is connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientServer {
    /// As for [`McpServer`].
    pub name: String,
    /// How it is reached.
    #[serde(flatten)]
    pub transport: Transport,
}

impl ClientServer {
    pub fn check(&self) -> Result<(), &'static str> {
        let are_pairs = |pairs: &[(String, String)]| pairs.iter().all(|(name, value)| is_pair(name, value));
        match &self.transport {
            _ if !is_server_name(&self.name) => Err(NAME_EXPECTED),
            Transport::Stdio { command, .. } if command.is_empty() => Err("expected a command"),
            Transport::Stdio { env, .. } if !are_pairs(env) => Err("expected variables without line breaks"),
            Transport::Http { url, .. } if !is_http(url) => Err("expected a URL that begins with http:// or https://"),
            Transport::Http { headers, .. } if !are_pairs(headers) => Err("expected headers without line breaks"),
            Transport::Stdio { .. } | Transport::Http { .. } => Ok(()),
        }
    }
}

/// Whether it is a URL that a server over HTTP can have.
pub fn is_http(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

/// Whether it can be a variable or a header.
pub fn is_pair(name: &str, value: &str) -> bool {
    is_token(name) && !value.chars().any(|c| c.is_control() && c != '\t')
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.about())
    }
}

impl Transport {
    /// Whether the declaration says how requests are authorised, so that no login is needed.
    pub fn has_credentials(&self) -> bool {
        let Self::Http { url, headers } = self else { return false };
        let authority = url.split_once("://").map_or("", |(_, rest)| rest).split(['/', '?', '#']).next();
        authority.is_some_and(|authority| authority.contains('@'))
            || headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
    }

    /// The command or the URL in one line, without secrets.
    pub fn about(&self) -> String {
        match self {
            Self::Stdio { command, args, env } => {
                let variables = env.iter().map(|(name, _)| format!("{name}=… "));
                let words = std::iter::once(command).chain(args).map(|word| shell_word(word));
                variables.collect::<String>() + &words.collect::<Vec<_>>().join(" ")
            }
            Self::Http { url, .. } => without_secrets(url),
        }
    }
}

/// A query, a user name and a password may contain a key.
pub fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or(url);
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or(authority);
    if scheme.is_empty() { format!("{host}{path}") } else { format!("{scheme}://{host}{path}") }
}

/// A word as a person would type it in a shell.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    let is_bare = !word.is_empty() && word.chars().all(is_plain);
    if is_bare { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// A tool of a server, as it is declared to models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpTool {
    /// The name of the server.
    pub server: String,
    /// The name that the server gave it.
    pub name: String,
    /// The name that models call: `mcp__SERVER__TOOL`.
    pub full_name: String,
    /// What it does, in the server's words.
    pub description: String,
    /// JSON schema of the arguments in a form that all providers take, as JSON text.
    pub parameters: String,
    /// Arguments that are repeated as HTTP headers, with the names of these.
    pub headers: Vec<(String, String)>,
    /// What a call does.
    pub kind: McpCall,
}

/// What a call of a tool does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpCall {
    /// Calls the tool at the server.
    Tool,
    /// Starts the server, which needs the consent of a person.
    Start {
        /// The program that is started, and where.
        about: Vec<String>,
        /// The hosts that it may reach.
        hosts: Vec<HostPattern>,
    },
}

impl McpTool {
    /// The declaration that models get.
    pub fn declaration(&self) -> ToolDeclaration<'_> {
        ToolDeclaration { name: &self.full_name, description: &self.description, parameters: &self.parameters }
    }
}

/// A resource that a server offers, or a template for the URIs of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpResource {
    /// The name of the server.
    pub server: String,
    /// Its URI; of a template with names in braces, which a person replaces.
    pub uri: String,
    /// What it is, in the server's words.
    pub about: String,
    /// Whether it is a template.
    pub is_template: bool,
}

/// A prompt that a server offers, which is a slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpPrompt {
    /// The name of the server.
    pub server: String,
    /// The name that the server gave it.
    pub name: String,
    /// The name of the command: `mcp__SERVER__PROMPT`.
    pub full_name: String,
    /// What it does, in the server's words.
    pub about: String,
    /// The names of its arguments, in order, and whether each is required.
    pub arguments: Vec<(String, bool)>,
}

impl McpPrompt {
    /// Its arguments as help shows them.
    pub fn usage(&self) -> String {
        let argument =
            |(name, is_required): &(String, bool)| if *is_required { name.clone() } else { format!("[{name}]") };
        self.arguments.iter().map(argument).collect::<Vec<_>>().join(" ")
    }
}

/// The start of the names of all tools of servers.
pub const PREFIX: &str = "mcp__";

/// The error for another name.
pub const NAME_EXPECTED: &str = "expected a name of letters, digits, - and _";

/// The name of a server that somebody else has named, with `_` for characters that a name cannot have.
pub fn server_name(text: &str) -> String {
    let name = text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' });
    name.take(MAX_NAME).collect()
}

const MAX_NAME: usize = 64;

/// Whether this can name a server.
pub fn is_server_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_server_can_be_typed_and_has_no_secrets() {
        let stdio = Transport::Stdio {
            command: "npx".into(),
            args: vec!["-y".into(), "a b".into(), "it's".into()],
            env: vec![("TOKEN".into(), "secret".into())],
        };
        assert_eq!(format!("{stdio:?}"), r"TOKEN=… npx -y 'a b' 'it'\''s'");
        let headers = vec![("Authorization".into(), "Bearer secret".into())];
        let http = Transport::Http { url: "https://example.org/mcp?key=secret".into(), headers };
        assert_eq!(format!("{http:?}"), "https://example.org/mcp");
    }
}
