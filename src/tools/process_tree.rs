//! All descendants of this process, and signals to them. For the supervisor, which is a subreaper: elsewhere a process
//! that lost its parent would have left the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::process::{Pid, Signal, getpgid, getpid, kill_process, kill_process_group};

/// Asks every descendant to end.
pub fn terminate() {
    for pid in descendants() {
        // It may have ended just now, or belong to another user; nothing is to be done about either.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Kills every descendant that is there now, and the process groups in which they are: a group is killed at one stroke,
/// so that processes that go on forking cannot slip through between being listed and being killed.
pub fn kill() {
    let family = descendants();
    let groups: BTreeSet<i32> =
        family.iter().filter_map(|pid| getpgid(Some(*pid)).ok()).map(|group| group.as_raw_nonzero().get()).collect();
    // A descendant may have joined the supervisor's own group, which must live to bury the others.
    let own = getpgid(None).ok();
    for group in groups.into_iter().filter_map(Pid::from_raw).filter(|group| Some(*group) != own) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    for pid in family {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Everybody below this process, the dead that nobody has buried included.
pub fn descendants() -> Vec<Pid> {
    let me = getpid().as_raw_nonzero().get();
    // The kernel lists children only where it was built with CONFIG_PROC_CHILDREN.
    let lists_children = fs::exists(format!("/proc/{me}/task/{me}/children")).unwrap_or(false);
    if lists_children {
        walk(me, children)
    } else {
        let by_parent = children_by_parent();
        walk(me, |parent| by_parent.get(&parent).cloned().unwrap_or_default())
    }
}

fn walk(root: i32, children: impl Fn(i32) -> Vec<i32>) -> Vec<Pid> {
    let mut found = BTreeSet::new();
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        next.extend(children(parent).into_iter().filter(|child| found.insert(*child)));
    }
    found.into_iter().filter_map(Pid::from_raw).collect()
}

/// The children of all threads of `parent`; none if it has ended.
fn children(parent: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

/// Everybody's children, from every process's own word about its parent.
fn children_by_parent() -> BTreeMap<i32, Vec<i32>> {
    let mut by_parent: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(parent) = fs::read_to_string(entry.path().join("stat")).ok().as_deref().and_then(parent_in) {
            by_parent.entry(parent).or_default().push(pid);
        }
    }
    by_parent
}

/// The parent in a line of `/proc/PID/stat` (proc_pid_stat(5)): the second field after the name, which stands in
/// parentheses and may hold anything, parentheses too.
fn parent_in(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
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
    fn both_ways_to_list_children_see_a_child() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let me = getpid().as_raw_nonzero().get();
        assert!(children_by_parent()[&me].contains(&pid));
        assert!(descendants().contains(&Pid::from_child(&child)));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_circle_of_parents_is_walked_once() {
        let found = walk(1, |parent| vec![parent % 3 + 1]);
        assert_eq!(found.len(), 3);
    }
}
