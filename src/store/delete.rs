//! Deletes agents with the messages that no remaining agent inherits. The rest stays hidden, and is deleted with the
//! last agent that inherits it.
//!
//! ```text
//!   a    1  2  3 | 7  8       deleted while b inherits up to 3: 7 and 8 go, 1 to 3 stay, and the row of a, hidden
//!   b             4  5        deleted later: all of b goes, then what is left of a
//! ```

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::comparisons;
use super::database::Store;
use super::ids::{self, ROOT};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::attachment::references;

/// Agents that were not used since a moment: not at work, without anything queued, unread or half typed, and neither
/// addressed, killed nor archived since then.
const EXPIRED: &str = "SELECT uuid FROM agents WHERE ordinal <> 0 AND parent_uuid IS NOT NULL AND deleted_at IS NULL
    AND activity = 'idle' AND created_at < ?1 AND coalesce(ended_at, 0) < ?1 AND coalesce(archived_at, 0) < ?1
    AND coalesce((SELECT created_at FROM messages WHERE agent = ordinal ORDER BY id DESC LIMIT 1), 0) < ?1
    AND NOT EXISTS (SELECT 1 FROM queue WHERE agent = ordinal)
    AND NOT EXISTS (SELECT 1 FROM drafts WHERE agent = ordinal AND content <> '')
    AND NOT EXISTS (SELECT 1 FROM mail WHERE to_uuid = uuid AND read_at IS NULL)
    ORDER BY ordinal DESC LIMIT ?2";

#[doc(hidden)]
impl Store {
    /// Deletes these agents, running, archived or killed, in one transaction.
    pub(crate) fn delete(&self, agents: &[AgentId], now_ms: i64) -> Result<()> {
        self.release_numbers();
        self.write(|conn| {
            for agent in agents {
                let ordinal = ids::known(conn, *agent)?;
                if ordinal == ROOT {
                    return Err(Error::usage("the root agent cannot be deleted"));
                }
                hide(conn, ordinal, *agent, now_ms)?;
            }
            free_hidden(conn)
        })
    }

    /// At most `most` agents that were not used since `before`, in milliseconds since 1970, the newest first.
    pub(crate) fn expired(&self, before: i64, most: usize) -> Result<Vec<AgentId>> {
        let mut statement = self.conn.prepare_cached(EXPIRED)?;
        // An agent with a damaged uuid cannot be addressed.
        let rows = statement.query_map(params![before, i64::try_from(most).unwrap_or(i64::MAX)], |row| {
            Ok(row.get::<_, AgentId>(0).ok())
        })?;
        Ok(rows.filter_map(rusqlite::Result::transpose).collect::<rusqlite::Result<_>>()?)
    }
}

