//! Settings of the sandbox in which tools run commands.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::domain::host::HostPattern;

/// The settings of `[sandbox]` and `[tools]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSettings {
    /// Whether commands run in a sandbox.
    pub is_enabled: bool,
    /// Nothing asks, whatever the policy and the rules say: the person has started the process so.
    pub asks_nothing: bool,
    /// Which part of the network commands reach.
    pub network: Network,
    /// Absolute paths that commands may read, besides the workspace and the tool chains.
    pub read: Vec<PathBuf>,
    /// Absolute paths that commands may write, besides the workspace.
    pub write: Vec<PathBuf>,
    /// Names of variables that commands get, besides the usual ones.
    pub variables: Vec<String>,
    /// Names of variables that contain keys of providers, which no command gets.
    pub withheld: Vec<String>,
    /// Directories of this program, which no command sees.
    pub hidden: Vec<PathBuf>,
    /// Files and directories that commands may read wherever they lie, also below `hidden`: skills and hooks.
    pub shown: Vec<PathBuf>,
    /// Files that are protected besides those with certain names: the scripts of hooks that the person trusts.
    pub guarded: Vec<PathBuf>,
}

/// Which part of the network a command reaches.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Network {
    /// Only a loopback interface of its own.
    #[default]
    Off,
    /// As [`Network::Off`], and these hosts by HTTP and HTTPS through a proxy.
    Hosts(Vec<HostPattern>),
    /// Everything that the machine reaches.
    Host,
}

const OFF: &str = "off";
const HOST: &str = "host";

impl Network {
    /// Parses a value: `off`, `host`, or hosts with commas between them.
    pub fn from_text(text: &str) -> Option<Self> {
        match text {
            OFF => Some(Self::Off),
            HOST => Some(Self::Host),
            // A single word is rather a mistake than a host.
            hosts if !hosts.contains(['.', ':', '*']) => None,
            hosts => Self::of_hosts(hosts.split(',').map(str::trim)),
        }
    }

    /// These hosts; `None` if one of them is invalid.
    pub fn of_hosts<'a>(hosts: impl Iterator<Item = &'a str>) -> Option<Self> {
        let hosts: Vec<HostPattern> = hosts.map(|host| host.parse().ok()).collect::<Option<_>>()?;
        Some(if hosts.is_empty() { Self::Off } else { Self::Hosts(hosts) })
    }

    /// What it means for a command, for the person who is asked.
    pub fn about(&self) -> String {
        match self {
            Self::Off => "no network".into(),
            Self::Host => "network".into(),
            Self::Hosts(hosts) => {
                let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
                format!("network: only {}, by HTTP and HTTPS", hosts.join(", "))
            }
        }
    }

    /// The value as a configuration file contains it.
    pub fn to_toml(&self) -> String {
        match self {
            Self::Off => format!("{OFF:?}"),
            Self::Host => format!("{HOST:?}"),
            Self::Hosts(hosts) => format!("{:?}", hosts.iter().map(ToString::to_string).collect::<Vec<_>>()),
        }
    }
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            is_enabled: true,
            asks_nothing: false,
            network: Network::Off,
            read: Vec::new(),
            write: Vec::new(),
            variables: Vec::new(),
            withheld: Vec::new(),
            hidden: Vec::new(),
            shown: Vec::new(),
            guarded: Vec::new(),
        }
    }
}
