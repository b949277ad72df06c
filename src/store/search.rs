//! Full-text search over the messages of all agents, living and killed.
//!
//! The index is written in batches, because a write per message costs many times more: a mark says up to which message
//! it is complete. A search reads the index, and the messages above the mark directly, so that it never misses one.
//! Messages of a database that had no index are indexed from the newest down, behind a second mark.
//!
//! ```text
//!   1 ............. below ................ above ........ newest
//!     not yet indexed      in the index          searched directly, at most some hundred
//! ```
//!
//! Messages that are searched directly are indexed in memory, each once.

use rusqlite::{Connection, Row, params};

use super::database::Store;
use super::numbers::NUMBERED;
use super::row;
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::domain::called::{label, number_in};
use crate::domain::search::{SearchQuery, kind_name, tag_of_agent, tags_of};

/// Messages that are indexed in one transaction.
pub(crate) const BATCH: i64 = 64;
/// Older messages that are indexed in one turn of the loop: about half a millisecond.
const OLD_BATCH: i64 = 32;
/// Bytes of text after which a batch ends before its number of messages: some milliseconds.
const BATCH_BYTES: i64 = 64 * 1024;
/// Messages that are searched without the index.
const MOST_DIRECT: i64 = 4096;
/// Bytes of a message that are indexed and shown.
const CONTENT_BYTES: i64 = 64 * 1024;
/// How much of the index one step merges, in pages.
const MERGE_PAGES: i64 = 16;

/// Kinds with text that a person would search for.
const KINDS: &str = "kind IN ('user', 'assistant', 'tool_call', 'tool_result', 'command', 'error', 'compaction')";

/// A message that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    pub id: MessageId,
    pub agent: AgentId,
    /// The number by which people call the agent, if it has one.
    pub number: Option<i64>,
    pub name: Option<String>,
    pub is_running: bool,
    /// As stored: `user`, `assistant`, `tool_call`...
    pub kind: String,
    pub content: String,
    /// The tool of a call or result.
    pub tool: Option<String>,
    /// Milliseconds since 1970.
    pub created_at: i64,
}

impl SearchHit {
    /// What the agent is called.
    pub fn label(&self) -> String {
        let name = label(self.name.as_deref(), self.number, self.agent);
        if self.is_running { name } else { format!("{name} (killed)") }
    }

    /// The kind as a person types it after `is:`.
    pub fn kind_name(&self) -> &'static str {
        kind_name(&self.kind)
    }
}

#[doc(hidden)]
impl Store {
    /// The newest messages that match, at most `most`, the newest first.
    pub(crate) fn search(&self, query: &SearchQuery, most: usize) -> Result<Vec<SearchHit>> {
        let Some(expression) = query.expression(|name| self.ordinals_of(name))? else { return Ok(Vec::new()) };
        let (_, above) = marks(&self.conn)?;
        self.fill_direct(above)?;
        let mut hits = self.hits("temp.direct", &expression, query, most)?;
        let more = most.saturating_sub(hits.len());
        if more > 0 {
            hits.extend(self.hits("main.search", &expression, query, more)?);
        }
        Ok(hits)
    }

    /// How many messages of an old database are not indexed yet.
    pub(crate) fn unindexed(&self) -> Result<i64> {
        let (below, _) = marks(&self.conn)?;
        let sql = format!("SELECT count(*) FROM messages WHERE id <= ?1 AND {KINDS}");
        Ok(if below == 0 { 0 } else { self.conn.prepare_cached(&sql)?.query_row([below], |row| row.get(0))? })
    }

    /// Whether messages of an old database are not indexed yet.
    pub(crate) fn has_unindexed(&self) -> Result<bool> {
        Ok(marks(&self.conn)?.0 > 0)
    }

    /// How many rows this process has changed.
    pub(crate) fn total_changes(&self) -> u64 {
        self.conn.total_changes()
    }

    /// Indexes the next messages if a batch of them waits. Returns whether it did.
    pub(crate) fn index_new(&self) -> Result<bool> {
        let (_, above) = marks(&self.conn)?;
        let (end, is_whole) = batch(&self.conn, above)?;
        if !is_whole {
            return Ok(false);
        }
        self.write(|conn| {
            insert_range(conn, "search", above, end)?;
            set_mark(conn, "above", end)
        })?;
        Ok(true)
    }

    /// Indexes some of the messages that were stored before there was an index. Returns whether there are more.
    pub(crate) fn index_old(&self) -> Result<bool> {
        let (below, _) = marks(&self.conn)?;
        if below == 0 {
            return Ok(false);
        }
        self.write(|conn| {
            let start = start_of_old_batch(conn, below)?;
            insert_range(conn, "search", start, below)?;
            set_mark(conn, "below", start)?;
            Ok(start > 0)
        })
    }

