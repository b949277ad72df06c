//! Protects this process from others of the same user, and measures its resource use.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Makes the memory, environment and descriptors of this process unreadable for other processes of the same user, and
/// disables core dumps: all of them hold keys and conversations. Starting another program ends it, so each helper calls
/// this again. It does not hold against root.
pub fn harden() {
    // Neither can be denied to a process that lowers its own limits; without them the program still works.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}

/// The most ancestors that are followed.
const MOST_ANCESTORS: usize = 1_000;

/// The parent in a line of `/proc/PID/stat` (proc_pid_stat(5)): the second field after the name, which is in parentheses and
/// may itself contain parentheses.
pub fn parent_in(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Whether this process descends from another. The first process of the system is not counted: in a container another one
/// has its id.
pub fn is_ancestor(process: u32) -> bool {
    let parent = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        u32::try_from(parent_in(&stat)?).ok().filter(|parent| *parent > 1)
    };
    let ancestors = std::iter::successors(parent(&std::process::id()), parent);
    ancestors.take(MOST_ANCESTORS).any(|ancestor| ancestor == process)
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

/// The home directory of this user according to the system's user database. `HOME` may name another one.
pub fn account_home() -> Option<&'static Path> {
    // The database may be on the network: it is asked once, when somebody needs to know.
    static HOME: OnceLock<Option<PathBuf>> = OnceLock::new();
    let read = || nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten().map(|user| user.dir);
    HOME.get_or_init(read).as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_parentheses_does_not_hide_the_parent() {
        assert_eq!(parent_in("42 (a) R 9 (x)) S 7 42 42 0"), Some(7));
        assert_eq!(parent_in("42 (cat"), None);
    }

    #[test]
    fn the_parent_of_this_process_is_an_ancestor_and_the_process_itself_is_none() {
        let parent = rustix::process::getppid().expect("a parent").as_raw_nonzero().get();
        assert!(is_ancestor(parent.unsigned_abs()) || parent == 1);
        assert!(!is_ancestor(std::process::id()));
    }
}
