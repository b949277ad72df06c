//! After a crash: closes every interrupted turn, so that the next request is valid and the user sees how far it came. A
//! turn that waited for the answer to a question stays open: the question is asked again.

use std::time::Duration;

use rusqlite::Connection;

use super::database::Store;
use super::{agents, ids, log, queue, replay};
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::domain::flow::TurnEnd;
use crate::domain::message::Body;
use crate::domain::tool::{ToolCall, ToolResult};

const INTERRUPTED: &str = "the process ended during this turn";
/// The result of a call whose end is unknown.
pub const NO_RESULT: &str =
    "the process ended before this call returned: it may have run completely, in part, or not at all";

const NOT_RUN: &str = "not run: polylogue ended before the user answered, and the call could not be restored";

/// A turn that waits for the answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub struct AskingTurn {
    pub agent: AgentId,
    /// The user's message that it answers.
    pub message: (MessageId, String),
    /// The calls of its newest reply, each with its result if it has one. The person is asked about the first without.
    pub calls: Vec<(ToolCall, Option<ToolResult>)>,
    /// Earlier replies of the turn with calls.
    pub rounds: u32,
}

#[doc(hidden)]
impl Store {
    /// Closes what an earlier process left open, in one transaction, and returns the agents whose turn was interrupted,
    /// in order of creation. Turns that wait for an answer stay as they are, except those of a run. Tool calls without
    /// a result get one that says so, in the order of the calls; the pieces of a reply become a partial reply; an
    /// interruption is recorded; the agent becomes idle; runs end without an outcome. A second call has no effect.
    pub fn recover(&self, now_ms: i64) -> Result<Vec<AgentId>> {
        self.write(|conn| {
            let interrupted = interrupted_agents(conn)?;
            interrupted.iter().try_for_each(|(ordinal, _)| close_turn(conn, *ordinal, NO_RESULT, now_ms))?;
            queue::show_parked(conn, now_ms)?;
            end_interrupted_runs(conn, now_ms)?;
            Ok(interrupted.into_iter().filter_map(|(_, agent)| agent).collect())
        })
    }

    /// The turns that wait for an answer, in order of creation of their agents; `Err`: the question cannot be read.
    /// Called after [`Store::recover`].
    pub fn asking_turns(&self) -> Result<Vec<std::result::Result<AskingTurn, AgentId>>> {
        let mut statement = self.conn.prepare_cached(ASKING_AGENTS)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1).ok())))?;
        let asking: Vec<(i64, Option<AgentId>)> = rows.collect::<rusqlite::Result<_>>()?;
        let readable = asking.into_iter().filter_map(|(ordinal, agent)| Some((ordinal, agent?)));
        readable.map(|(ordinal, agent)| Ok(asking_turn(&self.conn, ordinal, agent)?.ok_or(agent))).collect()
    }

    /// Closes a turn that waited for an answer, as one that was interrupted.
    pub(crate) fn close_asking_turn(&self, agent: AgentId, now_ms: i64) -> Result<()> {
        self.write(|conn| close_turn(conn, ids::running(conn, agent)?, NOT_RUN, now_ms))
    }
}

/// Killed agents are idle and have no pieces. The turn of a member ends with its run.
const INTERRUPTED_AGENTS: &str = "SELECT ordinal, uuid FROM agents WHERE activity = 'running' AND (NOT asking
        OR run IN (SELECT id FROM runs WHERE ended_at IS NULL))
    UNION SELECT ordinal, uuid FROM agents WHERE ordinal IN (SELECT agent FROM partials) ORDER BY ordinal";

const ASKING_AGENTS: &str =
    "SELECT ordinal, uuid FROM agents WHERE activity = 'running' AND asking AND status = 'running' ORDER BY ordinal";

fn interrupted_agents(conn: &Connection) -> Result<Vec<(i64, Option<AgentId>)>> {
    // The turn of an agent with a damaged uuid is closed as well, but the agent cannot be returned.
    let mut statement = conn.prepare(INTERRUPTED_AGENTS)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1).ok())))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// `content` is the result of calls without one.
