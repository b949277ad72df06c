//! Writing the registry: who is born of whom, what becomes of them, who dies. Reading it is `registry`.

use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use super::registry::AgentRow;
use super::{Store, fault, log, refusal};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, MessageId};
use crate::domain::message::{Body, Message};

/// The root's ordinal. Everyone else's is greater than that of the agent that forked it.
pub(super) const ROOT: i64 = 0;

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

impl Store {
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
    /// instructions; what it costs does not depend on the length of any history.
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
        self.write(|conn| agents.iter().map(|agent| remove_agent(conn, *agent, now_ms)).collect())
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
                   endpoint, thinking, environment, system)
               SELECT ?1, ?2, uuid, ?4, 'running', 'idle', ?5,
                   coalesce(?6, endpoint), thinking, coalesce(?7, environment), system
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

/// An agent dies. The caller holds the transaction.
pub(super) fn remove_agent(conn: &Connection, agent: AgentId, now_ms: i64) -> Result<Message> {
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
