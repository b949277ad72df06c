//! Colours for code, by a thread that starts with the first lines and ends after a time without any. All memory of the
//! library is the thread's own, and is released with it.
//!
//! The lines of a block are sent in order, in any number of parts. A thread that has ended, or has seen many blocks
//! since, has forgotten the earlier lines: the block is then sent again from its first line on.

#![cfg_attr(not(feature = "syntax-colors"), allow(dead_code))]

#[cfg(feature = "syntax-colors")]
mod worker;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::job::Wake;
#[cfg(feature = "syntax-colors")]
use crate::base::job::start_thread;
use crate::domain::frame::Color;

/// Lines of a block, without their ends.
#[derive(Debug)]
pub struct Job {
    pub block: u64,
    pub language: String,
    /// The index of the first line in the block.
    pub first: usize,
    pub lines: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Colored {
    pub block: u64,
    /// The index of the first line in the block.
    pub first: usize,
    pub outcome: Outcome,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The parts of each line that are not in the colour of text, in order.
    Lines(Vec<Vec<(Range<usize>, Color)>>),
    /// The lines before these are needed again.
    Forgotten,
    /// The language is not known.
    Unknown,
}

#[derive(Default)]
struct Shared {
    jobs: VecDeque<Job>,
    results: Vec<Colored>,
    is_running: bool,
    is_closed: bool,
}

/// The state that the thread and its owner share.
#[derive(Default)]
struct Exchange {
    shared: Mutex<Shared>,
    changed: Condvar,
}

impl Exchange {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread ends after this long without work.
const IDLE: Duration = Duration::from_secs(30);

/// Sends lines to the thread. Dropping it ends the thread.
pub struct Highlighter {
    exchange: Arc<Exchange>,
    idle: Duration,
    /// Jobs without a result.
    pending: usize,
}

impl Default for Highlighter {
    fn default() -> Self {
        Self { exchange: Arc::default(), idle: IDLE, pending: 0 }
    }
}

impl Highlighter {
    /// Sends lines. Without a thread, because there is no memory for one or colours are not built in, they stay as they are.
    pub fn send(&mut self, job: Job, wake: &Wake) {
        let mut shared = self.exchange.lock();
        if !shared.is_running {
            shared.is_running = self.spawn(wake);
        }
        if shared.is_running {
            self.pending += 1;
            shared.jobs.push_back(job);
            self.exchange.changed.notify_one();
        }
    }

    /// The results since the last call.
    pub fn take(&mut self) -> Vec<Colored> {
        if self.pending == 0 {
            return Vec::new();
        }
        let results = std::mem::take(&mut self.exchange.lock().results);
        self.pending -= results.len();
        results
    }

    /// Whether there are lines on their way.
    pub fn is_busy(&self) -> bool {
        self.pending > 0
    }

    #[cfg(feature = "syntax-colors")]
    fn spawn(&self, wake: &Wake) -> bool {
        let (exchange, wake, idle) = (Arc::clone(&self.exchange), Arc::clone(wake), self.idle);
        start_thread("syntax".into(), move || worker::run(&exchange, idle, &wake)).is_ok()
    }

    #[cfg(not(feature = "syntax-colors"))]
    fn spawn(&self, _: &Wake) -> bool {
        false
    }
}

impl Drop for Highlighter {
    fn drop(&mut self) {
        self.exchange.lock().is_closed = true;
        self.exchange.changed.notify_one();
    }
}

#[cfg(all(test, feature = "syntax-colors"))]
mod tests;
