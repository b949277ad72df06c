//! Signals as a descriptor for the poll. A handler may run on any thread and would not wake the poll, so each signal
//! writes a byte to a socket pair that is watched.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::signal::SigSet;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use super::ignored_signals::without_ignored;
use crate::base::error::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// The size of the terminal changed (SIGWINCH).
    Resized,
    /// Terminate (SIGTERM, SIGINT), with the number of the signal.
    Terminate(i32),
    /// The controlling terminal was closed (SIGHUP).
    Hangup,
    /// Suspend the process (SIGTSTP).
    Suspend,
    /// The process was resumed (SIGCONT).
    Resume,
}

/// The signals that were received and not handled yet.
pub struct Signals(SignalDelivery<UnixStream, SignalOnly>);

impl Signals {
    /// Unblocks all signals. A program that starts this one may have blocked some (`perf` blocks SIGWINCH), which children
    /// inherit.
    pub fn unblock() {
        // Fails for unknown signals only.
        let _ = SigSet::all().thread_unblock();
    }

    /// Catches all signals that the loop acts on, until the end of the process.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn catch() -> Result<Self> {
        Self::catch_all(&[SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGTSTP, SIGCONT])
    }

    /// Catches only the signals that terminate, for a process that does not take over a terminal: job control is not
    /// changed. Signals that were ignored at start (`nohup`, or `&` in a script) stay ignored.
    pub fn catch_termination() -> Result<Self> {
        Self::catch_all(&without_ignored(&[SIGTERM, SIGHUP, SIGINT]).collect::<Vec<i32>>())
    }

    /// Catches the signals that a process passes on to the one that it waits for. The kernel sends Ctrl+Z and new sizes
    /// of the terminal to both.
    pub fn catch_to_pass_on() -> Result<Self> {
        Self::catch_all(&[SIGTERM, SIGHUP, SIGINT, SIGCONT])
    }

    fn catch_all(signals: &[i32]) -> Result<Self> {
        let (read, write) = UnixStream::pair()?;
        Ok(Self(SignalDelivery::with_pipe(read, write, SignalOnly, signals)?))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.get_read().as_raw_fd()
    }

    pub(crate) fn borrowed_fd(&self) -> BorrowedFd<'_> {
        self.0.get_read().as_fd()
    }

    /// The number of a signal that ends a process without a terminal, if one was received since the last call.
    pub(crate) fn take_ending(&mut self) -> Option<i32> {
        self.take().into_iter().find_map(|signal| match signal {
            Signal::Terminate(number) => Some(number),
            Signal::Hangup => Some(SIGHUP),
            Signal::Resized | Signal::Suspend | Signal::Resume => None,
        })
    }

    /// The signals received since the last call.
    pub(crate) fn take(&mut self) -> Vec<Signal> {
        self.0.pending().map(signal_of).collect()
    }
}

fn signal_of(number: i32) -> Signal {
    match number {
        SIGWINCH => Signal::Resized,
        SIGTSTP => Signal::Suspend,
        SIGCONT => Signal::Resume,
        SIGHUP => Signal::Hangup,
        number => Signal::Terminate(number),
    }
}
