//! Writing messages. A reply that still streams is stored in pieces until it is complete.

use rusqlite::{Connection, params};

use super::database::Store;
use super::{drafts, ids, row};
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::domain::drafts::DraftSlot;
use crate::domain::flow::TurnEnd;
use crate::domain::message::{Body, Message, Reply};
use crate::domain::stream::{Piece, Usage};

/// Sums are integers of this size at most, which JSON has without loss.
const MOST: i64 = (1 << 53) - 1;

#[doc(hidden)]
impl Store {
    /// Appends these messages to the agent's log, all or none, and gives each its id.
    pub fn append(&self, agent: AgentId, bodies: Vec<Body>, now_ms: i64) -> Result<Vec<Message>> {
        self.write(|conn| insert_all(conn, ids::running(conn, agent)?, bodies, now_ms))
    }

    /// Appends a message of the user, marks the agent as busy for [`Store::recover`], and removes the draft that it was,
    /// in one transaction.
    pub fn begin_turn(&self, agent: AgentId, text: String, draft: Option<DraftSlot>, now_ms: i64) -> Result<Message> {
        self.write(|conn| {
            let ordinal = ids::running(conn, agent)?;
            draft.map_or(Ok(()), |slot| drafts::put(conn, ordinal, slot, ""))?;
            begin(conn, ordinal, text, now_ms)
        })
    }

    /// Marks an agent whose turn is tried again as busy for [`Store::recover`].
    pub(crate) fn begin_again(&self, agent: AgentId) -> Result<()> {
        self.write(|conn| set_busy(conn, ids::running(conn, agent)?))
    }

    /// Stores one more piece of each reply that is streaming. The cost does not depend on the length of the replies.
    /// All share one transaction, which costs several times as much as a piece.
    pub fn append_pieces(&self, pieces: &[(AgentId, Piece)]) -> Result<()> {
        let sql = "INSERT INTO partials (agent, content, thinking, usage) VALUES (?1, ?2, ?3, ?4)";
        self.write(|conn| {
            let mut insert = conn.prepare_cached(sql)?;
            for (agent, Piece { text, thinking, usage }) in pieces {
                let usage = usage.as_ref().map(row::write_usage);
                insert.execute(params![ids::running(conn, *agent)?, text, thinking, usage])?;
            }
            Ok(())
        })
    }

    /// Appends the results of calls, and marks that the agent's next call waits for a person: after a restart the
    /// question is asked again.
    pub(crate) fn begin_question(&self, agent: AgentId, results: Vec<Body>, now_ms: i64) -> Result<Vec<Message>> {
        self.write(|conn| {
            let ordinal = ids::running(conn, agent)?;
            conn.prepare_cached("UPDATE agents SET asking = 1 WHERE ordinal = ?1")?.execute([ordinal])?;
            insert_all(conn, ordinal, results, now_ms)
        })
    }

    /// The question was answered: what follows from the answer is never asked again.
    pub(crate) fn end_question(&self, agent: AgentId) -> Result<()> {
        let sql = "UPDATE agents SET asking = 0 WHERE uuid = ?1";
        self.write(|conn| Ok(conn.prepare_cached(sql)?.execute([agent]).map(drop)?))
    }

    /// As [`Store::settle_reply`], and marks the agent as idle in the same transaction. Unless the user has interrupted
    /// it, the end counts as unseen until [`Store::set_seen`].
    pub(crate) fn finish_turn(&self, agent: AgentId, bodies: Vec<Body>, now_ms: i64) -> Result<Vec<Message>> {
        self.write(|conn| {
            let ordinal = ids::running(conn, agent)?;
            let is_interrupted_by_user = bodies.iter().any(|body| matches!(body, Body::Interrupted(_)));
            let end = end_of(&bodies);
            let unseen_since = if end == TurnEnd::Interrupted && is_interrupted_by_user { None } else { Some(now_ms) };
            become_idle(conn, ordinal, end, unseen_since)?;
            replace_partial(conn, ordinal, bodies, now_ms)
        })
    }

    /// A terminal has shown how the last turn of this agent ended.
    pub(crate) fn set_seen(&self, agent: AgentId) -> Result<()> {
        let sql = "UPDATE agents SET unseen_since = NULL WHERE uuid = ?1";
        self.write(|conn| Ok(conn.prepare_cached(sql)?.execute([agent]).map(drop)?))
    }

    /// Appends the messages of a complete reply and removes its pieces, in one transaction.
    pub fn settle_reply(&self, agent: AgentId, bodies: Vec<Body>, now_ms: i64) -> Result<Vec<Message>> {
        self.write(|conn| replace_partial(conn, ids::running(conn, agent)?, bodies, now_ms))
    }
}

fn replace_partial(conn: &Connection, agent: i64, bodies: Vec<Body>, now_ms: i64) -> Result<Vec<Message>> {
    drop_partial(conn, agent)?;
    insert_all(conn, agent, bodies, now_ms)
}

fn insert_all(conn: &Connection, agent: i64, bodies: Vec<Body>, now_ms: i64) -> Result<Vec<Message>> {
    bodies.into_iter().map(|body| insert(conn, agent, body, now_ms)).collect()
}

