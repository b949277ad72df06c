//! Makes commits durable, and copies a long log into the database, in threads. The connection of the event loop writes without
//! syncing; a ticket is a number of changes, and durable when the log was synced after them.
//!
//! ```text
//!   loop      commits ... tells the newest ticket, once a turn ........ asks for its ticket, is woken
//!   sync      started by the first ticket: syncs, has a long log copied, waits a moment for more, ends
//!   copy      started by the other thread: copies the log into the database once, ends; nobody waits for it
//! ```
//! What nobody waits for is synced once in [`PAUSE`], so that a short run syncs once; a ticket that somebody waits for, at
//! once. After a failed sync nothing is durable any more in this process: the kernel drops what it could not write and
//! reports that only once.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::checkpoint::{BeforeStep, Copier, CopyFailure, SyncStep};
use super::connection::log_path;
use super::lock::io_error;
use super::wal::LogFile;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::job::start_thread;

const PAUSE: Duration = Duration::from_millis(100);
/// The time until the next attempt to copy after the disk was full.
const RETRY: Duration = Duration::from_secs(1);
/// The log is copied whenever this much of it is not.
pub(super) const LONG_LOG: u64 = 4 << 20;
/// Multiples of that: a log of this length is restarted as soon as all of it is copied ...
const RESTART: u64 = 16;
/// ... and for a log of this length the loop itself copies the rest, since commits keep coming.
const BOUND: u64 = 32;
pub(super) const LONGEST_LOG: u64 = BOUND * LONG_LOG;

/// Whether changes survive a power cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Durability {
    Durable,
    Pending,
    /// The disk has failed before they were synced.
    Lost(Error),
}

pub(super) struct Syncer {
    shared: Arc<Shared>,
}

struct Shared {
    dir: PathBuf,
    /// The bytes of the log after the last commit of the loop.
    length: Arc<AtomicU64>,
    state: Mutex<State>,
    changed: Condvar,
    /// Used by the thread of that name.
    log: Mutex<LogFile>,
    copier: Mutex<Copier>,
    wake: Box<dyn Fn() + Send + Sync>,
    before: Box<BeforeStep>,
    long_log: u64,
}

#[derive(Default)]
struct State {
    /// The newest ticket that the thread was told.
    told: u64,
    /// The newest ticket that somebody waits for.
    wanted: u64,
    durable: u64,
    lost: Option<Error>,
    /// Failures that were not reported yet.
    news: Vec<Error>,
    /// No agent works.
    is_idle: bool,
    is_closing: bool,
    is_syncing: bool,
    is_copying: bool,
    /// Up to this length the log is copied.
    copied: u64,
    has_brake: bool,
    /// The disk was full; nothing is copied before this moment.
    retry_at: Option<Instant>,
    /// A copy failed for another reason; nothing is copied any more.
    has_failed: bool,
    /// The log has its greatest length, and all of it is copied but the commits made during the copy.
    may_finish: bool,
}

impl Syncer {
    /// `length` is that of the log. `wake` is called when a ticket that was asked for is durable or lost, and when the log was
    /// copied; `before` before each step. A log of the length `long_log` is copied.
    pub(super) fn new(
        log: LogFile,
        length: Arc<AtomicU64>,
        wake: Box<dyn Fn() + Send + Sync>,
        (long_log, before): (u64, Box<BeforeStep>),
    ) -> Self {
        let (dir, copier) = (log.directory().to_owned(), Mutex::new(Copier::new(log.directory())));
        let (log, state, changed) = (Mutex::new(log), Mutex::default(), Condvar::new());
        Self { shared: Arc::new(Shared { dir, length, state, changed, log, copier, wake, before, long_log }) }
    }

    /// Has this ticket synced soon. A log that waits for idle agents is released.
    pub(super) fn tell(&self, ticket: u64, is_idle: bool) {
        let mut state = self.shared.lock();
        (state.told, state.is_idle) = (state.told.max(ticket), is_idle);
        match state.has_work() {
            true => self.shared.start_sync(state),
            false => self.shared.release_brake(state),
        }
    }

    /// Why nothing is durable any more.
    pub(super) fn lost(&self) -> Option<Error> {
        self.shared.lock().lost.clone()
    }

    /// Has this ticket synced at once, unless it is durable.
    pub(super) fn ask(&self, ticket: u64) -> Durability {
        let mut state = self.shared.lock();
        let durability = state.durability(ticket);
        if durability == Durability::Pending && state.wanted < ticket {
            (state.told, state.wanted) = (state.told.max(ticket), ticket);
            self.shared.changed.notify_all();
            self.shared.start_sync(state);
        }
        durability
    }

    /// Waits until this ticket is durable or lost, or this time is over.
    pub(super) fn wait(&self, ticket: u64, patience: Duration) -> Durability {
        self.ask(ticket);
        let is_pending = |state: &mut State| state.durability(ticket) == Durability::Pending;
        self.shared.wait_while(patience, is_pending).durability(ticket)
    }

