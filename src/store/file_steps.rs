//! What tool calls and undos changed in files. The contents are not here: the states name them by digest.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::database::Store;
use super::error::store_error;
use super::ids;
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::domain::file_change::{FileChange, FileOfStep, FileStep, StoredStep, UNDO};

const COLUMNS: &str =
    "file_steps.id, step, uuid, call, tool, began_at, file_steps.ended_at, is_compared, flaw, message";

#[doc(hidden)]
impl Store {
    /// Stores what a call, a turn of a host or an undo changed, unless it is stored already. `before` is the message before
    /// which an undo brought the files back, or that began the turn; that of a call is found by its id. Steps that an undo
    /// undoes count no more, those of a redo again.
    ///
    /// # Errors
    /// There is no such agent, or the database cannot be written.
    pub fn keep_file_step(&self, step: &FileStep, before: Option<MessageId>) -> Result<()> {
        self.write(|conn| {
            let agent = ids::known(conn, step.agent)?;
            let message = match before {
                Some(message) => message.0,
                None => message_of_call(conn, agent, &step.call)?,
            };
            let sql = "INSERT OR IGNORE INTO file_steps
                (step, agent, call, tool, began_at, ended_at, is_compared, flaw, message) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
            let FileStep { id, call, tool, began_at, ended_at, is_compared, flaw, .. } = step;
            let values = params![id, agent, call, tool, began_at, ended_at, is_compared, flaw, message];
            if conn.prepare_cached(sql)?.execute(values)? == 0 {
                return Ok(());
            }
            let row = conn.last_insert_rowid();
            let sql = "INSERT INTO file_changes (step, path, before, after) VALUES (?, ?, ?, ?)";
            let mut insert = conn.prepare_cached(sql)?;
            for FileChange { path, before, after } in &step.changes {
                let path = path.to_str().ok_or_else(|| store_error("the name of a file is not UTF-8"))?;
                insert.execute(params![row, path, before.to_string(), after.to_string()])?;
            }
            mark_undone(conn, row, step)
        })
    }

    /// What an agent changed from this message on, oldest first, undone steps and undos too.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn file_steps(&self, agent: AgentId, from: MessageId) -> Result<Vec<StoredStep>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM file_steps JOIN agents ON agents.ordinal = agent
             WHERE uuid = ?1 AND message >= ?2 ORDER BY file_steps.id"
        );
        self.read_steps(&sql, params![agent, from.0])
    }

    /// The newest undo of an agent that was not taken back, and what it has undone.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn newest_undo(&self, agent: AgentId) -> Result<Option<(StoredStep, Vec<FileOfStep>)>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM file_steps JOIN agents ON agents.ordinal = agent
             WHERE uuid = ?1 AND tool = '{UNDO}'
               AND EXISTS (SELECT 1 FROM file_changes WHERE step = file_steps.id AND undone_by IS NULL)
             ORDER BY file_steps.id DESC LIMIT 1"
        );
        let Some(undo) = self.read_steps(&sql, params![agent])?.pop() else { return Ok(None) };
        let sql = "SELECT file_steps.step, path FROM file_changes JOIN file_steps ON file_steps.id = file_changes.step
            WHERE undone_by = (SELECT id FROM file_steps WHERE step = ?1) ORDER BY file_steps.id, path";
        let mut statement = self.conn.prepare_cached(sql)?;
        let undone = statement.query_map([&undo.step.id], |row| Ok((row.get(0)?, row.get::<_, String>(1)?.into())))?;
        Ok(Some((undo, undone.collect::<rusqlite::Result<_>>()?)))
    }

    /// The newest message of the user to an agent up to this one; 0 if there is none.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn prompt_before(&self, agent: AgentId, message: MessageId) -> Result<MessageId> {
        let sql = "SELECT coalesce(max(id), 0) FROM messages WHERE kind = 'user' AND id <= ?2
            AND agent = (SELECT ordinal FROM agents WHERE uuid = ?1)";
        let found = self.conn.prepare_cached(sql)?.query_row(params![agent, message.0], |row| row.get(0))?;
        Ok(MessageId(found))
    }

    /// Another agent with a step that changed this file while this step ran.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn also_wrote(&self, step: &FileStep, path: &Path) -> Result<Option<AgentId>> {
        let sql = "SELECT uuid FROM file_changes JOIN file_steps ON file_steps.id = file_changes.step
            JOIN agents ON agents.ordinal = agent
            WHERE path = ?1 AND file_steps.step != ?2 AND uuid != ?3 AND began_at <= ?4 AND file_steps.ended_at >= ?5 LIMIT 1";
        let path = path.to_str().unwrap_or_default();
        let values = params![path, step.id, step.agent, step.ended_at, step.began_at];
        Ok(self.conn.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?)
    }

    fn read_steps(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<StoredStep>> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map(values, |row| Ok((row.get(0)?, step_of(row)?)))?;
        let steps: Vec<(i64, StoredStep)> = rows.collect::<rusqlite::Result<_>>()?;
        steps.into_iter().map(|(row, stored)| with_changes(&self.conn, row, stored)).collect()
    }
}

