//! Texts and commands that wait until the agent is idle. A text gets its id in `messages` only when its turn begins.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::database::Store;
use super::error::store_error;
use super::{drafts, ids, log, row};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::drafts::DraftSlot;
use crate::domain::message::{Body, Message};

/// `is_command` of a line that waits outside of the queue.
const PARKED: i64 = 2;

/// A queued text or command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedRow {
    /// Its id.
    pub id: QueueId,
    /// The text, or the line of the command.
    pub text: String,
    /// Whether it is a command.
    pub is_command: bool,
}

/// The input line for an entry, as `input_line` writes a text.
pub fn typed_line(text: &str, is_command: bool) -> String {
    if is_command { text.to_owned() } else { input_line(text) }
}

/// The input line that sends this text: a leading slash is doubled, because a single one begins a command.
pub fn input_line(text: &str) -> String {
    if text.starts_with('/') { format!("/{text}") } else { text.to_owned() }
}

/// The id of a queued text or command; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub i64);

#[doc(hidden)]
impl Store {
    /// Appends a text, or the line of a command, to the agent's queue and removes the draft that it was, in one
    /// transaction.
    pub fn enqueue(
        &self,
        agent: AgentId,
        text: &str,
        is_command: bool,
        draft: Option<DraftSlot>,
        now_ms: i64,
    ) -> Result<QueueId> {
        self.write(|conn| {
            let sql = "INSERT INTO queue (agent, content, is_command, created_at) VALUES (?1, ?2, ?3, ?4)";
            let ordinal = ids::running(conn, agent)?;
            conn.prepare_cached(sql)?.execute(params![ordinal, text, is_command, now_ms])?;
            let id = QueueId(conn.last_insert_rowid());
            draft.map_or(Ok(()), |slot| drafts::put(conn, ordinal, slot, ""))?;
            Ok(id)
        })
    }

    /// Stores the line of a command that waits outside of the queue until the tools of a reply are done, so that it is
    /// shown if the process ends first.
    pub(crate) fn park_line(&self, agent: AgentId, line: &str, now_ms: i64) -> Result<QueueId> {
        self.write(|conn| {
            let sql = "INSERT INTO queue (agent, content, is_command, created_at) VALUES (?1, ?2, ?3, ?4)";
            conn.prepare_cached(sql)?.execute(params![ids::running(conn, agent)?, line, PARKED, now_ms])?;
            Ok(QueueId(conn.last_insert_rowid()))
        })
    }

    /// Removes a parked line. It may already have been removed with its agent.
    pub(crate) fn drop_parked(&self, id: QueueId) -> Result<()> {
        self.write(|conn| {
            let sql = "DELETE FROM queue WHERE id = ?1 AND is_command = ?2";
            conn.prepare_cached(sql)?.execute(params![id.0, PARKED])?;
            Ok(())
        })
    }

    /// The running agents with a queue, in order of creation.
    pub fn agents_with_queue(&self) -> Result<Vec<AgentId>> {
        let sql = "SELECT uuid FROM agents WHERE status = 'running' AND ordinal IN
                   (SELECT agent FROM queue WHERE is_command < 2) ORDER BY ordinal";
        let mut statement = self.conn.prepare_cached(sql)?;
        // Damaged rows are reported when the registry is loaded.
        let ids = statement.query_map([], |row| Ok(row.get(0).ok()))?;
        Ok(ids.filter_map(rusqlite::Result::transpose).collect::<rusqlite::Result<_>>()?)
    }

    /// The agent's queue, the next one first. Of a damaged text, as much is returned as can be read.
    pub fn queued(&self, agent: AgentId) -> Result<Vec<QueuedRow>> {
        read(&self.conn, ids::known(&self.conn, agent)?)
    }

    /// Removes an entry from the queue and makes it a draft of the agent, in one transaction.
    pub fn unqueue(&self, agent: AgentId, id: QueueId, slot: DraftSlot) -> Result<()> {
        self.write(|conn| {
            let ordinal = ids::running(conn, agent)?;
            let entry = take(conn, ordinal, id)?.ok_or_else(not_queued)?;
            drafts::put(conn, ordinal, slot, &typed_line(&entry.text, entry.is_command))
        })
    }

    /// Removes these entries from the agent's queue, all or none.
    pub(crate) fn drop_queued(&self, agent: AgentId, ids: &[QueueId]) -> Result<()> {
        self.write(|conn| {
            let ordinal = ids::running(conn, agent)?;
            ids.iter().try_for_each(|id| take(conn, ordinal, *id)?.map(drop).ok_or_else(not_queued))
        })
    }

    /// Moves the entry at position `from` to position `to`, counted from 0, and returns the new queue. The ids stay in
    /// order and the contents move between them.
    pub(crate) fn move_queued(&self, agent: AgentId, from: usize, to: usize) -> Result<Vec<QueuedRow>> {
        self.write(|conn| {
            let mut rows = read(conn, ids::running(conn, agent)?)?;
            if from.max(to) >= rows.len() {
                return Err(not_queued());
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

    /// Removes a text from the agent's queue and begins a turn with it, in one transaction.
    pub fn promote(&self, agent: AgentId, id: QueueId, now_ms: i64) -> Result<Message> {
        self.write(|conn| {
            let ordinal = ids::running(conn, agent)?;
            let entry = take(conn, ordinal, id)?.ok_or_else(not_queued)?;
            log::begin(conn, ordinal, entry.text, now_ms)
        })
    }
}

fn read(conn: &Connection, agent: i64) -> Result<Vec<QueuedRow>> {
    let sql = "SELECT id, content, is_command FROM queue WHERE agent = ?1 AND is_command < 2 ORDER BY id";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([agent], queued_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Shows the lines that an earlier process had parked in the conversations of their agents.
pub(super) fn show_parked(conn: &Connection, now_ms: i64) -> Result<()> {
    let sql = "DELETE FROM queue WHERE is_command = ?1 RETURNING agent, content";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([PARKED], |row| Ok((row.get(0)?, row::text(row, 1)?)))?;
    let parked: Vec<(i64, String)> = rows.collect::<rusqlite::Result<_>>()?;
    for (agent, line) in parked {
        let is_running = "SELECT EXISTS (SELECT 1 FROM agents WHERE ordinal = ?1 AND status = 'running')";
        if !conn.prepare_cached(is_running)?.query_row([agent], |row| row.get(0))? {
            continue;
        }
        let note = format!("not done, because the process ended: {line}");
        log::insert(conn, agent, Body::Command(note), now_ms)?;
    }
    Ok(())
}

fn take(conn: &Connection, agent: i64, id: QueueId) -> Result<Option<QueuedRow>> {
    let sql = "DELETE FROM queue WHERE id = ?1 AND agent = ?2 RETURNING id, content, is_command";
    Ok(conn.prepare_cached(sql)?.query_row([id.0, agent], queued_row).optional()?)
}

fn queued_row(row: &Row<'_>) -> rusqlite::Result<QueuedRow> {
    let is_command = row.get_ref(2)?.as_i64().unwrap_or(0) != 0;
    Ok(QueuedRow { id: QueueId(row.get(0)?), text: row::text(row, 1)?, is_command })
}

fn not_queued() -> Error {
    store_error("this entry is not queued any more: /queue lists the queue")
}