    /// Failures that were not taken yet.
    pub(super) fn take_news(&self) -> Vec<Error> {
        std::mem::take(&mut self.shared.lock().news)
    }

    /// Whether so much is not copied that writes that can wait should wait.
    pub(super) fn is_log_long(&self) -> bool {
        let (length, left) = self.shared.log_length(&self.shared.lock());
        left >= RESTART / 2 * self.shared.long_log || left > 0 && length >= RESTART * self.shared.long_log
    }

    /// Whether the loop should copy the rest of the log; true once.
    pub(super) fn take_may_finish(&self) -> bool {
        std::mem::take(&mut self.shared.lock().may_finish)
    }

    /// Records the result of a copy by the loop.
    pub(super) fn on_finished(&self, outcome: std::result::Result<(), CopyFailure>) {
        if let Err(failure) = outcome {
            self.shared.lock().on_copy_failed(failure);
        }
    }

    /// Waits until this ticket is durable and the threads have ended, and then, if `copies`, until the log was copied; all no
    /// longer than `patience`. Returns whether the ticket is durable, and whether nothing is at work any more.
    pub(super) fn close(&self, ticket: u64, copies: bool, patience: Duration) -> (bool, bool) {
        let until = Instant::now() + patience;
        let mut state = self.shared.lock();
        (state.told, state.wanted, state.is_closing) = (state.told.max(ticket), ticket, true);
        self.shared.changed.notify_all();
        self.shared.start_sync(state);
        let is_working = |state: &mut State| state.is_syncing || state.is_copying;
        let mut state = self.shared.wait_while(patience, is_working);
        let is_durable = !is_working(&mut state) && state.durability(ticket) == Durability::Durable;
        if is_durable && copies {
            self.shared.start_copy(state, false);
            state = self.shared.wait_while(until.saturating_duration_since(Instant::now()), is_working);
        }
        (is_durable, is_durable && !is_working(&mut state))
    }
}

impl State {
    fn durability(&self, ticket: u64) -> Durability {
        match &self.lost {
            _ if ticket <= self.durable => Durability::Durable,
            Some(error) => Durability::Lost(error.clone()),
            None => Durability::Pending,
        }
    }

    fn has_work(&self) -> bool {
        self.lost.is_none() && self.told > self.durable
    }

    /// Notes what became of a sync. Returns whether the loop is to know.
    fn on_synced(&mut self, ticket: u64, outcome: Result<()>) -> bool {
        let is_awaited = self.wanted > self.durable;
        match outcome {
            Ok(()) => self.durable = self.durable.max(ticket),
            Err(error) => {
                self.news.push(error.clone());
                (self.lost, self.may_finish) = (Some(error), false);
                return true;
            }
        }
        is_awaited
    }

    fn on_copy_failed(&mut self, failure: CopyFailure) {
        let is_first = self.retry_at.is_none();
        self.may_finish = false;
        let when = if failure.is_disk_full {
            self.retry_at = Some(Instant::now() + RETRY);
            "until there is space"
        } else {
            self.has_failed = true;
            "before the next start"
        };
        if is_first || !failure.is_disk_full {
            let message = format!("{}; the log is not copied into the database {when}", failure.error);
            self.news.push(Error::new(ErrorKind::Store, message));
        }
    }
}

