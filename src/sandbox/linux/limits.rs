//! Resource limits (getrlimit(2)), and a limit of the PID namespace, which also applies to root.

use std::fs;

use rustix::io;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::sandbox::{Level, ResourceLimits};

const PID_MAX: &str = "/proc/sys/kernel/pid_max";
/// Before this version of Linux, `pid_max` is a setting of the whole system.
const PID_MAX_OF_NAMESPACE: (u32, u32) = (6, 14);
/// Linux refuses a lower one: `RESERVED_PIDS` and one more.
const LEAST_PID_MAX: u64 = 301;

pub fn set(level: Level, limits: &ResourceLimits) -> io::Result<()> {
    let mut all = vec![
        (Resource::Core, 0),
        (Resource::Fsize, limits.file),
        (Resource::Data, limits.memory),
        (Resource::Nofile, limits.open_files),
    ];
    // Without a user namespace all processes of the user count.
    if level.has_namespaces() {
        all.push((Resource::Nproc, limits.processes));
    }
    all.into_iter().try_for_each(|(resource, limit)| lower(resource, limit))
}

fn lower(resource: Resource, limit: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let least = |one: Option<u64>| Some(one.map_or(limit, |one| one.min(limit)));
    setrlimit(resource, Rlimit { current: least(now.current), maximum: least(now.maximum) })
}

/// Bounds the process numbers of the PID namespace whose first process calls this, because the limit of processes does not
/// apply to root.
pub fn bound_pids(limits: &ResourceLimits) {
    if !rustix::process::getpid().is_init() {
        return;
    }
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= PID_MAX_OF_NAMESPACE {
        // Refused where /proc is read-only; then the limit of processes is all there is.
        let _ = fs::write(PID_MAX, limits.processes.max(LEAST_PID_MAX).to_string());
    }
}
