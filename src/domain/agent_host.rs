//! Hosts: other agent programs as models, which speak the Agent Client Protocol on their standard input and output.

use std::path::PathBuf;

use crate::domain::host::HostPattern;

/// A host as the configuration or the built-in table has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentHost {
    /// Its name as a model: `acp/NAME`.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables besides those of every command, with their values, which may be secrets.
    pub env: Vec<(String, String)>,
    /// The hosts of the network that it may reach.
    pub net: Vec<HostPattern>,
    /// Directories that it may write besides the workspace: its own configuration and state.
    pub write: Vec<PathBuf>,
    /// The value that is set for its option `model`.
    pub model: Option<String>,
    /// How to install it, for one of the built-in table.
    pub install: Option<&'static str>,
}

/// A command that a host offers in a session: a message that begins with a slash and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCommand {
    /// The name of the host.
    pub host: String,
    pub name: String,
    /// What it does, in the host's words.
    pub about: String,
    /// What may follow the name.
    pub hint: String,
}

/// A host that is known without configuration.
#[derive(Debug, Clone, Copy)]
pub struct KnownHost {
    pub name: &'static str,
    pub command: &'static [&'static str],
    pub net: &'static [&'static str],
    /// Below the home directory.
    pub write: &'static [&'static str],
    pub install: &'static str,
}

/// The hosts that are known without configuration. The directories and hosts are those that each program documents.
pub const KNOWN: &[KnownHost] = &[
    KnownHost {
        name: "claude",
        command: &["claude-agent-acp"],
        net: &["api.anthropic.com", "claude.ai", "platform.claude.com", "console.anthropic.com"],
        write: &[".claude", ".claude.json", ".cache/claude-cli-nodejs"],
        install: "npm install -g @agentclientprotocol/claude-agent-acp",
    },
    KnownHost {
        name: "codex",
        command: &["codex-acp"],
        net: &["api.openai.com", "chatgpt.com", "auth.openai.com"],
        write: &[".codex"],
        install: "npm install -g @zed-industries/codex-acp",
    },
    KnownHost {
        name: "gemini",
        command: &["gemini", "--acp"],
        net: &[
            "generativelanguage.googleapis.com",
            "cloudcode-pa.googleapis.com",
            "oauth2.googleapis.com",
            "accounts.google.com",
        ],
        write: &[".gemini"],
        install: "npm install -g @google/gemini-cli",
    },
    KnownHost {
        name: "opencode",
        command: &["opencode", "acp"],
        net: &["models.dev", "models.opencode.ai", "opencode.ai"],
        write: &[".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"],
        install: "npm install -g opencode-ai",
    },
    KnownHost {
        name: "goose",
        command: &["goose", "acp"],
        net: &[],
        write: &[".config/goose", ".local/share/goose", ".local/state/goose"],
        install: "the steps at github.com/block/goose",
    },
    KnownHost {
        name: "qwen",
        command: &["qwen", "--acp"],
        net: &["portal.qwen.ai", "chat.qwen.ai", "dashscope.aliyuncs.com"],
        write: &[".qwen"],
        install: "npm install -g @qwen-code/qwen-code",
    },
    KnownHost {
        name: "copilot",
        command: &["copilot", "--acp"],
        net: &["api.github.com", "github.com", "*.githubcopilot.com"],
        write: &[".copilot"],
        install: "npm install -g @github/copilot",
    },
];

impl AgentHost {
    /// A host of the built-in table, with its directories below this home directory.
    pub fn known(known: &KnownHost, home: Option<&std::path::Path>) -> Self {
        Self {
            name: known.name.to_owned(),
            command: known.command.iter().map(|word| (*word).to_owned()).collect(),
            env: Vec::new(),
            net: known.net.iter().filter_map(|host| host.parse().ok()).collect(),
            write: home.map_or_else(Vec::new, |home| known.write.iter().map(|path| home.join(path)).collect()),
            model: None,
            install: Some(known.install),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_of_the_table_are_valid() {
        for known in KNOWN {
            let host = AgentHost::known(known, Some(std::path::Path::new("/home/a")));
            assert_eq!((host.net.len(), host.write.len()), (known.net.len(), known.write.len()), "{}", known.name);
        }
    }
}
