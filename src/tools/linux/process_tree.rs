//! The descendants of this process, found in `/proc`, and signals to them. For the supervisor, which adopts orphans:
//! elsewhere a process whose parent has ended is no longer a descendant.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::{fs, io};

use rustix::process::{
    Pid, Signal, getpid, getppid, kill_process, kill_process_group, set_child_subreaper,
    set_parent_process_death_signal,
};

use crate::base::process::parent_in;

/// Makes this process the parent of every descendant whose own parent has ended (PR_SET_CHILD_SUBREAPER).
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Lets the kernel resume this process, if it is stopped, when its parent dies.
pub fn resume_after_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::CONT))?)
}

/// Sends TERM to every descendant.
pub fn terminate() {
    for pid in descendants() {
        // Fails if the process has just ended or belongs to another user; neither can be helped.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Sends KILL to every descendant and to their process groups.
pub fn kill() {
    kill_all(descendants());
}

/// Sends KILL to these processes, their descendants and all their process groups.
pub fn kill_trees(roots: &[Pid]) {
    let mut pids: Vec<Pid> = roots.iter().flat_map(|root| descendants_of(*root)).collect();
    pids.extend(roots);
    kill_all(pids);
}

/// A group is killed in one step, so that processes that keep forking cannot escape between the listing and the signal.
fn kill_all(pids: Vec<Pid>) {
    let groups: HashSet<Pid> = pids.iter().filter_map(|pid| group_of(*pid)).collect();
    // A descendant may have joined the supervisor's own group, and the supervisor must live to reap the others. A child
    // of the program that this process was before exec is in the group of its parent.
    let kept = [group_of(getpid()), getppid().and_then(group_of)];
    for group in groups.into_iter().filter(|group| !kept.contains(&Some(*group))) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    for pid in pids {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The process group of a process; `None` if it has ended, or if its group is not of this PID namespace: the kernel reports
/// that as 0, which rustix takes for impossible.
fn group_of(pid: Pid) -> Option<Pid> {
    let pid = nix::unistd::Pid::from_raw(pid.as_raw_nonzero().get());
    nix::unistd::getpgid(Some(pid)).ok().and_then(|group| Pid::from_raw(group.as_raw()))
}

/// Includes processes that have ended and are not reaped.
pub fn descendants() -> Vec<Pid> {
    descendants_of(getpid())
}

fn descendants_of(root: Pid) -> Vec<Pid> {
    let root = root.as_raw_nonzero().get();
    if lists_children() {
        walk(root, children)
    } else {
        let by_parent = children_by_parent();
        walk(root, |parent| by_parent.get(&parent).cloned().unwrap_or_default())
    }
}

/// The children of a process, ended ones included.
pub fn children_of(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().get();
    let found =
        if lists_children() { children(parent) } else { children_by_parent().remove(&parent).unwrap_or_default() };
    found.into_iter().filter_map(Pid::from_raw).collect()
}

/// The kernel lists children only where it was built with CONFIG_PROC_CHILDREN.
fn lists_children() -> bool {
    fs::exists("/proc/thread-self/children").unwrap_or(false)
}

fn walk(root: i32, children: impl Fn(i32) -> Vec<i32>) -> Vec<Pid> {
    let mut found = BTreeSet::new();
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        next.extend(children(parent).into_iter().filter(|child| found.insert(*child)));
    }
    found.into_iter().filter_map(Pid::from_raw).collect()
}

/// The children of all threads of `parent`; empty if it has ended.
fn children(parent: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

/// The children of every process on the system, by the parent that each one names.
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_cycle_of_parents_is_walked_once() {
        let found = walk(1, |parent| vec![parent % 3 + 1]);
        assert_eq!(found.len(), 3);
    }
}
