//! After a crash: closes every interrupted turn, so that the next request is valid and the user sees how far it came.

use std::time::Duration;

use rusqlite::Connection;

use super::database::Store;
use super::{agents, log, replay};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::message::Body;
use crate::domain::tool::{ToolCall, ToolResult};

const INTERRUPTED: &str = "the process ended during this turn";
const NO_RESULT: &str =
    "the process ended before this call returned: it may have run completely, in part, or not at all";

#[doc(hidden)]
impl Store {
    /// Closes what an earlier process left open, in one transaction, and returns the agents whose turn was interrupted,
    /// in order of creation. Tool calls without a result get one that says so, in the order of the calls; the pieces of
    /// a reply become a partial reply; an interruption is recorded; the agent becomes idle; runs end without an
    /// outcome. A second call finds nothing to do.
    ///
    /// # Errors
    /// The database cannot be written; nothing has changed then.
    pub fn recover(&self, now_ms: i64) -> Result<Vec<AgentId>> {
        self.write(|conn| {
            let interrupted = interrupted_agents(conn)?;
            interrupted.iter().try_for_each(|(ordinal, _)| close_turn(conn, *ordinal, now_ms))?;
            end_interrupted_runs(conn, now_ms)?;
            Ok(interrupted.into_iter().filter_map(|(_, agent)| agent).collect())
        })
    }
}

/// Killed agents are idle and have no pieces.
const INTERRUPTED_AGENTS: &str = "SELECT ordinal, uuid FROM agents WHERE activity = 'running'
    UNION SELECT ordinal, uuid FROM agents WHERE ordinal IN (SELECT agent FROM partials) ORDER BY ordinal";

fn interrupted_agents(conn: &Connection) -> Result<Vec<(i64, Option<AgentId>)>> {
    // The turn of an agent with a damaged uuid is closed as well, but the agent cannot be returned.
    let mut statement = conn.prepare(INTERRUPTED_AGENTS)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1).ok())))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn close_turn(conn: &Connection, agent: i64, now_ms: i64) -> Result<()> {
    // Results come first: the next reply begins only after all calls of the earlier one have a result.
    for call in open_calls(conn, agent)? {
        log::insert(conn, agent, Body::ToolResult(no_result(call)), now_ms)?;
    }
    if let Some(reply) = log::take_partial(conn, agent)? {
        log::insert(conn, agent, Body::Assistant(reply), now_ms)?;
    }
    log::insert(conn, agent, Body::Interrupted(INTERRUPTED.into()), now_ms)?;
    conn.prepare_cached("UPDATE agents SET activity = 'idle' WHERE ordinal = ?1")?.execute([agent])?;
    Ok(())
}

/// Ends the runs that an earlier process left open, and kills their members unless the run keeps them.
fn end_interrupted_runs(conn: &Connection, now_ms: i64) -> Result<()> {
    let sql = "SELECT uuid FROM agents JOIN runs ON runs.id = agents.run
               WHERE runs.ended_at IS NULL AND NOT keeps_members AND status = 'running'";
    let mut statement = conn.prepare_cached(sql)?;
    // A member with a damaged uuid cannot be addressed.
    let rows = statement.query_map([], |row| Ok(row.get::<_, AgentId>(0).ok()))?;
    let members: Vec<Option<AgentId>> = rows.collect::<rusqlite::Result<_>>()?;
    for member in members.into_iter().flatten() {
        agents::kill(conn, member, agents::is_streaming(conn)?, now_ms)?;
    }
    conn.prepare_cached("UPDATE runs SET ended_at = ?1 WHERE ended_at IS NULL")?.execute([now_ms])?;
    Ok(())
}

/// The calls of the newest reply that have no result, in the order of the calls.
fn open_calls(conn: &Connection, agent: i64) -> Result<Vec<ToolCall>> {
    let mut calls = Vec::new();
    let mut answered = Vec::new();
    replay::own_backwards(conn, agent, |read| {
        match read.map(|message| message.body) {
            Ok(Body::ToolCall(call)) => calls.push(call),
            Ok(Body::ToolResult(result)) => answered.push(result.call_id),
            Ok(Body::Assistant(_) | Body::User(_) | Body::Clear) => return false,
            Ok(_) | Err(_) => {}
        }
        true
    })?;
    calls.reverse();
    answered.reverse();
    // Each result belongs to one call: ids come from the provider and may repeat.
    calls.retain(|call| match answered.iter().position(|id| *id == call.id) {
        Some(index) => {
            answered.remove(index);
            false
        }
        None => true,
    });
    Ok(calls)
}

fn no_result(call: ToolCall) -> ToolResult {
    ToolResult {
        call_id: call.id,
        name: call.name,
        content: NO_RESULT.into(),
        is_error: true,
        duration: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_interrupted_agents_does_not_scan_idle_ones() {
        let store = Store::in_memory().unwrap();
        let mut statement = store.conn.prepare(&format!("EXPLAIN QUERY PLAN {INTERRUPTED_AGENTS}")).unwrap();
        let steps = statement.query_map([], |row| row.get::<_, String>(3)).unwrap();
        let plan: Vec<String> = steps.map(|step| step.unwrap()).collect();
        assert!(plan.iter().any(|step| step.contains("agents_busy (activity=?)")), "{plan:?}");
        assert!(!plan.iter().any(|step| step.contains("SCAN agents")), "{plan:?}");
    }
}