/// Removes an agent from everything but what others may inherit.
fn hide(conn: &Connection, ordinal: i64, agent: AgentId, now_ms: i64) -> Result<()> {
    let sql =
        "UPDATE agents SET status = 'dead', activity = 'idle', asking = 0, name = NULL, title = NULL, said = NULL, system = NULL,
                   rules = NULL, run = NULL, archived_at = NULL, ended_at = coalesce(ended_at, ?2), deleted_at = ?2
               WHERE ordinal = ?1";
    conn.prepare_cached(sql)?.execute(params![ordinal, now_ms])?;
    for table in ["drafts", "queue", "limits", "spent", "partials"] {
        conn.prepare_cached(&format!("DELETE FROM {table} WHERE agent = ?1"))?.execute([ordinal])?;
    }
    let its_steps = "(SELECT id FROM file_steps WHERE agent = ?1)";
    for sql in [
        format!("UPDATE file_changes SET undone_by = NULL WHERE undone_by IN {its_steps}"),
        format!("DELETE FROM file_changes WHERE step IN {its_steps}"),
        "DELETE FROM file_steps WHERE agent = ?1".to_owned(),
    ] {
        conn.prepare_cached(&sql)?.execute([ordinal])?;
    }
    comparisons::forget(conn, agent)?;
    // Mail that it sent belongs to who got it.
    conn.prepare_cached("DELETE FROM mail WHERE to_uuid = ?1")?.execute([agent])?;
    let of_its_runs = "run IN (SELECT id FROM runs WHERE asker = ?1)";
    conn.prepare_cached(&format!("UPDATE agents SET run = NULL WHERE {of_its_runs}"))?.execute([agent])?;
    conn.prepare_cached("DELETE FROM runs WHERE asker = ?1")?.execute([agent])?;
    let sql = "DELETE FROM search WHERE rowid IN (SELECT id FROM messages WHERE agent = ?1)";
    conn.prepare_cached(sql)?.execute([ordinal])?;
    // A slice begins with a clear: it inherits nothing, and needs its parent only for its place in the tree.
    let sql = "UPDATE agents SET parent_uuid = (SELECT parent_uuid FROM agents WHERE ordinal = ?1)
               WHERE parent_uuid = ?2 AND fork_message_id = 0
                   AND (SELECT kind FROM messages WHERE agent = agents.ordinal ORDER BY id LIMIT 1) = 'clear'";
    conn.prepare_cached(sql)?.execute(params![ordinal, agent])?;
    Ok(())
}

/// Removes what no agent inherits any more of those that were deleted. Children are younger than their parents.
fn free_hidden(conn: &Connection) -> Result<()> {
    let sql = "SELECT ordinal, uuid FROM agents WHERE deleted_at IS NOT NULL ORDER BY ordinal DESC";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, AgentId>(1)?)))?;
    let hidden: Vec<(i64, AgentId)> = rows.collect::<rusqlite::Result<_>>()?;
    let mut digests = BTreeSet::new();
    for (ordinal, agent) in hidden {
        let sql = "SELECT max(coalesce(fork_message_id, 0)) FROM agents WHERE parent_uuid = ?1";
        let inherited: Option<i64> = conn.prepare_cached(sql)?.query_row([agent], |row| row.get(0))?;
        free_messages(conn, ordinal, inherited.unwrap_or(0), &mut digests)?;
        if inherited.is_none() {
            let sql = "DELETE FROM agents WHERE ordinal = ?1 AND NOT EXISTS (SELECT 1 FROM mail WHERE from_uuid = ?2)";
            conn.prepare_cached(sql)?.execute(params![ordinal, agent])?;
        }
    }
    digests.iter().try_for_each(|digest| free_attachment(conn, digest))
}

/// Removes an agent's own messages after `inherited`, and notes the files that they refer to.
fn free_messages(conn: &Connection, agent: i64, inherited: i64, digests: &mut BTreeSet<String>) -> Result<()> {
    let sql = "SELECT content FROM messages
               WHERE agent = ?1 AND id > ?2 AND typeof(content) = 'text' AND instr(content, ' #')";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([agent, inherited])?;
    while let Some(row) = rows.next()? {
        let content: String = row.get(0)?;
        digests.extend(references(&content).into_iter().map(|reference| reference.digest.to_owned()));
    }
    conn.prepare_cached("DELETE FROM messages WHERE agent = ?1 AND id > ?2")?.execute([agent, inherited])?;
    Ok(())
}

