//! The database: which agents exist, what each was told and said, and what waits to be sent.
//!
//! The only place that knows SQLite. It keeps and returns plain data; what a history *means* (marks, rewinds)
//! is for `domain::history`, and what an agent *does* is for the floors above. One file, `polylogue.db`, held by one
//! process at a time. Every change is one transaction: either all of it is there after a crash, or nothing.
//!
//! ```text
//!   agents    ordinal 0 (the root) <--parent_uuid-- 1 <--parent_uuid-- 2 ...       rows are never deleted
//!   messages  id 1 2 3 4 5 ...     one order over all agents, indexed by (agent, id)
//!   partials  pieces of replies that still stream; empty when nobody streams
//!   runs      tasks of several agents, and what became of them
//!   queue     texts and commands that wait; a text is given its id in `messages` when it enters the conversation
//! ```

mod agents;
mod drafts;
mod fault;
mod health;
mod lock;
mod log;
mod mail;
mod queue;
mod recover;
mod registry;
mod replay;
mod row;
mod runs;
mod schema;
mod slice;
mod usage;

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::base::error::{Error, ErrorKind, Result};

pub use agents::{Forked, NewAgent};
pub use health::{Health, health};
pub use lock::{holder, make_directory, private_file};
pub use queue::{QueueId, QueuedRow, input_line, typed_line};
pub use registry::{AgentRow, Found, Registry};
pub use runs::{NewRun, RunRow};
pub use usage::UsageTotal;

/// The file inside the data directory.
const FILE: &str = "polylogue.db";

/// How long a write waits for another program that looks into the file. Short: the loop stands still meanwhile.
const BUSY: Duration = Duration::from_millis(50);

/// Statements that are kept prepared; more than there are in this module.
const STATEMENTS: usize = 64;

/// The open database. Dropping it closes the file and only then lets the next process in.
pub struct Store {
    // The order matters: fields are dropped from the top, and the lock must outlive the connection.
    conn: Connection,
    /// What has gone wrong between [`Store::begin_together`] and its end, whether or not anybody minds.
    failed: RefCell<Option<Error>>,
    _lock: Option<lock::Lock>,
}

impl Store {
    /// Opens, and if need be creates, the store in the directory `dir`, and holds it until dropped.
    ///
    /// # Errors
    /// Always of kind [`ErrorKind::Store`], with the way out: another process holds the directory, it cannot be made or
    /// written, the disk is full, the file is no database of ours, or a newer program wrote it.
    pub fn open(dir: &Path) -> Result<Self> {
        make_directory(dir)?;
        let lock = lock::acquire(dir)?;
        // Made here so that it is private from its first byte; closed before SQLite opens it, because to close any
        // descriptor of a file gives up all POSIX locks on it.
        drop(private_file(&dir.join(FILE))?);
        let conn = connect(dir, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let store = Self { conn, failed: RefCell::default(), _lock: Some(lock) };
        store.prepare().map_err(|error| at(dir, error))?;
        Ok(store)
    }

    /// Opens what another process may be holding, to look and not to touch: every write is an error.
    ///
    /// # Errors
    /// There is no store in `dir`, or its schema is not the one that this program reads.
    pub fn open_read_only(dir: &Path) -> Result<Self> {
        let opened = connect(dir, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(|conn| Self::to_look_at(conn, dir));
        // A log beside the file tells of somebody who writes, or of writes that are still in it.
        let is_still = !dir.join(format!("{FILE}-wal")).exists();
        match opened {
            Err(error) if is_still => {
                connect_still(dir).and_then(|conn| Self::to_look_at(conn, dir)).map_err(|_| error)
            }
            opened => opened,
        }
    }

    fn to_look_at(conn: Connection, dir: &Path) -> Result<Self> {
        conn.busy_timeout(BUSY)?;
        conn.set_prepared_statement_cache_capacity(STATEMENTS);
        schema::require_current(&conn).map_err(|error| at(dir, error))?;
        Ok(Self { conn, failed: RefCell::default(), _lock: None })
    }

    /// Whether the next start will find a store in this directory: somebody may have removed it meanwhile.
    pub fn exists(dir: &Path) -> bool {
        dir.join(FILE).exists()
    }

    /// Whether it was opened to look and not to touch.
    pub fn is_read_only(&self) -> bool {
        self.conn.is_readonly("main").is_ok_and(|is_read_only| is_read_only)
    }

    /// A store that is forgotten when it is dropped.
    ///
    /// # Errors
    /// Memory ran out.
    pub fn in_memory() -> Result<Self> {
        let store = Self { conn: Connection::open_in_memory()?, failed: RefCell::default(), _lock: None };
        store.prepare()?;
        Ok(store)
    }

    /// Calls `told` after each row that is changed, while its transaction is still open, and once more right before each
    /// commit: for whoever wants to know how much is written and when, or what is left if the process ends just then.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub fn on_write(&mut self, told: impl Fn() + Clone + Send + 'static) -> Result<()> {
        let before_commit = told.clone();
        self.conn.update_hook(Some(move |_, _: &str, _: &str, _| told()))?;
        self.conn.commit_hook(Some(move || {
            before_commit();
            false
        }))?;
        Ok(())
    }

    /// Asks `may` right before each commit. `false` undoes what was to be committed, as a full disk does: for whoever wants
    /// to know what is left of it then. It takes the place of what [`Store::on_write`] asks there.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub fn on_commit(&mut self, may: impl Fn() -> bool + Send + 'static) -> Result<()> {
        Ok(self.conn.commit_hook(Some(move || !may()))?)
    }

