//! Which events libcurl waits for on its sockets, as plain data between the network and the reactor.

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

/// The readiness of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Readable, or at its end.
    pub readable: bool,
    /// Writable.
    pub writable: bool,
    /// An error or a hang-up is pending.
    pub error: bool,
}
