//! Signals as something that can be polled. A handler that runs on another thread would not wake the poll, so each
//! signal writes a byte to a socket pair that the poll watches.

use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::base::error::Result;

/// A signal that the loop acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// The terminal has another size (SIGWINCH).
    Resized,
    /// Leave (SIGTERM, SIGINT): the number of the signal.
    Terminate(i32),
    /// The terminal from which the program was started is gone (SIGHUP).
    Hangup,
    /// Leave the terminal alone for a while (SIGTSTP).
    Suspend,
    /// The terminal is ours again (SIGCONT).
    Resume,
}

/// The signals that have come and were not looked at.
pub struct Signals(SignalDelivery<UnixStream, SignalOnly>);

impl Signals {
    /// Catches what the loop acts on, from now on until the end of the process.
    ///
    /// # Errors
    /// When the kernel gives no descriptor.
    pub fn catch() -> Result<Self> {
        Self::catch_all(&[SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGTSTP, SIGCONT])
    }

    /// Catches only what asks to leave, for a process without a terminal of its own: job control stays as it is. What
    /// the process was started to ignore (`nohup`, or `&` in a script) stays ignored.
    ///
    /// # Errors
    /// When the kernel gives no descriptor.
    pub fn catch_termination() -> Result<Self> {
        let ignored = ignored();
        let heeded = [SIGTERM, SIGHUP, SIGINT].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
        Self::catch_all(&heeded.collect::<Vec<i32>>())
    }

    fn catch_all(signals: &[i32]) -> Result<Self> {
        let (read, write) = UnixStream::pair()?;
        Ok(Self(SignalDelivery::with_pipe(read, write, SignalOnly, signals)?))
    }

    /// The descriptor to watch for reading.
    pub fn fd(&self) -> RawFd {
        self.0.get_read().as_raw_fd()
    }

    /// What has come since the last call.
    pub fn take(&mut self) -> Vec<Signal> {
        self.0.pending().map(meaning).collect()
    }
}

/// A bit for each signal that this process ignores, the lowest for signal 1 (proc_pid_status(5), `SigIgn`). To ask the
/// kernel itself takes a call that only unsafe code can make. Where the file is not there, nothing is taken as ignored.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn meaning(number: i32) -> Signal {
    match number {
        SIGWINCH => Signal::Resized,
        SIGTSTP => Signal::Suspend,
        SIGCONT => Signal::Resume,
        SIGHUP => Signal::Hangup,
        leave => Signal::Terminate(leave),
    }
}
