//! Tokens and cost: sums over the usage rows, without reading the rest of the log.

use std::collections::HashMap;

use rusqlite::{Row, params};

use super::database::Store;
use super::numbers::NUMBERED;
use super::{ids, log};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::message::Body;
use crate::domain::stream::Usage;

/// Tokens and money of many requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageTotal {
    pub requests: u64,
    /// Tokens of the requests, cached ones included.
    pub input: u64,
    /// The input tokens that came from a cache.
    pub cached: u64,
    /// The input tokens that were written to a cache.
    pub written: u64,
    /// Tokens of the replies, reasoning included.
    pub output: u64,
    /// The output tokens that were used for reasoning, as far as providers report it.
    pub reasoning: u64,
    /// Known cost in billionths of a US dollar.
    pub cost: u64,
    /// Number of requests with a known cost.
    pub priced: u64,
}

impl UsageTotal {
    /// Adds the usage of other requests.
    pub fn add(&mut self, other: &Self) {
        let Self { requests, input, cached, written, output, reasoning, cost, priced } = other;
        let sums = [
            (&mut self.requests, requests),
            (&mut self.input, input),
            (&mut self.cached, cached),
            (&mut self.written, written),
            (&mut self.output, output),
            (&mut self.reasoning, reasoning),
            (&mut self.cost, cost),
            (&mut self.priced, priced),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(*more);
        }
    }

    /// The columns of a sum, from this one on.
    fn of_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        // The conversion saturates.
        let whole = |column: usize| row.get::<_, f64>(first + column).map(|sum| sum as u64);
        Ok(Self {
            requests: whole(0)?,
            input: whole(1)?,
            cached: whole(2)?,
            written: whole(3)?,
            output: whole(4)?,
            reasoning: whole(5)?,
            cost: whole(6)?,
            priced: whole(7)?,
        })
    }
}

/// The columns of a [`UsageTotal`]. Invalid JSON counts as nothing. `total` does not overflow, as `sum` would with absurd
/// numbers from a provider.
const SUMS: &str = "total(1), total(json ->> 'input'), total(json ->> 'cached'), total(json ->> 'written'),
    total(json ->> 'output'), total(json ->> 'reasoning'), total(json ->> 'cost'), total(json ->> 'cost' IS NOT NULL)";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentUsage {
    pub id: AgentId,
    pub name: Option<String>,
    pub number: Option<i64>,
    /// The agent that forked it.
    pub parent: Option<AgentId>,
    pub is_running: bool,
    pub own: UsageTotal,
    /// That of the agent and all its descendants.
    pub tree: UsageTotal,
}

/// Adds the sums of children to those of their parents. A child comes after its parent.
fn add_up(agents: &mut [AgentUsage]) {
    let places: HashMap<AgentId, usize> = agents.iter().enumerate().map(|(at, agent)| (agent.id, at)).collect();
    for at in (0..agents.len()).rev() {
        let tree = agents[at].tree;
        let parent = agents[at].parent.and_then(|parent| places.get(&parent));
        if let Some(parent) = parent.filter(|parent| **parent < at) {
            agents[*parent].tree.add(&tree);
        }
    }
}

/// The sums for each value of an expression.
fn grouped_sums(expression: &str) -> String {
    format!(
        "SELECT key, {SUMS}
        FROM (SELECT {expression} AS key, iif(json_valid(data), data, '{{}}') AS json
            FROM messages INDEXED BY messages_usage WHERE kind = 'usage')
        GROUP BY key ORDER BY key"
    )
}

#[doc(hidden)]
impl Store {
    /// Adds what requests used for an agent, which may have been killed.
    pub(crate) fn add_usage(&self, agent: AgentId, costs: Vec<Usage>, now_ms: i64) -> Result<()> {
        if costs.is_empty() {
            return Ok(());
        }
        self.write(|conn| {
            let ordinal = ids::known(conn, agent)?;
            costs.into_iter().try_for_each(|usage| log::insert(conn, ordinal, Body::Usage(usage), now_ms).map(drop))
        })
    }

    /// Usage of this agent's requests or, for `None`, of all agents, including killed ones.
    pub fn usage(&self, agent: Option<AgentId>) -> Result<UsageTotal> {
        let ordinal = agent.map(|agent| ids::known(&self.conn, agent)).transpose()?;
        let sql = format!(
            "SELECT {SUMS} FROM (SELECT iif(json_valid(data), data, '{{}}') AS json FROM messages INDEXED BY messages_usage
                WHERE kind = 'usage' AND (?1 IS NULL OR agent = ?1))"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        Ok(statement.query_row(params![ordinal], |row| UsageTotal::of_row(row, 0))?)
    }

