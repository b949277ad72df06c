//! The open database and its transactions.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::checkpoint::{self, BeforeStep, SyncStep};
use super::connection::{configure, connect, connect_immutable, database_path, has_wal};
use super::error::{in_directory, store_error};
use super::sync::{Durability, LONG_LOG, LONGEST_LOG, Syncer};
use super::wal::LogFile;
use super::{copy, lock, schema, wal};
use crate::base::error::{Error, Result};

/// How long closing waits for the disk.
const CLOSE_PATIENCE: Duration = Duration::from_secs(4);

/// The open database. Dropping it closes the file and then releases the directory for the next process.
pub struct Store {
    // Fields are dropped in this order: the lock must outlive the connection.
    pub(super) conn: Connection,
    is_read_only: bool,
    /// The first error inside the current transaction, also if its caller ignored it.
    failed: RefCell<Option<Error>>,
    copy: Option<PathBuf>,
    /// The mark above which the last search indexed messages in memory, and the last of these messages.
    pub(super) direct: Cell<Option<(i64, i64)>>,
    /// Agents have all numbers below this one.
    pub(super) numbers_from: Cell<i64>,
    /// The directory, if this process may write there.
    dir: Option<PathBuf>,
    /// Syncs what the connection commits, if that does not.
    syncer: Option<Syncer>,
    /// The length of a log that is copied, and what is called before each step of a sync.
    sync_steps: (u64, Box<BeforeStep>),
    /// The newest ticket that the syncer was told, and whether agents were idle.
    told: Cell<(u64, bool)>,
    /// At the end the log stays as it is.
    leaves_log: bool,
    /// [`Store::begin_reading`] was called.
    is_reading: Cell<bool>,
    /// The log that a process has left that ended cleanly.
    found_log: Option<wal::Identity>,
    lock: Option<lock::Lock>,
}

impl Drop for Store {
    /// Has all of the log copied, as a person expects who copies the database file, unless the disk takes too long: then the
    /// log stays for the next start.
    fn drop(&mut self) {
        let Some(syncer) = self.syncer.take() else { return };
        // SQLite syncs what an earlier process has left as it copies it.
        if self.told.get().0 == 0 && self.total_changes() == 0 && !self.leaves_log {
            return;
        }
        let (is_durable, has_ended) = syncer.close(self.ticket(), !self.leaves_log, CLOSE_PATIENCE);
        if !has_ended || !checkpoint::is_copied(&self.conn) {
            // If this fails, closing the connection reports the same.
            let _ = checkpoint::leave_log(&self.conn);
        }
        if let Some(lock) = self.lock.as_ref().filter(|_| is_durable) {
            lock.note_clean_end();
        }
    }
}

impl Store {
    /// Opens the store in the directory `dir`, creates it if necessary, and holds it until dropped.
    ///
    /// # Errors
    /// [`crate::base::error::ErrorKind::Held`]: another process holds the directory.
    /// [`crate::base::error::ErrorKind::Store`]: it cannot be created or written, the disk is full, the file is not a
    /// database of polylogue, or a newer version wrote it.
    pub fn open(dir: &Path) -> Result<Self> {
        lock::make_directory(dir)?;
        let lock = lock::acquire(dir)?;
        // Created here so that it is private from its first byte. Closed before SQLite opens it, because closing any
        // descriptor of a file releases all POSIX locks on it.
        drop(lock::private_file(&database_path(dir))?);
        let found_log = if lock.is_after_clean_end() { wal::find(dir) } else { None };
        let mut store = Self::of(connect(dir, OpenFlags::SQLITE_OPEN_READ_WRITE)?);
        (store.lock, store.dir, store.found_log) = (Some(lock), Some(dir.to_owned()), found_log);
        store.copy = store.prepare(Some(dir)).map_err(|error| in_directory(dir, error))?;
        Ok(store)
    }

