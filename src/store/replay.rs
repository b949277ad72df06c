//! Reading histories: an agent's own messages and, level by level, those that it inherited.
//!
//! ```text
//!   root       1  2  3 | 7  8          child forked at 3: of the root it has ids up to 3
//!   child            4  5 | 9          grandchild forked at 5
//!   grandchild             6  10       reads  (root, ..3) (child, ..5) (grandchild, ..)
//! ```
//! Each level is one range of one index, so neither messages of other agents nor those after a fork are read. The walk
//! goes from the leaf to the root and ends early at a level with a `clear` within its range.

use rusqlite::{Connection, OptionalExtension as _};

use super::database::Store;
use super::{ids, row};
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::domain::message::Message;

const NEWEST_CLEAR: &str = "SELECT id FROM messages cleared WHERE agent = ?1 AND kind = 'clear' AND id <= ?2
    AND NOT EXISTS (SELECT 1 FROM messages undone WHERE undone.agent = ?1 AND undone.kind = 'clear_undone'
        AND undone.id <= ?2
        AND CASE WHEN json_valid(undone.data) THEN json_extract(undone.data, '$.to') END = cleared.id)
    ORDER BY id DESC LIMIT 1";
const PARENT: &str = "SELECT child.parent_uuid IS NULL, parent.ordinal, child.fork_message_id FROM agents child
    LEFT JOIN agents parent ON parent.uuid = child.parent_uuid AND parent.ordinal < child.ordinal
    WHERE child.ordinal = ?1";
const FORWARDS: &str = "SELECT id, kind, content, data, created_at FROM messages
    WHERE agent = ?1 AND id > ?2 AND id <= ?3 ORDER BY id";
const BACKWARDS: &str = "SELECT id, kind, content, data, created_at FROM messages
    WHERE agent = ?1 AND id > ?2 AND id <= ?3 ORDER BY id DESC";

/// The messages of one agent that belong to a history: ids greater than `after`, up to `upto`.
struct Level {
    agent: i64,
    after: i64,
    upto: i64,
}

/// The walk from an agent towards the root.
struct Lineage<'s> {
    conn: &'s Connection,
    /// The next agent, and the last id of its log that counts.
    next: Option<(i64, i64)>,
    damaged: Option<String>,
    /// Whether to read past `clear`.
    ignores_clear: bool,
}

impl<'s> Lineage<'s> {
    fn of(conn: &'s Connection, agent: AgentId) -> Result<Self> {
        Ok(Self { conn, next: Some((ids::known(conn, agent)?, i64::MAX)), damaged: None, ignores_clear: false })
    }

    fn level(&mut self) -> Result<Option<Level>> {
        let Some((agent, upto)) = self.next.take() else { return Ok(None) };
        let clear: Option<i64> = match self.ignores_clear {
            true => None,
            false => self.conn.prepare_cached(NEWEST_CLEAR)?.query_row([agent, upto], |row| row.get(0)).optional()?,
        };
        if clear.is_none() {
            self.climb(agent)?;
        }
        Ok(Some(Level { agent, after: clear.unwrap_or(0), upto }))
    }

    /// Moves on to the parent. Ordinals decrease towards the root, so even a damaged registry has no cycle.
    fn climb(&mut self, agent: i64) -> Result<()> {
        let mut statement = self.conn.prepare_cached(PARENT)?;
        let (is_root, parent, bound) = statement.query_row([agent], |row| {
            Ok((row.get::<_, bool>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, Option<i64>>(2)?))
        })?;
        // A missing fork point means none of the parent's own messages, never all of them.
        let bound = bound.unwrap_or(0);
        // A slice has fork point 0 and begins with a clear: it inherits nothing, even when clears are ignored.
        self.next = parent.filter(|_| bound > 0 || !self.ignores_clear).map(|parent| (parent, bound));
        if parent.is_none() && !is_root {
            self.damaged = Some(format!("agent {agent} lost its parent: inherited messages are left out"));
        }
        Ok(())
    }
}

#[doc(hidden)]
impl Store {
    /// The agent's history since its newest `clear`, oldest first: each ancestor's own messages up to the fork point,
    /// then its own. Also a message for each damaged row that was left out.
    pub fn replay(&self, agent: AgentId) -> Result<(Vec<Message>, Vec<String>)> {
        self.read_forwards(Lineage::of(&self.conn, agent)?)
    }

    /// As [`Store::replay`], including messages before a `clear`. For export, never for a model.
    pub(crate) fn full_log(&self, agent: AgentId) -> Result<(Vec<Message>, Vec<String>)> {
        self.read_forwards(Lineage { ignores_clear: true, ..Lineage::of(&self.conn, agent)? })
    }

