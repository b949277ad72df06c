//! The registry: which agents exist, who forked whom, who lives.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};

use super::{Store, fault, log, refusal};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, MessageId};
use crate::domain::message::{Body, Message};

/// The root's ordinal. Everyone else's is greater than that of the agent that forked it.
pub(super) const ROOT: i64 = 0;

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
    /// What it may do, in the words of those who grant it.
    pub powers: Option<String>,
    /// Instructions of its own before everything, in place of the usual ones.
    pub system: Option<String>,
}

/// The living, and what could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roll {
    /// Running agents in the order of birth.
    pub agents: Vec<AgentRow>,
    /// Words for each row that was skipped.
    pub damaged: Vec<String>,
}

/// A child to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAgent {
    /// A fresh identifier.
    pub id: AgentId,
    /// A name that no running agent has.
    pub name: Option<String>,
    /// Who forks it.
    pub parent: AgentId,
    /// The last of the parent's own messages that the child inherits; 0: none of them.
    pub fork_point: MessageId,
    /// `None`: the parent's.
    pub endpoint: Option<String>,
    /// `None`: the parent's.
    pub environment: Option<String>,
}

/// What a fork wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct Forked {
    /// The child.
    pub row: AgentRow,
    /// The fork event in the parent's log.
    pub in_parent: Message,
    /// The fork event in the child's log: its first own message.
    pub in_child: Message,
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
    endpoint, thinking, environment, powers, system FROM agents";

impl Store {
    /// The running agents, by order of birth.
    ///
    /// # Errors
    /// The database cannot be read. A row that makes no sense is no error but one of [`Roll::damaged`].
    pub fn load_agents(&self) -> Result<Roll> {
        let sql = format!("{SELECT} WHERE status = 'running' ORDER BY ordinal");
        let mut roll = Roll::default();
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            match agent_row(row) {
                Ok(agent) => roll.agents.push(agent),
                Err(words) => roll.damaged.push(words),
            }
        }
        Ok(roll)
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

    /// Registers agent 0; where its row is damaged, one that takes its place behind all others.
    ///
    /// # Errors
    /// Somebody lives already, or the database cannot be written.
    pub fn create_root(
        &self,
        id: AgentId,
        endpoint: Option<&str>,
        environment: Option<&str>,
        now_ms: i64,
    ) -> Result<AgentRow> {
        if !self.load_agents()?.agents.is_empty() {
            return Err(refusal("there is a root already"));
        }
        let sql = "INSERT INTO agents (ordinal, uuid, status, activity, created_at, endpoint, environment)
                   SELECT iif(EXISTS (SELECT 1 FROM agents WHERE ordinal = ?1), NULL, ?1),
                       ?2, 'running', 'idle', ?3, ?4, ?5";
        self.conn.execute(sql, params![ROOT, id, now_ms, endpoint, environment])?;
        self.expect_agent(id)
    }

    /// Registers a child and writes the fork into both logs, in one transaction. It takes over the parent's thinking,
    /// powers and instructions; what it costs does not depend on the length of any history.
    ///
    /// # Errors
    /// The parent does not live, the name is taken ([`ErrorKind::Usage`]), the fork point lies in the future, or the
    /// database cannot be written; there is no trace of the child then.
    pub fn fork(&self, child: &NewAgent, now_ms: i64) -> Result<Forked> {
        let (in_parent, in_child) = self.write(|conn| register(conn, child, now_ms))?;
        Ok(Forked { row: self.expect_agent(child.id)?, in_parent, in_child })
    }

    /// The same with the child's first own message, with which its turn begins: all in one transaction, so that no crash
    /// leaves a child that does not know what it is for.
    ///
    /// # Errors
    /// As for [`Store::fork`].
    pub fn fork_and_begin(&self, child: &NewAgent, prompt: String, now_ms: i64) -> Result<(Forked, Message)> {
        let (in_parent, in_child, prompt) = self.write(|conn| {
            let (in_parent, in_child) = register(conn, child, now_ms)?;
            Ok((in_parent, in_child, log::begin(conn, running(conn, child.id)?, prompt, now_ms)?))
        })?;
        Ok((Forked { row: self.expect_agent(child.id)?, in_parent, in_child }, prompt))
    }

