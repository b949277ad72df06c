//! After a process that ended in the middle of things: every turn that was cut is closed, so that the next request is
//! valid and a person sees how far it came.

use std::time::Duration;

use rusqlite::Connection;

use super::{Store, log, replay, runs};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::message::Body;
use crate::domain::tool::{ToolCall, ToolResult};

const CUT: &str = "the process ended during this turn";
const UNANSWERED: &str = "the process ended before this call was answered: it may not have run at all, or in part";

impl Store {
    /// Closes what an earlier process left open, in one transaction, and returns whose turn was cut, by order of birth:
    /// tool calls without a result get one that says so, in the order of the calls; the pieces of a reply become a
    /// partial reply; an interruption is noted; the agent is idle. Runs end, cut. A second call finds nothing to do.
    ///
    /// # Errors
    /// The database cannot be written; everything is as it was then.
    pub fn recover(&self, now_ms: i64) -> Result<Vec<AgentId>> {
        self.write(|conn| {
            let cut = cut_agents(conn)?;
            cut.iter().try_for_each(|(ordinal, _)| close(conn, *ordinal, now_ms))?;
            runs::cut(conn, now_ms)?;
            Ok(cut.into_iter().filter_map(|(_, agent)| agent).collect())
        })
    }
}

/// Those that were at work. The dead are idle and have no pieces left: they were closed when they were killed.
const CUT_AGENTS: &str = "SELECT ordinal, uuid FROM agents WHERE activity = 'running'
    UNION SELECT ordinal, uuid FROM agents WHERE ordinal IN (SELECT agent FROM partials) ORDER BY ordinal";

fn cut_agents(conn: &Connection) -> Result<Vec<(i64, Option<AgentId>)>> {
    // An agent whose uuid is damaged is closed like any other, but nobody can name it.
    let mut statement = conn.prepare(CUT_AGENTS)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1).ok())))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn close(conn: &Connection, agent: i64, now_ms: i64) -> Result<()> {
    // The results come first: a piece of a later reply can exist only if all calls of the earlier one were answered.
    for call in open_calls(conn, agent)? {
        log::insert(conn, agent, Body::ToolResult(not_finished(call)), now_ms)?;
    }
    if let Some(reply) = log::take_partial(conn, agent)? {
        log::insert(conn, agent, Body::Assistant(reply), now_ms)?;
    }
    log::insert(conn, agent, Body::Interrupted(CUT.into()), now_ms)?;
    conn.prepare_cached("UPDATE agents SET activity = 'idle' WHERE ordinal = ?1")?.execute([agent])?;
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
    // One result answers one call: ids are the provider's and may repeat.
    calls.retain(|call| match answered.iter().position(|id| *id == call.id) {
        Some(at) => {
            answered.remove(at);
            false
        }
        None => true,
    });
    Ok(calls)
}

fn not_finished(call: ToolCall) -> ToolResult {
    ToolResult {
        call_id: call.id,
        name: call.name,
        content: UNANSWERED.into(),
        is_error: true,
        duration: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_find_the_cut_does_not_look_at_the_idle() {
        let store = Store::in_memory().unwrap();
        let mut statement = store.conn.prepare(&format!("EXPLAIN QUERY PLAN {CUT_AGENTS}")).unwrap();
        let steps = statement.query_map([], |row| row.get::<_, String>(3)).unwrap();
        let plan: Vec<String> = steps.map(|step| step.unwrap()).collect();
        assert!(plan.iter().any(|step| step.contains("agents_busy (activity=?)")), "{plan:?}");
        assert!(!plan.iter().any(|step| step.contains("SCAN agents")), "{plan:?}");
    }
}
