//! Checks a store without changing or locking it.

use std::path::Path;

use rusqlite::OpenFlags;

use super::connection::{configure, connect, connect_immutable};
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
    let health = connect(dir, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(|conn| check(&conn));
    // On a read-only medium only the second way works.
    let health = health.or_else(|error| connect_immutable(dir).and_then(|conn| check(&conn)).map_err(|_| error));
    health.map(Some).map_err(|error| in_directory(dir, error))
}

fn check(conn: &rusqlite::Connection) -> Result<Health> {
    configure(conn)?;
    schema::require_ours(conn)?;
    let (version, current) = schema::versions(conn)?;
    let mut statement = conn.prepare("PRAGMA quick_check(10)")?;
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
}
