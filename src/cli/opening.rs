//! Opens the store of a mode with an event loop of its own. Waits while another process holds the data directory, until
//! it ends, or answers at its socket, so that the agents work there.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::stdio::print_note;
use crate::base::error::{ErrorKind, Result};
use crate::base::process::is_ancestor;
use crate::socket;
use crate::store::{self, Store};

/// The first pause between two attempts. Each is twice as long as the one before, up to the last.
const FIRST_WAIT: Duration = Duration::from_millis(5);
const LAST_WAIT: Duration = Duration::from_millis(100);
/// After this long, a note says which process is waited for.
const SILENT: Duration = Duration::from_secs(1);

/// Opens the store in this directory, or one in memory. Waits until the deadline for another process that holds it.
/// `None` if that process answers at its socket. An error of kind [`ErrorKind::Held`]: the deadline has passed, or the process
/// that holds the store waits for this one.
pub fn open(directory: Option<&Path>, deadline: Option<Instant>) -> Result<Option<Store>> {
    let Some(directory) = directory else { return Store::in_memory().map(Some) };
    let started = Instant::now();
    let (mut wait, mut is_said) = (FIRST_WAIT, false);
    loop {
        let held = match Store::open(directory) {
            Err(error) if error.kind == ErrorKind::Held => error,
            opened => return opened.map(Some),
        };
        if socket::connect(directory)?.is_some() {
            return Ok(None);
        }
        let holder = store::holder(directory);
        // It has started this process, and may not end before it.
        if holder.is_some_and(is_ancestor) {
            return Err(held.context("a run within a run needs --ephemeral or a --data-dir of its own"));
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Err(held);
        }
        if !is_said && started.elapsed() >= SILENT {
            is_said = true;
            print_note(&waits_for(holder, directory));
        }
        await_end(holder, deadline.map_or(wait, |deadline| wait.min(deadline - Instant::now())));
        wait = LAST_WAIT.min(wait * 2);
    }
}

fn waits_for(holder: Option<u32>, directory: &Path) -> String {
    let process = holder.map(|process| format!("process {process}, ")).unwrap_or_default();
    format!(
        "waiting for {process}another polylogue run that holds {}; runs share it after polylogue serve --background, and \
         --ephemeral does without it",
        directory.display()
    )
}

/// Waits until the process has ended, no longer than for this time.
pub fn await_end(process: Option<u32>, time: Duration) {
    let pid = process.and_then(|process| Pid::from_raw(process.try_into().ok()?));
    // An unknown or ended process holds the store for a moment only.
    let process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut awaited: Vec<PollFd<'_>> = process.iter().map(|process| PollFd::new(process, PollFlags::IN)).collect();
    // The caller looks again, whatever has ended the wait.
    let _ = poll(&mut awaited, Timespec::try_from(time).ok().as_ref());
}
