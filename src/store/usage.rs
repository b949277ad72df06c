//! Tokens and cost: sums over the usage rows, without reading anything else of the log.

use rusqlite::params;

use super::database::Store;
use super::ids;
use crate::base::error::Result;
use crate::base::id::AgentId;

/// Tokens and money of many requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageTotal {
    pub requests: u64,
    /// Tokens of the requests, cached ones included.
    pub input: u64,
    /// Those of them that came from a cache.
    pub cached: u64,
    /// Tokens of the replies.
    pub output: u64,
    /// Known cost in billionths of a US dollar.
    pub cost: u64,
    /// Number of requests with a known cost.
    pub priced: u64,
}

/// Invalid JSON counts as nothing. `total` does not overflow, as `sum` would with absurd numbers from a provider.
const SUMS: &str = "SELECT total(1), total(json ->> 'input'), total(json ->> 'cached'), total(json ->> 'output'),
    total(json ->> 'cost'), total(json ->> 'cost' IS NOT NULL)
    FROM (SELECT iif(json_valid(data), data, '{}') AS json FROM messages INDEXED BY messages_usage
        WHERE kind = 'usage' AND (?1 IS NULL OR agent = ?1))";

#[doc(hidden)]
impl Store {
    /// Usage of this agent's requests or, for `None`, of all agents, including killed ones.
    ///
    /// # Errors
    /// There is no such agent, or the database cannot be read.
    pub fn usage(&self, agent: Option<AgentId>) -> Result<UsageTotal> {
        let ordinal = agent.map(|agent| ids::known(&self.conn, agent)).transpose()?;
        let mut statement = self.conn.prepare_cached(SUMS)?;
        Ok(statement.query_row(params![ordinal], |row| {
            // The conversion saturates.
            let whole = |column: usize| row.get::<_, f64>(column).map(|sum| sum as u64);
            Ok(UsageTotal {
                requests: whole(0)?,
                input: whole(1)?,
                cached: whole(2)?,
                output: whole(3)?,
                cost: whole(4)?,
                priced: whole(5)?,
            })
        })?)
    }

    /// Tokens of the agent's last request and its reply, which is what the context holds; `None` before the first one.
    ///
    /// # Errors
    /// As for [`Store::usage`].
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
    use crate::domain::message::Body;
    use crate::domain::stream::Usage;

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
        let expected = UsageTotal { requests: 4, input: 60, cached: 3, output: 6, cost: 12, priced: 2 };
        assert_eq!(store.usage(Some(root)).unwrap(), expected);
        assert_eq!(store.usage(None).unwrap(), expected);
        assert_eq!(store.last_context(root).unwrap(), Some(32));
    }
}
