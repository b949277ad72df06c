//! Which events libcurl waits for on its sockets, as plain data between the network and the reactor.

use std::os::fd::RawFd;

/// A change of the events that a transfer waits for on a descriptor. Changes have to be applied in order, right after the
/// call into libcurl that made them, because descriptors are reused at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketRequest {
    /// Report when it is ready.
    Watch {
        /// The descriptor, owned by libcurl.
        fd: RawFd,
        readable: bool,
        writable: bool,
    },
    /// Report nothing more; the descriptor may be closed already.
    Unwatch { fd: RawFd },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Readable, or at its end.
    pub readable: bool,
    pub writable: bool,
    /// An error or a hang-up is pending.
    pub error: bool,
}
