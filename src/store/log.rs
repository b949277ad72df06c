//! Writing messages: what was said becomes rows, and a reply that still streams is kept in pieces until it is settled.

use rusqlite::{Connection, params};

use super::{Store, agents, drafts, row};
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::domain::message::{Body, Message, Reply};

impl Store {
    /// Adds these messages to the agent's log, all or none, and gives each its place in the order of all messages.
    ///
    /// # Errors
    /// The agent does not live, or the database cannot be written.
    pub fn append(&self, agent: AgentId, bodies: Vec<Body>, now_ms: i64) -> Result<Vec<Message>> {
        self.write(|conn| insert_all(conn, agents::running(conn, agent)?, bodies, now_ms))
    }

    /// Adds what a person said and notes that the agent is in the middle of a turn from now on, for
    /// [`Store::recover`]: both in one transaction, so that no crash leaves a question that nobody knows to be open. It
    /// was the draft until now: what was kept of that is forgotten with it.
    ///
    /// # Errors
    /// As for [`Store::append`].
    pub fn begin_turn(&self, agent: AgentId, text: String, now_ms: i64) -> Result<Message> {
        self.write(|conn| {
            let ordinal = agents::running(conn, agent)?;
            drafts::keep(conn, ordinal, "")?;
            begin(conn, ordinal, text, now_ms)
        })
    }

    /// Keeps one more piece of the reply that streams now. Costs what the piece costs, however long the reply is.
    ///
    /// # Errors
    /// As for [`Store::append`].
    pub fn append_partial(&self, agent: AgentId, text: &str, thinking: &str) -> Result<()> {
        self.append_partials([(agent, text, thinking)])
    }

    /// The same for pieces of many agents, all or none: one transaction costs several times what one piece does.
    ///
    /// # Errors
    /// As for [`Store::append`]; none is kept then.
    pub fn append_partials<'a>(&self, pieces: impl IntoIterator<Item = (AgentId, &'a str, &'a str)>) -> Result<()> {
        self.write(|conn| {
            let mut insert =
                conn.prepare_cached("INSERT INTO partials (agent, content, thinking) VALUES (?1, ?2, ?3)")?;
            for (agent, text, thinking) in pieces {
                insert.execute(params![agents::running(conn, agent)?, text, thinking])?;
            }
            Ok(())
        })
    }

    /// The same as [`Store::settle_reply`], and the agent is idle from then on: all in one transaction.
    ///
    /// # Errors
    /// As for [`Store::append`].
    pub fn finish_turn(&self, agent: AgentId, bodies: Vec<Body>, now_ms: i64) -> Result<Vec<Message>> {
        self.write(|conn| {
            let ordinal = agents::running(conn, agent)?;
            conn.prepare_cached("UPDATE agents SET activity = 'idle' WHERE ordinal = ?1")?.execute([ordinal])?;
            settle(conn, ordinal, bodies, now_ms)
        })
    }

    /// Adds these messages, which say in full what the pieces said in part, and drops the pieces, in one transaction.
    ///
    /// # Errors
    /// As for [`Store::append`].
    pub fn settle_reply(&self, agent: AgentId, bodies: Vec<Body>, now_ms: i64) -> Result<Vec<Message>> {
        self.write(|conn| settle(conn, agents::running(conn, agent)?, bodies, now_ms))
    }
}

/// Puts a whole reply in the place of its pieces. The caller holds the transaction.
fn settle(conn: &Connection, agent: i64, bodies: Vec<Body>, now_ms: i64) -> Result<Vec<Message>> {
    drop_partial(conn, agent)?;
    insert_all(conn, agent, bodies, now_ms)
}

fn insert_all(conn: &Connection, agent: i64, bodies: Vec<Body>, now_ms: i64) -> Result<Vec<Message>> {
    bodies.into_iter().map(|body| insert(conn, agent, body, now_ms)).collect()
}

/// Adds the message with which a turn begins. The caller holds the transaction.
pub(super) fn begin(conn: &Connection, agent: i64, text: String, now_ms: i64) -> Result<Message> {
    conn.prepare_cached("UPDATE agents SET activity = 'running' WHERE ordinal = ?1")?.execute([agent])?;
    insert(conn, agent, Body::User(text), now_ms)
}

/// Adds one message to the log of the agent with this ordinal. The caller holds the transaction.
pub(super) fn insert(conn: &Connection, agent: i64, body: Body, now_ms: i64) -> Result<Message> {
    let sql = "INSERT INTO messages (agent, kind, content, data, created_at) VALUES (?1, ?2, ?3, ?4, ?5)";
    let values = params![agent, body.kind(), row::content(&body), row::data(&body), now_ms];
    conn.prepare_cached(sql)?.execute(values)?;
    Ok(Message { id: MessageId(conn.last_insert_rowid()), body, created_at: now_ms })
}

/// Takes the pieces of a reply that was cut, put together, if any say anything.
pub(super) fn take_partial(conn: &Connection, agent: i64) -> Result<Option<Reply>> {
    let mut cut = Reply { is_partial: true, ..Reply::default() };
    let mut statement = conn.prepare_cached("SELECT content, thinking FROM partials WHERE agent = ?1 ORDER BY id")?;
    let mut rows = statement.query([agent])?;
    while let Some(row) = rows.next()? {
        // A piece that is not text is lost; the others are not.
        cut.text.push_str(row.get_ref(0)?.as_str().unwrap_or_default());
        cut.thinking.push_str(row.get_ref(1)?.as_str().unwrap_or_default());
    }
    drop_partial(conn, agent)?;
    Ok((!cut.text.is_empty() || !cut.thinking.is_empty()).then_some(cut))
}

fn drop_partial(conn: &Connection, agent: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM partials WHERE agent = ?1")?.execute([agent])?;
    Ok(())
}