fn step_of(row: &Row<'_>) -> rusqlite::Result<StoredStep> {
    let step = FileStep {
        id: row.get(1)?,
        agent: row.get(2)?,
        call: row.get(3)?,
        tool: row.get(4)?,
        began_at: row.get(5)?,
        ended_at: row.get(6)?,
        is_compared: row.get(7)?,
        flaw: row.get(8)?,
        changes: Vec::new(),
        undoes: Vec::new(),
    };
    Ok(StoredStep { step, message: MessageId(row.get(9)?), undone: BTreeSet::new() })
}

fn with_changes(conn: &Connection, row: i64, mut stored: StoredStep) -> Result<StoredStep> {
    let sql = "SELECT path, before, after, undone_by IS NOT NULL FROM file_changes WHERE step = ?1 ORDER BY path";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([row], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    for found in rows {
        let (path, before, after, is_undone): (String, String, String, bool) = found?;
        let state = |text: &str| text.parse().map_err(|why: String| store_error(why));
        let change = FileChange { path: PathBuf::from(path), before: state(&before)?, after: state(&after)? };
        stored.undone.extend(is_undone.then(|| change.path.clone()));
        stored.step.changes.push(change);
    }
    Ok(stored)
}

/// An undo marks what it undid; a redo takes these marks back, and marks the undo.
fn mark_undone(conn: &Connection, row: i64, step: &FileStep) -> Result<()> {
    let sql = "UPDATE file_changes SET undone_by = ?1
        WHERE path = ?3 AND step = (SELECT id FROM file_steps WHERE file_steps.step = ?2)";
    let mut mark = conn.prepare_cached(sql)?;
    for (of, path) in &step.undoes {
        let path = path.to_str().unwrap_or_default();
        let is_undo = "SELECT tool = ?2 FROM file_steps WHERE step = ?1";
        let is_undo: bool = conn.prepare_cached(is_undo)?.query_row(params![of, UNDO], |row| row.get(0))?;
        let by = (step.tool == UNDO || is_undo).then_some(row);
        mark.execute(params![by, of, path])?;
    }
    Ok(())
}

/// The message with a call: the newest one of the agent with this id, else its newest message.
fn message_of_call(conn: &Connection, agent: i64, call: &str) -> Result<i64> {
    let sql = "SELECT id FROM messages WHERE agent = ?1 AND kind = 'tool_call' AND data ->> '$.id' = ?2
        ORDER BY id DESC LIMIT 1";
    let found = conn.prepare_cached(sql)?.query_row(params![agent, call], |row| row.get(0)).optional()?;
    let newest = "SELECT coalesce(max(id), 0) FROM messages WHERE agent = ?1";
    Ok(match found {
        Some(message) => message,
        None => conn.prepare_cached(newest)?.query_row([agent], |row| row.get(0))?,
    })
}
