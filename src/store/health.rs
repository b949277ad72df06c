//! Checks a store without changing or locking it.

use std::path::Path;

use rusqlite::OpenFlags;

use super::connection::{configure, connect, connect_immutable, has_wal};
use super::database::Store;
use super::error::in_directory;
use super::schema;
use crate::base::error::Result;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Schema version of the database.
    pub version: usize,
    /// Schema version that this program writes.
    pub current: usize,
    /// The problems of the file that SQLite finds; empty if it is intact.
    pub damage: Vec<String>,
}

/// Checks the store in `dir`, even while another process holds it or if its schema is older; `None` if there is none.
pub fn health(dir: &Path) -> Result<Option<Health>> {
    if !Store::exists(dir) {
        return Ok(None);
    }
    let health = match connect(dir, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(|conn| check(&conn)) {
        // On a read-only medium only this works; a part of the database may be in the log, which this does not read.
        Err(error) if !has_wal(dir) => connect_immutable(dir).and_then(|conn| check(&conn)).map_err(|_| error),
        checked => checked,
    };
    health.map(Some).map_err(|error| in_directory(dir, error))
}

fn check(conn: &rusqlite::Connection) -> Result<Health> {
    configure(conn)?;
    schema::require_ours(conn)?;
    let (version, current) = schema::versions(conn)?;
    let mut statement = conn.prepare("PRAGMA integrity_check(10)")?;
    let lines: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(Health { version, current, damage: lines.into_iter().filter(|line| line != "ok").collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_store_is_checked_and_damage_is_found() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(health(dir.path()), Ok(None));
        let store = Store::open(dir.path()).unwrap();
        store.create_root(crate::base::id::AgentId::random(), None, None, 0).unwrap();
        let found = health(dir.path()).unwrap().unwrap();
        assert_eq!((found.version, found.damage.len()), (found.current, 0));
        drop(store);
        let file = dir.path().join("polylogue.db");
        let mut bytes = std::fs::read(&file).unwrap();
        let end = bytes.len();
        bytes[4096..end].fill(0xaa);
        std::fs::write(&file, bytes).unwrap();
        let found = health(dir.path());
        assert!(found.is_err() || found.is_ok_and(|found| !found.unwrap().damage.is_empty()));
    }

    #[test]
    fn a_store_that_a_killed_process_left_is_intact_and_stays_as_it_is() {
        let (dir, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = Store::open(dir.path()).unwrap();
        let agent = crate::base::id::AgentId::random();
        store.create_root(agent, None, None, 0).unwrap();
        store.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        store.append(agent, vec![crate::domain::message::Body::Clear], 0).unwrap();
        let names = ["polylogue.db", "polylogue.db-wal", "polylogue.lock"];
        for name in names {
            std::fs::copy(dir.path().join(name), left.path().join(name)).unwrap();
        }
        let files = || names.map(|name| std::fs::read(left.path().join(name)).unwrap());
        let before = files();
        assert_eq!(health(left.path()).unwrap().unwrap().damage, Vec::<String>::new());
        assert!(files() == before);
    }

    #[test]
    fn an_index_that_lacks_rows_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let agent = crate::base::id::AgentId::random();
        store.create_root(agent, None, None, 0).unwrap();
        store.append(agent, vec![crate::domain::message::Body::Clear], 0).unwrap();
        let page = "(SELECT sum(rootpage) FROM sqlite_schema WHERE name IN ('messages_agent', 'none'))";
        let sql = format!(
            "CREATE INDEX none ON messages (agent) WHERE 0; PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET rootpage = {page} - rootpage WHERE name IN ('messages_agent', 'none')"
        );
        store.conn.execute_batch(&sql).unwrap();
        drop(store);
        let damage = health(dir.path()).unwrap().unwrap().damage;
        assert!(damage.iter().any(|line| line.contains("missing from index messages_agent")), "{damage:?}");
    }
}