    /// The newest `clear` of the agent that was not undone, if there is something before it to bring back.
    pub(crate) fn newest_clear(&self, agent: AgentId) -> Result<Option<MessageId>> {
        let ordinal = ids::known(&self.conn, agent)?;
        let newest = |row: &rusqlite::Row| row.get::<_, i64>(0);
        let clear = self.conn.prepare_cached(NEWEST_CLEAR)?.query_row([ordinal, i64::MAX], newest).optional()?;
        // A slice begins with a clear, and inherits nothing.
        let sql = "SELECT EXISTS (SELECT 1 FROM messages WHERE agent = ?1 AND id < ?2)
                   OR EXISTS (SELECT 1 FROM agents WHERE ordinal = ?1 AND fork_message_id > 0)";
        let mut has_more = self.conn.prepare_cached(sql)?;
        let is_undoable = |clear: i64| has_more.query_row([ordinal, clear], |row| row.get::<_, bool>(0));
        let is_undoable = clear.map(is_undoable).transpose()?.unwrap_or(false);
        Ok(clear.filter(|_| is_undoable).map(MessageId))
    }

    fn read_forwards(&self, mut lineage: Lineage<'_>) -> Result<(Vec<Message>, Vec<String>)> {
        let mut levels = Vec::new();
        while let Some(level) = lineage.level()? {
            levels.push(level);
        }
        let mut messages = Vec::new();
        let mut damaged: Vec<String> = lineage.damaged.into_iter().collect();
        for level in levels.iter().rev() {
            read(&self.conn, FORWARDS, level, |read| {
                match read {
                    Ok(message) => messages.push(message),
                    Err(message) => damaged.push(message),
                }
                true
            })?;
        }
        Ok((messages, damaged))
    }

    /// The newest `limit` messages of the replay that are older than `before`, oldest first. The cost depends on
    /// `limit` and the number of visited ancestors, not on the length of the history.
    pub fn tail(&self, agent: AgentId, before: Option<MessageId>, limit: usize) -> Result<Vec<Message>> {
        let newest = before.map_or(i64::MAX, |id| id.0.saturating_sub(1));
        let mut lineage = Lineage::of(&self.conn, agent)?;
        let mut messages = Vec::new();
        while messages.len() < limit {
            let Some(mut level) = lineage.level()? else { break };
            level.upto = level.upto.min(newest);
            read(&self.conn, BACKWARDS, &level, |read| {
                messages.extend(read);
                messages.len() < limit
            })?;
        }
        messages.reverse();
        Ok(messages)
    }

