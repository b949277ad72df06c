//! The hosts that a command names: the text of the question about them, and what the sandbox then lets it reach.

use serde_json::Value;

use crate::domain::host::HostPattern;
use crate::domain::rule::{Rule, Rules};
use crate::domain::sandbox::Network;
use crate::proxy::AllowedHosts;
use crate::sandbox::{Level, Policy};

/// More hosts than this cannot be judged by who is asked.
const MOST: usize = 20;

/// The hosts that a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRequest {
    /// At least one.
    pub hosts: Vec<HostPattern>,
    pub access: NetworkAccess,
}

/// How much of the network a command reaches that names hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkAccess {
    /// These hosts, through a proxy.
    Hosts,
    /// All of it, because this system cannot restrict it to hosts.
    Everything,
    /// All of it, as for every command.
    Open,
}

impl NetworkRequest {
    /// The hosts in the arguments of a call; `None` if there are none.
    pub(super) fn of(arguments: &Value, sandbox: &Policy) -> Result<Option<Self>, String> {
        let named: Vec<&str> =
            arguments["network"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if named.len() > MOST {
            return Err(format!(
                "`network` names {} hosts (at most {MOST}); a pattern such as *.example.org names several",
                named.len()
            ));
        }
        let parse = |text: &&str| {
            let parsed = text.parse::<HostPattern>();
            parsed.map_err(|error| format!("`network`: {:?}: {}", super::one_line(text, 100), error.message))
        };
        let hosts: Vec<HostPattern> = named.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Self::for_hosts(hosts, sandbox))
    }

    /// For these hosts; `None` if there are none.
    pub(super) fn for_hosts(hosts: Vec<HostPattern>, sandbox: &Policy) -> Option<Self> {
        let access = match (sandbox.level(), &sandbox.settings.network) {
            (Level::None, _) | (_, Network::Host) => NetworkAccess::Open,
            (Level::Landlock, _) => NetworkAccess::Everything,
            (Level::Namespaces | Level::SharedProc, _) => NetworkAccess::Hosts,
        };
        (!hosts.is_empty()).then_some(Self { hosts, access })
    }

    /// The hosts that have to be allowed.
    pub fn wanted_hosts(&self) -> &[HostPattern] {
        match self.access {
            NetworkAccess::Hosts => &self.hosts,
            NetworkAccess::Everything => &[HostPattern::ANY],
            NetworkAccess::Open => &[],
        }
    }

    /// The permissions of the sandbox, with these hosts.
    pub(super) fn summary(&self, sandbox: &Policy) -> String {
        match self.access {
            NetworkAccess::Open => sandbox.summary(),
            NetworkAccess::Everything => {
                sandbox.summary_with("the whole network, because this system cannot restrict it to hosts")
            }
            NetworkAccess::Hosts => sandbox.summary_with(&Network::Hosts(self.all(sandbox)).about()),
        }
    }

    /// These hosts, and those that every command may reach.
    fn all(&self, sandbox: &Policy) -> Vec<HostPattern> {
        let mut all = self.hosts.clone();
        if let Network::Hosts(always) = &sandbox.settings.network {
            all.extend(always.iter().filter(|host| !self.hosts.contains(host)).cloned());
        }
        all
    }
}

/// The permissions of the sandbox with these hosts, in one line for the person who is asked.
pub fn summary(hosts: &[HostPattern], sandbox: &Policy) -> String {
    let request = NetworkRequest::for_hosts(hosts.to_vec(), sandbox);
    request.map_or_else(|| sandbox.summary(), |request| request.summary(sandbox))
}

/// What a command may reach at this level.
///
/// # Errors
/// The level is weaker than the one for which the hosts were allowed.
pub fn allowed(sandbox: &Policy, level: Level, request: Option<&NetworkRequest>) -> Result<Network, String> {
    let always = match &sandbox.settings.network {
        // It cannot be restricted to them.
        Network::Hosts(_) if !level.has_namespaces() => Network::Off,
        always => always.clone(),
    };
    Ok(match request {
        Some(request) if request.access == NetworkAccess::Hosts && !level.has_namespaces() => {
            return Err(
                "the network cannot be restricted to hosts on this system; call again to ask the user for all of it"
                    .into(),
            );
        }
        Some(request) if request.access == NetworkAccess::Hosts => Network::Hosts(request.all(sandbox)),
        Some(request) if request.access == NetworkAccess::Everything => Network::Host,
        _ => always,
    })
}

/// The hosts that the proxy of a command lets it reach.
pub fn hosts(allowed: &[HostPattern], rules: &Rules) -> AllowedHosts {
    let denied = rules.deny.iter().filter_map(Rule::hosts).collect();
    AllowedHosts { allowed: allowed.to_vec(), denied }
}
