//! Keys that commands print: a command runs once for all agents of its provider, and they all use the key that it
//! prints. Keys are kept in memory only.
//!
//! ```text
//!   unknown ── an agent is to send ─────▶ the command runs ── it printed a key ──▶ known
//!      ▲                                       │                                    │
//!      └────────── it failed, or no agent ─────┘             refused (401) and no newer key is known:
//!                  waits any more                            the command runs again
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::agent::{Agent, Wait};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::endpoint::Credential;
use crate::repl::core::{Core, remove};
use crate::team::Roster;
use crate::tools::Running;
use crate::tools::key_command::KeyRun;

/// The keys of all providers with a key command.
#[derive(Default)]
pub(super) struct Credentials {
    keys: BTreeMap<String, ProviderKey>,
}

#[derive(Default)]
struct ProviderKey {
    runs: u64,
    key: Option<Credential>,
    run: Option<KeyRun>,
    waiting: BTreeSet<AgentId>,
}

impl Credentials {
    /// The key of this provider, if its command has printed one.
    pub(super) fn key(&self, provider: &str) -> Option<&Credential> {
        self.keys.get(provider)?.key.as_ref()
    }

    pub(super) fn is_running(&self) -> bool {
        self.keys.values().any(|entry| entry.run.is_some())
    }

    /// A key was refused: it is forgotten, unless a newer one is there already.
    fn forget(&mut self, provider: &str, run: u64) {
        if let Some(entry) = self.keys.get_mut(provider)
            && entry.key.as_ref().is_some_and(|key| key.run == run)
        {
            entry.key = None;
        }
    }

    /// The commands that have ended: the provider, the outcome, and the waiting agents.
    fn take_ended(&mut self) -> Vec<(String, Result<()>, BTreeSet<AgentId>)> {
        let mut ended = Vec::new();
        for (provider, entry) in &mut self.keys {
            let Some(run) = entry.run.take_if(|run| run.is_complete()) else { continue };
            let outcome = run.collect().map_err(|reason| failure(provider, &reason));
            let outcome = outcome.map(|secret| entry.key = Some(Credential { secret, run: entry.runs }));
            ended.push((provider.clone(), outcome, std::mem::take(&mut entry.waiting)));
        }
        ended
    }

    /// Stops the commands for which no agent waits any more, and returns their threads.
    fn stop_unwanted(&mut self, waits: impl Fn(AgentId, &str) -> bool) -> Vec<Running> {
        let stop = |(provider, key): (&String, &mut ProviderKey)| {
            key.waiting.retain(|agent_id| waits(*agent_id, provider));
            key.run.take_if(|_| key.waiting.is_empty()).map(KeyRun::stop)
        };
        self.keys.iter_mut().filter_map(stop).collect()
    }
}

impl Credentials {
    /// Makes the agent wait for the key of its provider, and runs the key command unless it runs already.
    pub(super) fn await_key(&mut self, core: &mut Core, agent: AgentId) {
        let Some(sender) = core.agent(agent) else { return };
        let (endpoint, environment) = (sender.inputs.endpoint.clone(), sender.inputs.environment.clone());
        core.edit(agent, |agent| agent.await_key());
        let key = self.keys.entry(endpoint.provider.clone()).or_default();
        key.waiting.insert(agent);
        if key.run.is_some() {
            return;
        }
        key.runs += 1;
        let limit: Duration = core.config().settings.key_timeout;
        let command = endpoint.key_command.as_deref().unwrap_or_default();
        match KeyRun::start(command, limit, environment, core.waker()) {
            Ok(run) => key.run = Some(run),
            Err(error) => {
                let waiting = std::mem::take(&mut key.waiting);
                deliver_key(core, &waiting, &Err(failure(&endpoint.provider, &error.message)));
            }
        }
    }

    pub(super) fn on_refused(&mut self, core: &mut Core, agent: AgentId, provider: &str, run: u64) {
        self.forget(provider, run);
        if !waits_for_key(core.roster(), agent, provider) {
            return;
        }
        if self.key(provider).is_some() {
            return deliver_key(core, &BTreeSet::from([agent]), &Ok(()));
        }
        self.await_key(core, agent);
    }

    /// Hands over the keys of commands that have ended, and stops commands whose key no agent waits for.
    pub(super) fn poll(&mut self, core: &mut Core) {
        if !self.is_running() {
            return;
        }
        for (provider, outcome, mut waiting) in self.take_ended() {
            waiting.retain(|agent| waits_for_key(core.roster(), *agent, &provider));
            deliver_key(core, &waiting, &outcome);
        }
        let unwanted = self.stop_unwanted(|agent, provider| waits_for_key(core.roster(), agent, provider));
        remove::drain(core, unwanted);
    }
}

fn deliver_key(core: &mut Core, waiting: &BTreeSet<AgentId>, outcome: &Result<()>) {
    for agent in waiting {
        core.with_agent(*agent, |agent, context| agent.on_key(outcome.clone(), context));
    }
}

/// Whether an agent waits for the key of this provider, and not of its current fallback.
fn waits_for_key(roster: &Roster, agent_id: AgentId, provider: &str) -> bool {
    let waits = |agent: &Agent| matches!(agent.wait(), Wait::Key) && agent.inputs.endpoint.provider == provider;
    roster.get(agent_id).is_some_and(waits)
}

/// Names the setting, but never the output of the command.
fn failure(provider: &str, reason: &str) -> Error {
    Error::new(ErrorKind::Auth, format!("no key for {provider}: api_key_command of [providers.{provider}] {reason}"))
}
