//! The built-in tools on real processes and real files.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use polylogue::ToolResult;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::internals::tools::{Environment, Prepared, Running};
use crate::support::internals::{ToolCall, tools};

mod background;
mod commands;
mod editing;
mod endings;
mod load;
mod multi_edit;
mod paths;
mod reading;
mod repeats;
mod searching;
mod slips;
mod todo;
#[cfg(feature = "web-fetch")]
mod web;
mod writing;

/// The working directory of one test. The processes that its commands start are found by having it as current directory.
struct Workspace {
    directory: TempDir,
    env: Environment,
}

/// A call that was started, and the channel that reports its completion.
struct Call {
    running: Running,
    wakes: mpsc::Receiver<()>,
}

impl Workspace {
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
        let (sender, wakes) = mpsc::sync_channel(1);
        let wake = Arc::new(move || sender.send(()).unwrap_or_default());
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

    /// Creates a named pipe by which a command notifies the test: `echo > NAME`.
    fn make_fifo(&self, name: &str) {
        assert!(std::process::Command::new("mkfifo").arg(self.path(name)).status().unwrap().success());
    }

    /// Waits until a command writes to the named pipe.
    fn wait_for_fifo(&self, name: &str) {
        std::fs::read(self.path(name)).unwrap();
    }

    /// The processes in this workspace, except supervisors.
    fn live_processes(&self) -> Vec<String> {
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

    fn assert_no_processes(&self) {
        assert_eq!(self.live_processes(), Vec::<String>::new());
    }
}

fn refused(workspace: &Workspace, tool: &str, arguments: &Value) -> String {
    match workspace.prepare(tool, arguments) {
        Err(message) => message,
        Ok(_) => {
            let result = workspace.run(tool, arguments);
            assert!(result.is_error, "{}", result.content);
            result.content
        }
    }
}

impl Call {
    fn finish(self) -> ToolResult {
        self.wakes.recv_timeout(crate::support::PATIENCE).unwrap();
        assert!(self.running.is_complete());
        self.running.collect()
    }
}
