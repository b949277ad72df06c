//! The numbers by which people call agents: an agent has the lowest one that was free when it entered the list, and keeps
//! it until it leaves the list.

use super::database::Store;
use crate::base::error::Result;

/// The agents that have a number: those in lists, without the ones of `--print` runs and teams. The number of any other
/// row does not count.
pub(super) const NUMBERED: &str = "status = 'running' AND archived_at IS NULL AND NOT is_print_run AND run IS NULL";

impl Store {
    /// The lowest number that no agent has.
    pub(super) fn free_number(&self) -> Result<i64> {
        let sql = format!(
            "SELECT number FROM agents INDEXED BY agents_number
            WHERE {NUMBERED} AND number >= ?1 ORDER BY number"
        );
        let mut free = self.numbers_from.get();
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([free])?;
        while let Some(row) = rows.next()? {
            match row.get::<_, i64>(0) {
                Ok(taken) if taken <= free => free = taken + 1,
                _ => break,
            }
        }
        self.numbers_from.set(free);
        Ok(free)
    }

    /// Numbers may have become free: the next one is searched from the beginning.
    pub(super) fn release_numbers(&self) {
        self.numbers_from.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::{AgentId, MessageId};
    use crate::store::agents::NewAgent;
    use crate::store::error::store_error;

    fn fork(store: &Store, parent: AgentId) -> AgentId {
        let new = NewAgent {
            id: AgentId::random(),
            name: None,
            parent,
            fork_point: MessageId(0),
            endpoint: None,
            environment: None,
        };
        store.fork(&new, 0).unwrap().row.id
    }

    fn number(store: &Store, agent: AgentId) -> Option<i64> {
        store.agent(agent).unwrap().unwrap().number
    }

    #[test]
    fn an_agent_has_the_lowest_free_number_until_it_leaves_the_list() {
        let store = Store::in_memory().unwrap();
        let root = AgentId::random();
        store.create_root(root, None, None, 0).unwrap();
        let [a, b, c, d] = [(); 4].map(|()| fork(&store, root));
        assert_eq!([root, a, b, c, d].map(|id| number(&store, id)), [0, 1, 2, 3, 4].map(Some));
        store.archive(&[b], 1).unwrap();
        store.kill(&[a], 1).unwrap();
        store.set_print_run(c).unwrap();
        assert_eq!([a, b, c, d].map(|id| number(&store, id)), [None, None, None, Some(4)]);
        assert_eq!([(); 4].map(|()| number(&store, fork(&store, root))), [1, 2, 3, 5].map(Some));
        assert_eq!(store.unarchive(b, false).unwrap().number, Some(6));
        store.archive(&[c], 1).unwrap();
        assert_eq!(store.unarchive(c, true).unwrap().number, None, "another run goes on with it");
        store.archive(&[c], 1).unwrap();
        assert_eq!(store.unarchive(c, false).unwrap().number, Some(7));
        store.delete(&[d], 1).unwrap();
        assert_eq!(number(&store, fork(&store, root)), Some(4));
    }

    #[test]
    fn the_numbers_of_a_transaction_that_failed_are_free_again() {
        let store = Store::in_memory().unwrap();
        let root = AgentId::random();
        store.create_root(root, None, None, 0).unwrap();
        let failed: Result<()> = store.transaction(|store| {
            (0..3).for_each(|_| assert!(number(store, fork(store, root)).is_some()));
            Err(store_error("stop here"))
        });
        assert!(failed.is_err());
        assert_eq!(number(&store, fork(&store, root)), Some(1));
        store.begin().unwrap();
        (0..3).for_each(|_| assert!(number(&store, fork(&store, root)).is_some()));
        store.end(false).unwrap();
        assert_eq!(number(&store, fork(&store, root)), Some(2));
    }
}