    /// Opens a store for reading, even while another process holds it. Every write fails.
    ///
    /// # Errors
    /// There is no store in `dir`, or its schema has another version.
    #[doc(hidden)]
    pub fn open_read_only(dir: &Path) -> Result<Self> {
        let opened = connect(dir, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(|conn| Self::reading(conn, dir));
        match opened {
            Err(error) if !has_wal(dir) => {
                connect_immutable(dir).and_then(|conn| Self::reading(conn, dir)).map_err(|_| error)
            }
            opened => opened,
        }
    }

    /// Opens the store that this process holds once more, for reading.
    pub(crate) fn open_again(dir: &Path) -> Result<Self> {
        Self::reading(connect(dir, OpenFlags::SQLITE_OPEN_READ_ONLY)?, dir)
    }

    /// The directory, if this process may write there.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// Opens a store in memory.
    ///
    /// # Errors
    /// Memory ran out.
    pub fn in_memory() -> Result<Self> {
        let mut store = Self::of(Connection::open_in_memory()?);
        store.prepare(None)?;
        Ok(store)
    }

    fn of(conn: Connection) -> Self {
        Self {
            is_read_only: conn.is_readonly("main").is_ok_and(|is_read_only| is_read_only),
            conn,
            failed: RefCell::default(),
            copy: None,
            direct: Cell::default(),
            numbers_from: Cell::default(),
            dir: None,
            syncer: None,
            sync_steps: (LONG_LOG, Box::new(|_| Ok(()))),
            told: Cell::default(),
            leaves_log: false,
            is_reading: Cell::default(),
            found_log: None,
            lock: None,
        }
    }

    fn reading(conn: Connection, dir: &Path) -> Result<Self> {
        configure(&conn)?;
        schema::require_current(&conn).map_err(|error| in_directory(dir, error))?;
        Ok(Self::of(conn))
    }

    /// The copy of the database that was made because this process has changed its schema.
    pub(crate) fn copy_before_migration(&self) -> Option<&Path> {
        self.copy.as_deref()
    }

    /// Returns the copy of a database whose schema is changed; one in memory, without a directory, is new.
    fn prepare(&mut self, dir: Option<&Path>) -> Result<Option<PathBuf>> {
        configure(&self.conn)?;
        // Before the journal mode is set, which would write to the file of another program.
        schema::require_ours(&self.conn)?;
        // Cutting off the file of the log takes the loop a millisecond for 3 MB, so it stays as long as it usually gets.
        self.conn.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;
             PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = {LONGEST_LOG};"
        ))?;
        // Written by older versions.
        if let Some(dir) = dir {
            let _ = fs::remove_file(dir.join("polylogue.checkpoint"));
        }
        if let Some(dir) = dir.filter(|dir| has_wal(dir) && self.lock.as_ref().is_some_and(lock::Lock::is_after_crash))
        {
            checkpoint::settle(&self.conn, dir)?;
        }
        let copy = dir.map_or(Ok(None), |dir| copy::before_migration(&self.conn, dir))?;
        let failed =
            |error: Error| error.context("the database stays as it was, because its schema could not be changed");
        schema::migrate(&mut self.conn).map_err(failed)?;
        Ok(copy)
    }

    pub(crate) fn exists(dir: &Path) -> bool {
        database_path(dir).exists()
    }

    /// Whether it was opened with [`Store::open_read_only`].
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Calls `hook` after each changed row, while the transaction is open, and right before each commit. For tests of
    /// crashes at every point of a transaction.
    ///
    /// # Errors
    /// SQLite refuses the hook.
    #[doc(hidden)]
    pub fn on_write(&mut self, hook: impl Fn() + Clone + Send + 'static) -> Result<()> {
        let before_commit = hook.clone();
        self.conn.update_hook(Some(move |_, _: &str, _: &str, _| hook()))?;
        self.on_commit(move || {
            before_commit();
            true
        })
    }

    /// Calls `may_commit` right before each commit; `false` rolls back, as a full disk does. For tests of failed
    /// writes. Replaces the commit hook of [`Store::on_write`].
    ///
    /// # Errors
    /// SQLite refuses the hook.
    #[doc(hidden)]
    pub fn on_commit(&mut self, may_commit: impl Fn() -> bool + Send + 'static) -> Result<()> {
        Ok(self.conn.commit_hook(Some(move || !may_commit()))?)
    }

    /// From now on threads sync what is committed, and copy the log. `wake` is called when a ticket that was asked for is
    /// durable or lost. Nothing changes for a store that is not in a directory or cannot be written.
    ///
    /// # Errors
    /// The log cannot be opened.
    #[doc(hidden)]
    pub fn sync_in_background(&mut self, wake: impl Fn() + Send + Sync + 'static) -> Result<()> {
        if let Some(dir) = &self.dir {
            let steps = std::mem::replace(&mut self.sync_steps, (LONG_LOG, Box::new(|_| Ok(()))));
            let log = LogFile::open(dir, self.found_log)?;
            let length = checkpoint::follow_length(&mut self.conn)?;
            self.syncer = Some(Syncer::new(log, length, Box::new(wake), steps));
        }
        Ok(())
    }

    /// At the end the log stays for the next start: there is nothing to be synced but the log then.
    #[doc(hidden)]
    pub fn leave_log(&mut self) {
        self.leaves_log = true;
    }

    /// Calls `before` before each step of a sync, in the thread that syncs; its error is that of the step. A log of this
    /// length is copied. For tests of slow and failing disks. To be called before [`Store::sync_in_background`].
    #[doc(hidden)]
    pub fn on_sync(
        &mut self,
        long_log: Option<u64>,
        before: impl Fn(SyncStep) -> io::Result<()> + Send + Sync + 'static,
    ) {
        self.sync_steps = (long_log.unwrap_or(LONG_LOG), Box::new(before));
    }

    /// Names all changes until now, for [`Store::durability`]; that of an earlier state is smaller. What the log had when the
    /// store was opened may not be synced either.
    #[doc(hidden)]
    pub fn ticket(&self) -> u64 {
        1 + self.total_changes()
    }

    /// Has what was committed synced soon. `is_idle`: no agent works.
    #[doc(hidden)]
    pub fn sync_soon(&self, is_idle: bool) {
        let news = (self.ticket(), is_idle);
        let Some(syncer) = self.syncer.as_ref().filter(|_| news.0 > 1 && news != self.told.get()) else { return };
        self.told.set(news);
        syncer.tell(news.0, is_idle);
        if syncer.take_may_finish() {
            syncer.on_finished(checkpoint::checkpoint(&self.conn, "PASSIVE").map(drop).map_err(Into::into));
        }
    }

    /// Whether writes that can wait should wait, because much of the log is not copied into the database.
    pub(crate) fn is_log_long(&self) -> bool {
        self.syncer.as_ref().is_some_and(Syncer::is_log_long)
    }

    /// Whether these changes are on the disk. If they are not, they are synced at once, and the loop is woken then.
    pub(crate) fn durability(&self, ticket: u64) -> Durability {
        self.syncer.as_ref().map_or(Durability::Durable, |syncer| syncer.ask(ticket))
    }

    /// The failure of the disk after which nothing is stored for good.
    pub(crate) fn lost(&self) -> Option<Error> {
        self.syncer.as_ref().and_then(Syncer::lost)
    }

    /// Waits until all that was committed is on the disk.
    ///
    /// # Errors
    /// The disk failed, or did not answer in this time.
    #[doc(hidden)]
    pub fn wait_durable(&self, patience: Duration) -> Result<()> {
        let Some(syncer) = &self.syncer else { return Ok(()) };
        match syncer.wait(self.ticket(), patience) {
            Durability::Durable => Ok(()),
            Durability::Lost(error) => Err(error),
            Durability::Pending => Err(store_error(format!(
                "the disk has not answered for {} s: the last changes may not be stored",
                patience.as_secs()
            ))),
        }
    }

    /// What is to be said about the disk, once.
    pub(crate) fn take_sync_news(&self) -> Vec<Error> {
        self.syncer.as_ref().map(Syncer::take_news).unwrap_or_default()
    }

    /// Whether [`Store::begin`] was called, and [`Store::end`] not yet.
    pub(crate) fn is_in_transaction(&self) -> bool {
        !self.conn.is_autocommit() && !self.is_reading.get()
    }

    /// Until [`Store::end_reading`], or until something is written, all is read from one state of the database, whose locks
    /// are taken once.
    ///
    /// # Errors
    /// A transaction is open.
    pub(crate) fn begin_reading(&self) -> Result<()> {
        self.conn.execute_batch("BEGIN")?;
        self.is_reading.set(true);
        Ok(())
    }

    /// After [`Store::begin_reading`].
    ///
    /// # Errors
    /// SQLite cannot end it.
    pub(crate) fn end_reading(&self) -> Result<()> {
        if self.is_reading.take() {
            self.conn.execute_batch("COMMIT")?;
        }
        Ok(())
    }

    /// The connection, for tests that make single statements and commits fail.
    #[doc(hidden)]
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.conn
    }

    /// Runs `work` in one transaction: everything that it writes is stored, or, after any error, nothing. The error of
    /// a single write counts even if `work` ignores it. A transaction within another is a part of the outer one: it is
    /// stored with it, and its error fails the whole.
    pub(crate) fn transaction<T>(&self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        self.write(|_| work(self))
    }

    /// As [`Store::transaction`], for the statements of this module.
    pub(super) fn write<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        if let Some(error) = &*self.failed.borrow() {
            return Err(error.clone());
        }
        self.end_reading()?;
        if !self.conn.is_autocommit() {
            return work(&self.conn).inspect_err(|error| drop(self.failed.replace(Some(error.clone()))));
        }
        let transaction = Transaction::new_unchecked(&self.conn, TransactionBehavior::Immediate)?;
        let outcome = work(&transaction);
        let outcome = self.failed.take().map_or(outcome, Err);
        let outcome = outcome.and_then(|value| transaction.commit().map(|()| value).map_err(Error::from));
        outcome.inspect_err(|_| self.release_numbers())
    }

    /// Begins a transaction that [`Store::end`] ends; otherwise like [`Store::transaction`].
    pub(crate) fn begin(&self) -> Result<()> {
        self.end_reading()?;
        Ok(self.conn.execute_batch("BEGIN IMMEDIATE")?)
    }

    /// Commits, or rolls back, what was written since [`Store::begin`].
    pub(crate) fn end(&self, commit: bool) -> Result<()> {
        self.release_numbers();
        if let Some(error) = self.failed.take().filter(|_| commit) {
            return self.end(false).and(Err(error));
        }
        // An error such as that of a full disk may have rolled back already.
        if !commit && self.conn.is_autocommit() {
            return Ok(());
        }
        let ended = self.conn.execute_batch(if commit { "COMMIT" } else { "ROLLBACK" });
        if ended.is_err() && !self.conn.is_autocommit() {
            self.conn.execute_batch("ROLLBACK")?;
        }
        Ok(ended?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;
    use crate::base::id::AgentId;
    use crate::domain::message::Body;
    use crate::store::error::store_error;
    use crate::store::log;

    fn store_with_root() -> (Store, AgentId) {
        let store = Store::in_memory().unwrap();
        let agent = AgentId::random();
        store.create_root(agent, None, None, 0).unwrap();
        (store, agent)
    }

    /// Appends messages until the store refuses one, and returns how many it accepted.
    fn fill(store: &Store, agent: AgentId) -> (usize, Error) {
        for accepted in 0.. {
            if let Err(error) = store.append(agent, vec![Body::User("x".repeat(3000))], 0) {
                return (accepted, error);
            }
        }
        unreachable!("a database of limited size refuses some message")
    }

    fn fail_half_way(store: &Store) -> Result<()> {
        store.write(|conn| {
            log::insert(conn, 0, Body::Clear, 0)?;
            Err(store_error("stop here"))
        })
    }

    #[test]
    fn a_full_disk_is_reported_and_loses_nothing_that_was_stored() {
        let (store, agent) = store_with_root();
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
    fn a_write_that_fails_half_way_stores_nothing() {
        let (store, agent) = store_with_root();
        assert_eq!(fail_half_way(&store).unwrap_err().message, "stop here");
        assert_eq!(store.last_own_message(agent).unwrap().0, 0);
    }

    #[test]
    fn a_transaction_stores_all_of_its_writes_or_none() {
        let (store, agent) = store_with_root();
        let clear = |store: &Store| store.append(agent, vec![Body::Clear], 0).map(drop);
        let failed: Result<()> = store.transaction(|store| clear(store).and(Err(store_error("stop here"))));
        assert_eq!(failed.unwrap_err().message, "stop here");
        assert_eq!(store.last_own_message(agent).unwrap().0, 0);
        let both = store.transaction(|store| {
            clear(store)?;
            store.transaction(clear)?;
            store.last_own_message(agent)
        });
        assert_eq!(store.replay(agent).unwrap().0.len(), 0);
        assert_eq!(store.full_log(agent).unwrap().0.len(), 2);
        assert_eq!(both, store.last_own_message(agent));
    }

    #[test]
    fn an_ignored_error_of_one_write_fails_the_whole_transaction() {
        let (store, agent) = store_with_root();
        let outcome = store.transaction(|store| {
            store.append(agent, vec![Body::Clear], 0)?;
            let failed = fail_half_way(store);
            assert_eq!(store.append(agent, vec![Body::Clear], 0).map(drop), failed);
            Ok(())
        });
        assert_eq!(outcome.unwrap_err().message, "stop here");
        assert_eq!(store.last_own_message(agent).unwrap().0, 0);
        assert!(store.transaction(|store| store.append(agent, vec![Body::Clear], 0)).is_ok());
    }

    #[test]
    fn a_transaction_that_sqlite_has_rolled_back_is_an_error() {
        let (store, agent) = store_with_root();
        let outcome = store.transaction(|store| {
            store.append(agent, vec![Body::Clear], 0)?;
            assert!(store.conn.execute("INSERT OR ROLLBACK INTO agents SELECT * FROM agents", []).is_err());
            Ok(())
        });
        assert!(outcome.is_err(), "nothing is left to commit");
        assert_eq!(store.last_own_message(agent).unwrap().0, 0);
        store.begin().unwrap();
        assert!(store.conn.execute("INSERT OR ROLLBACK INTO agents SELECT * FROM agents", []).is_err());
        assert!(store.end(true).is_err());
        assert_eq!(store.end(false), Ok(()));
    }
}
