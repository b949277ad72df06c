//! Texts that wait until the agent has time for them. They are stored before they are acknowledged, and enter the
//! conversation, with a place in its order, only when their turn comes.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Store, agents, log, refusal, row, typing};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::message::Message;

/// A text or a command that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedRow {
    /// Its name.
    pub id: QueueId,
    /// What the person wrote.
    pub text: String,
    /// It is a command, to be carried out when its turn comes.
    pub is_command: bool,
}

/// Names one queued text; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub i64);

impl Store {
    /// Puts a text at the end of the agent's queue.
    ///
    /// # Errors
    /// The agent does not live, or the database cannot be written.
    pub fn enqueue(&self, agent: AgentId, text: &str, is_command: bool, now_ms: i64) -> Result<QueueId> {
        self.write(|conn| {
            let sql = "INSERT INTO queue (agent, content, is_command, created_at) VALUES (?1, ?2, ?3, ?4)";
            conn.prepare_cached(sql)?.execute(params![agents::running(conn, agent)?, text, is_command, now_ms])?;
            Ok(QueueId(conn.last_insert_rowid()))
        })
    }

    /// The living agents for which texts are queued, by birth.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn agents_with_queue(&self) -> Result<Vec<AgentId>> {
        let sql = "SELECT uuid FROM agents WHERE status = 'running' AND ordinal IN (SELECT agent FROM queue)
                   ORDER BY ordinal";
        let mut statement = self.conn.prepare_cached(sql)?;
        // Whoever has a damaged row is missed elsewhere, and said to be.
        let ids = statement.query_map([], |row| Ok(row.get(0).ok()))?;
        Ok(ids.filter_map(rusqlite::Result::transpose).collect::<rusqlite::Result<_>>()?)
    }

    /// The agent's queue, the next one first; of a damaged text as much as can be read.
    ///
    /// # Errors
    /// There is no such agent, or the database cannot be read.
    pub fn queued(&self, agent: AgentId) -> Result<Vec<QueuedRow>> {
        let sql = "SELECT id, content, is_command FROM queue WHERE agent = ?1 ORDER BY id";
        let mut statement = self.conn.prepare_cached(sql)?;
        let ordinal = agents::known(&self.conn, agent)?;
        let rows = statement.query_map([ordinal], |row| {
            let is_command = row.get_ref(2)?.as_i64().unwrap_or(0) != 0;
            Ok(QueuedRow { id: QueueId(row.get(0)?), text: row::text(row, 1)?, is_command })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Takes a text back: it is what the person types to this agent, in place of what was kept of that before. One
    /// transaction: the text is never in both places, nor in none.
    ///
    /// # Errors
    /// It is no longer queued (so it must not be offered again), or the database cannot be written.
    pub fn unqueue(&self, agent: AgentId, id: QueueId) -> Result<()> {
        self.write(|conn| {
            let ordinal = agents::running(conn, agent)?;
            let text = take(conn, ordinal, id)?.ok_or_else(gone)?;
            typing::keep(conn, ordinal, &text)
        })
    }

    /// Moves a text from the agent's queue into its conversation and begins a turn with it, in one transaction.
    ///
    /// # Errors
    /// The text is not in this agent's queue, the agent does not live, or the database cannot be written.
    pub fn promote(&self, agent: AgentId, id: QueueId, now_ms: i64) -> Result<Message> {
        self.write(|conn| {
            let ordinal = agents::running(conn, agent)?;
            let text = take(conn, ordinal, id)?.ok_or_else(gone)?;
            log::begin(conn, ordinal, text, now_ms)
        })
    }
}

fn take(conn: &Connection, agent: i64, id: QueueId) -> Result<Option<String>> {
    let mut statement = conn.prepare_cached("DELETE FROM queue WHERE id = ?1 AND agent = ?2 RETURNING content")?;
    Ok(statement.query_row([id.0, agent], |row| row::text(row, 0)).optional()?)
}

fn gone() -> Error {
    refusal("this text is no longer queued")
}
