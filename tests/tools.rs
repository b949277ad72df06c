//! The built-in tools on real processes and real files.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use polylogue::domain::tool::{ToolCall, ToolResult};
use polylogue::tools::{self, Environment, Prepared, Running};
use serde_json::{Value, json};
use tempfile::TempDir;

mod commands;
mod editing;
mod endings;
mod reading;
mod searching;
mod writing;

/// A working directory of a test's own. Everything that its commands start has it as current directory, by which it is
/// found again.
struct Room {
    directory: TempDir,
    env: Environment,
}

/// A call that was started, and the news that it is complete.
struct Call {
    running: Running,
    wakes: mpsc::Receiver<()>,
}

impl Room {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let env = Environment {
            output_directory: directory.path().join("outputs"),
            supervisor: env!("CARGO_BIN_EXE_polylogue").into(),
            output_cap: 4096,
            ..Environment::at(directory.path().canonicalize().unwrap())
        };
        Self { directory, env }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.env.working_directory.join(name)
    }

    fn prepare(&self, tool: &str, arguments: &Value) -> Result<Prepared, String> {
        tools::find(tool).unwrap().prepare(&arguments.to_string(), &self.env)
    }

    fn start(&self, tool: &str, arguments: &Value) -> Call {
        let prepared = self.prepare(tool, arguments).unwrap();
        let call = ToolCall { id: "call-1".into(), name: tool.into(), arguments: arguments.to_string() };
        let (woken, wakes) = mpsc::sync_channel(1);
        let wake = Arc::new(move || woken.send(()).unwrap_or_default());
        let env = Arc::new(self.env.clone());
        let running = Running::start(tools::find(tool).unwrap(), call, prepared, env, wake).unwrap();
        Call { running, wakes }
    }

    fn run(&self, tool: &str, arguments: &Value) -> ToolResult {
        self.start(tool, arguments).finish()
    }

    fn start_bash(&self, command: &str) -> Call {
        self.start("bash", &json!({"command": command}))
    }

    fn bash(&self, command: &str) -> ToolResult {
        self.start_bash(command).finish()
    }

    /// A pipe by which a command tells the test something: `echo > NAME`.
    fn bell(&self, name: &str) {
        assert!(std::process::Command::new("mkfifo").arg(self.path(name)).status().unwrap().success());
    }

    /// Waits until a command rings the bell.
    fn hear(&self, name: &str) {
        std::fs::read(self.path(name)).unwrap();
    }

    /// The processes that live in this room, supervisors apart.
    fn alive(&self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let is_here =
                std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == self.env.working_directory);
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if is_here && !line.contains("--supervise") {
                found.push(format!("{} {line}", entry.file_name().display()));
            }
        }
        found
    }

    fn assert_nothing_is_left(&self) {
        assert_eq!(self.alive(), Vec::<String>::new());
    }
}

impl Call {
    fn finish(self) -> ToolResult {
        self.wakes.recv().unwrap();
        assert!(self.running.is_complete());
        self.running.collect()
    }
}
