//! What libcurl wants to know about its sockets, as plain data between the network and the reactor.

use std::os::fd::RawFd;

/// A change in what one transfer wants to hear about one descriptor. Wishes are carried out in order,
/// right after the call into libcurl that made them: descriptors are reused at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketRequest {
    /// Tell when it can be read or written.
    Watch {
        /// The descriptor, owned by libcurl.
        fd: RawFd,
        /// Wants to read.
        readable: bool,
        /// Wants to write.
        writable: bool,
    },
    /// Unwatch it; it may be closed already.
    Unwatch {
        /// The descriptor.
        fd: RawFd,
    },
}

/// What the kernel said about one descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// It can be read, or has ended.
    pub readable: bool,
    /// It can be written.
    pub writable: bool,
    /// An error or a hang-up is waiting on it.
    pub error: bool,
}
