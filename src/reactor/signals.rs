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
    /// Leave (SIGTERM, SIGINT).
    Leave,
    /// The terminal from which the program was started is gone (SIGHUP).
    HangUp,
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
        let (read, write) = UnixStream::pair()?;
        let signals = [SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGTSTP, SIGCONT];
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

fn meaning(number: i32) -> Signal {
    match number {
        SIGWINCH => Signal::Resized,
        SIGTSTP => Signal::Suspend,
        SIGCONT => Signal::Resume,
        SIGHUP => Signal::HangUp,
        _ => Signal::Leave,
    }
}
