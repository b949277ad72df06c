//! How a store is, looked at without a change and without becoming its holder.

use std::path::Path;

use rusqlite::OpenFlags;

use super::{Store, at, connect, connect_still, schema};
use crate::base::error::Result;

/// What was found in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The version of its schema.
    pub version: usize,
    /// The version that this program writes.
    pub current: usize,
    /// What SQLite finds wrong with the file; empty if nothing is.
    pub damage: Vec<String>,
}

/// Looks at the store in `dir`, whoever holds it; `None` if there is none. An older one is looked at, too.
///
/// # Errors
/// It cannot be opened, or is not ours.
pub fn health(dir: &Path) -> Result<Option<Health>> {
    if !Store::exists(dir) {
        return Ok(None);
    }
    let looked = connect(dir, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(|conn| look(&conn));
    // As when it is opened to be read: what is on a medium that cannot be written needs another way in.
    let looked = looked.or_else(|error| connect_still(dir).and_then(|conn| look(&conn)).map_err(|_| error));
    looked.map(Some).map_err(|error| at(dir, error))
}

fn look(conn: &rusqlite::Connection) -> Result<Health> {
    conn.busy_timeout(super::BUSY)?;
    schema::require_ours(conn)?;
    let (version, current) = schema::versions(conn)?;
    let mut check = conn.prepare("PRAGMA quick_check(10)")?;
    let lines: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(Health { version, current, damage: lines.into_iter().filter(|line| line != "ok").collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_looked_at_while_it_is_held_and_damage_is_found() {
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
