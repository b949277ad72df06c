//! Servers of the Model Context Protocol (MCP) as the person declares them, and the tools that they offer.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::host::HostPattern;
use crate::domain::tool::ToolDeclaration;

/// A server as the configuration declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Letters, digits, `-` and `_`.
    pub name: String,
    /// How it is reached.
    pub transport: Transport,
    /// The same as it is declared, with the names of variables instead of their values. Only this is shown.
    pub written: Transport,
    /// The hosts that its process may reach.
    pub net: Vec<HostPattern>,
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
    /// The file and line of the declaration.
    pub source: String,
}

impl McpServer {
    /// Whether it needs the network.
    pub fn uses_network(&self) -> bool {
        !self.net.is_empty() || matches!(self.transport, Transport::Http { .. })
    }
}

/// The tool that starts a server with [`McpServer::net`].
pub const START: &str = "start";

/// How a server is reached. Values of variables and headers may be secrets, and are not shown.
#[derive(Clone, PartialEq, Eq)]
pub enum Transport {
    /// A process that reads and writes messages, one on each line.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables that it gets besides those of every command.
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

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.about())
    }
}

impl Transport {
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

/// A query, a user name and a password may hold a key.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or(url);
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or(authority);
    if scheme.is_empty() { format!("{host}{path}") } else { format!("{scheme}://{host}{path}") }
}

/// A word as a person would type it in a shell.
fn shell_word(word: &str) -> String {
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
        /// What is started, and where.
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

/// The start of the names of all tools of servers.
pub const PREFIX: &str = "mcp__";

/// Whether this can name a server.
pub fn is_server_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=64).contains(&name.len()) && name.chars().all(is_fine)
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
