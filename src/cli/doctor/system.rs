//! Checks the terminal, the locale, git and what the kernel offers for a sandbox.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Resource, getrlimit};

use super::Report;
use crate::cli::config::ProcessEnvironment;
use crate::terminal::tty::Tty;

/// Columns and rows.
const MIN_SIZE: (u16, u16) = (40, 10);
/// An agent that works needs four.
const MIN_DESCRIPTORS: u64 = 1024;

pub fn check(report: &mut Report, env: &ProcessEnvironment) {
    terminal(report, env);
    locale(report, env);
    landlock(report);
    user_namespaces(report);
    seccomp(report);
    descriptors(report);
    git(report);
}

fn terminal(report: &mut Report, env: &ProcessEnvironment) {
    match Tty::open().and_then(|tty| tty.size()) {
        Err(error) => report.warn("terminal", error.message),
        Ok((columns, rows)) if columns < MIN_SIZE.0 || rows < MIN_SIZE.1 => {
            report.warn("terminal", format!("only {columns} columns and {rows} rows: enlarge the window"));
        }
        Ok((columns, rows)) => report.ok("terminal", format!("{columns} columns, {rows} rows")),
    }
    match env.text("TERM") {
        None => report.warn("terminal", "TERM is not set: export TERM=xterm-256color"),
        Some(name) if name == "dumb" => {
            report.warn("terminal", "TERM is dumb: if the terminal supports more, export TERM=xterm-256color");
        }
        Some(name) => {
            let is_true_colour = env.text("COLORTERM").is_some_and(|value| value == "truecolor" || value == "24bit");
            let colours = if is_true_colour { "24-bit colours" } else { "256 colours (COLORTERM is not truecolor)" };
            report.ok("terminal", format!("TERM={name}, {colours}"));
        }
    }
}

/// The first variable that is set counts (POSIX, "Internationalization Variables").
fn locale(report: &mut Report, env: &ProcessEnvironment) {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| Some((*name, env.text(name)?)));
    let is_utf8 = |value: &str| value.to_ascii_lowercase().replace('-', "").contains("utf8");
    match set {
        Some((name, value)) if is_utf8(&value) => report.ok("locale", format!("{name}={value}")),
        Some((name, value)) => report.warn("locale", format!("{name}={value} is not UTF-8: export {name}=C.UTF-8")),
        None => report.warn("locale", "no locale is set: export LANG=C.UTF-8"),
    }
}

/// The Linux versions that introduced each version of Landlock's ABI (landlock(7), "VERSIONS").
const LANDLOCK: [(u32, u32); 7] = [(5, 13), (5, 19), (6, 2), (6, 7), (6, 10), (6, 12), (6, 15)];

/// The ABI version is derived from the kernel release: asking the kernel would need unsafe code.
fn landlock(report: &mut Report) {
    let Ok(modules) = fs::read_to_string("/sys/kernel/security/lsm") else {
        return report.warn("sandbox", "Landlock: unknown, securityfs is not mounted");
    };
    if !modules.split(',').any(|module| module.trim() == "landlock") {
        return report.warn("sandbox", "Landlock: disabled; enable it with the kernel parameter lsm=landlock,…");
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let version = release_of(&release).map_or(0, landlock_version);
    report.ok("sandbox", format!("Landlock: enabled, ABI version {version} or later (Linux {release})"));
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
    let limit = number("/proc/sys/user/max_user_namespaces");
    // The first file is Debian's, the second AppArmor's.
    let is_denied = number("/proc/sys/kernel/unprivileged_userns_clone") == Some(0);
    let is_restricted = number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1);
    match limit {
        None | Some(0) => report.warn("sandbox", "user namespaces: disabled; see user.max_user_namespaces"),
        Some(_) if is_denied => {
            report.warn("sandbox", "user namespaces: only for root; see kernel.unprivileged_userns_clone");
        }
        Some(_) if is_restricted => report.warn(
            "sandbox",
            "user namespaces: restricted by AppArmor; see kernel.apparmor_restrict_unprivileged_userns",
        ),
        Some(_) => report.ok("sandbox", "user namespaces: available"),
    }
}

fn seccomp(report: &mut Report) {
    match Path::new("/proc/sys/kernel/seccomp/actions_avail").exists() {
        true => report.ok("sandbox", "seccomp filters: available"),
        false => report.warn("sandbox", "seccomp filters: not built into the kernel"),
    }
}

fn descriptors(report: &mut Report) {
    match getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < MIN_DESCRIPTORS => {
            report.warn("descriptors", format!("at most {limit} open files: raise the limit with ulimit -Hn"));
        }
        Some(limit) => report.ok("descriptors", format!("at most {limit} open files")),
        None => report.ok("descriptors", "no limit"),
    }
}

fn git(report: &mut Report) {
    let output = Command::new("git").arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => {
            report.ok("git", String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        _ => report.warn("git", "not found: install it to give agents their own worktrees"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_landlock_follows_from_the_release() {
        let version = |release| release_of(release).map(landlock_version);
        assert_eq!(version("6.8.0-31-generic"), Some(4));
        assert_eq!(version("5.10.2"), Some(0));
        assert_eq!(version("6.15.1"), Some(7));
        assert_eq!(version("7.0-rc1"), Some(7));
        assert_eq!(version("strange"), None);
    }
}
