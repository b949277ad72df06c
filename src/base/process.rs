//! What protects this process from others of the same user, and how much it uses.

use std::fs;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Makes the memory, environment and descriptors of this process unreadable for other processes of the same user, and
/// disables core dumps: all of them hold keys and conversations. Starting another program ends it, so each helper calls
/// this again. It does not hold against root.
pub fn harden() {
    // Neither can be denied to a process that lowers its own limits; without them the program still works.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}

/// What this process uses. Other processes cannot read it: see [`harden`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The proportional set size (`Pss` in proc_pid_smaps(5)), in bytes.
    pub memory: u64,
    pub descriptors: u64,
    pub threads: u64,
}

/// What this process uses now; 0 where the system does not say.
pub fn usage() -> Usage {
    let smaps = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let pss = smaps.lines().find_map(|line| line.strip_prefix("Pss:")?.split_whitespace().next()?.parse::<u64>().ok());
    let count = |path: &str| fs::read_dir(path).map_or(0, |entries| entries.count() as u64);
    Usage {
        memory: pss.unwrap_or(0) * 1024,
        // Without the descriptor by which they are counted.
        descriptors: count("/proc/self/fd").saturating_sub(1),
        threads: count("/proc/self/task"),
    }
}
