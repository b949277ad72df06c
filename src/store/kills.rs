//! Kills of many agents that take several turns: noted from their beginning to their end, so that a start completes them.

use super::database::Store;
use crate::base::error::Result;
use crate::base::id::AgentId;

const KEY: &str = "kill";
const ALL: &str = "all";
const DESCENDANTS: &str = "descendants";

/// The kill of all that was below an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BegunKill {
    pub agent: AgentId,
    /// Whether the agent itself is not killed.
    pub keeps_agent: bool,
    /// Agents with a higher ordinal were made later and are not killed.
    pub newest: i64,
}

impl Store {
    /// Replaces an earlier kill below the same agent.
    pub(crate) fn begin_kill(&self, kill: BegunKill) -> Result<()> {
        let reach = if kill.keeps_agent { DESCENDANTS } else { ALL };
        self.set_meta(&format!("{KEY} {}", kill.agent), &format!("{reach} {}", kill.newest))
    }

    pub(crate) fn end_kill(&self, agent: AgentId) -> Result<()> {
        self.delete_meta(&format!("{KEY} {agent}"))
    }

    /// The kills that were begun and not ended. Rows that cannot be read are left out.
    pub(crate) fn begun_kills(&self) -> Result<Vec<BegunKill>> {
        let rows = self.meta_of(KEY)?;
        Ok(rows.iter().filter_map(|(agent, value)| parse(agent, value)).collect())
    }
}

fn parse(agent: &str, value: &str) -> Option<BegunKill> {
    let (reach, newest) = value.split_once(' ')?;
    Some(BegunKill { agent: agent.parse().ok()?, keeps_agent: reach == DESCENDANTS, newest: newest.parse().ok()? })
}
