//! Keys that commands print: one run of a command for all agents of its provider, and one key for all of them after it.
//! Keys are kept in memory and nowhere else.
//!
//! ```text
//!   nothing ── somebody wants to send ──▶ the command runs ── it printed a key ──▶ known
//!      ▲                                       │                                    │
//!      └────────── it failed, or nobody ───────┘             refused (401): the run that printed it
//!                  waits any more                            is the newest one: runs once more
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::agent::{Agent, Wait};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::endpoint::Credential;
use crate::repl::Repl;
use crate::team::Roster;
use crate::tools::Running;
use crate::tools::key_command::KeyRun;

/// The keys of all providers that have a command for theirs.
#[derive(Default)]
pub(super) struct Credentials {
    rings: BTreeMap<String, Ring>,
}

/// The key of one provider.
#[derive(Default)]
struct Ring {
    /// How often the command was run.
    runs: u64,
    key: Option<Credential>,
    run: Option<KeyRun>,
    waiting: BTreeSet<AgentId>,
}

impl Credentials {
    /// The key of this provider, if its command has printed one.
    pub(super) fn key(&self, provider: &str) -> Option<&Credential> {
        self.rings.get(provider)?.key.as_ref()
    }

    /// Whether a command runs.
    pub(super) fn is_running(&self) -> bool {
        self.rings.values().any(|ring| ring.run.is_some())
    }

    /// A key was refused: it is forgotten, unless a newer one is there already.
    fn forget(&mut self, provider: &str, run: u64) {
        if let Some(ring) = self.rings.get_mut(provider)
            && ring.key.as_ref().is_some_and(|key| key.run == run)
        {
            ring.key = None;
        }
    }

    /// The commands that have ended: whose, what came of it, and who waited for it.
    fn take_ended(&mut self) -> Vec<(String, Result<()>, BTreeSet<AgentId>)> {
        let mut ended = Vec::new();
        for (provider, ring) in &mut self.rings {
            let Some(run) = ring.run.take_if(|run| run.is_complete()) else { continue };
            let outcome = run.collect().map_err(|words| failure(provider, &words));
            let outcome = outcome.map(|secret| ring.key = Some(Credential { secret, run: ring.runs }));
            ended.push((provider.clone(), outcome, std::mem::take(&mut ring.waiting)));
        }
        ended
    }

    /// Ends the commands for which nobody waits any more, and hands over what is to be joined.
    fn stop_unwanted(&mut self, waits: impl Fn(AgentId, &str) -> bool) -> Vec<Running> {
        let stop = |(provider, ring): (&String, &mut Ring)| {
            ring.waiting.retain(|agent_id| waits(*agent_id, provider));
            ring.run.take_if(|_| ring.waiting.is_empty()).map(KeyRun::stop)
        };
        self.rings.iter_mut().filter_map(stop).collect()
    }
}

impl Repl {
    /// The agent waits for the key of its provider, which is asked for if that was not done yet.
    pub(super) fn await_key(&mut self, agent_id: AgentId) {
        let Some(agent) = self.core.roster.get(agent_id) else { return };
        let (endpoint, environment) = (agent.talk.endpoint.clone(), agent.talk.environment.clone());
        self.core.roster.with(agent_id, |agent| agent.await_key());
        let ring = self.credentials.rings.entry(endpoint.provider.clone()).or_default();
        ring.waiting.insert(agent_id);
        if ring.run.is_some() {
            return;
        }
        ring.runs += 1;
        let limit: Duration = self.core.config.settings.key_timeout;
        let command = endpoint.key_command.as_deref().unwrap_or_default();
        match KeyRun::start(command, limit, environment, self.core.waker.clone()) {
            Ok(run) => ring.run = Some(run),
            Err(error) => {
                let waiting = std::mem::take(&mut ring.waiting);
                self.tell_of_key(&waiting, &Err(failure(&endpoint.provider, &error.message)));
            }
        }
    }

    /// A provider has refused the key of that run.
    pub(super) fn on_key_refused(&mut self, agent_id: AgentId, provider: &str, run: u64) {
        self.credentials.forget(provider, run);
        if !waits_for_key(&self.core.roster, agent_id, provider) {
            return;
        }
        if self.credentials.key(provider).is_some() {
            return self.tell_of_key(&BTreeSet::from([agent_id]), &Ok(()));
        }
        self.await_key(agent_id);
    }

    /// Looks at the commands that run: tells who waits for those that have ended, and ends those that nobody waits for.
    pub(super) fn poll_key_commands(&mut self) {
        if !self.credentials.is_running() {
            return;
        }
        for (provider, outcome, mut waiting) in self.credentials.take_ended() {
            waiting.retain(|agent_id| waits_for_key(&self.core.roster, *agent_id, &provider));
            self.tell_of_key(&waiting, &outcome);
        }
        let roster = &self.core.roster;
        self.core
            .draining
            .extend(self.credentials.stop_unwanted(|agent_id, provider| waits_for_key(roster, agent_id, provider)));
    }

    fn tell_of_key(&mut self, waiting: &BTreeSet<AgentId>, outcome: &Result<()>) {
        for agent_id in waiting {
            self.core.with_agent(*agent_id, |agent, context| agent.on_key(outcome.clone(), context));
        }
    }
}

/// Whether an agent waits for the key of this provider, and not of one that it talks to meanwhile.
fn waits_for_key(roster: &Roster, agent_id: AgentId, provider: &str) -> bool {
    let waits = |agent: &Agent| matches!(agent.wait(), Wait::Key) && agent.talk.endpoint.provider == provider;
    roster.get(agent_id).is_some_and(waits)
}

/// Names the command by where it is written down, and never what it printed.
fn failure(provider: &str, words: &str) -> Error {
    Error::new(ErrorKind::Auth, format!("no key for {provider}: api_key_command of [providers.{provider}] {words}"))
}
