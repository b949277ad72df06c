//! Processes that a killed supervisor has left. The program adopts orphans, so the processes of such a command become
//! its own children; they are distinguished from supervisors, which are registered, and from programs that share its
//! session.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, child_subreaper, getpid, getsid, waitpid};

use super::process_tree;

/// How long KILL is repeated.
const TIME_LIMIT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);

/// The supervisors that were started and not yet waited for.
static SUPERVISORS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Starts a supervisor and registers it. Call [`forget`] once it was waited for.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    // Held over the start: a supervisor that is not registered yet would be taken for an orphan.
    let mut supervisors = supervisors();
    let child = command.spawn()?;
    supervisors.insert(Pid::from_child(&child).as_raw_nonzero().get());
    Ok(child)
}

pub fn forget(supervisor: &Child) {
    supervisors().remove(&Pid::from_child(supervisor).as_raw_nonzero().get());
}

/// Kills the processes that killed supervisors have left. Whether none is left; always false in a program that does not
/// adopt orphans, where they cannot be found.
pub fn end() -> bool {
    if !matches!(child_subreaper(), Ok(Some(_))) {
        return false;
    }
    let start = Instant::now();
    loop {
        let orphans = orphans();
        if orphans.is_empty() {
            return true;
        }
        if start.elapsed() > TIME_LIMIT {
            return false;
        }
        process_tree::kill_trees(&orphans);
        for orphan in orphans {
            // It is not ours to wait for if another thread has done so.
            let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Children of this process, ended ones included, that are neither supervisors nor in its session.
fn orphans() -> Vec<Pid> {
    let supervisors = supervisors();
    let session = getsid(None).ok();
    let mut children = process_tree::children_of(getpid());
    children
        .retain(|child| !supervisors.contains(&child.as_raw_nonzero().get()) && getsid(Some(*child)).ok() != session);
    children
}

fn supervisors() -> MutexGuard<'static, BTreeSet<i32>> {
    SUPERVISORS.lock().unwrap_or_else(PoisonError::into_inner)
}