fn close_turn(conn: &Connection, agent: i64, content: &str, now_ms: i64) -> Result<()> {
    // Results come first: the next reply begins only after all calls of the earlier one have a result.
    for call in open_calls(conn, agent)? {
        log::insert(conn, agent, Body::ToolResult(no_result(call, content)), now_ms)?;
    }
    let (reply, usage) = log::take_partial(conn, agent)?;
    for body in reply.map(Body::Assistant).into_iter().chain(usage.map(Body::Usage)) {
        log::insert(conn, agent, body, now_ms)?;
    }
    log::insert(conn, agent, Body::Interrupted(INTERRUPTED.into()), now_ms)?;
    log::become_idle(conn, agent, TurnEnd::Interrupted, Some(now_ms))
}

/// Ends the runs that an earlier process left open, and kills their members unless the run keeps them.
fn end_interrupted_runs(conn: &Connection, now_ms: i64) -> Result<()> {
    let sql = "SELECT uuid FROM agents JOIN runs ON runs.id = agents.run
               WHERE runs.ended_at IS NULL AND NOT keeps_members AND status = 'running'";
    let mut statement = conn.prepare_cached(sql)?;
    // A member with a damaged uuid cannot be addressed.
    let rows = statement.query_map([], |row| Ok(row.get::<_, AgentId>(0).ok()))?;
    let members: Vec<AgentId> = rows.filter_map(rusqlite::Result::transpose).collect::<rusqlite::Result<_>>()?;
    agents::kill(conn, &members, now_ms)?;
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
    let answers = pair(&calls, answered, |id| id.as_str());
    Ok(calls.into_iter().zip(answers).filter(|(_, answer)| answer.is_none()).map(|(call, _)| call).collect())
}

/// The result of each call. A result belongs to one call: ids come from the provider and may repeat.
fn pair<T>(calls: &[ToolCall], mut results: Vec<T>, id: impl Fn(&T) -> &str) -> Vec<Option<T>> {
    let mut result_of = |call: &ToolCall| {
        let at = results.iter().position(|result| id(result) == call.id)?;
        Some(results.remove(at))
    };
    calls.iter().map(&mut result_of).collect()
}

/// Reads back to the message that the turn answers. `None` if that or the calls are missing.
fn asking_turn(conn: &Connection, ordinal: i64, agent: AgentId) -> Result<Option<AskingTurn>> {
    let (mut calls, mut results, mut message) = (Vec::new(), Vec::new(), None);
    // The calls of a reply follow each other; the newest reply is read first.
    let (mut replies, mut is_in_calls) = (0_u32, false);
    replay::own_backwards(conn, ordinal, |read| {
        let Ok(read) = read else { return true };
        let is_call = matches!(read.body, Body::ToolCall(_));
        replies += u32::from(is_call && !is_in_calls);
        is_in_calls = is_call;
        match read.body {
            Body::ToolCall(call) if replies == 1 => calls.push(call),
            Body::ToolResult(result) if replies == 0 => results.push(result),
            Body::User(text) => message = Some((read.id, text)),
            Body::Clear => return false,
            _ => {}
        }
        message.is_none()
    })?;
    calls.reverse();
    results.reverse();
    let results = pair(&calls, results, |result: &ToolResult| result.call_id.as_str());
    let calls: Vec<_> = calls.into_iter().zip(results).collect();
    let is_open = calls.iter().any(|(_, result)| result.is_none());
    let rounds = replies.saturating_sub(1);
    Ok(message.filter(|_| is_open).map(|message| AskingTurn { agent, message, calls, rounds }))
}

fn no_result(call: ToolCall, content: &str) -> ToolResult {
    ToolResult { call_id: call.id, name: call.name, content: content.into(), is_error: true, duration: Duration::ZERO }
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
        let mut statement = store.conn.prepare(&format!("EXPLAIN QUERY PLAN {ASKING_AGENTS}")).unwrap();
        let plan: Vec<String> =
            statement.query_map([], |row| row.get::<_, String>(3)).unwrap().map(|step| step.unwrap()).collect();
        assert!(plan.iter().all(|step| !step.contains("SCAN")), "{plan:?}");
    }
}
