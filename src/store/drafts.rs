//! What a person typed: drafts, and the history of inputs.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Store, agents, row};
use crate::base::error::Result;
use crate::base::id::AgentId;

/// How many inputs are remembered.
const INPUTS: i64 = 10_000;

/// The inputs are counted once in so many, because to count them costs more than to keep a few too many.
const TRIM_EVERY: i64 = 100;

impl Store {
    /// Keeps what was typed for this agent and not yet sent; empty forgets it.
    ///
    /// # Errors
    /// The agent does not live, or the database cannot be written.
    pub fn set_draft(&self, agent: AgentId, text: &str) -> Result<()> {
        self.write(|conn| keep(conn, agents::running(conn, agent)?, text))
    }

    /// What was typed for this agent and not sent; empty if nothing was.
    ///
    /// # Errors
    /// There is no such agent, or the database cannot be read.
    pub fn draft(&self, agent: AgentId) -> Result<String> {
        let ordinal = agents::known(&self.conn, agent)?;
        let mut statement = self.conn.prepare_cached("SELECT content FROM drafts WHERE agent = ?1")?;
        Ok(statement.query_row([ordinal], |row| row::text(row, 0)).optional()?.unwrap_or_default())
    }

    /// Remembers an input, of whichever agent, as the newest; the same text from earlier is forgotten, and so is what
    /// is older than the newest 10,000. An empty one is not remembered.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn remember_input(&self, text: &str) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.write(|conn| {
            conn.prepare_cached("DELETE FROM inputs WHERE content = ?1")?.execute([text])?;
            conn.prepare_cached("INSERT INTO inputs (content) VALUES (?1)")?.execute([text])?;
            if conn.last_insert_rowid() % TRIM_EVERY == 0 { trim(conn) } else { Ok(()) }
        })
    }

    /// The input before the `newer` newest ones.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn input(&self, newer: usize) -> Result<Option<String>> {
        let newer = i64::try_from(newer).unwrap_or(i64::MAX);
        let sql = "SELECT content FROM inputs ORDER BY id DESC LIMIT 1 OFFSET ?1";
        Ok(self.conn.prepare_cached(sql)?.query_row([newer], |row| row.get(0)).optional()?)
    }
}

/// Keeps what was typed for the agent with this ordinal; empty forgets it. The caller holds the transaction.
pub(super) fn keep(conn: &Connection, agent: i64, text: &str) -> Result<()> {
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
        let kept: i64 = store.conn.query_row("SELECT count(*) FROM inputs", [], |row| row.get(0)).unwrap();
        assert!((10_000..10_000 + TRIM_EVERY).contains(&kept), "{kept}");
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
