//! Archived agents: they are kept with their conversations, but not listed.

use rusqlite::params;

use super::database::Store;
use super::error::store_error;
use super::ids;
use super::registry::AgentRow;
use crate::base::error::Result;
use crate::base::id::AgentId;

#[doc(hidden)]
impl Store {
    /// Archives these agents, in one transaction. Their usage stays with the agent above them.
    pub(crate) fn archive(&self, agents: &[AgentId], now_ms: i64) -> Result<()> {
        let sql = "UPDATE agents SET archived_at = coalesce(archived_at, ?2), unseen_since = NULL WHERE ordinal = ?1";
        self.release_numbers();
        self.write(|conn| {
            for agent in agents {
                let ordinal = ids::running(conn, *agent)?;
                conn.prepare_cached(sql)?.execute(params![ordinal, now_ms])?;
                conn.prepare_cached("DELETE FROM spent WHERE agent = ?1")?.execute([ordinal])?;
            }
            Ok(())
        })
    }

    /// Brings an archived agent back, with a new number. Unless another `--print` run continues it, it no longer
    /// belongs to a run.
    pub(crate) fn unarchive(&self, agent: AgentId, is_for_run: bool) -> Result<AgentRow> {
        let sql = "UPDATE agents SET archived_at = NULL, is_print_run = is_print_run AND ?2, number = iif(run IS NULL, ?3, NULL)
                   WHERE uuid = ?1 AND status = 'running' AND archived_at IS NOT NULL";
        self.write(|conn| match conn.prepare_cached(sql)?.execute(params![agent, is_for_run, self.free_number()?])? {
            0 => Err(store_error(format!("agent {} is not archived", agent.short()))),
            _ => self.expect_agent(agent),
        })
    }

    /// Records that an agent was made for one `--print` run.
    pub(crate) fn set_print_run(&self, agent: AgentId) -> Result<()> {
        self.release_numbers();
        self.write(|conn| {
            let sql = "UPDATE agents SET is_print_run = 1 WHERE ordinal = ?1";
            Ok(conn.prepare_cached(sql)?.execute([ids::running(conn, agent)?]).map(drop)?)
        })
    }
}