    /// The number of messages of the agent's own log from this one on, at most `most`.
    pub(crate) fn count_from(&self, agent: AgentId, message: MessageId, most: usize) -> Result<usize> {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM messages WHERE agent = ?1 AND id >= ?2 LIMIT ?3)";
        let ordinal = ids::known(&self.conn, agent)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let count: i64 = self.conn.prepare_cached(sql)?.query_row([ordinal, message.0, most], |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// The newest message of the agent's own log, of any kind; 0 if it has none.
    pub fn last_own_message(&self, agent: AgentId) -> Result<MessageId> {
        let sql = "SELECT id FROM messages WHERE agent = ?1 ORDER BY id DESC LIMIT 1";
        let ordinal = ids::known(&self.conn, agent)?;
        let id = self.conn.prepare_cached(sql)?.query_row([ordinal], |row| row.get(0)).optional()?;
        Ok(MessageId(id.unwrap_or(0)))
    }
}

/// Passes the messages of a level to `take`, in the order of `sql`, until it returns false.
fn read(
    conn: &Connection,
    sql: &str,
    level: &Level,
    mut take: impl FnMut(std::result::Result<Message, String>) -> bool,
) -> Result<()> {
    if level.after >= level.upto {
        return Ok(());
    }
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([level.agent, level.after, level.upto])?;
    while let Some(row) = rows.next()? {
        if !take(row::message(row)) {
            break;
        }
    }
    Ok(())
}

/// Passes an agent's own messages to `take`, newest first, until it returns false.
pub(super) fn own_backwards(
    conn: &Connection,
    agent: i64,
    take: impl FnMut(std::result::Result<Message, String>) -> bool,
) -> Result<()> {
    read(conn, BACKWARDS, &Level { agent, after: 0, upto: i64::MAX }, take)
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::domain::message::Body;
    use crate::store::NewAgent;

    fn plan(store: &Store, sql: &str) -> String {
        let mut statement = store.conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let count = statement.parameter_count();
        let values = rusqlite::params_from_iter(std::iter::repeat_n(1, count));
        let steps = statement.query_map(values, |row| row.get::<_, String>(3)).unwrap();
        steps.map(|step| step.unwrap()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_query_searches_an_index_without_sorting() {
        let store = Store::in_memory().unwrap();
        for (sql, index) in [
            (FORWARDS, "messages_agent (agent=? AND rowid>? AND rowid<?)"),
            (BACKWARDS, "messages_agent (agent=? AND rowid>? AND rowid<?)"),
            (NEWEST_CLEAR, "messages_clear (agent=? AND rowid<?)"),
            (PARENT, "sqlite_autoindex_agents_1 (uuid=? AND rowid<?)"),
        ] {
            let plan = plan(&store, sql);
            assert!(plan.contains(index), "{sql}\n{plan}");
            assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
        }
    }

    #[test]
    fn a_full_log_goes_past_clears_but_not_to_the_origin_of_a_slice() {
        let store = Store::in_memory().unwrap();
        let ids = [AgentId::random(), AgentId::random(), AgentId::random()];
        store.create_root(ids[0], None, None, 0).unwrap();
        let user = |text: &str| Body::User(text.into());
        let point = store.append(ids[0], vec![user("forgotten"), Body::Clear, user("known")], 0).unwrap()[2].id;
        let child = |index: usize, fork_point| NewAgent {
            id: ids[index],
            name: None,
            parent: ids[index - 1],
            fork_point,
            endpoint: None,
            environment: None,
        };
        store.fork(&child(1, point), 0).unwrap();
        store.slice(&child(2, MessageId(0)), vec![user("copied")], 0).unwrap();
        let kinds = |id| store.full_log(id).unwrap().0.iter().map(|message| message.body.kind()).collect::<Vec<_>>();
        assert_eq!(kinds(ids[1]), ["user", "clear", "user", "fork", "fork"]);
        assert_eq!(kinds(ids[2]), ["clear", "fork", "user"]);
    }

    #[test]
    fn a_damaged_row_that_undoes_a_clear_is_left_out() {
        let store = Store::in_memory().unwrap();
        let agent = AgentId::random();
        store.create_root(agent, None, None, 0).unwrap();
        let user = |text: &str| Body::User(text.into());
        let clear = store.append(agent, vec![user("before"), Body::Clear], 0).unwrap()[1].id;
        store.append(agent, vec![Body::ClearUndone(clear), user("after")], 0).unwrap();
        assert_eq!(store.replay(agent).unwrap().0.len(), 4);
        for data in ["'{'", "''", "x'ff'", "NULL"] {
            let sql = format!("UPDATE messages SET data = {data} WHERE kind = 'clear_undone'");
            store.conn.execute(&sql, []).unwrap();
            let (messages, damaged) = store.replay(agent).unwrap();
            assert_eq!((messages.len(), damaged.len()), (1, 1), "{data}: the clear counts");
        }
    }

    #[test]
    fn a_missing_fork_point_means_none_of_the_parents_own_messages() {
        let store = Store::in_memory().unwrap();
        let [root, child] = [AgentId::random(), AgentId::random()];
        store.create_root(root, None, None, 0).unwrap();
        let fork_point = store.append(root, vec![Body::Clear, Body::User("x".into())], 0).unwrap()[1].id;
        let child_row = NewAgent { id: child, name: None, parent: root, fork_point, endpoint: None, environment: None };
        store.fork(&child_row, 0).unwrap();
        assert_eq!(store.replay(child).unwrap().0.len(), 2);
        store.conn.execute("UPDATE agents SET fork_message_id = NULL WHERE uuid = ?1", [child]).unwrap();
        assert_eq!(store.replay(child).unwrap().0.len(), 1);
    }

    /// Steps of SQLite's virtual machine for the newest 20 messages.
    fn steps_of_tail(store: &Store, agent: AgentId) -> i32 {
        let statement = store.conn.prepare_cached(BACKWARDS).unwrap();
        statement.reset_status(StatementStatus::VmStep);
        drop(statement);
        assert_eq!(store.tail(agent, None, 20).unwrap().len(), 20);
        store.conn.prepare_cached(BACKWARDS).unwrap().get_status(StatementStatus::VmStep)
    }

    #[test]
    fn the_tail_costs_the_same_for_a_hundred_messages_and_for_ten_thousand() {
        let store = Store::in_memory().unwrap();
        let agent = AgentId::random();
        store.create_root(agent, None, None, 0).unwrap();
        let hundred = vec![Body::User("x".into()); 100];
        store.append(agent, hundred.clone(), 0).unwrap();
        let short = steps_of_tail(&store, agent);
        for _ in 1..100 {
            store.append(agent, hundred.clone(), 0).unwrap();
        }
        assert!(short > 20, "{short}");
        assert_eq!(steps_of_tail(&store, agent), short);
    }
}
