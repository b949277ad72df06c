//! The write-ahead log as a file: how long it gets, what is left of it at the end, and what is done if it is gone.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use polylogue::{AgentId, Store};

use super::*;
use crate::support::PATIENCE;
use crate::support::disk::Disk;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe as _;
use crate::support::internals::store::SyncStep;

const LONG_LOG: u64 = 64 << 10;

fn log_length(dir: &Path) -> u64 {
    std::fs::metadata(dir.join("polylogue.db-wal")).map_or(0, |found| found.len())
}

fn header(dir: &Path) -> Vec<u8> {
    std::fs::read(dir.join("polylogue.db-wal")).unwrap()[..32].to_vec()
}

/// A store whose log is copied from this length on.
fn store_of(dir: &Path, before: impl Fn(SyncStep) -> io::Result<()> + Send + Sync + 'static) -> (Store, AgentId) {
    let mut store = Store::open(dir).unwrap();
    store.on_sync(Some(LONG_LOG), before);
    store.sync_in_background(|| {}).unwrap();
    let root = AgentId::random();
    store.create_root(root, None, None, 1).unwrap();
    (store, root)
}

fn append_long(store: &Store, agent: AgentId) {
    append(store, agent, &"x".repeat(9000));
    store.sync_soon(false);
}

#[test]
fn it_stays_bounded_while_commits_keep_coming() {
    let dir = tempfile::tempdir().unwrap();
    let (store, root) = store_of(dir.path(), |_| Ok(()));
    let (mut longest, mut written, mut restarts, mut last) = (0, 0, 0, header(dir.path()));
    while restarts < 3 {
        assert!(written < 40_000, "{restarts} restarts, {longest} bytes");
        append_long(&store, root);
        written += 1;
        let length = log_length(dir.path());
        assert!(length >= longest, "the file was cut off: {longest} -> {length} bytes");
        longest = length;
        let now = header(dir.path());
        restarts += usize::from(now != last);
        last = now;
    }
    assert!(longest >= 16 * LONG_LOG, "the brake has not held: {longest} bytes");
}

#[test]
fn a_copy_that_takes_long_keeps_no_promise_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let barrier = Arc::new(Barrier::new(2));
    let is_first = AtomicBool::new(true);
    let in_copy = Arc::clone(&barrier);
    let (store, root) = store_of(dir.path(), move |step| {
        if step == SyncStep::Copy && is_first.swap(false, Ordering::Relaxed) {
            in_copy.wait();
            in_copy.wait();
        }
        Ok(())
    });
    (0..20).for_each(|_| append_long(&store, root));
    barrier.wait();
    append(&store, root, "promised");
    store.wait_durable(PATIENCE).unwrap();
    barrier.wait();
}

#[test]
fn a_copy_is_tried_again_after_the_disk_was_full() {
    let dir = tempfile::tempdir().unwrap();
    let copies = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&copies);
    let (store, root) = store_of(dir.path(), move |step| match step {
        SyncStep::Copy if counter.fetch_add(1, Ordering::Relaxed) == 0 => Err(io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    });
    let mut patience = crate::support::Patience::new();
    while copies.load(Ordering::Relaxed) < 2 {
        assert!(patience.has_time());
        append_long(&store, root);
    }
    store.wait_durable(PATIENCE).unwrap();
}

#[test]
fn it_is_missed_and_what_is_promised_afterwards_is_refused() {
    for name in ["polylogue.db-wal", "polylogue.db", "."] {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("data");
        let (store, root) = store_of(&dir, |_| Ok(()));
        append(&store, root, "one");
        store.wait_durable(PATIENCE).unwrap();
        std::fs::rename(dir.join(name).canonicalize().unwrap(), outer.path().join("elsewhere")).unwrap();
        for text in ["two", "three"] {
            append(&store, root, text);
            let error = store.wait_durable(PATIENCE).unwrap_err().message;
            assert!(error.contains("was removed or replaced") && error.contains("start it again"), "{name}: {error}");
        }
    }
}

#[test]
fn what_a_run_leaves_stays_for_the_next_and_what_a_crash_leaves_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, root) = store_of(dir.path(), |_| Ok(()));
    append(&store, root, "one");
    store.leave_log();
    drop(store);
    let left = log_length(dir.path());
    assert!(left > 0);
    let store = Store::open(dir.path()).unwrap();
    assert_eq!((log_length(dir.path()), texts(&store, root)), (left, vec!["one".to_owned()]));
    // A process that is killed empties no lock.
    let copy = tempfile::tempdir().unwrap();
    for name in ["polylogue.db", "polylogue.db-wal", "polylogue.lock"] {
        std::fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
    }
    let store = Store::open(copy.path()).unwrap();
    assert_eq!((log_length(copy.path()), texts(&store, root)), (0, vec!["one".to_owned()]));
}

/// Indexing is what writes most, and searches read what is not indexed.
#[test]
fn while_it_is_long_nothing_is_indexed() {
    let disk = Disk::default();
    disk.hold();
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let dir = directories[0].path().to_owned();
    let [data, workspace] = directories;
    let held = disk.clone();
    let mut app = Harness::open_with(Plan::default(), data, workspace, |store| {
        store.on_sync(Some(LONG_LOG), move |step| if step == SyncStep::Copy { held.take() } else { Ok(()) });
    });
    let bodies = (0..5_000).map(|n| user(&format!("{n} {}", "x".repeat(200)))).collect();
    app.repl.store().append(app.id(0), bodies, 0).unwrap();
    let other = rusqlite::Connection::open(dir.join("polylogue.db")).unwrap();
    let left = || -> i64 {
        let sql = "SELECT (SELECT max(id) FROM messages) - above FROM search_marks";
        other.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    app.turn();
    app.turn_until("nothing to do", |app| app.timeout().after.is_none());
    assert!(left() > 4_000, "{} messages are not indexed", left());
    disk.release();
    app.turn_until("the index is complete", |_| left() < 64);
}
