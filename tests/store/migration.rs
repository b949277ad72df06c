//! Changes of the schema: a copy is made before, and what fails or is killed leaves the database as it was.

use std::path::Path;
use std::time::Duration;

use polylogue::Store;
use rusqlite::Connection;
use rustix::process::{Signal, kill_process};

use crate::support::program::Home;
use crate::support::random::Random;

const V1: &str = include_str!("../../fixtures/store/v1.sql");
const COPY: &str = "polylogue.v1.db";

fn open(file: &Path) -> Connection {
    Connection::open(file).expect("a database")
}

fn version(conn: &Connection) -> i64 {
    conn.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a number")
}

/// Everything that a person would miss.
fn messages(conn: &Connection) -> Vec<(i64, String)> {
    let mut statement = conn.prepare("SELECT id, content FROM messages ORDER BY id").expect("a table");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
    rows.collect::<rusqlite::Result<_>>().expect("text")
}

#[test]
fn a_copy_named_by_the_old_version_is_made_once_and_can_be_opened() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = dir.path().join("polylogue.db");
    open(&database).execute_batch(V1).expect("the schema of version 1");
    let before = messages(&open(&database));
    drop(Store::open(dir.path()).expect("it is migrated"));
    let copy = dir.path().join(COPY);
    assert_eq!((version(&open(&copy)), messages(&open(&copy))), (1, before.clone()));
    assert_eq!(messages(&open(&database)), before);
    std::fs::remove_file(&copy).expect("the copy");
    drop(Store::open(dir.path()).expect("it is current"));
    assert!(!copy.exists(), "nothing changes, so nothing is copied");
    let again = tempfile::tempdir().expect("a directory");
    std::fs::write(again.path().join("polylogue.copy.db"), "left by a process that was killed").expect("a file");
    open(&again.path().join("polylogue.db")).execute_batch(V1).expect("the schema of version 1");
    drop(Store::open(again.path()).expect("it is migrated"));
    assert_eq!(messages(&open(&again.path().join(COPY))), before);
}

#[test]
fn a_step_that_fails_leaves_the_database_as_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = dir.path().join("polylogue.db");
    open(&database).execute_batch(V1).expect("the schema of version 1");
    // A later step makes a table of this name.
    open(&database).execute_batch("CREATE TABLE limits (x)").expect("a table in the way");
    let before = messages(&open(&database));
    let refused = Store::open(dir.path()).err().expect("a step fails").message;
    assert!(refused.contains("the database stays as it was"), "{refused}");
    assert_eq!((version(&open(&database)), messages(&open(&database))), (1, before.clone()));
    assert_eq!(messages(&open(&dir.path().join(COPY))), before);
    open(&database).execute_batch("DROP TABLE limits").expect("the table");
    drop(Store::open(dir.path()).expect("it is migrated"));
    assert_eq!(messages(&open(&database)), before);
}

#[test]
fn a_process_killed_while_it_changes_the_schema_loses_nothing() {
    let home = Home::new();
    std::fs::create_dir(home.data()).expect("a directory");
    let database = home.data().join("polylogue.db");
    open(&database).execute_batch(V1).expect("the schema of version 1");
    let many = "INSERT INTO messages (agent, kind, content, created_at)
                WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 60000)
                SELECT 0, 'usage', '{}', n FROM n";
    open(&database).execute_batch(many).expect("many messages");
    let before = messages(&open(&database));
    let mut random = Random(13);
    for life in 0..12 {
        let program = home.start(&["-p", "hello"]);
        let pid = program.pid;
        std::thread::sleep(Duration::from_millis(random.below(60) as u64));
        // It may have ended already.
        let _ = kill_process(pid, Signal::KILL);
        program.ends();
        let conn = open(&database);
        let kept = messages(&conn);
        assert!(kept.starts_with(&before), "life {life}: {} of {} messages", kept.len(), before.len());
        if version(&conn) > 1 {
            assert_eq!(messages(&open(&home.data().join(COPY))), before, "life {life}");
            break;
        }
    }
    drop(Store::open(&home.data()).expect("it is migrated"));
    assert!(messages(&open(&database)).starts_with(&before));
    assert_eq!(messages(&open(&home.data().join(COPY))), before);
}
