//! Limits of trees of agents, and what counts against them.

use rusqlite::{Row, params};

use super::database::Store;
use super::ids;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::limits::{LimitName, MadeBy, SetLimit, Spent};

/// The usage of an agent alone, and for how many milliseconds it or a descendant worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredSpent {
    pub agent: AgentId,
    pub spent: Spent,
    pub millis: u64,
}

/// All that is stored about the limits of running agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredLimits {
    pub set: Vec<(AgentId, LimitName, SetLimit)>,
    pub spent: Vec<StoredSpent>,
    /// The nearest running ancestors of agents that models made since a moment, and when they did, the newest first.
    pub creations: Vec<(AgentId, i64)>,
}

#[doc(hidden)]
impl Store {
    /// Records who made an agent.
    pub(crate) fn set_made_by(&self, agent: AgentId, made_by: MadeBy) -> Result<()> {
        let sql = "UPDATE agents SET made_by = ?2 WHERE uuid = ?1";
        self.write(|conn| Ok(conn.prepare_cached(sql)?.execute(params![agent, made_by.code()]).map(drop)?))
    }

    /// Sets a limit of an agent's tree, or removes it.
    pub(crate) fn set_limit(&self, agent: AgentId, name: LimitName, limit: Option<SetLimit>) -> Result<()> {
        self.write(|conn| {
            let ordinal = ids::running(conn, agent)?;
            match limit {
                Some(SetLimit { most, base }) => {
                    let sql = "INSERT OR REPLACE INTO limits (agent, name, value, base) VALUES (?1, ?2, ?3, ?4)";
                    conn.prepare_cached(sql)?.execute(params![ordinal, name.name(), most.map(to_i64), to_i64(base)])?;
                }
                None => {
                    let sql = "DELETE FROM limits WHERE agent = ?1 AND name = ?2";
                    conn.prepare_cached(sql)?.execute(params![ordinal, name.name()])?;
                }
            }
            Ok(())
        })
    }

    /// Stores the usage of these agents, in one transaction. Killed agents are left out.
    pub(crate) fn set_spent(&self, all: &[StoredSpent]) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO spent (agent, requests, tokens, cost, millis)
            SELECT ordinal, ?2, ?3, ?4, ?5 FROM agents WHERE uuid = ?1 AND status = 'running'";
        self.write(|conn| {
            let mut statement = conn.prepare_cached(sql)?;
            for StoredSpent { agent, spent, millis } in all {
                let [requests, tokens, cost, millis] = [spent.requests, spent.tokens, spent.cost, *millis].map(to_i64);
                statement.execute(params![agent, requests, tokens, cost, millis])?;
            }
            Ok(())
        })
    }

    /// The limits of running agents; of creations those since `since`, in milliseconds since 1970. Rows of limits that
    /// this version does not know are left out.
    pub fn load_limits(&self, since: i64) -> Result<StoredLimits> {
        let sql = "SELECT uuid, limits.name, value, base FROM limits JOIN agents ON ordinal = agent
            WHERE status = 'running'";
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map([], |row| Ok(set_limit(row).ok().flatten()))?;
        let set = rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect();
        let sql = "SELECT uuid, requests, tokens, cost, millis FROM spent JOIN agents ON ordinal = agent
            WHERE status = 'running'";
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map([], |row| Ok(stored_spent(row).ok()))?;
        let spent = rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect();
        Ok(StoredLimits { set, spent, creations: self.creations_since(since)? })
    }

    /// The limits that were set for one agent.
    pub(crate) fn limits_of(&self, agent: AgentId) -> Result<Vec<(LimitName, SetLimit)>> {
        let all = self.load_limits(i64::MAX)?.set;
        Ok(all.into_iter().filter(|(id, ..)| *id == agent).map(|(_, name, limit)| (name, limit)).collect())
    }

    /// Reads the newest agents, running or killed, and ends with the first that is older.
    fn creations_since(&self, since: i64) -> Result<Vec<(AgentId, i64)>> {
        let mut statement =
            self.conn.prepare_cached("SELECT uuid, made_by, created_at FROM agents ORDER BY ordinal DESC")?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let (made_by, created_at): (i64, i64) = (row.get(1).unwrap_or_default(), row.get(2).unwrap_or_default());
            if created_at < since {
                break;
            }
            if let (MadeBy::Model, Ok(agent)) = (MadeBy::of_code(made_by), row.get::<_, AgentId>(0)) {
                found.push((agent, created_at));
            }
        }
        let above = |(agent, at): (AgentId, i64)| Ok(self.living_ancestor(agent)?.0.map(|above| (above, at)));
        found.into_iter().filter_map(|creation| above(creation).transpose()).collect()
    }
}

