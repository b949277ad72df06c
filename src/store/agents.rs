//! Writing the registry of agents: fork, settings, kill. `registry` reads it.

use std::collections::HashSet;

use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};

use super::database::Store;
use super::error::{is_duplicate, store_error};
use super::ids::{self, ROOT};
use super::log;
use super::numbers::NUMBERED;
use super::registry::AgentRow;
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, MessageId};
use crate::domain::called::label;
use crate::domain::message::{Body, Message, STARTED};

/// A child to be forked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAgent {
    /// A fresh identifier.
    pub id: AgentId,
    /// No running agent may have the same name.
    pub name: Option<String>,
    /// The agent that forks it.
    pub parent: AgentId,
    /// The last of the parent's own messages that the child inherits; 0 for none.
    pub fork_point: MessageId,
    /// `None` for the parent's.
    pub endpoint: Option<String>,
    /// `None` for the parent's.
    pub environment: Option<String>,
}

/// The rows that a fork wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct Forked {
    /// The child.
    pub row: AgentRow,
    /// The fork event in the parent's log.
    pub in_parent: Message,
    /// The fork event in the child's log: its first own message.
    pub in_child: Message,
}

#[doc(hidden)]
impl Store {
    /// Creates the root, agent 0. If a damaged row has that number, the root gets the next free one.
    pub fn create_root(
        &self,
        id: AgentId,
        endpoint: Option<&str>,
        environment: Option<&str>,
        now_ms: i64,
    ) -> Result<AgentRow> {
        if !self.load_agents()?.agents.is_empty() {
            return Err(store_error("there is a root agent already"));
        }
        let sql = "INSERT INTO agents (ordinal, uuid, status, activity, created_at, endpoint, environment, number)
                   SELECT iif(EXISTS (SELECT 1 FROM agents WHERE ordinal = ?1), NULL, ?1),
                       ?2, 'running', 'idle', ?3, ?4, ?5, ?6";
        self.write(|conn| {
            let values = params![ROOT, id, now_ms, endpoint, environment, self.free_number()?];
            Ok(conn.execute(sql, values)?)
        })?;
        self.expect_agent(id)
    }

    /// Creates a child and writes the fork into both logs, in one transaction. The child takes over the parent's
    /// thinking level, parameters and instructions. The cost does not depend on the length of any history.
    pub fn fork(&self, child: &NewAgent, now_ms: i64) -> Result<Forked> {
        let (in_parent, in_child) = self.write(|conn| self.register(conn, child, now_ms))?;
        Ok(Forked { row: self.expect_agent(child.id)?, in_parent, in_child })
    }

    /// As [`Store::fork`], and begins the child's first turn with this prompt in the same transaction, so that no crash
    /// leaves a child without its task.
    pub(crate) fn fork_and_begin(&self, child: &NewAgent, prompt: String, now_ms: i64) -> Result<(Forked, Message)> {
        let (in_parent, in_child, prompt) = self.write(|conn| {
            let (in_parent, in_child) = self.register(conn, child, now_ms)?;
            Ok((in_parent, in_child, log::begin(conn, ids::running(conn, child.id)?, prompt, now_ms)?))
        })?;
        Ok((Forked { row: self.expect_agent(child.id)?, in_parent, in_child }, prompt))
    }

    /// Creates a child of an agent that is not in memory: killed, or archived. Of a killed one only the child's log tells.
    pub(crate) fn fork_ended(&self, child: &NewAgent, now_ms: i64) -> Result<AgentRow> {
        self.write(|conn| {
            let sql = "SELECT ordinal, status = 'running' FROM agents WHERE uuid = ?1 AND deleted_at IS NULL";
            let found = conn.prepare_cached(sql)?.query_row([child.parent], |row| Ok((row.get(0)?, row.get(1)?)));
            let (parent, is_running): (i64, bool) = found.optional()?.ok_or_else(|| ids::unknown(child.parent))?;
            let (ordinal, label) = self.insert_child(conn, child, now_ms)?;
            if is_running {
                log::insert(conn, parent, in_parent_log(child, &label, true), now_ms)?;
            }
            let in_child = log::insert(conn, ordinal, in_child_log(conn, child, parent, true)?, now_ms)?;
            require_fork_point(child, in_child.id)
        })?;
        self.expect_agent(child.id)
    }

    /// Marks these agents as killed, in one transaction, and returns the event in each log, in the order given. Partial
    /// replies and queued texts stay. Quickest in order of creation, which is the order of the rows.
    pub fn kill(&self, agents: &[AgentId], now_ms: i64) -> Result<Vec<Message>> {
        self.release_numbers();
        self.write(|conn| kill(conn, agents, now_ms))
    }

