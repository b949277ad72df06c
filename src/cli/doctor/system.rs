//! The terminal, and what the kernel offers. Of the sandbox it is only said what it could be made of.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Resource, getrlimit};

use super::Report;
use crate::cli::config::Surroundings;
use crate::terminal::tty::Tty;

/// A screen that is smaller shows less than a conversation needs.
const SMALL: (u16, u16) = (40, 10);
/// Fewer descriptors are too few for many agents: each at work needs four.
const FEW_DESCRIPTORS: u64 = 1024;

/// Looks at all of it.
pub fn look(report: &mut Report, around: &Surroundings) {
    terminal(report, around);
    locale(report, around);
    landlock(report);
    user_namespaces(report);
    seccomp(report);
    descriptors(report);
    git(report);
}

fn terminal(report: &mut Report, around: &Surroundings) {
    match Tty::open().and_then(|tty| tty.size()) {
        Err(error) => report.warn("terminal", error.message),
        Ok((columns, rows)) if columns < SMALL.0 || rows < SMALL.1 => {
            report.warn("terminal", format!("{columns} by {rows} is small: make the window larger"));
        }
        Ok((columns, rows)) => report.ok("terminal", format!("{columns} columns, {rows} rows")),
    }
    match around.text("TERM") {
        None => report.warn("terminal", "TERM is not set: export TERM=xterm-256color"),
        Some(name) if name == "dumb" => {
            report.warn("terminal", "TERM is dumb: in a real terminal export TERM=xterm-256color");
        }
        Some(name) => {
            let has_all = around.text("COLORTERM").is_some_and(|told| told == "truecolor" || told == "24bit");
            let colours = if has_all { "all colours" } else { "256 colours (COLORTERM is not truecolor)" };
            report.ok("terminal", format!("TERM={name}, {colours}"));
        }
    }
}

/// The first of these that is set counts (POSIX, "Internationalization Variables").
fn locale(report: &mut Report, around: &Surroundings) {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| Some((*name, around.text(name)?)));
    let is_utf8 = |value: &str| value.to_ascii_lowercase().replace('-', "").contains("utf8");
    match set {
        Some((name, value)) if is_utf8(&value) => report.ok("locale", format!("{name}={value}")),
        Some((name, value)) => report.warn("locale", format!("{name}={value} is not UTF-8: export {name}=C.UTF-8")),
        None => report.warn("locale", "none is set: export LANG=C.UTF-8"),
    }
}

/// Since which Linux each version of Landlock's interface is there (landlock(7), "VERSIONS").
const LANDLOCK: [(u32, u32); 7] = [(5, 13), (5, 19), (6, 2), (6, 7), (6, 10), (6, 12), (6, 15)];

/// The kernel lists its security modules. Which version of Landlock it has, only a system call would tell for sure, and
/// that cannot be made without unsafe code: the release stands in for it.
fn landlock(report: &mut Report) {
    let Ok(modules) = fs::read_to_string("/sys/kernel/security/lsm") else {
        return report.warn("sandbox", "nobody tells whether Landlock is on: securityfs is not mounted");
    };
    if !modules.split(',').any(|module| module.trim() == "landlock") {
        return report.warn("sandbox", "Landlock is off: start the kernel with lsm=landlock,… for a second wall");
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let version = release_of(&release).map_or(0, landlock_version);
    report.ok("sandbox", format!("Landlock is on; Linux {release} has version {version} of its interface or later"));
}

fn landlock_version(release: (u32, u32)) -> usize {
    LANDLOCK.iter().take_while(|since| **since <= release).count()
}

fn release_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn user_namespaces(report: &mut Report) {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let most = number("/proc/sys/user/max_user_namespaces");
    // The first is Debian's own, the second AppArmor's.
    let is_denied = number("/proc/sys/kernel/unprivileged_userns_clone") == Some(0);
    let is_restricted = number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1);
    match most {
        None | Some(0) => report.warn("sandbox", "there are no user namespaces: see user.max_user_namespaces"),
        Some(_) if is_denied => {
            report.warn("sandbox", "user namespaces are for root alone: see kernel.unprivileged_userns_clone");
        }
        Some(_) if is_restricted => report
            .warn("sandbox", "AppArmor restricts user namespaces: see kernel.apparmor_restrict_unprivileged_userns"),
        Some(_) => report.ok("sandbox", "user namespaces are there"),
    }
}

fn seccomp(report: &mut Report) {
    match Path::new("/proc/sys/kernel/seccomp/actions_avail").exists() {
        true => report.ok("sandbox", "seccomp filters are there"),
        false => report.warn("sandbox", "seccomp filters are not there: the kernel was built without them"),
    }
}

fn descriptors(report: &mut Report) {
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < FEW_DESCRIPTORS => {
            report.warn("descriptors", format!("only {most} may be open: raise the limit (ulimit -Hn)"));
        }
        Some(most) => report.ok("descriptors", format!("{most} may be open")),
        None => report.ok("descriptors", "any number may be open"),
    }
}

fn git(report: &mut Report) {
    let asked = Command::new("git").arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    match asked {
        Ok(told) if told.status.success() => report.ok("git", String::from_utf8_lossy(&told.stdout).trim().to_owned()),
        _ => report.warn("git", "is not there: agents cannot work in worktrees of their own until it is installed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_tells_the_version_of_landlock() {
        let version = |release| release_of(release).map(landlock_version);
        assert_eq!(version("6.8.0-31-generic"), Some(4));
        assert_eq!(version("5.10.2"), Some(0));
        assert_eq!(version("6.15.1"), Some(7));
        assert_eq!(version("7.0-rc1"), Some(7));
        assert_eq!(version("strange"), None);
    }
}