    /// Marks exactly these agents dead, in one transaction, and returns the event in each one's log, in the order given.
    /// What a cut reply had brought is kept, and so are queued texts.
    ///
    /// # Errors
    /// One of them is the root, is dead already or does not exist (nobody dies then), or the database cannot be written.
    pub fn kill(&self, agents: &[AgentId], now_ms: i64) -> Result<Vec<Message>> {
        self.write(|conn| agents.iter().map(|agent| bury(conn, *agent, now_ms)).collect())
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

    /// Names the agent, or takes its name away.
    ///
    /// # Errors
    /// Another running agent has the name ([`ErrorKind::Usage`]), the agent does not live, or the database cannot be
    /// written; the last two are for the other setters too.
    pub fn set_name(&self, agent: AgentId, name: Option<&str>) -> Result<()> {
        self.update("UPDATE agents SET name = ?2 WHERE uuid = ?1 AND status = 'running'", agent, name)
    }

    /// Sets `provider/model`.
    ///
    /// # Errors
    /// As for [`Store::set_name`].
    pub fn set_endpoint(&self, agent: AgentId, endpoint: &str) -> Result<()> {
        self.update("UPDATE agents SET endpoint = ?2 WHERE uuid = ?1 AND status = 'running'", agent, Some(endpoint))
    }

    /// Sets how much the agent thinks.
    ///
    /// # Errors
    /// As for [`Store::set_name`].
    pub fn set_thinking(&self, agent: AgentId, thinking: Option<&str>) -> Result<()> {
        self.update("UPDATE agents SET thinking = ?2 WHERE uuid = ?1 AND status = 'running'", agent, thinking)
    }

    /// Sets the environment's specification.
    ///
    /// # Errors
    /// As for [`Store::set_name`].
    pub fn set_environment(&self, agent: AgentId, environment: Option<&str>) -> Result<()> {
        self.update("UPDATE agents SET environment = ?2 WHERE uuid = ?1 AND status = 'running'", agent, environment)
    }

    /// Sets what the agent may do.
    ///
    /// # Errors
    /// As for [`Store::set_name`].
    pub fn set_powers(&self, agent: AgentId, powers: Option<&str>) -> Result<()> {
        self.update("UPDATE agents SET powers = ?2 WHERE uuid = ?1 AND status = 'running'", agent, powers)
    }

    /// Sets instructions of the agent's own; `None`: the usual ones.
    ///
    /// # Errors
    /// As for [`Store::set_name`].
    pub fn set_system(&self, agent: AgentId, system: Option<&str>) -> Result<()> {
        self.update("UPDATE agents SET system = ?2 WHERE uuid = ?1 AND status = 'running'", agent, system)
    }

    fn update(&self, sql: &str, agent: AgentId, value: Option<&str>) -> Result<()> {
        let changed = execute(self.conn.prepare_cached(sql)?, params![agent, value], value)?;
        if changed == 0 { Err(absent(&self.conn, agent)) } else { Ok(()) }
    }

    fn candidates(&self, sql: &str, text: &str) -> Result<Vec<AgentId>> {
        let mut statement = self.conn.prepare_cached(sql)?;
        // A malformed uuid is not an agent that anyone could mean.
        let found = statement.query_map([text], |row| Ok(row.get::<_, AgentId>(0).ok()))?;
        Ok(found.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    pub(super) fn expect_agent(&self, agent: AgentId) -> Result<AgentRow> {
        self.agent(agent)?.ok_or_else(|| unknown(agent))
    }
}

/// Enters a child, and the fork into both logs. The caller holds the transaction.
fn register(conn: &Connection, child: &NewAgent, now_ms: i64) -> Result<(Message, Message)> {
    let parent = running(conn, child.parent)?;
    let ordinal = insert_child(conn, child, now_ms)?;
    let in_parent = log::insert(conn, parent, Body::Fork(child.id.to_string()), now_ms)?;
    let in_child = log::insert(conn, ordinal, Body::Fork(child.parent.to_string()), now_ms)?;
    if child.fork_point >= in_parent.id {
        return Err(refusal("a fork point must be a message that exists"));
    }
    Ok((in_parent, in_child))
}

/// Enters a child. The caller holds the transaction.
pub(super) fn insert_child(conn: &Connection, child: &NewAgent, now_ms: i64) -> Result<i64> {
    let sql = "INSERT INTO agents (uuid, name, parent_uuid, fork_message_id, status, activity, created_at,
                   endpoint, thinking, environment, powers, system)
               SELECT ?1, ?2, uuid, ?4, 'running', 'idle', ?5,
                   coalesce(?6, endpoint), thinking, coalesce(?7, environment), powers, system
               FROM agents WHERE uuid = ?3";
    let values =
        params![child.id, child.name, child.parent, child.fork_point.0, now_ms, child.endpoint, child.environment];
    execute(conn.prepare_cached(sql)?, values, child.name.as_deref())?;
    Ok(conn.last_insert_rowid())
}

/// Runs a statement that may give an agent a name that is taken.
fn execute(mut statement: CachedStatement<'_>, values: impl rusqlite::Params, name: Option<&str>) -> Result<usize> {
    statement.execute(values).map_err(|error| match name {
        Some(name) if fault::is_duplicate(&error, "agents.name") => {
            Error::new(ErrorKind::Usage, format!("another running agent is called `{name}`"))
        }
        _ => error.into(),
    })
}

fn bury(conn: &Connection, agent: AgentId, now_ms: i64) -> Result<Message> {
    let ordinal = running(conn, agent)?;
    if ordinal == ROOT {
        return Err(Error::new(ErrorKind::Usage, "the root cannot be killed"));
    }
    if let Some(cut) = log::take_partial(conn, ordinal)? {
        log::insert(conn, ordinal, Body::Assistant(cut), now_ms)?;
    }
    let killed = log::insert(conn, ordinal, Body::AgentKilled, now_ms)?;
    let sql = "UPDATE agents SET status = 'dead', activity = 'idle', ended_at = ?2 WHERE ordinal = ?1";
    conn.prepare_cached(sql)?.execute([ordinal, now_ms])?;
    Ok(killed)
}

/// The ordinal of an agent that lives; nothing is ever written for one that does not.
pub(super) fn running(conn: &Connection, agent: AgentId) -> Result<i64> {
    let sql = "SELECT ordinal FROM agents WHERE uuid = ?1 AND status = 'running'";
    let found = conn.prepare_cached(sql)?.query_row([agent], |row| row.get(0)).optional()?;
    found.ok_or_else(|| absent(conn, agent))
}

/// The ordinal of an agent, alive or dead.
pub(super) fn known(conn: &Connection, agent: AgentId) -> Result<i64> {
    let sql = "SELECT ordinal FROM agents WHERE uuid = ?1";
    let found = conn.prepare_cached(sql)?.query_row([agent], |row| row.get(0)).optional()?;
    found.ok_or_else(|| unknown(agent))
}

fn absent(conn: &Connection, agent: AgentId) -> Error {
    match known(conn, agent) {
        Ok(_) => refusal(format!("agent {} is dead", agent.short())),
        Err(error) => error,
    }
}

fn unknown(agent: AgentId) -> Error {
    refusal(format!("there is no agent {agent}"))
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
        powers: row.get(12)?,
        system: row.get(13)?,
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Steps of SQLite's machine that `work` takes.
    fn steps(store: &mut Store, work: impl FnOnce(&Store)) -> usize {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = count.clone();
        let step = move || {
            counter.fetch_add(1, Ordering::Relaxed);
            false
        };
        store.conn.progress_handler(1, Some(step)).unwrap();
        work(store);
        store.conn.progress_handler(1, None::<fn() -> bool>).unwrap();
        count.load(Ordering::Relaxed)
    }

    #[test]
    fn a_fork_costs_the_same_for_ten_messages_and_for_twenty_thousand() {
        let mut store = Store::in_memory().unwrap();
        let parent = AgentId::random();
        store.create_root(parent, None, None, 0).unwrap();
        let mut cost_behind = |messages: usize| {
            store.append(parent, vec![Body::User("x".into()); messages], 0).unwrap();
            let fork = |store: &Store| {
                let fork_point = store.last_own_message(parent).unwrap();
                let id = AgentId::random();
                let child = NewAgent { id, name: None, parent, fork_point, endpoint: None, environment: None };
                store.fork(&child, 0).unwrap();
            };
            // The first time its statements are prepared.
            fork(&store);
            steps(&mut store, fork)
        };
        let short = cost_behind(10);
        assert!(short > 50, "{short}");
        assert_eq!(cost_behind(20_000), short);
    }
}
