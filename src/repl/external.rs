//! File descriptors of the program that embeds the loop, watched in the same poll.

use std::os::fd::RawFd;

use crate::base::error::Result;
use crate::domain::readiness::Readiness;
use crate::reactor::{Ready, Source};
use crate::repl::Repl;

#[derive(Debug, Default)]
pub(super) struct ExternalDescriptors {
    /// Readiness that was not taken yet.
    ready: Vec<(RawFd, Readiness)>,
}

impl ExternalDescriptors {
    pub(super) fn on_ready(&mut self, ready: &[Ready]) {
        for item in ready {
            if let Source::External(fd) = item.source {
                self.ready.push((fd, item.readiness));
            }
        }
    }
}

impl Repl {
    /// Watches a descriptor of the driver in the loop's poll, from now on for this; for neither, it is forgotten. There is
    /// news once and then not again before the next call, even if that asks for the same.
    ///
    /// # Errors
    /// The kernel refuses: it is a plain file, for example, which can always be read and written.
    pub(crate) fn watch_external(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        self.core.reactor.watch(Source::External(fd), fd, readable, writable)
    }

    /// What the last turns brought for the driver's descriptors. Empties.
    pub(crate) fn take_external_ready(&mut self) -> Vec<(RawFd, Readiness)> {
        std::mem::take(&mut self.external.ready)
    }
}
