//! Runs work on a thread of its own.
//!
//! ```text
//!   loop                                      thread
//!   spawn ────────── owned arguments ───────▶ work
//!   cancel ───────── flag and descriptor ───▶ ends what it started, returns
//!   is_complete ◀─── outcome, then flag ───── done, wakes the loop
//!   collect  joins the thread
//! ```
//!
//! The thread writes its slot once, before `complete`; the loop reads it once, after. Nothing else is shared.

use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::base::error::{Error, ErrorKind, Result, system_message};
use crate::base::wake_fd::WakeFd;

/// Tells work on a thread that it is not wanted any more: a flag to test, and a descriptor to poll.
pub struct Job {
    cancelled: AtomicBool,
    wake_fd: WakeFd,
    /// The end of what the work has written so far.
    written: Mutex<Vec<u8>>,
}

/// Bytes of the latest output that are kept for display.
const MAX_LIVE_OUTPUT: usize = 4 << 10;

impl Job {
    /// A job that is not cancelled.
    pub fn new() -> Result<Self> {
        Ok(Self {
            cancelled: AtomicBool::new(false),
            wake_fd: WakeFd::new().map_err(not_started)?,
            written: Mutex::default(),
        })
    }

    /// Asks the work to stop. May be called repeatedly, from any thread; never blocks.
    pub fn cancel(&self) {
        if !self.cancelled.swap(true, Ordering::AcqRel) {
            self.wake_fd.wake();
        }
    }

    /// Keeps the end of what the work writes, for display. Does not wake the loop.
    pub fn append_output(&self, bytes: &[u8]) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.extend_from_slice(&bytes[bytes.len().saturating_sub(MAX_LIVE_OUTPUT)..]);
        let excess = written.len().saturating_sub(MAX_LIVE_OUTPUT);
        written.drain(..excess);
    }

    fn live_output(&self) -> String {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&written).into_owned()
    }

    /// Whether the work is to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}

impl AsFd for Job {
    /// Readable once the job is cancelled.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake_fd.as_fd()
    }
}

struct Slot<T> {
    complete: AtomicBool,
    /// The result of the work, or the message of its panic.
    outcome: Mutex<Option<Outcome<T>>>,
    job: Job,
}

/// Wakes the event loop from any thread.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The value of some work, or why it failed.
pub type Outcome<T> = std::result::Result<T, String>;

/// Work on a thread of its own, running or complete but not yet collected. Dropping it cancels the work without waiting
/// for its thread.
pub struct JobThread<T> {
    slot: Arc<Slot<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> JobThread<T> {
    /// Starts the work. `wake` is called on its thread once it is complete.
    pub fn spawn(name: String, work: impl FnOnce(&Job) -> Outcome<T> + Send + 'static, wake: Wake) -> Result<Self> {
        let slot = Arc::new(Slot { complete: AtomicBool::new(false), outcome: Mutex::new(None), job: Job::new()? });
        let thread_slot = Arc::clone(&slot);
        let run = move || {
            thread_slot.fill(work);
            wake();
        };
        let thread = start_thread(name, run)?;
        Ok(Self { slot, thread: Some(thread) })
    }

    /// The outcome, once it is there. Returned once; the thread is not joined.
    pub fn take(&self) -> Option<Outcome<T>> {
        if self.is_complete() { self.slot.outcome().take() } else { None }
    }

    /// Waits for the end of the work; its outcome can be taken then.
    pub fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            // After completion only `wake` can panic, and the outcome does not depend on it.
            let _ = thread.join();
        }
    }

    /// Joins the thread and takes the outcome.
    ///
    /// # Panics
    /// If called before [`JobThread::is_complete`]: the loop would block until the work ends.
    pub fn collect(mut self) -> Outcome<T> {
        assert!(self.is_complete(), "work is collected only after it is complete");
        self.wait();
        self.slot.outcome().take().expect("the outcome is stored before the work is complete")
    }
}

impl<T> JobThread<T> {
    /// Whether the outcome can be collected without waiting.
    pub fn is_complete(&self) -> bool {
        self.slot.complete.load(Ordering::Acquire)
    }

    /// The end of what the work has written so far.
    pub fn live_output(&self) -> String {
        self.slot.job.live_output()
    }

    /// Asks the work to stop; it completes soon after. May be called repeatedly; never blocks.
    pub fn cancel(&self) {
        self.slot.job.cancel();
    }

    /// Calls `f` with the outcome, which is `None` until the work is complete.
    pub fn with_outcome<R>(&self, f: impl FnOnce(Option<&mut Outcome<T>>) -> R) -> R {
        f(self.slot.outcome().as_mut())
    }

    /// Whether [`JobThread::cancel`] was called.
    pub fn has_been_cancelled(&self) -> bool {
        self.slot.job.is_cancelled()
    }
}

impl<T> Drop for JobThread<T> {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl<T> Slot<T> {
    /// Does the work and stores its outcome, also if it panics.
    fn fill(&self, work: impl FnOnce(&Job) -> Outcome<T>) {
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&self.job)))
            .unwrap_or_else(|panic| Err(panic_message(panic.as_ref())));
        *self.outcome() = Some(outcome);
        self.complete.store(true, Ordering::Release);
    }

    fn outcome(&self) -> MutexGuard<'_, Option<Outcome<T>>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a named thread. The only place in the program that does.
///
/// # Errors
/// The system has no memory for a thread, or the limit of threads is reached.
pub fn start_thread(name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name).spawn(run).map_err(not_started)
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    format!("internal error: {text}")
}

fn not_started(error: std::io::Error) -> Error {
    Error::new(ErrorKind::System, format!("cannot start a thread: {}", system_message(&error)))
}
