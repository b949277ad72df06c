//! Starts children with default signal dispositions, however the suite itself was started.

use std::ffi::OsStr;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU};

/// A command whose process will not ignore a signal only because this one was started to ignore it.
///
/// A job that a script runs in the background ignores SIGINT and SIGQUIT, and one under `nohup` SIGHUP. Children inherit
/// that. A handler, however, is replaced by the default when a program is executed (signal(7)), so an ignored signal is
/// given one that does nothing.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let ignored = ignored();
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU] {
            if ignored >> (signal - 1) & 1 == 1 {
                signal_hook::flag::register(signal, Arc::<AtomicBool>::default())
                    .expect("a signal that can be handled");
            }
        }
    });
    Command::new(program)
}

/// A bit for each signal that this process ignores, the lowest for signal 1 (proc_pid_status(5), `SigIgn`).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
