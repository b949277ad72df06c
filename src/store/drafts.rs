//! Drafts, and the history of inputs.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::database::Store;
use super::{ids, row};
use crate::base::error::Result;
use crate::base::id::AgentId;

const INPUTS: i64 = 10_000;

/// Old inputs are removed once in this many inserts, because counting them costs more than keeping a few too many.
const TRIM_EVERY: i64 = 100;

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

    /// Adds an input of any agent to the history as the newest one, and removes the same text from earlier and all but
    /// about 10,000. An empty one is not added.
    ///
    /// # Errors
    /// The database cannot be written.
    pub(crate) fn remember_input(&self, text: &str) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.write(|conn| {
            conn.prepare_cached("DELETE FROM inputs WHERE content = ?1")?.execute([text])?;
            conn.prepare_cached("INSERT INTO inputs (content) VALUES (?1)")?.execute([text])?;
            if conn.last_insert_rowid() % TRIM_EVERY == 0 { trim(conn) } else { Ok(()) }
        })
    }

    /// The input before the newest `newer` ones.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn input(&self, newer: usize) -> Result<Option<String>> {
        let newer = i64::try_from(newer).unwrap_or(i64::MAX);
        let sql = "SELECT content FROM inputs ORDER BY id DESC LIMIT 1 OFFSET ?1";
        Ok(self.conn.prepare_cached(sql)?.query_row([newer], |row| row.get(0)).optional()?)
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

fn trim(conn: &Connection) -> Result<()> {
    let sql = "DELETE FROM inputs WHERE id <= (SELECT id FROM inputs ORDER BY id DESC LIMIT 1 OFFSET ?1)";
    conn.prepare_cached(sql)?.execute([INPUTS])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_come_back_newest_first_once_each_and_about_ten_thousand_are_kept() {
        let store = Store::in_memory().unwrap();
        for number in 0..10_250 {
            store.remember_input(&format!("input {number}")).unwrap();
        }
        store.remember_input("input 10000").unwrap();
        store.remember_input("").unwrap();
        let newest: Vec<String> = (0..2).filter_map(|newer| store.input(newer).unwrap()).collect();
        assert_eq!(newest, ["input 10000", "input 10249"]);
        let stored: i64 = store.conn.query_row("SELECT count(*) FROM inputs", [], |row| row.get(0)).unwrap();
        assert!((10_000..10_000 + TRIM_EVERY).contains(&stored), "{stored}");
    }

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
