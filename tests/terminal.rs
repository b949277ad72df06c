//! The real program in a real terminal, as a person meets it: what is on the screen, what keys do, and how the terminal
//! is left.
//!
//! This file has what all of it starts from. A file per subject:

mod attacks;
mod background;
mod clipboard;
mod completion;
mod crash;
mod exits;
mod first_start;
mod idle;
mod keys;
mod lines;
mod paste;
mod random_keys;
mod read_only;
mod refusals;
mod resize;
mod safety;
mod scrolling;
mod secrets;
mod setup;
mod suspend;

use std::path::Path;
use std::process::ExitStatus;
use std::time::Instant;

use polylogue::Store;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags};
use tempfile::TempDir;

use crate::support::PATIENCE;
use crate::support::internals::{Body, Message};
use crate::support::pty::{Pty, TerminalLeft};
use crate::support::scene;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_polylogue");

/// How the program is started.
struct Start<'a> {
    args: Vec<&'a str>,
    envs: Vec<(&'a str, &'a str)>,
    size: (u16, u16),
}

impl Default for Start<'_> {
    fn default() -> Self {
        Self { args: Vec::new(), envs: vec![("LANG", "C.UTF-8")], size: (80, 24) }
    }
}

impl<'a> Start<'a> {
    /// With agents that talk to an OpenAI-compatible server.
    fn with_server(url: &'a str) -> Self {
        let mut start = Self::default();
        start.envs.push(("OPENAI_BASE_URL", url));
        start.args.extend(["--model", "openai/test"]);
        start
    }

    /// Starts the program, which keeps everything in this directory.
    fn on(self, directory: &Path) -> Pty {
        let directory = directory.to_str().expect("a path in UTF-8");
        let mut args = vec!["--data-dir", directory];
        args.extend(self.args);
        let mut envs = vec![("HOME", directory)];
        envs.extend(self.envs);
        Pty::spawn(PROGRAM, &args, &envs, self.size)
    }
}

/// The program in a terminal, with a directory of its own.
struct Chat {
    pty: Pty,
    directory: TempDir,
}

impl Chat {
    /// At its first start, with nothing configured.
    fn new() -> Self {
        Self::start(Start::default())
    }

    fn start(start: Start) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut pty = start.on(directory.path());
        pty.wait_for(is_ready, "a prompt");
        Self { pty, directory }
    }

    /// Starts the program again in the same directory, after it ended, with the conversation of before.
    fn start_again(&mut self) {
        self.pty = Start { args: vec!["-c"], ..Start::default() }.on(self.directory.path());
        self.pty.wait_for(is_ready, "a prompt");
    }

    /// Removes its socket: it holds the directory as a run without a terminal does.
    fn answers_no_other_process(&mut self) {
        let socket = self.directory.path().join("server/socket");
        let give_up = Instant::now() + PATIENCE;
        while std::fs::remove_file(&socket).is_err() {
            assert!(Instant::now() < give_up, "no socket at {}", socket.display());
            std::thread::yield_now();
        }
    }

    /// Puts the text in as a paste and sends it.
    fn say(&mut self, text: &str) {
        self.paste(text);
        self.pty.send("\r");
    }

    /// What a terminal sends for a paste.
    fn paste(&mut self, text: &str) {
        self.pty.send(format!("\x1b[200~{text}\x1b[201~"));
    }

    fn sees(&mut self, text: &str) {
        self.pty.wait_for_text(text);
    }

    fn sees_answer(&mut self, said: &str, answer: &str) {
        self.pty.wait_for_answer(said, answer);
    }

    /// Waits until the first message of an agent is answered: then it has used tokens, and works no more.
    fn is_answered(&mut self) {
        let is_over = |text: &str| text.contains(" tokens, ") && !text.contains("Esc stops it");
        self.pty.wait_for(|screen| is_over(&screen.contents()), "the end of the first turn");
    }

    /// Presses a key that asks to leave although agent 0 works: once for the warning, and then again. A press that comes
    /// too late behind the warning is a first one, and the next comes at once.
    fn insists(&mut self, key: &str) {
        self.pty.send(key);
        self.sees("agent 0 is busy: press again within 2 s to leave");
        self.pty.send(key.repeat(2));
    }

    /// Waits until the draft is this text, and nothing else.
    fn sees_draft(&mut self, text: &str) {
        self.pty.wait_for(|screen| draft_on(screen).trim_end() == text, &format!("the draft {text:?}"));
    }

    /// Starts a command that runs until it is ended, through an approved tool call. Returns what only its command line
    /// holds.
    fn run_for_ever(&mut self) -> Marked {
        let marker = Marked::new();
        self.say(&format!("%tool bash {{\"command\":\"sleep {} & wait\"}}", marker.seconds));
        self.sees("y to run it");
        self.pty.send("y");
        eventually("the command to run", || marker.processes().iter().any(|(_, line)| line.starts_with("sleep")));
        marker
    }

    /// Waits for the end of the program, and asks how it left the terminal.
    fn ends_well(&mut self) -> ExitStatus {
        let status = self.exit_status();
        let screen = self.pty.screen_text();
        let says_so = ["to continue: polylogue --data-dir", "so this conversation is not kept"];
        assert!(says_so.iter().any(|text| screen.contains(text)), "says how to go on:\n{screen}");
        status
    }

    /// The same, where the screen may be too small for text.
    fn exit_status(&mut self) -> ExitStatus {
        let status = self.pty.wait_exit();
        assert_eq!(self.pty.terminal_left(), TerminalLeft::CLEAN);
        status
    }

    /// What is stored of every agent, in the order of creation; after the program has ended.
    fn logs(&self) -> Vec<Vec<Message>> {
        let store = Store::open(self.directory.path()).expect("an unlocked store");
        let agents = store.load_agents().expect("a registry").agents;
        agents.iter().map(|agent| store.replay(agent.id).expect("a log").0).collect()
    }
}

