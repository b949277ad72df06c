//! Which process is at the other end of a connection. A command that a tool has started must not control the server: it would
//! answer questions about itself. Such a process has a supervisor among its ancestors, or runs in a namespace of process
//! ids or under a seccomp filter that the server does not have.
//!
//! The kernel names the process that connected (unix(7), SO_PEERCRED; SO_PEERPIDFD since Linux 6.5).

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::{PeerCredentials, PeerPidfd};
use rustix::process::{child_subreaper, geteuid, getpid};

use crate::base::process::parent_in;

/// The first argument of a supervisor. It is the same in every version; a process that pretends to be one is only
/// refused.
const SUPERVISOR: &str = "--supervise";
/// A chain of ancestors that is longer is refused.
const MOST_ANCESTORS: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Person,
    OtherUser,
    /// Started by a tool, or it cannot be found out.
    Tool,
}

pub fn peer_of(stream: &UnixStream) -> Peer {
    match getsockopt(stream, PeerCredentials) {
        Ok(peer) if peer.uid() != geteuid().as_raw() => Peer::OtherUser,
        Ok(peer) if is_from_tool(stream, peer.pid()) => Peer::Tool,
        Ok(_) => Peer::Person,
        Err(_) => Peer::OtherUser,
    }
}

fn is_from_tool(stream: &UnixStream, pid: i32) -> bool {
    let own = getpid().as_raw_nonzero().get();
    pid != own && (pid <= 0 || is_confined(stream, pid) || has_supervisor(pid, own))
}

/// Whether the process is in another PID namespace, under a seccomp filter, or has ended.
fn is_confined(stream: &UnixStream, pid: i32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return true };
    let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let numbers = match getsockopt(stream, PeerPidfd) {
        Ok(pidfd) => fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).unwrap_or_default(),
        Err(_) => status.clone(),
    };
    let count = |text: &str| field(text, "NSpid").map(|numbers| numbers.split_whitespace().count());
    // A process that has ended has the number -1.
    let is_elsewhere =
        field(&numbers, "NSpid").is_some_and(|pids| pids.starts_with('-')) || count(&numbers) != count(&own);
    let is_filtered = |status| field(status, "Seccomp") == Some("2");
    is_elsewhere || is_filtered(&status) && !is_filtered(&own)
}

/// Whether a supervisor is above the process. Orphans hang on their supervisor, and on this process if it was killed.
fn has_supervisor(mut pid: i32, own: i32) -> bool {
    let adopts_orphans = matches!(child_subreaper(), Ok(Some(_)));
    for _ in 0..MOST_ANCESTORS {
        if pid == own {
            return adopts_orphans;
        }
        if pid <= 1 {
            return false;
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        let Some(parent) = stat.ok().as_deref().and_then(parent_in) else {
            // With `hidepid` the ancestors of other users are hidden, which are no supervisors; others can always be read.
            return fs::exists("/proc/1/stat").unwrap_or(false);
        };
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if command.split(|byte| *byte == 0).nth(1) == Some(SUPERVISOR.as_bytes()) {
            return true;
        }
        pid = parent;
    }
    true
}

/// The value in a line `name: value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_no_tool() {
        let (near, _far) = UnixStream::pair().unwrap();
        assert_eq!(peer_of(&near), Peer::Person);
    }

    #[test]
    fn a_child_is_no_tool_and_a_process_that_is_gone_is_taken_for_one() {
        let own = getpid().as_raw_nonzero().get();
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(!has_supervisor(pid, own));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(has_supervisor(pid, own));
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        assert_eq!(field("NSpid:\t7\t1\nSeccomp_filters:\t0\nSeccomp:\t2\n", "Seccomp"), Some("2"));
        assert_eq!(field("NSpid:\t7\t1\n", "NSpid"), Some("7\t1"));
        assert_eq!(field("NSpid:\t7\t1\n", "Pid"), None);
    }
}
