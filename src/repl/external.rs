//! File descriptors of the embedding program, watched in the same poll.

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
    /// Watches a descriptor of the embedding program in the loop's poll, for reading, writing or both; for neither, it is
    /// no longer watched. Readiness is reported once, and again only after the next call with the same descriptor.
    pub(crate) fn watch_external(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        self.core.reactor().watch(Source::External(fd), fd, readable, writable)
    }

    /// The descriptors that have become ready since the last call.
    pub(crate) fn take_external_ready(&mut self) -> Vec<(RawFd, Readiness)> {
        std::mem::take(&mut self.embedding.external.ready)
    }
}