    fn prepare(&self) -> Result<()> {
        self.conn.busy_timeout(BUSY)?;
        self.conn.set_prepared_statement_cache_capacity(STATEMENTS);
        // Whose file it is comes before the journal mode, which would write to a stranger's.
        schema::require_ours(&self.conn)?;
        self.conn.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;
             PRAGMA journal_size_limit = 4194304; PRAGMA temp_store = MEMORY;",
        )?;
        schema::migrate(&self.conn)
    }

    /// Everything that is written from now on until [`Store::end_together`] is one transaction.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn begin_together(&self) -> Result<()> {
        Ok(self.conn.execute_batch("BEGIN IMMEDIATE")?)
    }

    /// Whether what is written now is kept only when [`Store::end_together`] says so.
    pub fn is_together(&self) -> bool {
        !self.conn.is_autocommit() || self.failed.borrow().is_some()
    }

    /// Keeps what was written since [`Store::begin_together`], or nothing of it.
    ///
    /// # Errors
    /// The database cannot be written, or a part could not; nothing of it is kept then.
    pub fn end_together(&self, is_kept: bool) -> Result<()> {
        if let Some(error) = self.failed.take().filter(|_| is_kept) {
            return self.end_together(false).and(Err(error));
        }
        // An error such as that of a full disk may have ended it already: then nothing of it is left.
        if !is_kept && self.conn.is_autocommit() {
            return Ok(());
        }
        let kept = self.conn.execute_batch(if is_kept { "COMMIT" } else { "ROLLBACK" });
        if kept.is_err() && !self.conn.is_autocommit() {
            self.conn.execute_batch("ROLLBACK")?;
        }
        Ok(kept?)
    }

    /// Runs `work` in one transaction: everything that it writes is stored, or, after any error, nothing.
    ///
    /// # Errors
    /// `work` or one of its writes failed, or the database cannot be written.
    pub fn transaction<T>(&self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        self.write(|_| work(self))
    }

    /// Runs `work` in one transaction: all of it is kept, or, after any error, nothing. Within [`Store::begin_together`]
    /// it is a part of that one, and an error fails that as a whole, and all parts that follow.
    fn write<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        if let Some(error) = &*self.failed.borrow() {
            return Err(error.clone());
        }
        if !self.conn.is_autocommit() {
            return work(&self.conn).inspect_err(|error| drop(self.failed.replace(Some(error.clone()))));
        }
        let transaction = Transaction::new_unchecked(&self.conn, TransactionBehavior::Immediate)?;
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }
}

/// Opens the file that is there. A path is a path here, even one that looks like a URI.
fn connect(dir: &Path, mode: OpenFlags) -> Result<Connection> {
    Connection::open_with_flags(dir.join(FILE), mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| at(dir, error.into()))
}

