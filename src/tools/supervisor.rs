//! The mode `polylogue --supervise`: runs one command and ends every process that it started.
//!
//! ```text
//!   polylogue ── control socket ──▶ stdin  polylogue --supervise --sandbox -- bash -c COMMAND
//!                                            session leader, adopts orphans
//!                                            └─ init process of the sandbox
//!                                               └─ bash  own process group, stdin /dev/null
//!                                                  └─ its descendants
//! ```
//!
//! With `--sandbox` the control socket first carries the plan of the sandbox, and in the end the reports about it. The
//! command is over when its first process has ended, when a byte or end of file arrives on the control socket (the
//! parent cancelled or died, even by SIGKILL), or when the supervisor gets TERM, INT or HUP. Then every descendant gets
//! TERM, and after a grace period KILL until none is left. The supervisor adopts every orphan, also one that called
//! `setsid`, so that "no child is left" means "no descendant is left". This mode starts no threads.
//!
//! A command that stops its supervisor gains nothing: the parent resumes it, and so does the kernel when the parent dies. If
//! it kills its supervisor, the parent ends what is left (`linux::orphans`).
//!
//! Not covered: a process that we may not signal (setuid), and a command that kills its supervisor and the parent.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

pub use super::linux::process_tree::adopt_orphans;
use super::linux::{descriptors, process_tree};
use crate::base::process::harden;
use crate::sandbox::{self, Plan, Report, variables};

/// The first argument that selects this mode.
pub const FLAG: &str = "--supervise";

/// After [`FLAG`]: the command gets the whole environment. Only for commands from the user's configuration.
pub const WHOLE_ENVIRONMENT: &str = "--whole-environment";

/// After [`FLAG`]: a [`Plan`] comes on standard input, and the command gets its sandbox.
pub const SANDBOX: &str = "--sandbox";

/// The time between TERM and KILL.
const GRACE: Duration = Duration::from_millis(50);

/// How long KILL is repeated before processes that cannot be killed are reported and left.
const KILL_TIME_LIMIT: Duration = Duration::from_secs(2);

/// The exit code if the command could not be started, as in shells.
const NOT_STARTED: u8 = 126;

/// Which environment variables and which sandbox a command gets.
#[derive(PartialEq, Eq)]
enum Mode {
    /// The usual variables, no sandbox.
    Plain,
    WholeEnvironment,
    Sandbox,
}

/// Runs `[--whole-environment | --sandbox] -- PROGRAM ARGUMENT...` (the arguments after [`FLAG`]) to its end. Exits with
/// its code, or with 128 plus the signal that ended it.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter().peekable();
    let mode = match args.next_if(|first| first == WHOLE_ENVIRONMENT || first == SANDBOX) {
        None => Mode::Plain,
        Some(flag) if flag == SANDBOX => Mode::Sandbox,
        Some(_) => Mode::WholeEnvironment,
    };
    let code = match (args.next(), args.next()) {
        (Some(dashes), Some(program)) if dashes == "--" => supervise(&program, &args.collect::<Vec<_>>(), &mode),
        _ => Err(format!("expected: [{WHOLE_ENVIRONMENT} | {SANDBOX}] -- PROGRAM ARGUMENT...")),
    };
    ExitCode::from(code.unwrap_or_else(|message| {
        report(&message);
        NOT_STARTED
    }))
}

fn supervise(program: &OsString, arguments: &[OsString], mode: &Mode) -> Result<u8, String> {
    if *mode != Mode::Sandbox {
        // A sandbox needs maps of users, which a process that is closed to others cannot write: it closes itself then.
        harden();
    }
    descriptors::close_inherited();
    rustix::process::setsid().map_err(|error| format!("cannot start a session: {error}"))?;
    process_tree::resume_after_parent().map_err(|error| format!("cannot watch its parent: {error}"))?;
    adopt_orphans().map_err(|error| format!("cannot adopt orphans: {error}"))?;
    let mut signals = Signals::listen().map_err(|error| format!("cannot handle signals: {error}"))?;
    if *mode == Mode::Sandbox {
        return Ok(in_sandbox(program, arguments, &mut signals));
    }
    let child = start(program, arguments, *mode == Mode::WholeEnvironment)?;
    Ok(Processes::of(Pid::from_child(&child)).run_to_end(&mut signals))
}

