//! Makes commits durable in a thread of its own. The connection of the event loop writes without syncing; a ticket is a
//! number of changes, and durable when the log was synced after them.
//!
//! ```text
//!   loop      commits ... tells the newest ticket, once a turn ........ asks for its ticket, is woken
//!   thread    started by the first ticket: syncs, copies a long log, waits a moment for more, ends
//! ```
//! What nobody waits for is synced at most once in [`PAUSE`]; a ticket that somebody waits for, at once. After a failed sync
//! nothing is durable any more in this process: the kernel drops what it could not write and reports that only once.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::checkpoint::{BeforeStep, Checkpoints, Failure, SyncStep};
use super::connection::log_path;
use super::lock::io_error;
use super::wal::LogFile;
use crate::base::error::{Error, ErrorKind};

const PAUSE: Duration = Duration::from_millis(100);
/// A log of this length is copied into the database.
pub(super) const LONG_LOG: u64 = 4 << 20;
/// How often the copy of a log that grows meanwhile is repeated.
const PASSES: usize = 4;
const NAME: &str = "store-sync";

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
    state: Mutex<State>,
    changed: Condvar,
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
    is_running: bool,
    closing: Closing,
    work: Option<Work>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Closing {
    #[default]
    No,
    /// The thread is to end without waiting for more.
    Asked,
    /// The whole log is to be copied first.
    Copy,
    /// That was tried.
    Done { is_copied: bool },
}

/// What the thread works with. It is here while no thread runs.
struct Work {
    log: LogFile,
    checkpoints: Checkpoints,
}

impl Syncer {
    /// `wake` is called when a ticket that was asked for is durable or lost; `before` before each step of a sync. A log of
    /// this length is copied.
    pub(super) fn new(
        dir: &Path,
        wake: Box<dyn Fn() + Send + Sync>,
        (long_log, before): (u64, Box<BeforeStep>),
    ) -> Self {
        let work = Some(Work { log: LogFile::new(dir), checkpoints: Checkpoints::new(dir) });
        let state = Mutex::new(State { work, ..State::default() });
        let (dir, changed) = (dir.to_owned(), Condvar::new());
        Self { shared: Arc::new(Shared { dir, state, changed, wake, before, long_log }) }
    }

    /// Has this ticket synced soon.
    pub(super) fn tell(&self, ticket: u64) {
        let mut state = self.shared.lock();
        state.told = state.told.max(ticket);
        self.start(state);
    }

    /// Has this ticket synced at once, unless it is durable.
    pub(super) fn ask(&self, ticket: u64) -> Durability {
        let mut state = self.shared.lock();
        let durability = state.durability(ticket);
        if durability == Durability::Pending && state.wanted < ticket {
            (state.told, state.wanted) = (state.told.max(ticket), ticket);
            self.shared.changed.notify_all();
            self.start(state);
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

    /// Waits until the thread has ended, if it does in time, with the last ticket durable and, unless the log is to stay, all
    /// of it copied. Returns whether it is.
    pub(super) fn close(&self, ticket: u64, copies: bool, patience: Duration) -> bool {
        let mut state = self.shared.lock();
        (state.told, state.wanted) = (state.told.max(ticket), ticket);
        state.closing = if copies { Closing::Copy } else { Closing::Asked };
        self.shared.changed.notify_all();
        self.start(state);
        let state = self.shared.wait_while(patience, |state| state.is_running);
        !state.is_running && state.closing == Closing::Done { is_copied: true }
    }

    fn start(&self, mut state: MutexGuard<'_, State>) {
        if state.is_running || !state.has_work() {
            return;
        }
        state.is_running = true;
        drop(state);
        let shared = Arc::clone(&self.shared);
        if thread::Builder::new().name(NAME.into()).spawn(move || shared.run()).is_err() {
            self.shared.run();
        }
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
        self.lost.is_none() && (self.told > self.durable || self.closing == Closing::Copy)
    }

    /// Notes what became of a sync. Returns whether the loop is to know.
    fn on_synced(&mut self, ticket: u64, outcome: Result<(), Error>) -> bool {
        let is_awaited = self.wanted > self.durable;
        match outcome {
            Ok(()) => self.durable = self.durable.max(ticket),
            Err(error) => {
                self.news.push(error.clone());
                self.lost = Some(error);
                return true;
            }
        }
        is_awaited
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

    /// The thread.
    fn run(&self) {
        let mut state = self.lock();
        let Some(mut work) = state.work.take() else { return };
        while state.has_work() {
            let (ticket, durable, is_closing) = (state.told, state.durable, state.closing == Closing::Copy);
            drop(state);
            if ticket > durable {
                self.sync(&mut work, ticket);
            }
            if is_closing || work.log.len() >= self.long_log {
                let is_copied = self.copy(&mut work);
                if is_closing {
                    self.lock().closing = Closing::Done { is_copied };
                }
            }
            state = self.wait_while(PAUSE, |state| state.wanted <= state.durable && state.closing == Closing::No);
        }
        state.work = Some(work);
        state.is_running = false;
        self.changed.notify_all();
    }

    fn sync(&self, work: &mut Work, ticket: u64) {
        let outcome = (self.before)(SyncStep::Log).and_then(|()| work.log.sync());
        let outcome = outcome.map_err(|error| self.lost(&error));
        let is_news = self.lock().on_synced(ticket, outcome);
        self.changed.notify_all();
        if is_news {
            (self.wake)();
        }
    }

    /// Copies the log. Returns whether all of it is copied.
    fn copy(&self, work: &mut Work) -> bool {
        for _ in 0..PASSES {
            if self.lock().lost.is_some() {
                return false;
            }
            match work.checkpoints.run(&mut work.log, &self.before) {
                Ok(true) => return true,
                Ok(false) => {}
                Err(failure) => {
                    self.on_failure(failure);
                    return false;
                }
            }
        }
        false
    }

    fn on_failure(&self, failure: Failure) {
        let mut state = self.lock();
        match failure {
            Failure::Log(error) => {
                let error = self.lost(&error);
                state.news.push(error.clone());
                state.lost = Some(error);
            }
            Failure::Copy(error) => {
                let message = format!("{error}; the log is not copied into the database before the next start");
                state.news.push(Error::new(ErrorKind::Store, message));
            }
        }
        drop(state);
        self.changed.notify_all();
        (self.wake)();
    }

    fn lost(&self, error: &io::Error) -> Error {
        let error = io_error(&log_path(&self.dir), error);
        Error::new(
            ErrorKind::Store,
            format!(
                "the disk did not store the last changes: {error}; end polylogue and start it again to go on safely"
            ),
        )
    }
}
