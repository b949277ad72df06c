//! The real program as a script starts it: in a home directory of its own, with pipes and without a terminal.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use polylogue::{AgentId, Store};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::{PATIENCE, signals};
use crate::support::internals::Body;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_polylogue");

/// An empty home directory in which the program is started.
pub struct Home {
    pub directory: TempDir,
    pub variables: Vec<(String, String)>,
}

impl Home {
    /// The model is echo, unless the variables of the test name another one.
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory"), variables: Vec::new() }
    }

    /// With an OpenAI-compatible server.
    pub fn with_server(url: &str) -> Self {
        let variables = vec![("OPENAI_BASE_URL".into(), url.into()), ("POLYLOGUE_MODEL".into(), "openai/test".into())];
        Self { variables, ..Self::new() }
    }

    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// A command with an empty standard input.
    pub fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = signals::command(program);
        command
            .args(args)
            .current_dir(self.directory.path())
            .env_clear()
            .env("POLYLOGUE_LOOK_UP_MODELS", "false")
            .env("POLYLOGUE_MODEL", "echo")
            .env("HOME", self.directory.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("POLYLOGUE_DATA_DIR", self.data());
        command.envs(self.variables.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts the program with these arguments.
    pub fn start(&self, args: &[&str]) -> Program {
        Program::start(self.command(PROGRAM, args))
    }

    /// The same, with an input that the test writes.
    pub fn start_with_input(&self, args: &[&str]) -> Program {
        let mut command = self.command(PROGRAM, args);
        command.stdin(Stdio::piped());
        Program::start(command)
    }

    /// Runs the program to its end.
    pub fn run(&self, args: &[&str]) -> Response {
        self.start(args).ends()
    }

    /// A server, once it serves.
    pub fn serve(&self) -> Program {
        let server = self.start(&["serve"]);
        let line = server.err.recv_timeout(PATIENCE).expect("a line");
        assert!(String::from_utf8_lossy(&line).contains("serves"), "{}", String::from_utf8_lossy(&line));
        server
    }

    /// Runs a shell script, in which `"$0"` is the program.
    pub fn shell(&self, script: &str) -> Response {
        Program::start(self.command("sh", &["-c", script, PROGRAM])).ends()
    }

    /// The stored log of the agent with this number.
    pub fn log(&self, ordinal: usize) -> Vec<Body> {
        let store = Store::open(&self.data()).expect("a store");
        let agent = stored_agents(&store)[ordinal];
        store.replay(agent).expect("a log").0.into_iter().map(|message| message.body).collect()
    }

    /// The id of a stored agent, the root being 0, even while a process holds the store.
    pub fn id(&self, ordinal: usize) -> String {
        stored_agents(&Store::open_read_only(&self.data()).expect("a store"))[ordinal].to_string()
    }

    /// The number of stored agents.
    pub fn agents(&self) -> usize {
        stored_agents(&Store::open(&self.data()).expect("a store")).len()
    }
}

/// The agents that were not killed, archived ones included, in order of creation.
fn stored_agents(store: &Store) -> Vec<AgentId> {
    let (listed, archived) = (store.load_agents().expect("agents"), store.archived_agents().expect("agents"));
    let mut agents: Vec<_> =
        listed.agents.into_iter().chain(archived.agents).map(|row| (row.ordinal, row.id)).collect();
    agents.sort_unstable();
    agents.into_iter().map(|(_, id)| id).collect()
}

/// The texts of the user and assistant messages.
pub fn texts(log: &[Body]) -> Vec<&str> {
    log.iter().filter_map(text_of).collect()
}

fn text_of(body: &Body) -> Option<&str> {
    match body {
        Body::User(text) => Some(text),
        Body::Assistant(reply) => Some(&reply.text),
        _ => None,
    }
}

/// The program while it runs. Its output is read line by line as it arrives.
pub struct Program {
    pub pid: Pid,
    pub input: Option<ChildStdin>,
    pub out: Receiver<Vec<u8>>,
    pub err: Receiver<Vec<u8>>,
    exit: Receiver<ExitStatus>,
}

impl Program {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let (sender, exit) = channel();
        let (pid, input) = (Pid::from_child(&child), child.stdin.take());
        let out = lines(child.stdout.take());
        let err = lines(child.stderr.take());
        thread::spawn(move || sender.send(child.wait().expect("a child")));
        Self { pid, input, out, err, exit }
    }

    /// The next line of its output, without the line break. Blocks until it arrives.
    pub fn line(&self) -> String {
        let line = self.out.recv_timeout(PATIENCE).expect("a line");
        String::from_utf8(line).expect("text").trim_end_matches('\n').to_owned()
    }

    /// The next line, as JSON.
    pub fn object(&self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// The next object in its output of this type.
    pub fn next(&self, kind: &str) -> Value {
        std::iter::repeat_with(|| self.object()).find(|object| object["type"] == kind).expect("endless")
    }

    pub fn write(&mut self, text: &str) {
        self.input.as_mut().expect("an input").write_all(text.as_bytes()).expect("it reads");
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("it lives");
    }

    /// Closes its input and waits until it exits.
    pub fn ends(mut self) -> Response {
        drop(self.input.take());
        let status = self.exit.recv_timeout(PATIENCE).expect("it ends");
        let all = |lines: Receiver<Vec<u8>>| String::from_utf8(lines.iter().flatten().collect()).expect("text");
        let signal = status.signal().map(|number| 128 + number);
        Response { code: status.code().or(signal).unwrap_or(-1), out: all(self.out), err: all(self.err) }
    }
}

/// Each line as it arrives, with its line break.
fn lines(from: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, taken) = channel();
    if let Some(from) = from {
        thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut line = Vec::new();
            while from.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
    }
    taken
}

/// What a program wrote, and its exit code as a shell reports it.
#[derive(Debug)]
pub struct Response {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Response {
    /// The object in the last line of the output.
    pub fn result(&self) -> Value {
        serde_json::from_str(self.out.lines().last().expect("a line")).expect("JSON")
    }
}
