//! Writes of a store that fail where the test says, by means that SQLite has itself: a transaction that may not begin, a
//! file that another program has locked, a statement that is stopped, a commit that is turned into a rollback.

use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use polylogue::Store;
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization, TransactionOperation};

/// How a transaction fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin.
    Begin,
    /// Another program holds the file.
    Busy,
    /// A statement in it is stopped after so many steps of SQLite's virtual machine, and all of it is rolled back.
    Statement(u32),
    /// It is not committed.
    Commit,
}

/// The disk of one store. Clones are the same one.
#[derive(Clone)]
pub struct Disk(Arc<State>);

struct State {
    fault: Fault,
    /// The transactions that fail: the first of them, and the first after them. Counted from 1.
    from: AtomicUsize,
    until: AtomicUsize,
    begun: AtomicUsize,
    /// The steps until a statement is stopped; 0: it is not.
    steps: AtomicU32,
    /// Another program.
    other: Mutex<Connection>,
}

impl Disk {
    /// A disk of the store in this directory, on which nothing fails yet.
    pub fn new(directory: &Path, fault: Fault) -> Self {
        let other = Connection::open(directory.join("polylogue.db")).expect("a database");
        Self(Arc::new(State {
            fault,
            from: 0.into(),
            until: 0.into(),
            begun: 0.into(),
            steps: 0.into(),
            other: Mutex::new(other),
        }))
    }

    /// Has the store use this disk.
    pub fn install(&self, store: &mut Store) {
        let conn = store.connection();
        let disk = self.clone();
        conn.authorizer(Some(move |context: AuthContext<'_>| match context.action {
            AuthAction::Transaction { operation: TransactionOperation::Begin } => disk.0.begin(),
            _ => Authorization::Allow,
        }))
        .expect("an authorizer");
        let disk = self.clone();
        conn.commit_hook(Some(move || disk.0.commit())).expect("a hook");
        if matches!(self.0.fault, Fault::Statement(_)) {
            let disk = self.clone();
            conn.progress_handler(1, Some(move || disk.0.step())).expect("a handler");
        }
    }

    /// Has transactions fail from this one on, up to and without that one. They are counted from 1 and from now on.
    pub fn fail(&self, from: usize, until: usize) {
        self.0.begun.store(0, Ordering::Relaxed);
        self.0.from.store(from, Ordering::Relaxed);
        self.0.until.store(until, Ordering::Relaxed);
    }

    /// From now on everything succeeds.
    pub fn mend(&self) {
        self.0.until.store(0, Ordering::Relaxed);
        self.0.steps.store(0, Ordering::Relaxed);
        self.0.unlock();
    }

    /// The transactions that were begun.
    pub fn begun(&self) -> usize {
        self.0.begun.load(Ordering::Relaxed)
    }
}

impl State {
    fn begin(&self) -> Authorization {
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        self.unlock();
        self.steps.store(0, Ordering::Relaxed);
        let fails = self.fails(number);
        match self.fault {
            Fault::Begin if fails => return Authorization::Deny,
            Fault::Busy if fails => {
                self.other.lock().expect("no panic").execute_batch("BEGIN IMMEDIATE").expect("a free file");
            }
            Fault::Statement(steps) if fails => self.steps.store(steps, Ordering::Relaxed),
            _ => {}
        }
        Authorization::Allow
    }

    /// Whether the transaction is to be rolled back instead.
    fn commit(&self) -> bool {
        self.steps.store(0, Ordering::Relaxed);
        self.fault == Fault::Commit && self.fails(self.begun.load(Ordering::Relaxed))
    }

    fn fails(&self, number: usize) -> bool {
        (self.from.load(Ordering::Relaxed)..self.until.load(Ordering::Relaxed)).contains(&number)
    }

    /// Whether the statement is to be stopped.
    fn step(&self) -> bool {
        let stops = self.steps.load(Ordering::Relaxed);
        self.steps.store(stops.saturating_sub(1), Ordering::Relaxed);
        stops == 1
    }

    fn unlock(&self) {
        let other = self.other.lock().expect("no panic");
        if !other.is_autocommit() {
            other.execute_batch("ROLLBACK").expect("it was begun");
        }
    }
}
