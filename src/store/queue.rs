//! Texts that wait until the agent has time for them. They are stored before they are acknowledged, and enter the
//! conversation, with a place in its order, only when their turn comes.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{Store, agents, drafts, log, refusal, row};
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

/// The line that a person would type for a queue entry: a text that begins with a slash is typed with two.
pub fn typed_line(text: &str, is_command: bool) -> String {
    if is_command { text.to_owned() } else { input_line(text) }
}

/// The line that a person would type to send this text.
pub fn input_line(text: &str) -> String {
    if text.starts_with('/') { format!("/{text}") } else { text.to_owned() }
}

/// Names one queued text; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub i64);

impl Store {
    /// Puts a text, or the line of a command, at the end of the agent's queue. It was the draft until now: what was
    /// kept of that is forgotten in the same transaction.
    ///
    /// # Errors
    /// The agent does not live, or the database cannot be written.
    pub fn enqueue(&self, agent: AgentId, text: &str, is_command: bool, now_ms: i64) -> Result<QueueId> {
        self.write(|conn| {
            let sql = "INSERT INTO queue (agent, content, is_command, created_at) VALUES (?1, ?2, ?3, ?4)";
            let ordinal = agents::running(conn, agent)?;
            conn.prepare_cached(sql)?.execute(params![ordinal, text, is_command, now_ms])?;
            let id = QueueId(conn.last_insert_rowid());
            drafts::keep(conn, ordinal, "")?;
            Ok(id)
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
        read(&self.conn, agents::known(&self.conn, agent)?)
    }

    /// Takes a text back: it is what the person types to this agent, in place of what was kept of that before. One
    /// transaction: the text is never in both places, nor in none.
    ///
    /// # Errors
    /// It is no longer queued (so it must not be offered again), or the database cannot be written.
    pub fn unqueue(&self, agent: AgentId, id: QueueId) -> Result<()> {
        self.write(|conn| {
            let ordinal = agents::running(conn, agent)?;
            let taken = take(conn, ordinal, id)?.ok_or_else(gone)?;
            drafts::keep(conn, ordinal, &typed_line(&taken.text, taken.is_command))
        })
    }

    /// Throws these out of the agent's queue, all or none.
    ///
    /// # Errors
    /// One of them is no longer queued, the agent does not live, or the database cannot be written.
    pub fn drop_queued(&self, agent: AgentId, ids: &[QueueId]) -> Result<()> {
        self.write(|conn| {
            let ordinal = agents::running(conn, agent)?;
            ids.iter().try_for_each(|id| take(conn, ordinal, *id)?.map(drop).ok_or_else(gone))
        })
    }

    /// Puts the entry at place `from` before the one at place `to`, counted from 0, and returns the queue as it is then.
    /// Ids are places: they stay in order, and the texts move.
    ///
    /// # Errors
    /// There is no such place, the agent does not live, or the database cannot be written.
    pub fn move_queued(&self, agent: AgentId, from: usize, to: usize) -> Result<Vec<QueuedRow>> {
        self.write(|conn| {
            let mut rows = read(conn, agents::running(conn, agent)?)?;
            if from.max(to) >= rows.len() {
                return Err(gone());
            }
            let ids: Vec<QueueId> = rows.iter().map(|row| row.id).collect();
            let moved = rows.remove(from);
            rows.insert(to, moved);
            let mut update = conn.prepare_cached("UPDATE queue SET content = ?2, is_command = ?3 WHERE id = ?1")?;
            for (row, id) in rows.iter_mut().zip(ids).filter(|(row, id)| row.id != *id) {
                row.id = id;
                update.execute(params![id.0, row.text, row.is_command])?;
            }
            Ok(rows)
        })
    }

    /// Moves a text from the agent's queue into its conversation and begins a turn with it, in one transaction.
    ///
    /// # Errors
    /// The text is not in this agent's queue, the agent does not live, or the database cannot be written.
    pub fn promote(&self, agent: AgentId, id: QueueId, now_ms: i64) -> Result<Message> {
        self.write(|conn| {
            let ordinal = agents::running(conn, agent)?;
            let taken = take(conn, ordinal, id)?.ok_or_else(gone)?;
            log::begin(conn, ordinal, taken.text, now_ms)
        })
    }
}

fn read(conn: &Connection, agent: i64) -> Result<Vec<QueuedRow>> {
    let sql = "SELECT id, content, is_command FROM queue WHERE agent = ?1 ORDER BY id";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([agent], queued_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn take(conn: &Connection, agent: i64, id: QueueId) -> Result<Option<QueuedRow>> {
    let sql = "DELETE FROM queue WHERE id = ?1 AND agent = ?2 RETURNING id, content, is_command";
    Ok(conn.prepare_cached(sql)?.query_row([id.0, agent], queued_row).optional()?)
}

fn queued_row(row: &Row<'_>) -> rusqlite::Result<QueuedRow> {
    let is_command = row.get_ref(2)?.as_i64().unwrap_or(0) != 0;
    Ok(QueuedRow { id: QueueId(row.get(0)?), text: row::text(row, 1)?, is_command })
}

fn gone() -> Error {
    refusal("this text is no longer queued")
}