    /// Merges a part of the index. Returns whether there is more to merge.
    pub(crate) fn merge_index(&self) -> Result<bool> {
        // "If the total number of changes is less than 2, the merge was a no-op" (sqlite.org/fts5.html, 6.7).
        let before = self.conn.total_changes();
        let sql = "INSERT INTO search (search, rank) VALUES ('merge', ?1)";
        self.write(|conn| Ok(conn.prepare_cached(sql)?.execute([MERGE_PAGES])?))?;
        Ok(self.conn.total_changes() - before >= 2)
    }

    /// The ordinals of the agents that are or were called so.
    fn ordinals_of(&self, name: &str) -> Result<Vec<i64>> {
        let sql = format!("SELECT ordinal FROM agents WHERE name = ?1 OR uuid = ?1 OR {NUMBERED} AND number = ?2");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let found = statement.query_map(params![name, number_in(name)], |row| row.get(0))?;
        let found = found.collect::<rusqlite::Result<Vec<i64>>>();
        Ok(found?)
    }

    /// Indexes in memory the messages above the mark that were not there at the last search.
    fn fill_direct(&self, above: i64) -> Result<()> {
        let newest = newest(&self.conn)?;
        let start = match self.direct.take() {
            Some((mark, upto)) if mark == above => upto,
            _ => {
                self.conn.execute_batch(
                    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.direct
                         USING fts5 (content, tags, content = '', contentless_delete = 1, tokenize = 'unicode61');
                     DELETE FROM temp.direct;",
                )?;
                above.max(newest - MOST_DIRECT)
            }
        };
        // One transaction, because each statement writes parts of the index.
        let transaction = self.conn.unchecked_transaction()?;
        insert_range(&transaction, "temp.direct", start, newest)?;
        transaction.commit()?;
        self.direct.set(Some((above, newest)));
        Ok(())
    }

    fn hits(&self, table: &str, expression: &str, query: &SearchQuery, most: usize) -> Result<Vec<SearchHit>> {
        let name = table.rsplit('.').next().unwrap_or(table);
        let sql = format!(
            "SELECT found.id, agents.uuid, iif({NUMBERED}, number, NULL), agents.name, agents.status = 'running', found.kind,
                 substr(found.content, 1, {CONTENT_BYTES}), found.data, found.created_at
             FROM {table} JOIN messages AS found ON found.id = {name}.rowid
                 JOIN agents ON agents.ordinal = found.agent
             WHERE {name} MATCH ?1 AND found.created_at >= ?2 AND agents.deleted_at IS NULL
                 AND (?3 IS NULL OR (agents.status = 'running') = ?3)
             ORDER BY {name}.rowid DESC LIMIT ?4"
        );
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let values = params![expression, query.since.unwrap_or(i64::MIN), query.is_living, most];
        let mut statement = self.conn.prepare_cached(&sql)?;
        let hits = statement.query_map(values, hit)?.collect::<rusqlite::Result<Vec<SearchHit>>>();
        Ok(hits?)
    }
}

fn hit(row: &Row) -> rusqlite::Result<SearchHit> {
    let (kind, data): (String, Option<String>) = (row.get(5)?, row.get(7)?);
    Ok(SearchHit {
        id: MessageId(row.get(0)?),
        agent: row.get(1)?,
        number: row.get(2)?,
        name: row.get(3)?,
        is_running: row.get(4)?,
        tool: row::tool_of(&kind, data.as_deref()),
        kind,
        content: row.get(6)?,
        created_at: row.get(8)?,
    })
}