/// Whatever keeps the command from being started is reported on the control socket.
fn in_sandbox(program: &OsString, arguments: &[OsString], signals: &mut Signals) -> u8 {
    let plan = Plan::receive().map_err(|error| Report::NotStarted(format!("plan: {error}")));
    let is_terminated = &*signals.is_terminated;
    match plan.and_then(|(plan, descriptors)| sandbox::start(plan, descriptors, program, arguments, is_terminated)) {
        Ok(started) => {
            harden();
            let code = Processes::of(started.process).run_to_end(signals);
            started.finish().iter().for_each(Report::answer);
            code
        }
        Err(report) => {
            report.answer();
            NOT_STARTED
        }
    }
}

/// Starts the command in its own process group. It cannot acquire a terminal: only the session leader could.
fn start(program: &OsString, arguments: &[OsString], is_whole: bool) -> Result<Child, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).process_group(0);
    if !is_whole {
        command.env_clear().envs(variables::given_variables(&[], &[]));
    }
    command.spawn().map_err(|error| format!("cannot run {}: {error}", program.display()))
}

struct Processes {
    command: Pid,
    status: Option<WaitStatus>,
}

impl Processes {
    fn of(command: Pid) -> Self {
        Self { command, status: None }
    }

    /// Waits until the command has ended or must be ended, and ends all processes. The exit code.
    fn run_to_end(mut self, signals: &mut Signals) -> u8 {
        signals.wait_for_end_of(&mut self);
        self.end(signals);
        self.exit_code()
    }

    /// Reaps processes that have ended. Whether any process is left.
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

    /// Ends all processes: TERM, a grace period, then KILL until none is left or the time is over.
    fn end(&mut self, signals: &mut Signals) {
        let start = Instant::now();
        if !self.reap() {
            return;
        }
        process_tree::terminate();
        while self.reap() && start.elapsed() < GRACE {
            signals.wait(GRACE.saturating_sub(start.elapsed()));
        }
        while self.reap() && start.elapsed() < KILL_TIME_LIMIT {
            process_tree::kill();
            signals.wait(Duration::from_millis(if start.elapsed() < 2 * GRACE { 1 } else { 20 }));
        }
        if self.reap() {
            report(&format!("could not end {:?}", process_tree::descendants()));
        }
    }

    fn exit_code(&self) -> u8 {
        let signal = |status: WaitStatus| status.terminating_signal().map(|signal| 128 + signal);
        let code = self.status.and_then(|status| status.exit_status().or_else(|| signal(status)));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(128 + Signal::KILL.as_raw() as u8)
    }
}

struct Signals {
    received: UnixStream,
    is_terminated: Arc<AtomicBool>,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let (received, sender) = UnixStream::pair()?;
        received.set_nonblocking(true)?;
        let is_terminated = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&is_terminated))?;
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        signal_hook::low_level::pipe::register(SIGCHLD, sender)?;
        Ok(Self { received, is_terminated })
    }

    /// Returns when the command has ended or must be ended.
    fn wait_for_end_of(&mut self, processes: &mut Processes) {
        loop {
            processes.reap();
            if processes.status.is_some() || self.is_terminated.load(Ordering::Acquire) {
                return;
            }
            let control = std::io::stdin();
            let mut ready = [PollFd::new(&control, PollFlags::IN), PollFd::new(&self.received, PollFlags::IN)];
            let polled = poll(&mut ready, None);
            if polled.is_ok() && !ready[0].revents().is_empty() {
                return;
            }
            self.drain();
        }
    }

    /// Waits for a signal, at most for `timeout`.
    fn wait(&mut self, timeout: Duration) {
        let timeout = Timespec::try_from(timeout).expect("the timeouts in this file are short");
        // The wait may be interrupted; the caller checks the clock.
        let _ = poll(&mut [PollFd::from_borrowed_fd(self.received.as_fd(), PollFlags::IN)], Some(&timeout));
        self.drain();
    }

    fn drain(&mut self) {
        while matches!(self.received.read(&mut [0; 64]), Ok(count) if count > 0) {}
    }
}

/// Writes to the command's output, which may be closed already.
fn report(message: &str) {
    let _ = writeln!(std::io::stderr(), "polylogue {FLAG}: {message}");
}
