//! Polls for the end of a child process, by a pidfd (pidfd_open(2)), and resumes it if it was stopped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid};

/// Readable once the child has ended.
pub struct ChildExit(OwnedFd);

impl ChildExit {
    pub fn of(child: &Child) -> io::Result<Self> {
        Ok(Self(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?))
    }

    /// Sends CONT if the child was stopped since the last call. Returns whether it was.
    pub fn resume(&self) -> bool {
        let stopped = waitid(WaitId::PidFd(self.0.as_fd()), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
        let was_stopped = matches!(stopped, Ok(Some(_)));
        if was_stopped {
            // Fails if it has just been killed.
            let _ = pidfd_send_signal(&self.0, Signal::CONT);
        }
        was_stopped
    }
}

impl AsFd for ChildExit {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