    /// Usage of each day of the local calendar (`2026-11-22`) on which there was a request, oldest first.
    pub fn usage_by_day(&self) -> Result<Vec<(String, UsageTotal)>> {
        let sql = grouped_sums("date(created_at / 1000, 'unixepoch', 'localtime')");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, UsageTotal::of_row(row, 1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Usage of each model; that of requests before the model was stored is under `None`.
    pub fn usage_by_model(&self) -> Result<Vec<(Option<String>, UsageTotal)>> {
        let sql = grouped_sums("iif(json_valid(data), data ->> 'model', NULL)");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, UsageTotal::of_row(row, 1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Usage of each agent, killed ones included, in order of creation.
    pub fn usage_by_agent(&self) -> Result<Vec<AgentUsage>> {
        let sql = format!(
            "SELECT a.uuid, a.name, iif({NUMBERED}, number, NULL),
                iif(a.fork_message_id IS NULL, NULL, a.parent_uuid), a.status = 'running', sums.*
            FROM agents AS a LEFT JOIN ({}) AS sums ON sums.key = a.ordinal ORDER BY a.ordinal",
            grouped_sums("agent")
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let rows = statement.query_map([], |row| {
            let has_requests = row.get::<_, Option<i64>>(5)?.is_some();
            let own = if has_requests { UsageTotal::of_row(row, 6)? } else { UsageTotal::default() };
            let (id, name, number, parent, is_running) =
                (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
            Ok(AgentUsage { id, name, number, parent, is_running, own, tree: own })
        })?;
        let mut agents = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        add_up(&mut agents);
        Ok(agents)
    }

    /// Tokens of the agent's last request and its reply, which is what the context holds; `None` before the first one.
    pub(crate) fn last_context(&self, agent: AgentId) -> Result<Option<u64>> {
        let sql = "SELECT total(json ->> 'input') + total(json ->> 'output'), count(*)
            FROM (SELECT iif(json_valid(data), data, '{}') AS json FROM messages INDEXED BY messages_usage
                WHERE kind = 'usage' AND agent = ?1 ORDER BY id DESC LIMIT 1)";
        let ordinal = ids::known(&self.conn, agent)?;
        let (tokens, found): (f64, i64) =
            self.conn.prepare_cached(sql)?.query_row([ordinal], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok((found > 0).then_some(tokens as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::MessageId;
    use crate::store::NewAgent;

    fn usage(input: u64, cost: Option<u64>) -> Body {
        Body::Usage(Usage { input, cached: 1, output: 2, cost, ..Usage::default() })
    }

    #[test]
    fn requests_are_summed_for_one_agent_and_for_all_and_damaged_rows_count_nothing() {
        let store = Store::in_memory().unwrap();
        let root = AgentId::random();
        store.create_root(root, None, None, 0).unwrap();
        assert_eq!(store.usage(Some(root)).unwrap(), UsageTotal::default());
        assert_eq!(store.last_context(root).unwrap(), None);
        let bodies = vec![usage(10, Some(5)), Body::User("x".into()), usage(20, None), usage(u64::MAX, Some(1))];
        store.append(root, bodies, 0).unwrap();
        store.append(root, vec![usage(30, Some(7))], 0).unwrap();
        store.conn.execute("UPDATE messages SET data = '{broken' WHERE data LIKE '%1844%'", []).unwrap();
        let expected =
            UsageTotal { requests: 4, input: 60, cached: 3, output: 6, cost: 12, priced: 2, ..UsageTotal::default() };
        assert_eq!(store.usage(Some(root)).unwrap(), expected);
        assert_eq!(store.usage(None).unwrap(), expected);
        assert_eq!(store.last_context(root).unwrap(), Some(32));
    }

    #[test]
    fn days_and_trees_have_sums_that_include_killed_agents() {
        const DAY: i64 = 24 * 60 * 60 * 1000;
        let store = Store::in_memory().unwrap();
        let [root, child, grandchild] = [(); 3].map(|()| AgentId::random());
        store.create_root(root, None, None, 0).unwrap();
        for (id, parent) in [(child, root), (grandchild, child)] {
            let new = NewAgent { id, name: None, parent, fork_point: MessageId(0), endpoint: None, environment: None };
            store.fork(&new, 0).unwrap();
        }
        store.append(root, vec![usage(10, Some(5))], 12 * DAY).unwrap();
        store.append(grandchild, vec![usage(20, None), usage(1, Some(2))], 14 * DAY).unwrap();
        store.conn.execute("UPDATE agents SET status = 'dead' WHERE ordinal = 2", []).unwrap();
        let days = store.usage_by_day().unwrap();
        assert_eq!(days.iter().map(|(_, total)| total.input).collect::<Vec<_>>(), [10, 21]);
        assert!(days[0].0.starts_with("1970-01-1"), "{days:?}");
        let agents = store.usage_by_agent().unwrap();
        let sums: Vec<_> = agents.iter().map(|agent| (agent.own.input, agent.tree.input, agent.tree.cost)).collect();
        assert_eq!(sums, [(10, 31, 7), (0, 21, 2), (21, 21, 2)]);
        assert_eq!(agents.iter().map(|agent| agent.is_running).collect::<Vec<_>>(), [true, true, false]);
    }
}
