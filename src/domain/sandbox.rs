//! What the person decides about the sandbox in which tools run commands.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The settings of `[sandbox]` and `[tools]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSettings {
    /// Whether commands run in a sandbox.
    pub is_enabled: bool,
    /// What commands reach of the network.
    pub network: Network,
    /// Absolute paths that commands may read, besides the workspace and the tool chains.
    pub read: Vec<PathBuf>,
    /// Absolute paths that commands may write, besides the workspace.
    pub write: Vec<PathBuf>,
    /// Names of variables that commands get, besides the usual ones.
    pub variables: Vec<String>,
    /// Names of variables that hold keys of providers, which no command gets.
    pub withheld: Vec<String>,
    /// Directories of this program, which no command sees.
    pub hidden: Vec<PathBuf>,
}

/// What a command reaches of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Network {
    /// Only a loopback interface of its own.
    #[default]
    Off,
    /// Everything that the machine reaches.
    Host,
}

impl Network {
    /// All values.
    pub const ALL: [Self; 2] = [Self::Off, Self::Host];

    /// The name in a configuration file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Host => "host",
        }
    }

    /// The value of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|network| network.name() == name)
    }
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            is_enabled: true,
            network: Network::Off,
            read: Vec::new(),
            write: Vec::new(),
            variables: Vec::new(),
            withheld: Vec::new(),
            hidden: Vec::new(),
        }
    }
}
