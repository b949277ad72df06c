//! Who lives when the house is opened, and how many of them may be at work.

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::config::Config;
use crate::domain::environment::DEFAULT_ENVIRONMENT;
use crate::store::Store;
use crate::team::{AgentFactory, Roster};

/// Descriptors that are left for everything but agents at work and clients, and how many an agent at work needs.
const OWN_DESCRIPTORS: u64 = 64;
const DESCRIPTORS_PER_AGENT: u64 = 4;

/// Everybody who lives, as the store has them.
pub(super) struct LoadedAgents {
    pub(super) roster: Roster,
    /// Words for each row that could not be read.
    pub(super) damaged: Vec<String>,
    /// Nobody was there: agent 0 was just born.
    pub(super) is_fresh: bool,
}

impl LoadedAgents {
    pub(super) fn of(store: &Store, config: &Config, factory: &mut AgentFactory, unix_ms: i64) -> Result<Self> {
        let roll = store.load_agents()?;
        let mut roster = Roster::default();
        for row in &roll.agents {
            let parent = match row.parent {
                Some(parent) if roster.get(parent).is_some() => Some(parent),
                // Where not even the way up can be read, the eldest adopts.
                _ => store.living_ancestor(row.id)?.or(roster.nth(0)),
            };
            roster.add(factory.restore(row), parent);
        }
        let is_fresh = roster.is_empty();
        if is_fresh {
            let model = config.endpoint.full_name();
            let row = store.create_root(AgentId::random(), Some(&model), Some(DEFAULT_ENVIRONMENT), unix_ms)?;
            roster.add(factory.restore(&row), None);
        }
        Ok(Self { roster, damaged: roll.damaged, is_fresh })
    }
}

/// How many agents may be at work: as many as the settings (0: no limit), the descriptors that so many clients and all else
/// leave, and this build of libcurl allow.
pub(super) fn slots(limit: usize, clients: u64) -> usize {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let agents = descriptors.saturating_sub(OWN_DESCRIPTORS + clients) / DESCRIPTORS_PER_AGENT;
    let limit = limit.min(usize::try_from(agents).unwrap_or(usize::MAX).max(1));
    if crate::net::HAS_POLL { limit } else { limit.min(crate::net::AGENTS_WITHOUT_POLL) }
}