    /// Sets or removes the agent's name.
    pub fn set_name(&self, agent: AgentId, name: Option<&str>) -> Result<()> {
        self.update("UPDATE agents SET name = ?2 WHERE uuid = ?1 AND status = 'running'", agent, name)
    }

    /// Sets `provider/model`.
    pub(crate) fn set_endpoint(&self, agent: AgentId, endpoint: &str) -> Result<()> {
        self.update("UPDATE agents SET endpoint = ?2 WHERE uuid = ?1 AND status = 'running'", agent, Some(endpoint))
    }

    /// Sets the agent's thinking level.
    pub fn set_thinking(&self, agent: AgentId, thinking: Option<&str>) -> Result<()> {
        self.update("UPDATE agents SET thinking = ?2 WHERE uuid = ?1 AND status = 'running'", agent, thinking)
    }

    /// Sets the parameters of the agent's requests, as JSON.
    pub(crate) fn set_parameters(&self, agent: AgentId, parameters: Option<&str>) -> Result<()> {
        self.update("UPDATE agents SET parameters = ?2 WHERE uuid = ?1 AND status = 'running'", agent, parameters)
    }

    /// Sets the directory in which the agent works; `None` for that of the program.
    pub(crate) fn set_directory(&self, agent: AgentId, directory: Option<&str>) -> Result<()> {
        self.update("UPDATE agents SET directory = ?2 WHERE uuid = ?1 AND status = 'running'", agent, directory)
    }

    /// Sets the agent's own system prompt; `None` for the default one.
    pub(crate) fn set_system(&self, agent: AgentId, system: Option<&str>) -> Result<()> {
        self.update("UPDATE agents SET system = ?2 WHERE uuid = ?1 AND status = 'running'", agent, system)
    }

    /// Sets the command that says whether the agent is done; `None` for the configured one.
    pub(crate) fn set_done(&self, agent: AgentId, command: Option<&str>) -> Result<()> {
        self.update("UPDATE agents SET done = ?2 WHERE uuid = ?1 AND status = 'running'", agent, command)
    }

    /// Sets the policy of the agent; `None` for the configured one.
    pub(crate) fn set_policy(&self, agent: AgentId, policy: Option<&str>) -> Result<()> {
        self.update("UPDATE agents SET policy = ?2 WHERE uuid = ?1 AND status = 'running'", agent, policy)
    }

    /// Sets the rules that a person gave the agent, as JSON.
    pub(crate) fn set_rules(&self, agent: AgentId, rules: Option<&str>) -> Result<()> {
        self.update("UPDATE agents SET rules = ?2 WHERE uuid = ?1 AND status = 'running'", agent, rules)
    }

    fn update(&self, sql: &str, agent: AgentId, value: Option<&str>) -> Result<()> {
        self.write(|conn| {
            let changed = execute(conn.prepare_cached(sql)?, params![agent, value], value)?;
            if changed == 0 { Err(ids::not_running(conn, agent)) } else { Ok(()) }
        })
    }

    pub(super) fn expect_agent(&self, agent: AgentId) -> Result<AgentRow> {
        self.agent(agent)?.ok_or_else(|| ids::unknown(agent))
    }

    /// Records that an agent works on a run.
    pub(crate) fn join_run(&self, agent: AgentId, run: &str) -> Result<()> {
        self.release_numbers();
        let sql = "UPDATE agents SET run = (SELECT id FROM runs WHERE run = ?2), number = NULL WHERE uuid = ?1";
        self.write(|conn| Ok(conn.prepare_cached(sql)?.execute(params![agent, run]).map(drop)?))
    }

    /// Inserts a child, and the fork into both logs, within the caller's transaction.
    fn register(&self, conn: &Connection, child: &NewAgent, now_ms: i64) -> Result<(Message, Message)> {
        let parent = ids::running(conn, child.parent)?;
        let (ordinal, label) = self.insert_child(conn, child, now_ms)?;
        let in_parent = log::insert(conn, parent, in_parent_log(child, &label, true), now_ms)?;
        let in_child = log::insert(conn, ordinal, in_child_log(conn, child, parent, true)?, now_ms)?;
        require_fork_point(child, in_parent.id)?;
        Ok((in_parent, in_child))
    }