/// Whether a whole frame is there: a prompt, and the status line below it.
fn is_ready(screen: &vt100::Screen) -> bool {
    let text = screen.contents();
    text.contains("\n> ") || text.contains("\n>\n")
}

/// The text behind the prompt: between the last row that begins with it and the status line.
fn draft_on(screen: &vt100::Screen) -> String {
    let rows: Vec<String> = screen.rows(0, screen.size().1).collect();
    let first = rows.iter().rposition(|row| row.starts_with('>')).unwrap_or(0);
    let last = rows.len().saturating_sub(1).max(first + 1);
    let lines = rows[first..last].iter().map(|row| row.chars().skip(2).collect::<String>());
    lines.collect::<Vec<_>>().join("\n")
}

/// What agents answered, as it is stored.
fn replies<'a>(log: &'a [Message]) -> Vec<&'a str> {
    let text = |message: &'a Message| match &message.body {
        Body::Assistant(reply) => Some(reply.text.as_str()),
        _ => None,
    };
    log.iter().filter_map(text).collect()
}

/// A command that can be recognized among all others on this machine.
struct Marked {
    seconds: String,
}

impl Marked {
    fn new() -> Self {
        Self { seconds: scene::mark() }
    }

    /// Every living process with the mark in its command line: the command, its shell, its supervisor.
    fn processes(&self) -> Vec<(Pid, String)> {
        let entries = std::fs::read_dir("/proc").expect("a list of processes").flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let lines = numbers.filter_map(|number| {
            let line = std::fs::read_to_string(format!("/proc/{number}/cmdline")).ok()?;
            line.contains(&self.seconds).then(|| (Pid::from_raw(number).expect("not 0"), line))
        });
        lines.collect()
    }

    /// Fails unless nothing of it is left now.
    fn is_gone(&self) {
        assert_eq!(self.processes(), []);
    }

    /// Handles on all of it, which tell when it ends.
    fn watch(&self) -> Vec<OwnedFd> {
        let open = |(pid, _)| rustix::process::pidfd_open(pid, PidfdFlags::empty()).expect("a living process");
        self.processes().into_iter().map(open).collect()
    }
}

/// Looks again and again at what no descriptor tells of, until it holds.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < give_up, "waited {PATIENCE:?} for {what}");
        std::thread::yield_now();
    }
}

/// Waits for the end of processes that are not ours.
fn end_of_all(processes: &[OwnedFd]) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    for process in processes {
        let patience = Timespec::try_from(PATIENCE).expect("seconds");
        let ended = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&patience));
        assert_eq!(ended, Ok(1), "a process of a tool lives on");
    }
}