impl Shared {
    /// A panic while the lock is held leaves whole values.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, patience: Duration, holds: impl FnMut(&mut State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, holds);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn start_sync(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if !state.is_syncing && state.has_work() {
            state.is_syncing = true;
            drop(state);
            self.start("store-sync", Self::sync_until_idle);
        }
    }

    fn start_copy(self: &Arc<Self>, mut state: MutexGuard<'_, State>, keeps_brake: bool) {
        if !state.is_copying && !state.has_failed && state.lost.is_none() {
            state.is_copying = true;
            drop(state);
            self.start("store-copy", move |shared| shared.copy(keeps_brake));
        }
    }

    fn start(self: &Arc<Self>, name: &str, work: impl Fn(&Arc<Self>) + Clone + Send + 'static) {
        let (shared, in_thread) = (Arc::clone(self), work.clone());
        if start_thread(name.into(), move || in_thread(&shared)).is_err() {
            // The loop does not pause for what comes next.
            let mut state = self.lock();
            state.wanted = state.told;
            drop(state);
            work(self);
        }
    }

    /// The first thread.
    fn sync_until_idle(self: &Arc<Self>) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = || self.wait_while(PAUSE, |state| state.wanted <= state.durable && !state.is_closing);
        let mut state = pause();
        while state.has_work() {
            let ticket = state.told;
            drop(state);
            self.sync(&mut log, ticket);
            self.copy_long_log();
            state = pause();
        }
        drop(log);
        state.is_syncing = false;
        self.changed.notify_all();
        self.release_brake(state);
    }

    /// Has the rest of the log copied without a brake, when no agent works and nothing is to be synced.
    fn release_brake(self: &Arc<Self>, state: MutexGuard<'_, State>) {
        if state.has_brake && state.is_idle && !state.is_syncing && !state.is_closing {
            self.start_copy(state, false);
        }
    }

    fn sync(&self, log: &mut LogFile, ticket: u64) {
        let outcome = match log.vanished() {
            Some(path) => Err(lost(format_args!("{} was removed or replaced", path.display()))),
            None => (self.before)(SyncStep::Log).and_then(|()| log.sync()).map_err(|error| self.failed(&error)),
        };
        let is_news = self.lock().on_synced(ticket, outcome);
        self.changed.notify_all();
        if is_news {
            (self.wake)();
        }
    }

    /// Has a long log copied, unless somebody waits for a ticket.
    fn copy_long_log(self: &Arc<Self>) {
        let state = self.lock();
        let (length, left) = self.log_length(&state);
        let restarts = length >= RESTART * self.long_log;
        let is_due = left >= self.long_log || left > 0 && restarts;
        let may_try = state.retry_at.is_none_or(|at| at <= Instant::now());
        if is_due && may_try && state.wanted <= state.durable && !state.is_closing {
            self.start_copy(state, !restarts);
        }
    }

    /// The second thread.
    fn copy(self: &Arc<Self>, keeps_brake: bool) {
        let mut copier = self.copier.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = copier.copy(keeps_brake, &self.before);
        let mut state = self.lock();
        (state.is_copying, state.has_brake) = (false, copier.has_brake());
        let mut has_advanced = false;
        match outcome {
            Ok(copied) => {
                has_advanced = copied != state.copied;
                (state.copied, state.retry_at) = (copied, None);
                let (length, left) = self.log_length(&state);
                state.may_finish = !keeps_brake && left > 0 && length >= BOUND * self.long_log;
            }
            Err(failure) => state.on_copy_failed(failure),
        }
        drop((state, copier));
        self.changed.notify_all();
        (self.wake)();
        // The commits made meanwhile may be the last ones for long.
        if has_advanced {
            self.copy_long_log();
        }
        self.release_brake(self.lock());
    }

    /// The length of the log, and how much of that is not copied.
    fn log_length(&self, state: &State) -> (u64, u64) {
        let length = self.length.load(Ordering::Relaxed);
        // A shorter one was restarted.
        let copied = if length < state.copied { 0 } else { state.copied };
        (length, length - copied)
    }

    fn failed(&self, error: &io::Error) -> Error {
        lost(format_args!("{}", io_error(&log_path(&self.dir), error)))
    }
}

fn lost(why: std::fmt::Arguments<'_>) -> Error {
    let message =
        format!("the disk did not store the last changes: {why}; end polylogue and start it again to go on safely");
    Error::new(ErrorKind::Store, message)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::base::id::AgentId;
    use crate::store::Store;
    use crate::store::checkpoint::checkpoint;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn length_of(store: &Store) -> u64 {
        checkpoint(&store.conn, "NOOP").expect("it runs").expect("a log").length
    }

    #[test]
    fn agents_that_become_idle_after_the_last_commit_leave_no_brake() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("a store");
        store.create_root(AgentId::random(), None, None, 1).expect("a commit");
        let before: Box<BeforeStep> = Box::new(|_| Ok(()));
        let log = LogFile::open(dir.path(), None).expect("a log");
        let length = length_of(&store);
        let syncer = Syncer::new(log, Arc::new(length.into()), Box::new(|| ()), (length, before));
        let is_busy = |state: &mut State| state.is_syncing || state.is_copying;
        syncer.tell(1, false);
        assert!(syncer.shared.wait_while(PATIENCE, is_busy).has_brake);
        syncer.tell(1, true);
        assert!(!syncer.shared.wait_while(PATIENCE, is_busy).has_brake);
    }

    #[test]
    fn a_copy_that_ends_after_the_last_sync_leaves_no_brake() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("a store");
        store.create_root(AgentId::random(), None, None, 1).expect("a commit");
        let barrier = Arc::new(Barrier::new(2));
        let (in_copy, is_first) = (Arc::clone(&barrier), Mutex::new(true));
        let before = move |step| {
            if step == SyncStep::Copy && std::mem::take(&mut *is_first.lock().expect("no panic")) {
                in_copy.wait();
                in_copy.wait();
            }
            Ok(())
        };
        let log = LogFile::open(dir.path(), None).expect("a log");
        let length = length_of(&store);
        let syncer = Syncer::new(log, Arc::new(length.into()), Box::new(|| ()), (length, Box::new(before)));
        syncer.tell(1, false);
        barrier.wait();
        syncer.tell(2, true);
        drop(syncer.shared.wait_while(PATIENCE, |state| state.is_syncing));
        barrier.wait();
        let state = syncer.shared.wait_while(PATIENCE, |state| state.is_copying || state.has_brake);
        assert!(!state.has_brake && !state.is_copying);
    }
}
