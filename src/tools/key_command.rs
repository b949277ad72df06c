//! Runs a `key_command` from the configuration that prints an API key, such as a password store.
//!
//! It runs like a command of the `bash` tool, on its own thread and under [`super::supervisor`], but with the whole
//! environment, which such programs need, and with stdout and stderr read separately: stdout is the key and is never
//! shown, stderr is for the user. Models cannot call it.

use std::io::{self, PipeReader};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::command::{Ending, OutputReader, Pipe, Supervised};
use super::file_access::reason;
use super::{Environment, Job, Output, Running, supervisor};
use crate::base::error::Result;
use crate::base::text;
use crate::domain::endpoint::Secret;
use crate::domain::tool::ToolCall;

/// In bytes.
const MAX_KEY_LENGTH: usize = 64 << 10;
/// How much of stderr is read, in bytes. Its first line is shown.
const MAX_STDERR_LENGTH: usize = 4 << 10;
/// In columns.
const STDERR_WIDTH: usize = 200;

/// A key command that runs, or is complete and not yet collected.
pub struct KeyRun(Running);

impl KeyRun {
    /// Starts the command with a time limit. `wake` is called once it is complete.
    pub fn start(
        command: &str,
        limit: Duration,
        environment: Arc<Environment>,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Self> {
        let call = ToolCall { id: String::new(), name: "key_command".into(), arguments: String::new() };
        let command = command.to_owned();
        Running::spawn(call, move |job| run(&command, limit, &environment, job), wake).map(Self)
    }

    /// Whether the command has ended.
    pub fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    /// The key that it printed.
    ///
    /// # Errors
    /// A message that follows the name of the command; it never contains its stdout.
    ///
    /// # Panics
    /// If called before [`KeyRun::is_complete`].
    pub fn collect(self) -> std::result::Result<Secret, String> {
        let result = self.0.collect();
        if result.is_error { Err(result.content) } else { Ok(Secret::new(&result.content)) }
    }

    /// Cancels the command and returns what must be joined when it has ended.
    pub fn stop(self) -> Running {
        self.0.cancel();
        self.0
    }
}

fn run(command: &str, limit: Duration, env: &Environment, job: &Job) -> Output {
    match Outputs::of(command, limit, env, job) {
        Ok((outputs, ending)) => outputs.key(&ending, limit).map_or_else(Output::failure, Output::success),
        Err(error) => Output::failure(format!("cannot be run: {}", reason(&error))),
    }
}

struct Outputs {
    stdout: Captured,
    stderr: Captured,
}

struct Captured {
    pipe: Pipe,
    bytes: Vec<u8>,
    limit: usize,
    is_cut: bool,
}

impl Outputs {
    fn of(command: &str, limit: Duration, env: &Environment, job: &Job) -> io::Result<(Self, Ending)> {
        let ((stdout, into_stdout), (stderr, into_stderr)) = (io::pipe()?, io::pipe()?);
        let mut program = Command::new(&env.supervisor);
        program.args([supervisor::FLAG, supervisor::WHOLE_ENVIRONMENT, "--", "sh", "-c", command]);
        program.stdout(into_stdout).stderr(into_stderr);
        let stdout = Captured::of(stdout, MAX_KEY_LENGTH)?;
        let mut outputs = Self { stdout, stderr: Captured::of(stderr, MAX_STDERR_LENGTH)? };
        let ending = Supervised::start(program)?.watch(&mut outputs, limit, job);
        Ok((outputs, ending))
    }

    fn key(&self, ending: &Ending, limit: Duration) -> std::result::Result<String, String> {
        let stdout = String::from_utf8_lossy(&self.stdout.bytes);
        // Some programs print a key as a JSON object, on several lines.
        let json = serde_json::from_str::<serde_json::Value>(&stdout).ok().filter(serde_json::Value::is_object);
        let compact = json.map(|json| json.to_string());
        let key = compact.as_deref().unwrap_or(stdout.trim());
        match ending {
            _ if self.stdout.is_cut => Err(format!("printed more than {} KiB", MAX_KEY_LENGTH >> 10)),
            Ending::Exited(Some(0)) if key.is_empty() => Err(format!("printed nothing{}", self.stderr_line(key))),
            // A header cannot contain other characters, and text with spaces is a message, not a key.
            Ending::Exited(Some(0)) if !key.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Err("printed something that is not a key".into())
            }
            Ending::Exited(Some(0)) => Ok(key.to_owned()),
            Ending::Exited(Some(code)) => Err(format!("ended with exit code {code}{}", self.stderr_line(key))),
            Ending::Exited(None) => Err("was ended because its supervisor was killed".into()),
            Ending::TimedOut => Err(format!("timed out after {limit:?}")),
            Ending::Interrupted => Err("was interrupted".into()),
            Ending::Lost(why) | Ending::NotStarted(why) | Ending::Weaker(why) => Err(format!("failed: {why}")),
        }
    }

    /// The first line of stderr, with the key removed if it contains that.
    fn stderr_line(&self, key: &str) -> String {
        let stderr = String::from_utf8_lossy(&self.stderr.bytes);
        let Some(line) = stderr.lines().map(str::trim).find(|line| !line.is_empty()) else { return String::new() };
        let line = if key.is_empty() { line.to_owned() } else { line.replace(key, "[key]") };
        format!(": {}", text::truncate(&text::sanitise(&line), STDERR_WIDTH))
    }
}

impl OutputReader for Outputs {
    fn outputs(&self) -> impl Iterator<Item = &Pipe> {
        [&self.stdout.pipe, &self.stderr.pipe].into_iter()
    }

    fn read(&mut self) {
        self.stdout.read();
        self.stderr.read();
    }

    fn has_enough(&self) -> bool {
        self.stdout.is_cut
    }
}

impl Captured {
    fn of(reader: PipeReader, limit: usize) -> io::Result<Self> {
        Ok(Self { pipe: Pipe::new(reader)?, bytes: Vec::new(), limit, is_cut: false })
    }

    fn read(&mut self) {
        self.pipe.read(|portion| {
            let remaining = self.limit - self.bytes.len();
            self.is_cut |= portion.len() > remaining;
            self.bytes.extend_from_slice(&portion[..portion.len().min(remaining)]);
        });
    }
}
