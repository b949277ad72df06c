//! Drafts: what was typed and not sent.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::database::Store;
use super::{ids, row};
use crate::base::error::Result;
use crate::base::id::AgentId;

#[doc(hidden)]
impl Store {
    /// Stores the agent's draft; an empty one is removed.
    ///
    /// # Errors
    /// The agent is not running, or the database cannot be written.
    pub fn set_draft(&self, agent: AgentId, text: &str) -> Result<()> {
        self.write(|conn| put(conn, ids::running(conn, agent)?, text))
    }

    /// The agent's draft, empty if there is none.
    ///
    /// # Errors
    /// There is no such agent, or the database cannot be read.
    pub fn draft(&self, agent: AgentId) -> Result<String> {
        let ordinal = ids::known(&self.conn, agent)?;
        let mut statement = self.conn.prepare_cached("SELECT content FROM drafts WHERE agent = ?1")?;
        Ok(statement.query_row([ordinal], |row| row::text(row, 0)).optional()?.unwrap_or_default())
    }
}

/// Stores the draft of the agent with this ordinal, within the caller's transaction; an empty one is removed.
pub(super) fn put(conn: &Connection, agent: i64, text: &str) -> Result<()> {
    if text.is_empty() {
        conn.prepare_cached("DELETE FROM drafts WHERE agent = ?1")?.execute([agent])?;
    } else {
        let sql = "INSERT INTO drafts (agent, content) VALUES (?1, ?2)
                   ON CONFLICT (agent) DO UPDATE SET content = excluded.content";
        conn.prepare_cached(sql)?.execute(params![agent, text])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_draft_leaves_no_row() {
        let store = Store::in_memory().unwrap();
        let agent = AgentId::random();
        store.create_root(agent, None, None, 0).unwrap();
        store.set_draft(agent, "half a thought").unwrap();
        assert_eq!(store.draft(agent).unwrap(), "half a thought");
        store.set_draft(agent, "").unwrap();
        assert_eq!(store.draft(agent).unwrap(), "");
        let rows: i64 = store.conn.query_row("SELECT count(*) FROM drafts", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0);
    }
}
