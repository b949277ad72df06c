//! A server that outlives terminals, the terminals that come and go, and what scripts ask of it: the real program in all
//! its parts.
//!
//! This file has what all of it starts from. A file per subject:

mod alone;
mod attached;
mod background;
mod chats;
mod completions;
mod crashes;
mod editor;
mod landing;
mod lifecycle;
mod proxy;
mod restarts;
mod scripts;
mod self_approval;
mod versions;

use std::path::Path;
use std::process::{Command, Output};

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal};
use tempfile::TempDir;

use crate::support::PATIENCE;
use crate::support::pty::Pty;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_polylogue");

/// A directory in which the program is started, also as a server. Dropped, nothing of it runs on.
struct App {
    directory: TempDir,
    variables: Vec<(String, String)>,
    server: Option<Server>,
    /// Where the program is started.
    workspace: TempDir,
}

/// A server in the background, which is no child of ours.
struct Server {
    pid: Pid,
    handle: OwnedFd,
}

/// The output and the exit code of the program.
#[derive(Debug)]
struct Response {
    code: Option<i32>,
    out: String,
    err: String,
}

impl App {
    /// With agents that only echo, and no server.
    fn new() -> Self {
        let directory = || tempfile::tempdir().expect("a directory");
        Self { directory: directory(), workspace: directory(), variables: Vec::new(), server: None }
    }

    /// With a server in the background.
    fn served() -> Self {
        let mut app = Self::new();
        app.serve();
        app
    }

    /// The same, with agents that talk to an OpenAI-compatible server.
    fn served_with(url: &str) -> Self {
        let mut app = Self::new();
        app.variables.push(("OPENAI_BASE_URL".into(), url.into()));
        app.variables.push(("POLYLOGUE_MODEL".into(), "openai/test".into()));
        app.serve();
        app
    }

    fn serve(&mut self) {
        let output = self.run(&["serve", "--background"]);
        assert_eq!(output.code, Some(0), "{output:?}");
        let pid = output.out.trim().parse().ok().and_then(Pid::from_raw).expect("the number of a process");
        let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty()).expect("it serves");
        self.server = Some(Server { pid, handle });
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = crate::support::signals::command(PROGRAM);
        command
            .args(args)
            .current_dir(self.workspace.path())
            .env_clear()
            .env("POLYLOGUE_LOOK_UP_MODELS", "false")
            .env("POLYLOGUE_MODEL", "echo")
            .env("HOME", self.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("POLYLOGUE_DATA_DIR", self.path()).envs(self.variables.iter().cloned());
        command
    }

    /// Runs it without a terminal, to its end.
    fn run(&self, args: &[&str]) -> Response {
        Response::of(crate::support::output(&mut self.command(args)))
    }

    /// The same, and it has to end well. What it printed.
    fn get(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.code, Some(0), "{args:?}: {output:?}");
        output.out
    }

    /// In a terminal of this size.
    fn terminal(&self, args: &[&str], size: (u16, u16)) -> Pty {
        let path = self.path().to_str().expect("UTF-8");
        let mut envs = vec![("HOME", path), ("POLYLOGUE_DATA_DIR", path), ("LANG", "C.UTF-8")];
        envs.extend(self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        Pty::spawn(PROGRAM, args, &envs, size)
    }

    /// A terminal at the server, when it shows its first frame.
    fn attach(&self, args: &[&str], size: (u16, u16)) -> Pty {
        let args: Vec<&str> = std::iter::once("attach").chain(args.iter().copied()).collect();
        let mut pty = self.terminal(&args, size);
        pty.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
        pty
    }

    fn pid(&self) -> Pid {
        self.server.as_ref().expect("it serves").pid
    }

    fn signal(&self, signal: Signal) {
        let server = self.server.as_ref().expect("it serves");
        rustix::process::pidfd_send_signal(&server.handle, signal).expect("it lives");
    }

    /// Waits until the process of the server is gone.
    fn server_ends(&mut self) {
        let server = self.server.take().expect("it served");
        assert!(has_ended(&server.handle), "the server lives on");
    }
}

/// Whether a process that is not ours ends in good time.
fn has_ended(process: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let patience = Timespec::try_from(PATIENCE).expect("seconds");
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&patience)) == Ok(1)
}

/// Looks again and again at what no descriptor tells of, until it holds.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up = std::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < give_up, "waited {PATIENCE:?} for {what}");
        std::thread::yield_now();
    }
}

impl Drop for App {
    /// Also where the test has failed.
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            // It may have ended of itself.
            let _ = rustix::process::pidfd_send_signal(&server.handle, Signal::KILL);
            has_ended(&server.handle);
        }
    }
}

impl Response {
    fn of(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}
