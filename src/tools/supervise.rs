//! The re-executed mode of our own binary that runs one command and leaves nothing of it behind.
//!
//! ```text
//!   polylogue ── control pipe (its write end) ──▶ stdin  polylogue --supervise -- bash -c COMMAND
//!                                                          session leader, subreaper
//!                                                          └─ bash  own process group, stdin /dev/null
//!                                                             └─ whatever it starts
//! ```
//!
//! The command is over when its first process has ended, when a byte or the end of file comes on the control pipe (the
//! parent cancelled, or died, even by SIGKILL), or when the supervisor gets TERM, INT or HUP. Then every descendant gets
//! TERM, and after a grace KILL until none is left. As a subreaper the supervisor inherits every orphan, also one that
//! called `setsid`, so that "no child is left" means "nothing is left". What may not live here: threads, anything of a chat.
//!
//! Not covered: a process that we may not signal (setuid), or a command that kills its own supervisor by SIGKILL.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use super::process_tree;

/// The first argument that selects this mode.
pub const FLAG: &str = "--supervise";

/// Behind [`FLAG`]: the command gets the whole environment. For commands of the person's own, never for a model's.
pub const WHOLE_ENVIRONMENT: &str = "--whole-environment";

/// How long what is left of a command may take to end by itself after TERM.
const GRACE: Duration = Duration::from_millis(50);

/// How long KILL is repeated before what cannot be killed is reported and left.
const PATIENCE: Duration = Duration::from_secs(2);

/// The exit code where the command could not be started, as shells have it.
const NOT_STARTED: u8 = 126;

/// Runs `[--whole-environment] -- PROGRAM ARGUMENT...` to its end and exits with its code, or 128 and its signal. The arguments are those after
/// [`FLAG`].
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter().peekable();
    let is_whole = args.next_if(|first| first == WHOLE_ENVIRONMENT).is_some();
    let code = match (args.next(), args.next()) {
        (Some(dashes), Some(program)) if dashes == "--" => supervise(&program, &args.collect::<Vec<_>>(), is_whole),
        _ => Err(format!("expected: [{WHOLE_ENVIRONMENT}] -- PROGRAM ARGUMENT...")),
    };
    ExitCode::from(code.unwrap_or_else(|words| {
        complain(&words);
        NOT_STARTED
    }))
}

/// The environment of this process without secrets and without what changes how programs are loaded, and with what keeps
/// programs from asking a person.
pub fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    let inherited = std::env::vars_os().filter(|(name, _)| !is_withheld(&name.to_string_lossy()));
    inherited.chain(SETTINGS.iter().map(|(name, value)| ((*name).into(), (*value).into())))
}

const SETTINGS: [(&str, &str); 3] = [("TERM", "dumb"), ("PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0")];

fn is_withheld(name: &str) -> bool {
    const ENDINGS: [&str; 8] =
        ["_KEY", "_KEYS", "_TOKEN", "_TOKENS", "_SECRET", "_SECRETS", "_PASSWORD", "_CREDENTIALS"];
    let name = name.to_ascii_uppercase();
    name.starts_with("LD_") || ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn supervise(program: &OsString, arguments: &[OsString], is_whole: bool) -> Result<u8, String> {
    rustix::process::setsid().map_err(|error| format!("no new session: {error}"))?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| format!("cannot inherit orphans: {error}"))?;
    let mut news = News::listen().map_err(|error| format!("no signals: {error}"))?;
    let mut family = Family::start(program, arguments, is_whole)?;
    news.wait_for_end_of(&mut family);
    family.end(&mut news);
    Ok(family.code())
}

/// Everything that was started and is not yet reaped.
struct Family {
    command: Pid,
    status: Option<WaitStatus>,
}

impl Family {
    /// Starts the command in a process group of its own. It cannot get a terminal: only the session's leader could.
    fn start(program: &OsString, arguments: &[OsString], is_whole: bool) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).process_group(0);
        if !is_whole {
            command.env_clear().envs(environment());
        }
        let child = command.spawn().map_err(|error| format!("cannot run {}: {error}", program.display()))?;
        Ok(Self { command: Pid::from_child(&child), status: None })
    }

    /// Buries the dead. Whether anybody is left.
    fn reap(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.command => self.status = Some(status),
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Ends everybody: TERM, a grace, then KILL until nobody is left or patience is.
    fn end(&mut self, news: &mut News) {
        let start = Instant::now();
        if !self.reap() {
            return;
        }
        process_tree::terminate();
        while self.reap() && start.elapsed() < GRACE {
            news.wait(GRACE.saturating_sub(start.elapsed()));
        }
        while self.reap() && start.elapsed() < PATIENCE {
            process_tree::kill();
            news.wait(Duration::from_millis(if start.elapsed() < 2 * GRACE { 1 } else { 20 }));
        }
        if self.reap() {
            complain(&format!("could not end {:?}", process_tree::descendants()));
        }
    }

    fn code(&self) -> u8 {
        let signal = |status: WaitStatus| status.terminating_signal().map(|signal| 128 + signal);
        let code = self.status.and_then(|status| status.exit_status().or_else(|| signal(status)));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(128 + Signal::KILL.as_raw() as u8)
    }
}

/// What wakes the supervisor.
struct News {
    signals: UnixStream,
    is_terminated: Arc<AtomicBool>,
}

impl News {
    fn listen() -> std::io::Result<Self> {
        let (signals, sender) = UnixStream::pair()?;
        signals.set_nonblocking(true)?;
        let is_terminated = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&is_terminated))?;
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        signal_hook::low_level::pipe::register(SIGCHLD, sender)?;
        Ok(Self { signals, is_terminated })
    }

    /// Returns when the command has ended or is to be ended.
    fn wait_for_end_of(&mut self, family: &mut Family) {
        loop {
            family.reap();
            if family.status.is_some() || self.is_terminated.load(Ordering::Acquire) {
                return;
            }
            let control = std::io::stdin();
            let mut ready = [PollFd::new(&control, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
            let polled = poll(&mut ready, None);
            if polled.is_ok() && !ready[0].revents().is_empty() {
                return;
            }
            self.drain();
        }
    }

    /// Waits for a signal, at most for `timeout`.
    fn wait(&mut self, timeout: Duration) {
        let timeout = Timespec::try_from(timeout).expect("a timeout of this file is short");
        // An interrupted wait is a short one; the caller looks at the clock.
        let _ = poll(&mut [PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN)], Some(&timeout));
        self.drain();
    }

    fn drain(&mut self) {
        while matches!(self.signals.read(&mut [0; 64]), Ok(count) if count > 0) {}
    }
}

/// Tells who reads the command's output. Nobody may be there any more.
fn complain(words: &str) {
    let _ = writeln!(std::io::stderr(), "polylogue {FLAG}: {words}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_and_of_the_loader_are_withheld() {
        for name in ["OPENAI_API_KEY", "GH_TOKEN", "aws_secret", "LD_PRELOAD", "PGPASSWORD_PASSWORD", "X_KEYS"] {
            assert!(is_withheld(name), "{name}");
        }
        for name in ["PATH", "HOME", "KEYBOARD", "TOKENIZER", "OLD_PATH", "XDG_DATA_HOME"] {
            assert!(!is_withheld(name), "{name}");
        }
    }
}