/// The messages up to `below` are not indexed yet, those after it up to `above` are.
fn marks(conn: &Connection) -> Result<(i64, i64)> {
    let sql = "SELECT below, above FROM search_marks";
    Ok(conn.prepare_cached(sql)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

fn set_mark(conn: &Connection, name: &str, to: i64) -> Result<()> {
    conn.prepare_cached(&format!("UPDATE search_marks SET {name} = ?1"))?.execute([to])?;
    Ok(())
}

fn newest(conn: &Connection) -> Result<i64> {
    let sql = "SELECT coalesce(max(id), 0) FROM messages";
    Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// The last message of the next batch, and whether there are enough for one: this many messages, or this many bytes.
fn batch(conn: &Connection, above: i64) -> Result<(i64, bool)> {
    let sql = format!("SELECT id, octet_length(content) FROM messages WHERE id > ?1 ORDER BY id LIMIT {BATCH}");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([above])?;
    let (mut end, mut bytes) = (above, 0);
    while let Some(row) = rows.next()? {
        end = row.get(0)?;
        bytes += row.get::<_, i64>(1)?.min(CONTENT_BYTES);
        if bytes >= BATCH_BYTES || end - above >= BATCH {
            return Ok((end, true));
        }
    }
    Ok((end, false))
}

/// Where a batch of older messages begins that ends with this one.
fn start_of_old_batch(conn: &Connection, below: i64) -> Result<i64> {
    let first = (below - OLD_BATCH).max(0);
    let sql = "SELECT id, octet_length(content) FROM messages WHERE id > ?1 AND id <= ?2 ORDER BY id DESC";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([first, below])?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        bytes += row.get::<_, i64>(1)?.min(CONTENT_BYTES);
        if bytes >= BATCH_BYTES {
            return Ok(row.get::<_, i64>(0)? - 1);
        }
    }
    Ok(first)
}

/// Indexes the messages with ids greater than `after`, up to `upto`.
fn insert_range(conn: &Connection, table: &str, after: i64, upto: i64) -> Result<()> {
    let sql = format!(
        "SELECT id, agent, kind, substr(content, 1, {CONTENT_BYTES}), data
         FROM messages CROSS JOIN agents ON ordinal = agent
         WHERE id > ?1 AND id <= ?2 AND {KINDS} AND typeof(content) = 'text' AND deleted_at IS NULL ORDER BY id"
    );
    let mut insert = conn.prepare_cached(&format!("INSERT INTO {table} (rowid, content, tags) VALUES (?1, ?2, ?3)"))?;
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([after, upto])?;
    while let Some(row) = rows.next()? {
        let (id, agent, kind): (i64, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (content, data): (String, Option<String>) = (row.get(3)?, row.get(4)?);
        let tool = row::tool_of(&kind, data.as_deref());
        let tags = format!("{} {}", tag_of_agent(agent), tags_of(&kind, tool.as_deref()));
        insert.execute(params![id, content, tags])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::message::{Body, Reply};
    use crate::domain::tool::ToolResult;

    const WORDS: [&str; 12] =
        ["csrf", "token", "cart", "curl_multi", "std::fs", "Größe", "naïve", "total", "lines", "a", "x1", "日本"];

    fn store_with_agents(count: usize) -> (Store, Vec<AgentId>) {
        let store = Store::in_memory().unwrap();
        let root = AgentId::random();
        store.create_root(root, None, None, 0).unwrap();
        let mut agents = vec![root];
        for n in 1..count {
            let id = AgentId::random();
            let child = crate::store::NewAgent {
                id,
                name: Some(format!("agent-{n}")),
                parent: root,
                fork_point: MessageId(0),
                endpoint: None,
                environment: None,
            };
            store.fork(&child, 0).unwrap();
            agents.push(id);
        }
        (store, agents)
    }

    fn random_text(random: &mut fastrand::Rng) -> String {
        (0..=random.usize(..6)).map(|_| WORDS[random.usize(..WORDS.len())]).collect::<Vec<_>>().join(" ")
    }

    fn random_body(random: &mut fastrand::Rng) -> Body {
        let text = random_text(random);
        match random.usize(..4) {
            0 => Body::User(text),
            1 => Body::ToolResult(ToolResult {
                call_id: "1".into(),
                name: "bash".into(),
                content: text,
                is_error: false,
                duration: Duration::ZERO,
            }),
            2 => Body::Usage(Default::default()),
            _ => Body::Assistant(Reply { text, ..Reply::default() }),
        }
    }

    fn found(store: &Store, typed: &str) -> Vec<i64> {
        let query = SearchQuery::parse(typed, 0).unwrap();
        store.search(&query, usize::MAX).unwrap().into_iter().map(|hit| hit.id.0).collect()
    }

    fn check(store: &Store) {
        store.conn.execute_batch("INSERT INTO search (search) VALUES ('integrity-check')").unwrap();
    }

    #[test]
    fn a_batch_ends_before_it_has_too_many_bytes() {
        let (store, agents) = store_with_agents(1);
        let long = |word: &str| Body::User(format!("{word} {}", "x ".repeat(20_000)));
        for (word, has_batch) in [("one", false), ("two", true), ("three", false)] {
            store.append(agents[0], vec![long(word)], 0).unwrap();
            assert_eq!(store.index_new().unwrap(), has_batch, "{word}");
        }
        assert_eq!(["one ", "two ", "three "].map(|word| found(&store, word).len()), [1, 1, 1]);
        let (_, above) = marks(&store.conn).unwrap();
        set_mark(&store.conn, "below", above).unwrap();
        assert_eq!(start_of_old_batch(&store.conn, above).unwrap(), above - 2);
    }

    #[test]
    fn results_equal_those_of_a_scan_whatever_is_indexed() {
        for seed in 1..=5 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (store, agents) = store_with_agents(4);
            let mut texts: Vec<(i64, usize, &str, String)> = Vec::new();
            for step in 0..400 {
                let agent = random.usize(..agents.len());
                let body = random_body(&mut random);
                let (kind, text) = (body.kind(), row::content(&body).to_owned());
                let message = store.append(agents[agent], vec![body], step).unwrap().remove(0);
                texts.push((message.id.0, agent, kind, text));
                match random.usize(..40) {
                    0 => drop(store.index_new().unwrap()),
                    1 => drop(store.merge_index().unwrap()),
                    2 => drop(found(&store, "csrf ")),
                    _ => {}
                }
            }
            for word in WORDS {
                let scan = |is_wanted: &dyn Fn(usize, &str) -> bool| -> Vec<i64> {
                    let has = |text: &str| text.split(' ').any(|one| one == word);
                    let all = texts.iter().rev().filter(|(_, agent, kind, text)| has(text) && is_wanted(*agent, kind));
                    all.map(|(id, ..)| *id).collect()
                };
                assert_eq!(found(&store, &format!("{word} ")), scan(&|_, _| true), "{word}");
                assert_eq!(found(&store, &format!("{word} who:agent-2")), scan(&|agent, _| agent == 2), "{word}");
                assert_eq!(found(&store, &format!("is:reply {word} ")), scan(&|_, kind| kind == "assistant"), "{word}");
                assert_eq!(
                    found(&store, &format!("tool:bash {word} ")),
                    scan(&|_, kind| kind == "tool_result"),
                    "{word}"
                );
            }
            check(&store);
        }
    }

    #[test]
    fn an_old_store_is_indexed_from_the_newest_down_and_then_complete() {
        let (store, agents) = store_with_agents(1);
        let texts: Vec<Body> = (0..500).map(|n| Body::User(format!("message number{n} csrf"))).collect();
        let messages = store.append(agents[0], texts, 0).unwrap();
        let newest = messages.last().unwrap().id.0;
        store.conn.execute("UPDATE search_marks SET below = ?1, above = ?1", [newest]).unwrap();
        assert_eq!((found(&store, "csrf").len(), store.unindexed().unwrap()), (0, 500));
        let mut before = 0;
        while store.index_old().unwrap() {
            let hits = found(&store, "csrf ");
            assert!(hits.len() > before && hits[0] == newest, "the newest come first");
            before = hits.len();
        }
        assert_eq!((found(&store, "csrf ").len(), found(&store, "number250 ").len()), (500, 1));
        assert_eq!(store.unindexed().unwrap(), 0);
        check(&store);
    }

    #[test]
    fn a_message_that_was_not_stored_is_not_found() {
        let (store, agents) = store_with_agents(1);
        let failed: Result<()> = store.transaction(|store| {
            let bodies = (0..200).map(|_| Body::User("csrf".into())).collect();
            store.append(agents[0], bodies, 0)?;
            store.index_new()?;
            Err(crate::store::error::store_error("stop here"))
        });
        assert!(failed.is_err());
        assert_eq!(found(&store, "csrf "), Vec::<i64>::new());
        check(&store);
    }

    #[test]
    fn killed_agents_and_times_are_told_apart() {
        let (store, agents) = store_with_agents(3);
        for (at, agent) in agents.iter().enumerate() {
            store.append(*agent, vec![Body::User("csrf".into())], i64::try_from(at).unwrap() * 60_000).unwrap();
        }
        store.kill(&agents[1..2], 0).unwrap();
        let labels = |typed: &str| -> Vec<String> {
            let query = SearchQuery::parse(typed, 180_000).unwrap();
            store.search(&query, 9).unwrap().iter().map(SearchHit::label).collect()
        };
        assert_eq!(labels("csrf is:killed"), ["agent-1 (killed)"]);
        assert_eq!(labels("csrf is:living"), ["agent-2", "agent 0"]);
        assert_eq!(labels("csrf since:2m"), ["agent-2", "agent-1 (killed)"]);
        assert_eq!(labels("csrf who:nobody"), Vec::<String>::new());
        assert_eq!(labels("who:agent-1"), ["agent-1 (killed)"]);
    }
}