/// The file as something that nobody changes: on a medium that cannot be written, where a log cannot be made beside it,
/// this is the only way to read it (<https://www.sqlite.org/uri.html>, `immutable`).
fn connect_still(dir: &Path) -> Result<Connection> {
    let path = dir.join(FILE).display().to_string();
    let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let mode = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Ok(Connection::open_with_flags(format!("file:{path}?immutable=1"), mode)?)
}

/// The error with the directory in front, for those that come up before a person has seen anything.
fn at(dir: &Path, error: Error) -> Error {
    error.context(format_args!("the store in {}", dir.display()))
}

/// An error of the store that SQLite knows nothing about.
fn refusal(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::Store, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::AgentId;
    use crate::domain::message::Body;

    /// Fills the store until it refuses and returns how many messages were accepted.
    fn fill(store: &Store, agent: AgentId) -> (usize, Error) {
        for accepted in 0.. {
            if let Err(error) = store.append(agent, vec![Body::User("x".repeat(3000))], 0) {
                return (accepted, error);
            }
        }
        unreachable!("a limited database accepts no endless stream")
    }

    #[test]
    fn a_full_disk_is_said_plainly_keeps_what_was_saved_and_leaves_the_store_usable() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let agent = AgentId::random();
        store.create_root(agent, None, None, 0).unwrap();
        store.conn.execute_batch("PRAGMA max_page_count = 60").unwrap();
        let (accepted, error) = fill(&store, agent);
        assert_eq!(error.kind, ErrorKind::Store);
        assert!(error.message.contains("disk is full"), "{error}");
        assert_eq!(store.replay(agent).unwrap().0.len(), accepted);
        store.conn.execute_batch("PRAGMA max_page_count = 4000").unwrap();
        store.append(agent, vec![Body::User("again".into())], 0).unwrap();
        assert_eq!(store.replay(agent).unwrap().0.len(), accepted + 1);
    }

    #[test]
    fn what_an_error_has_undone_already_is_undone_and_the_error_is_what_is_told() {
        let store = Store::in_memory().unwrap();
        let agent = AgentId::random();
        store.create_root(agent, None, None, 0).unwrap();
        store.begin_together().unwrap();
        store.append(agent, vec![Body::Clear], 0).unwrap();
        assert!(store.conn.execute("INSERT OR ROLLBACK INTO agents SELECT * FROM agents", []).is_err());
        assert!(store.end_together(true).is_err(), "nothing is left to keep");
        assert_eq!(store.end_together(false), Ok(()));
        assert_eq!(store.last_own_message(agent).unwrap().0, 0);
    }

    #[test]
    fn a_part_that_fails_half_way_takes_the_whole_with_it_although_nobody_minds() {
        let store = Store::in_memory().unwrap();
        let agent = AgentId::random();
        store.create_root(agent, None, None, 0).unwrap();
        store.begin_together().unwrap();
        store.append(agent, vec![Body::Clear], 0).unwrap();
        let half: Result<()> = store.write(|conn| {
            log::insert(conn, 0, Body::Clear, 0)?;
            Err(refusal("stop here"))
        });
        assert_eq!(store.append(agent, vec![Body::Clear], 0).map(drop), half);
        assert_eq!(store.end_together(true).unwrap_err().message, "stop here");
        assert_eq!(store.last_own_message(agent).unwrap().0, 0);
        store.begin_together().unwrap();
        store.append(agent, vec![Body::Clear], 0).unwrap();
        assert_eq!(store.end_together(true), Ok(()), "what failed before is over");
    }

    #[test]
    fn a_transaction_that_fails_half_way_leaves_nothing() {
        let store = Store::in_memory().unwrap();
        let agent = AgentId::random();
        store.create_root(agent, None, None, 0).unwrap();
        let outcome: Result<()> = store.write(|conn| {
            log::insert(conn, 0, Body::Clear, 0)?;
            Err(refusal("stop here"))
        });
        assert_eq!(outcome.unwrap_err().message, "stop here");
        assert_eq!(store.last_own_message(agent).unwrap().0, 0);
    }
}
