//! Checks the terminal, the locale, the number of open files and git.

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
