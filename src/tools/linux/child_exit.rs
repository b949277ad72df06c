//! Polls for the end of a child process, by a pidfd (pidfd_open(2)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Readable once the child has ended.
pub struct ChildExit(OwnedFd);

impl ChildExit {
    /// # Errors
    /// No descriptor is left.
    pub fn of(child: &Child) -> io::Result<Self> {
        Ok(Self(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?))
    }
}

impl AsFd for ChildExit {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
