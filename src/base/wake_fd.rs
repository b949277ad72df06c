//! A descriptor that one thread makes readable for another, by an eventfd (eventfd(2)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// Becomes readable with the first [`WakeFd::wake`] and stays so.
pub struct WakeFd(OwnedFd);

impl WakeFd {
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Never blocks.
    pub fn wake(&self) {
        // The only possible error is a full counter (2^64 - 2), and then it is readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
