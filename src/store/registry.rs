//! Reading the registry: who lives, who is meant, who adopts.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension as _, Row};

use super::{Store, refusal};
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};

/// One agent, as the registry has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRow {
    /// Its name for ever.
    pub id: AgentId,
    /// Its place in the order of birth; 0 is the root.
    pub ordinal: i64,
    /// The name that people use, unique among the running.
    pub name: Option<String>,
    /// Who forked it, alive or not; never changes.
    pub parent: Option<AgentId>,
    /// The child inherits the parent's own messages up to this one; 0: none of them.
    pub fork_point: MessageId,
    /// It has not been killed.
    pub is_running: bool,
    /// It was in the middle of a turn when this was last written.
    pub was_busy: bool,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// When it was killed, in milliseconds since 1970.
    pub ended_at: Option<i64>,
    /// `provider/model`.
    pub endpoint: Option<String>,
    /// How much it thinks, as the person wrote it.
    pub thinking: Option<String>,
    /// The environment's specification.
    pub environment: Option<String>,
    /// Instructions of its own before everything, in place of the usual ones.
    pub system: Option<String>,
}

/// The living, and what could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Registry {
    /// Running agents in the order of birth.
    pub agents: Vec<AgentRow>,
    /// Words for each row that was skipped.
    pub damaged: Vec<String>,
}

/// Who was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// This one. By uuid it may be dead.
    One(AgentId),
    /// Nobody.
    None,
    /// Any of these, by order of birth.
    Ambiguous(Vec<AgentId>),
}

const SELECT: &str = "SELECT ordinal, uuid, name, parent_uuid, fork_message_id, status, activity, created_at, ended_at,
    endpoint, thinking, environment, system FROM agents";

impl Store {
    /// The running agents, by order of birth.
    ///
    /// # Errors
    /// The database cannot be read. A row that makes no sense is no error but one of [`Registry::damaged`].
    pub fn load_agents(&self) -> Result<Registry> {
        let sql = format!("{SELECT} WHERE status = 'running' ORDER BY ordinal");
        let mut registry = Registry::default();
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            match agent_row(row) {
                Ok(agent) => registry.agents.push(agent),
                Err(words) => registry.damaged.push(words),
            }
        }
        Ok(registry)
    }

    /// One agent, alive or dead.
    ///
    /// # Errors
    /// The database cannot be read, or the row is damaged.
    pub fn agent(&self, agent: AgentId) -> Result<Option<AgentRow>> {
        let mut statement = self.conn.prepare_cached(&format!("{SELECT} WHERE uuid = ?1"))?;
        let mut rows = statement.query([agent])?;
        rows.next()?.map(|row| agent_row(row).map_err(refusal)).transpose()
    }

    /// Finds an agent by its uuid, by its name among the running, or by the first 4 or more characters of its uuid.
    /// A running agent is preferred to dead ones whose uuids begin alike, and a name to the beginning of a uuid.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn find(&self, text: &str) -> Result<Found> {
        let exact = "SELECT uuid FROM agents WHERE uuid = ?1";
        let named = "SELECT uuid FROM agents WHERE name = ?1 AND status = 'running'";
        for sql in [exact, named] {
            if let [found] = self.candidates(sql, text)?[..] {
                return Ok(Found::One(found));
            }
        }
        // A uuid is made of base64url, whose last character is `z`; `{` is the next one.
        let alike =
            "SELECT uuid FROM agents WHERE uuid >= ?1 AND uuid < ?1 || '{' AND status = 'running' ORDER BY ordinal";
        let once = "SELECT uuid FROM agents WHERE uuid >= ?1 AND uuid < ?1 || '{' ORDER BY ordinal";
        for sql in [alike, once].into_iter().filter(|_| text.len() >= 4) {
            match self.candidates(sql, text)?[..] {
                [] => {}
                [found] => return Ok(Found::One(found)),
                ref several => return Ok(Found::Ambiguous(several.to_vec())),
            }
        }
        Ok(Found::None)
    }

    /// The living agent that something was said to last; `None` before anything was said.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn last_addressed(&self) -> Result<Option<AgentId>> {
        // From the newest message backwards: what lies between is at most what came of the last words.
        let sql = "SELECT uuid FROM messages CROSS JOIN agents ON agents.ordinal = messages.agent
            WHERE kind = 'user' AND status = 'running' ORDER BY messages.id DESC LIMIT 1";
        Ok(self.conn.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?)
    }

    /// The nearest ancestor that lives and can be read: who adopts an orphan for navigation. `None` for the root.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn living_ancestor(&self, agent: AgentId) -> Result<Option<AgentId>> {
        let mut next = self.birth_parent(agent)?;
        while let Some(id) = next {
            // A damaged row is nobody's guardian, but it may still know its own parent.
            if self.agent(id).is_ok_and(|row| row.is_some_and(|row| row.is_running)) {
                return Ok(Some(id));
            }
            next = self.birth_parent(id)?;
        }
        Ok(None)
    }

    /// Who forked it. Ordinals only fall on the way up, so not even a damaged registry makes a circle.
    fn birth_parent(&self, agent: AgentId) -> Result<Option<AgentId>> {
        let sql = "SELECT parent.uuid FROM agents child JOIN agents parent
                       ON parent.uuid = child.parent_uuid AND parent.ordinal < child.ordinal WHERE child.uuid = ?1";
        let mut statement = self.conn.prepare_cached(sql)?;
        Ok(statement.query_row([agent], |row| Ok(row.get(0).ok())).optional()?.flatten())
    }

    fn candidates(&self, sql: &str, text: &str) -> Result<Vec<AgentId>> {
        let mut statement = self.conn.prepare_cached(sql)?;
        // A malformed uuid is not an agent that anyone could mean.
        let found = statement.query_map([text], |row| Ok(row.get::<_, AgentId>(0).ok()))?;
        Ok(found.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }
}

fn agent_row(row: &Row<'_>) -> std::result::Result<AgentRow, String> {
    let ordinal: i64 = row.get(0).unwrap_or(-1);
    read_agent(row).map_err(|error| format!("agent {ordinal} is damaged and left out: {error}"))
}

fn read_agent(row: &Row<'_>) -> rusqlite::Result<AgentRow> {
    Ok(AgentRow {
        ordinal: row.get(0)?,
        id: row.get(1)?,
        name: row.get(2)?,
        parent: row.get(3)?,
        fork_point: MessageId(row.get::<_, Option<i64>>(4)?.unwrap_or(0)),
        is_running: row.get_ref(5)?.as_str()? == "running",
        was_busy: row.get_ref(6)?.as_str()? == "running",
        created_at: row.get(7)?,
        ended_at: row.get(8)?,
        endpoint: row.get(9)?,
        thinking: row.get(10)?,
        environment: row.get(11)?,
        system: row.get(12)?,
    })
}

/// An agent is kept as the 22 characters of its uuid.
impl FromSql for AgentId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_str()?.parse().map_err(|_| FromSqlError::Other("this is no uuid".into()))
    }
}

impl ToSql for AgentId {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.to_string().into())
    }
}