/// How a turn with these last messages ended.
fn end_of(bodies: &[Body]) -> TurnEnd {
    let has = |is: fn(&Body) -> bool| bodies.iter().any(is);
    if has(|body| matches!(body, Body::Error(_))) {
        TurnEnd::Failed
    } else if has(|body| matches!(body, Body::Interrupted(_) | Body::Exited)) {
        TurnEnd::Interrupted
    } else {
        TurnEnd::Completed
    }
}

/// Ends the turn of an agent, within the caller's transaction. `unseen_since`: the time, if no terminal has shown the
/// end yet.
pub(super) fn become_idle(conn: &Connection, agent: i64, end: TurnEnd, unseen_since: Option<i64>) -> Result<()> {
    let sql = "UPDATE agents SET activity = 'idle', asking = 0, last_end = ?2, unseen_since = ?3 WHERE ordinal = ?1";
    conn.prepare_cached(sql)?.execute(params![agent, end.name(), unseen_since])?;
    Ok(())
}

/// Appends the message with which a turn begins, within the caller's transaction.
pub(super) fn begin(conn: &Connection, agent: i64, text: String, now_ms: i64) -> Result<Message> {
    set_busy(conn, agent)?;
    insert(conn, agent, Body::User(text), now_ms)
}

fn set_busy(conn: &Connection, agent: i64) -> Result<()> {
    conn.prepare_cached("UPDATE agents SET activity = 'running', asking = 0 WHERE ordinal = ?1")?.execute([agent])?;
    Ok(())
}

/// Appends one message to the log of the agent with this ordinal, within the caller's transaction.
pub(super) fn insert(conn: &Connection, agent: i64, body: Body, now_ms: i64) -> Result<Message> {
    let sql = "INSERT INTO messages (agent, kind, content, data, created_at) VALUES (?1, ?2, ?3, ?4, ?5)";
    let values = params![agent, body.kind(), row::content(&body), row::data(&body), now_ms];
    conn.prepare_cached(sql)?.execute(values)?;
    let id = MessageId(conn.last_insert_rowid());
    if let Body::Usage(usage) = &body {
        count_usage(conn, agent, usage)?;
    }
    if body.undoes_turn() {
        let sql = "UPDATE agents SET last_end = NULL WHERE ordinal = ?1 AND last_end <> 'completed'";
        conn.prepare_cached(sql)?.execute([agent])?;
    }
    Ok(Message { id, body, created_at: now_ms })
}

/// Adds to the usage of an agent. The sum of costs is known only if each cost is.
fn count_usage(conn: &Connection, agent: i64, usage: &Usage) -> Result<()> {
    let sql = "UPDATE agents SET used_cost = min(iif(used_input + used_output = 0, 0, used_cost) + ?4, ?5),
                   used_input = min(used_input + ?2, ?5), used_output = min(used_output + ?3, ?5)
               WHERE ordinal = ?1";
    let number = |count: u64| i64::try_from(count).unwrap_or(MOST).min(MOST);
    let (input, output, cost) = (number(usage.input), number(usage.output), usage.cost.map(number));
    conn.prepare_cached(sql)?.execute(params![agent, input, output, cost, MOST])?;
    Ok(())
}

/// Appends the same message to the logs of many agents, whose ordinals are a JSON array, within the caller's
/// transaction. Returns the stored messages, in that order.
pub(super) fn insert_for_all(conn: &Connection, ordinals: &str, body: &Body, now_ms: i64) -> Result<Vec<Message>> {
    let sql = "INSERT INTO messages (agent, kind, content, data, created_at)
               SELECT value, ?2, ?3, ?4, ?5 FROM json_each(?1) ORDER BY key";
    let values = params![ordinals, body.kind(), row::content(body), row::data(body), now_ms];
    let count = i64::try_from(conn.prepare_cached(sql)?.execute(values)?).unwrap_or(i64::MAX);
    // One statement gives ids without gaps.
    let end = conn.last_insert_rowid();
    let message = |id| Message { id: MessageId(id), body: body.clone(), created_at: now_ms };
    Ok((end - count + 1..=end).map(message).collect())
}

/// Removes the pieces of an interrupted reply and returns them joined, and the newest usage; `None` if they are empty.
pub(super) fn take_partial(conn: &Connection, agent: i64) -> Result<(Option<Reply>, Option<Usage>)> {
    let (mut reply, mut usage) = (Reply { is_partial: true, ..Reply::default() }, None);
    let sql = "SELECT content, thinking, usage FROM partials WHERE agent = ?1 ORDER BY id";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([agent])?;
    while let Some(row) = rows.next()? {
        // A piece that is not text is damaged and left out.
        reply.text.push_str(row.get_ref(0)?.as_str().unwrap_or_default());
        reply.thinking.push_str(row.get_ref(1)?.as_str().unwrap_or_default());
        usage = row.get_ref(2)?.as_str().ok().and_then(|data| row::read_usage(Some(data)).ok()).or(usage);
    }
    drop_partial(conn, agent)?;
    let is_empty = reply.text.is_empty() && reply.thinking.is_empty();
    Ok(((!is_empty).then_some(reply), usage))
}

fn drop_partial(conn: &Connection, agent: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM partials WHERE agent = ?1")?.execute([agent])?;
    Ok(())
}
