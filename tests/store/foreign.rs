//! Another program of SQLite that opens the database before us and beside us, and copies the log.

use std::path::Path;

use polylogue::{AgentId, Store};
use rusqlite::Connection;

use super::*;
use crate::support::PATIENCE;

fn raw(dir: &Path) -> Connection {
    Connection::open(dir.join("polylogue.db")).unwrap()
}

fn checkpoint(conn: &Connection, mode: &str) -> bool {
    conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get::<_, bool>(0)).unwrap()
}

fn new_store(dir: &Path) -> (Store, AgentId) {
    let mut store = Store::open(dir).unwrap();
    store.sync_in_background(|| {}).unwrap();
    let root = AgentId::random();
    store.create_root(root, None, None, 1).unwrap();
    (store, root)
}

fn assert_has(dir: &Path, agent: AgentId, expected: &[&str]) {
    assert_eq!(texts(&Store::open(dir).unwrap(), agent), expected);
    let sound: String = raw(dir).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

/// The files as a killed process leaves them.
fn killed(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["polylogue.db", "polylogue.db-wal", "polylogue.lock"] {
        std::fs::copy(dir.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

#[test]
fn it_may_read_and_copy_what_a_killed_process_has_left_and_leave_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let (store, root) = new_store(dir.path());
    append(&store, root, "one");
    for mode in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"] {
        let left = killed(dir.path());
        let other = raw(left.path());
        assert!(!checkpoint(&other, mode));
        drop(other);
        assert!(!left.path().join("polylogue.db-wal").exists(), "SQLite removes the log at the end");
        assert_has(left.path(), root, &["one"]);
    }
}

#[test]
fn what_it_does_after_the_last_message_leaves_no_log_at_the_end() {
    for act in ["PRAGMA user_version = 0", "PRAGMA wal_checkpoint(TRUNCATE)"] {
        let dir = tempfile::tempdir().unwrap();
        let (store, root) = new_store(dir.path());
        append(&store, root, "one");
        store.sync_soon(true);
        store.wait_durable(PATIENCE).unwrap();
        let other = raw(dir.path());
        let version: i64 = other.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        let act = act.replace("= 0", &format!("= {version}"));
        other.query_row(&act, [], |_| Ok(())).ok();
        drop(other);
        drop(store);
        assert!(!dir.path().join("polylogue.db-wal").exists(), "{act}");
        assert_has(dir.path(), root, &["one"]);
    }
}

#[test]
fn it_may_copy_and_restart_the_log_while_messages_are_stored() {
    let dir = tempfile::tempdir().unwrap();
    let (store, root) = new_store(dir.path());
    let other = raw(dir.path());
    let mut expected = Vec::new();
    for mode in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"] {
        for when in ["before", "after"] {
            append(&store, root, &format!("{mode} {when}"));
            expected.push(format!("{mode} {when}"));
            store.wait_durable(PATIENCE).unwrap();
            assert!(!checkpoint(&other, mode));
        }
    }
    drop(other);
    append(&store, root, "last");
    expected.push("last".into());
    store.wait_durable(PATIENCE).unwrap();
    let left = killed(dir.path());
    drop(store);
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    assert_has(left.path(), root, &expected);
    assert_has(dir.path(), root, &expected);
}

#[test]
fn a_program_that_reads_for_long_keeps_nobody_from_storing_and_starting() {
    let dir = tempfile::tempdir().unwrap();
    let (store, root) = new_store(dir.path());
    append(&store, root, "one");
    let left = killed(dir.path());
    drop(store);
    let other = raw(left.path());
    other.execute_batch("BEGIN").unwrap();
    let count = || other.query_row("SELECT count(*) FROM messages", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count(), 1);
    let mut store = Store::open(left.path()).unwrap();
    store.sync_in_background(|| {}).unwrap();
    append(&store, root, "two");
    store.wait_durable(PATIENCE).unwrap();
    drop(store);
    assert_eq!(count(), 1, "it sees what there was when it began");
    drop(other);
    assert_has(left.path(), root, &["one", "two"]);
}

/// The versions before wrote a file that said how far the log was copied.
#[test]
fn a_store_of_an_older_version_opens_with_all_of_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let (store, root) = new_store(dir.path());
    append(&store, root, "one");
    let left = killed(dir.path());
    let mark = left.path().join("polylogue.checkpoint");
    std::fs::write(&mark, b"saltsalt\0\0\0\x4d\x12\x34\x56\x78").unwrap();
    assert_has(left.path(), root, &["one"]);
    assert!(!mark.exists());
}