    /// Inserts a child within the caller's transaction. Returns its ordinal and its label.
    pub(super) fn insert_child(&self, conn: &Connection, child: &NewAgent, now_ms: i64) -> Result<(i64, String)> {
        let sql = "INSERT INTO agents (uuid, name, parent_uuid, fork_message_id, status, activity, created_at,
                       endpoint, thinking, environment, system, policy, rules, parameters, directory, number, done)
                   SELECT ?1, ?2, uuid, ?4, 'running', 'idle', ?5, coalesce(?6, endpoint), thinking,
                       coalesce(?7, environment), system, policy, rules, parameters, directory, ?8, done
                   FROM agents WHERE uuid = ?3";
        let NewAgent { id, name, parent, fork_point, endpoint, environment } = child;
        let number = self.free_number()?;
        let values = params![id, name, parent, fork_point.0, now_ms, endpoint, environment, number];
        execute(conn.prepare_cached(sql)?, values, name.as_deref())?;
        Ok((conn.last_insert_rowid(), label(name.as_deref(), Some(number), *id)))
    }
}

/// `first` is the first message that the fork wrote.
fn require_fork_point(child: &NewAgent, first: MessageId) -> Result<()> {
    if child.fork_point < first {
        return Ok(());
    }
    Err(store_error(format!("fork point {} is not an existing message", child.fork_point.0)))
}

/// The fork as the parent's log has it, perhaps of an agent that shares no history.
pub(super) fn in_parent_log(child: &NewAgent, label: &str, is_shared: bool) -> Body {
    let started = if is_shared { "" } else { STARTED };
    Body::Fork(format!("{} {started}{label}", child.id))
}

/// The same as the child's log has it.
pub(super) fn in_child_log(conn: &Connection, child: &NewAgent, parent: i64, is_shared: bool) -> Result<Body> {
    let sql = format!("SELECT name, iif({NUMBERED}, number, NULL) FROM agents WHERE ordinal = ?1");
    let named = |row: &Row<'_>| Ok((row.get::<_, Option<String>>(0)?, row.get(1)?));
    let (name, number) = conn.prepare_cached(&sql)?.query_row([parent], named)?;
    let (parent, from) = (label(name.as_deref(), number, child.parent), if is_shared { "from" } else { "started by" });
    Ok(Body::Fork(format!("{} {from} {parent}", child.parent)))
}

/// Runs a statement that fails if it gives an agent a name that is taken.
pub(super) fn execute(
    mut statement: CachedStatement<'_>,
    values: impl rusqlite::Params,
    name: Option<&str>,
) -> Result<usize> {
    statement.execute(values).map_err(|error| match name {
        Some(name) if is_duplicate(&error, "agents.name") => {
            Error::usage(format!("another running agent is called `{name}`"))
        }
        _ => error.into(),
    })
}

/// Marks agents as killed within the caller's transaction. One statement for all: a subtree may have 100,000 agents.
pub(super) fn kill(conn: &Connection, agents: &[AgentId], now_ms: i64) -> Result<Vec<Message>> {
    let ordinals = agents.iter().map(|agent| ids::running(conn, *agent)).collect::<Result<Vec<i64>>>()?;
    if ordinals.contains(&ROOT) {
        return Err(Error::usage("the root agent cannot be killed"));
    }
    let list = serde_json::to_string(&ordinals).map_err(|error| store_error(error.to_string()))?;
    let sql = "UPDATE agents SET status = 'dead', activity = 'idle', ended_at = ?2
               WHERE ordinal IN (SELECT value FROM json_each(?1))";
    if conn.prepare_cached(sql)?.execute(params![list, now_ms])? != ordinals.len() {
        return Err(store_error("an agent cannot be killed twice"));
    }
    conn.prepare_cached("DELETE FROM spent WHERE agent IN (SELECT value FROM json_each(?1))")?.execute([&list])?;
    let streaming = streaming(conn)?;
    for ordinal in ordinals.into_iter().filter(|ordinal| streaming.contains(ordinal)) {
        // The usage is added by the loop, which knows the newest.
        if let (Some(partial), _) = log::take_partial(conn, ordinal)? {
            log::insert(conn, ordinal, Body::Assistant(partial), now_ms)?;
        }
    }
    log::insert_for_all(conn, &list, &Body::AgentKilled, now_ms)
}

/// The agents that have pieces of a reply.
fn streaming(conn: &Connection) -> Result<HashSet<i64>> {
    let mut statement = conn.prepare_cached("SELECT DISTINCT agent FROM partials")?;
    Ok(statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Steps of SQLite's virtual machine that `work` takes.
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
            // Its statements are prepared the first time.
            fork(&store);
            steps(&mut store, fork)
        };
        let short = cost_behind(10);
        assert!(short > 50, "{short}");
        assert_eq!(cost_behind(20_000), short);
    }
}