fn set_limit(row: &Row<'_>) -> rusqlite::Result<Option<(AgentId, LimitName, SetLimit)>> {
    let name: String = row.get(1)?;
    let most: Option<i64> = row.get(2)?;
    let limit = SetLimit { most: most.map(to_u64), base: to_u64(row.get(3)?) };
    let agent = row.get(0)?;
    Ok(LimitName::find(&name).map(|name| (agent, name, limit)))
}

fn stored_spent(row: &Row<'_>) -> rusqlite::Result<StoredSpent> {
    let number = |column| row.get(column).map(to_u64);
    let spent = Spent { requests: number(1)?, tokens: number(2)?, cost: number(3)? };
    Ok(StoredSpent { agent: row.get(0)?, spent, millis: number(4)? })
}

fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn to_u64(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::MessageId;
    use crate::store::NewAgent;

    fn child(store: &Store, parent: AgentId, made_by: MadeBy, at: i64) -> AgentId {
        let id = AgentId::random();
        let fork_point = MessageId(0);
        store.fork(&NewAgent { id, name: None, parent, fork_point, endpoint: None, environment: None }, at).unwrap();
        store.set_made_by(id, made_by).unwrap();
        id
    }

    #[test]
    fn limits_and_what_was_used_are_read_back_for_running_agents_only() {
        let store = Store::in_memory().unwrap();
        let root = AgentId::random();
        store.create_root(root, None, None, 0).unwrap();
        let dead = child(&store, root, MadeBy::Model, 5);
        let (most, base) = (Some(7), 3);
        for agent in [root, dead] {
            store.set_limit(agent, LimitName::Usd, Some(SetLimit { most, base })).unwrap();
            store.set_limit(agent, LimitName::Depth, Some(SetLimit { most: None, base: 0 })).unwrap();
            let spent = Spent { requests: 1, tokens: u64::MAX, cost: 3 };
            store.set_spent(&[StoredSpent { agent, spent, millis: 4 }]).unwrap();
        }
        store.set_limit(root, LimitName::Depth, None).unwrap();
        store.conn.execute("INSERT INTO limits VALUES (0, 'of a later version', 1, 0)", []).unwrap();
        store.kill(&[dead], 9).unwrap();
        let stored = store.load_limits(100).unwrap();
        assert_eq!(stored.set, [(root, LimitName::Usd, SetLimit { most, base })]);
        let spent = Spent { requests: 1, tokens: i64::MAX as u64, cost: 3 };
        assert_eq!(stored.spent, [StoredSpent { agent: root, spent, millis: 4 }]);
    }

    #[test]
    fn recent_creations_by_models_count_also_for_agents_that_were_killed() {
        let store = Store::in_memory().unwrap();
        let root = AgentId::random();
        store.create_root(root, None, None, 0).unwrap();
        child(&store, root, MadeBy::Model, 10);
        let lives = child(&store, root, MadeBy::Person, 20);
        let dead = child(&store, lives, MadeBy::Model, 30);
        child(&store, dead, MadeBy::Model, 40);
        store.kill(&[dead], 50).unwrap();
        assert_eq!(store.load_limits(15).unwrap().creations, [(lives, 40), (lives, 30)]);
        assert_eq!(store.load_agents().unwrap().agents[2].made_by, MadeBy::Person);
    }
}