/// Removes a file if no text refers to it any more.
fn free_attachment(conn: &Connection, digest: &str) -> Result<()> {
    let is_in = |table: &str| {
        let sql = format!("SELECT 1 FROM {table} WHERE instr(content, ?1) LIMIT 1");
        conn.prepare_cached(&sql)?.query_row([format!(" #{digest}]")], |_| Ok(())).optional()
    };
    if is_in("messages")?.or(is_in("queue")?).or(is_in("drafts")?).is_none() {
        let sql = "DELETE FROM attachments WHERE digest >= ?1 AND digest < ?1 || 'g'";
        conn.prepare_cached(sql)?.execute([digest])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::base::id::MessageId;
    use crate::domain::message::{Body, Message};
    use crate::domain::search::SearchQuery;
    use crate::store::NewAgent;

    fn child_of(parent: AgentId, fork_point: MessageId) -> NewAgent {
        let id = AgentId::random();
        NewAgent { id, name: None, parent, fork_point, endpoint: None, environment: None }
    }

    /// Messages, and rows that could not be read.
    type History = (Vec<Message>, Vec<String>);

    struct World {
        store: Store,
        agents: Vec<AgentId>,
        random: fastrand::Rng,
        words: usize,
    }

    impl World {
        fn new(seed: u64) -> Self {
            let (store, root) = (Store::in_memory().unwrap(), AgentId::random());
            store.create_root(root, None, None, 0).unwrap();
            Self { store, agents: vec![root], random: fastrand::Rng::with_seed(seed), words: 0 }
        }

        fn any(&mut self) -> AgentId {
            self.agents[self.random.usize(..self.agents.len())]
        }

        fn is_running(&self, id: AgentId) -> bool {
            self.store.agent(id).unwrap().is_some_and(|row| row.is_running)
        }

        fn write(&mut self, id: AgentId, body: Option<Body>) {
            self.words += 1;
            let body = body.unwrap_or_else(|| Body::User(format!("word{}", self.words)));
            self.store.append(id, vec![body], 0).unwrap();
        }

        /// A child that inherits up to one of the parent's own messages, perhaps of a killed one, or nothing.
        fn fork(&mut self, parent: AgentId) {
            let own: Vec<MessageId> = self
                .store
                .conn
                .prepare("SELECT id FROM messages JOIN agents ON ordinal = agent WHERE uuid = ?1")
                .unwrap()
                .query_map([parent], |row| Ok(MessageId(row.get(0)?)))
                .unwrap()
                .map(|id| id.unwrap())
                .collect();
            let point = if own.is_empty() { MessageId(0) } else { own[self.random.usize(..own.len())] };
            let child = child_of(parent, point);
            let id = child.id;
            match (self.is_running(parent), self.random.usize(..4)) {
                (false, _) => drop(self.store.fork_ended(&child, 0).unwrap()),
                (true, 0) => {
                    let slice = child_of(parent, MessageId(0));
                    self.store.slice(&slice, vec![Body::User("copied".into())], 0).unwrap();
                    return self.agents.push(slice.id);
                }
                (true, _) => drop(self.store.fork(&child, 0).unwrap()),
            }
            self.agents.push(id);
        }

        fn step(&mut self) {
            let id = self.any();
            let is_root = id == self.agents[0];
            match (self.random.usize(..24), self.is_running(id)) {
                (0..=6, _) => self.fork(id),
                (_, false) => {}
                (7, _) => self.write(id, Some(Body::Clear)),
                (8, _) => drop(self.store.index_new().unwrap()),
                (9, _) if !is_root => drop(self.store.kill(&[id], 0).unwrap()),
                (10, _) if !is_root => self.store.archive(&[id], 0).unwrap(),
                _ => self.write(id, None),
            }
        }

        fn histories(&self) -> HashMap<AgentId, [History; 2]> {
            let history = |id: &AgentId| [self.store.replay(*id).unwrap(), self.store.full_log(*id).unwrap()];
            self.agents.iter().map(|id| (*id, history(id))).collect()
        }

        fn delete(&mut self) {
            let at = self.random.usize(1..self.agents.len());
            let mut before = self.histories();
            let deleted = self.agents.remove(at);
            self.store.delete(&[deleted], 1).unwrap();
            before.remove(&deleted);
            assert_eq!(self.histories(), before);
        }

        fn count(&self, sql: &str) -> i64 {
            self.store.conn.query_row(sql, [], |row| row.get(0)).unwrap()
        }
    }

    #[test]
    fn what_remaining_agents_know_is_unchanged_and_the_rest_goes_with_the_last_that_inherits_it() {
        for seed in 1..=12 {
            let mut world = World::new(seed);
            for _ in 0..120 {
                world.step();
                if world.agents.len() > 4 && world.random.usize(..6) == 0 {
                    world.delete();
                }
            }
            let hidden = "SELECT count(*) FROM agents WHERE deleted_at IS NOT NULL";
            let has_hidden = world.count(hidden) > 0;
            while world.agents.len() > 1 {
                world.delete();
            }
            assert_eq!((world.count(hidden), world.count("SELECT count(*) FROM agents")), (0, 1), "seed {seed}");
            assert_eq!(world.count("SELECT count(*) FROM messages WHERE agent <> 0"), 0);
            world.store.conn.execute_batch("INSERT INTO search (search) VALUES ('integrity-check')").unwrap();
            assert!(has_hidden || seed > 1, "nothing was inherited of a deleted agent");
        }
    }

    #[test]
    fn a_deleted_agent_is_not_found_while_another_inherits_from_it() {
        let mut world = World::new(1);
        let root = world.agents[0];
        world.fork(root);
        let parent = world.agents[1];
        let point = world.store.append(parent, vec![Body::User("secret plan".into())], 0).unwrap()[0].id;
        world.store.append(parent, vec![Body::User("secret end".into())], 0).unwrap();
        let child = child_of(parent, point);
        world.store.fork(&child, 0).unwrap();
        let query = SearchQuery::parse("secret ", 0).unwrap();
        let found = |world: &World| world.store.search(&query, 9).unwrap().len();
        assert_eq!(found(&world), 2);
        world.store.delete(&[parent], 1).unwrap();
        assert_eq!(found(&world), 0);
        assert_eq!(world.store.find(&parent.to_string()).unwrap(), crate::domain::called::Found::None);
        assert_eq!(world.store.replay(child.id).unwrap().0[1].body, Body::User("secret plan".into()));
        assert_eq!(world.count("SELECT count(*) FROM messages WHERE content = 'secret end'"), 0);
        assert!(world.store.fork_ended(&child_of(parent, point), 1).is_err(), "nothing can be forked from it");
        assert!(world.store.delete(&[root], 1).is_err());
    }

    #[test]
    fn files_go_with_the_last_message_that_refers_to_them() {
        let mut world = World::new(1);
        let digest = "ab".repeat(32);
        world.store.put_attachment(&digest, "image/png", b"x").unwrap();
        let marker = crate::domain::attachment::marker("a.png", "image/png", 1, &digest);
        for n in 1..=2 {
            let root = world.agents[0];
            world.fork(root);
            let child = world.agents[n];
            world.store.append(child, vec![Body::User(format!("see {marker}"))], 0).unwrap();
        }
        world.store.delete(&[world.agents[1]], 1).unwrap();
        assert!(world.store.attachment(&digest).unwrap().is_some());
        world.store.delete(&[world.agents[2]], 1).unwrap();
        assert_eq!(world.store.attachment(&digest).unwrap(), None);
    }

    #[test]
    fn agents_in_use_do_not_expire() {
        let mut world = World::new(1);
        let root = world.agents[0];
        for _ in 0..6 {
            world.fork(root);
        }
        let [_, old, busy, queued, unread, recent, archived] = world.agents[..] else { unreachable!() };
        world.store.begin_turn(busy, "go".into(), None, 0).unwrap();
        world.store.enqueue(queued, "later", false, None, 0).unwrap();
        world.store.deliver(root, unread, "hello", 0).unwrap();
        world.store.append(recent, vec![Body::User("x".into())], 10).unwrap();
        world.store.archive(&[archived], 10).unwrap();
        assert_eq!(world.store.expired(5, 9).unwrap(), [old]);
        world.store.delete(&[old], 10).unwrap();
        assert_eq!(world.store.expired(5, 9).unwrap(), []);
    }
}
