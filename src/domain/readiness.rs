//! What libcurl wants to know about its sockets, as plain data between the network and the reactor.

use std::os::fd::RawFd;

/// A change in how one descriptor of a transfer is watched. Requests must be carried out in order, right after the
/// call into libcurl that made them, because descriptors are reused at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketRequest {
    /// Report when it can be read or written.
    Watch {
        /// The descriptor, owned by libcurl.
        fd: RawFd,
        /// Watch for reading.
        readable: bool,
        /// Watch for writing.
        writable: bool,
    },
    /// Stop watching it; it may be closed already.
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
