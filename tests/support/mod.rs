//! Test support: scripted servers, a server for thousands of streams, a harness that drives the loop, and a real terminal.
//!
//! The servers do not use the crate under test, so that a mistake in it is not repeated there. The benchmark includes
//! this folder by path and uses a part of it.

#![allow(dead_code)]

pub mod anthropic;
pub mod attached;
pub mod client;
pub mod descriptors;
pub mod disk;
pub mod faulty_disk;
pub mod flood;
pub mod harness;
pub mod http;
pub mod internals;
pub mod limited;
pub mod openai;
pub mod peer;
pub mod program;
pub mod pty;
pub mod random;
pub mod recorded_disk;
pub mod responses;
pub mod scene;
pub mod signals;
pub mod size;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod tracer;
pub mod typist;
pub mod validity;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};

/// How long a test waits for something before it fails. Only a failing test waits so long, and a machine may be ten times
/// slower than usual.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// What is left of [`PATIENCE`] in a loop. Each round counts as a second at most: a virtual machine may be suspended for
/// minutes, which is not a fault of the program.
pub struct Patience {
    left: Duration,
    last: Instant,
}

impl Patience {
    pub fn new() -> Self {
        Self { left: PATIENCE, last: Instant::now() }
    }

    /// Whether another round may be waited.
    pub fn has_time(&mut self) -> bool {
        let now = Instant::now();
        self.left = self.left.saturating_sub((now - self.last).min(Duration::from_secs(1)));
        self.last = now;
        !self.left.is_zero()
    }
}

/// Waits for what another thread or process does soon.
///
/// What this process closes is closed a moment later: a child that another test has just forked holds a copy of every
/// descriptor until it executes its program.
pub fn eventually(mut holds: impl FnMut() -> bool) {
    let mut patience = Patience::new();
    while !holds() {
        assert!(patience.has_time(), "did not happen within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// Runs a command without input to its end, and returns what it wrote. One that does not end is killed and fails the test.
pub fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    output_of(command.spawn().expect("it starts"))
}

/// The same for a command that runs already.
pub fn output_of(child: Child) -> Output {
    let (pid, (sender, ended)) = (Pid::from_child(&child), channel());
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(PATIENCE) else {
        // It may have ended in this moment.
        let _ = kill_process(pid, Signal::KILL);
        panic!("the command did not end within {PATIENCE:?}");
    };
    output.expect("the output of a child")
}

/// Writes a file that can be executed. Another process writes it: a child of another test may hold a copy of every descriptor
/// of this one for a moment, and the kernel executes nothing that is open for writing.
pub fn write_executable(path: &Path, content: &[u8]) {
    let script = "umask 022 && cat > \"$0\" && chmod 755 \"$0\"";
    let mut shell = Command::new("sh");
    let mut shell =
        shell.args(["-c".as_ref(), script.as_ref(), path.as_os_str()]).stdin(Stdio::piped()).spawn().expect("a shell");
    shell.stdin.take().expect("a pipe").write_all(content).expect("it reads");
    assert!(shell.wait().expect("it ends").success());
}

/// A pipe in the file system for writing, if somebody has it open for reading.
pub fn open_pipe(path: &Path) -> Option<File> {
    OpenOptions::new().write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path).ok()
}

/// Writes to a pipe in the file system as soon as somebody has it open for reading. Opening it in the usual way would wait
/// without an end for a reader that has failed.
pub fn write_to_pipe(path: &Path, text: &str) {
    let mut pipe = None;
    eventually(|| {
        pipe = open_pipe(path);
        pipe.is_some()
    });
    pipe.expect("just opened").write_all(text.as_bytes()).expect("it is read");
}
