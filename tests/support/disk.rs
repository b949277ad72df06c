//! A disk that takes writes only when a test lets it, or fails.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::PATIENCE;

#[derive(Clone, Default)]
pub struct Disk(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    is_held: bool,
    is_failing: bool,
    /// Syncs that have begun and ended.
    begun: usize,
    ended: usize,
}

impl Disk {
    /// From now on no sync ends.
    pub fn hold(&self) {
        self.lock().is_held = true;
    }

    pub fn release(&self) {
        self.lock().is_held = false;
        self.0.1.notify_all();
    }

    /// From now on each sync fails, or none.
    pub fn fail(&self, is_failing: bool) {
        self.lock().is_failing = is_failing;
    }

    /// Waits until a sync has begun that is held.
    pub fn wait_until_busy(&self) {
        let state = self.0.1.wait_timeout_while(self.lock(), PATIENCE, |state| state.begun == state.ended);
        assert!(!state.expect("no panic").1.timed_out(), "no sync has begun");
    }

    /// How many syncs the disk has taken.
    pub fn syncs(&self) -> usize {
        self.lock().ended
    }

    /// A sync, as the store calls it.
    pub fn take(&self) -> io::Result<()> {
        self.lock().begun += 1;
        self.0.1.notify_all();
        let mut state = self.0.1.wait_while(self.lock(), |state| state.is_held).expect("no panic");
        state.ended += 1;
        if state.is_failing { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().expect("no panic")
    }
}
