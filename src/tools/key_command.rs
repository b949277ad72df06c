//! A command of the person's own that prints a credential: a password store, a cloud's tool for short-lived tokens.
//!
//! It runs like a tool's command, on a thread of its own and under [`super::supervise`], but with the whole environment,
//! where such programs find their sockets and accounts, and with its outputs apart: what it prints is the key and is
//! shown to nobody, what it complains about is for the person. No model can ask for it.

use std::io::{self, PipeReader};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::supervised::{Ending, Listener, Pipe, Supervised};
use super::{Environment, Job, Output, Running, supervise};
use crate::base::error::Result;
use crate::base::text;
use crate::domain::endpoint::Secret;
use crate::domain::tool::ToolCall;

/// More than this is no key.
const LONGEST_KEY: usize = 64 << 10;
/// What is read of its complaints; the first line of them is shown.
const COMPLAINTS: usize = 4 << 10;
/// Columns of a complaint that are shown.
const COMPLAINT_WIDTH: usize = 200;

/// A key command that runs, or has run and waits to be collected.
pub struct KeyRun(Running);

impl KeyRun {
    /// Starts the command, which may take so long. `wake` is called once it is complete.
    ///
    /// # Errors
    /// No thread or no descriptor is left.
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

    /// Whether it has ended.
    pub fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    /// The key that it printed.
    ///
    /// # Errors
    /// Words about the command, which end a sentence that begins with it; never with what it printed.
    ///
    /// # Panics
    /// Before [`KeyRun::is_complete`].
    pub fn collect(self) -> std::result::Result<Secret, String> {
        let result = self.0.collect();
        if result.is_error { Err(result.content) } else { Ok(Secret::new(&result.content)) }
    }

    /// Tells it to end, and hands over what is to be joined when it has.
    pub fn stop(self) -> Running {
        self.0.cancel();
        self.0
    }
}

fn run(command: &str, limit: Duration, env: &Environment, job: &Job) -> Output {
    match Printed::of(command, limit, env, job) {
        Ok((printed, ending)) => printed.key(&ending, limit).map_or_else(Output::failure, Output::success),
        Err(error) => Output::failure(format!("cannot be run: {error}")),
    }
}

/// What the command has printed.
struct Printed {
    key: Kept,
    complaints: Kept,
}

/// One of its outputs, as far as it is kept.
struct Kept {
    pipe: Pipe,
    bytes: Vec<u8>,
    most: usize,
    is_cut: bool,
}

impl Printed {
    fn of(command: &str, limit: Duration, env: &Environment, job: &Job) -> io::Result<(Self, Ending)> {
        let ((key, into_key), (complaints, into_complaints)) = (io::pipe()?, io::pipe()?);
        let mut supervisor = Command::new(&env.supervisor);
        supervisor.args([supervise::FLAG, supervise::WHOLE_ENVIRONMENT, "--", "sh", "-c", command]);
        supervisor.stdout(into_key).stderr(into_complaints);
        let mut printed = Self { key: Kept::of(key, LONGEST_KEY)?, complaints: Kept::of(complaints, COMPLAINTS)? };
        let ending = Supervised::start(supervisor)?.watch(&mut printed, limit, job);
        Ok((printed, ending))
    }

    fn key(&self, ending: &Ending, limit: Duration) -> std::result::Result<String, String> {
        let printed = String::from_utf8_lossy(&self.key.bytes);
        let key = printed.trim();
        match ending {
            _ if self.key.is_cut => Err(format!("printed more than {} KiB", LONGEST_KEY >> 10)),
            Ending::Exited(Some(0)) if key.is_empty() => Err(format!("printed nothing{}", self.complaint(key))),
            // A header cannot hold anything else; and a page of text is a message, not a key.
            Ending::Exited(Some(0)) if !key.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Err("printed something that is no key".into())
            }
            Ending::Exited(Some(0)) => Ok(key.to_owned()),
            Ending::Exited(Some(code)) => Err(format!("ended with exit code {code}{}", self.complaint(key))),
            Ending::Exited(None) => Err("was cut off: something killed its supervisor".into()),
            Ending::TimedOut => Err(format!("did not end within {limit:?}")),
            Ending::Interrupted => Err("was stopped".into()),
            Ending::Lost(why) => Err(format!("was lost: {why}")),
        }
    }

    /// The first line of what it complained about, without the key, should that be in it.
    fn complaint(&self, key: &str) -> String {
        let complaints = String::from_utf8_lossy(&self.complaints.bytes);
        let Some(line) = complaints.lines().map(str::trim).find(|line| !line.is_empty()) else { return String::new() };
        let line = if key.is_empty() { line.to_owned() } else { line.replace(key, "[key]") };
        format!(": {}", text::truncate(&text::sanitise(&line), COMPLAINT_WIDTH))
    }
}

impl Listener for Printed {
    fn outputs(&self) -> impl Iterator<Item = &Pipe> {
        [&self.key.pipe, &self.complaints.pipe].into_iter()
    }

    fn read(&mut self) {
        self.key.read();
        self.complaints.read();
    }

    fn has_enough(&self) -> bool {
        self.key.is_cut
    }
}

impl Kept {
    fn of(reader: PipeReader, most: usize) -> io::Result<Self> {
        Ok(Self { pipe: Pipe::new(reader)?, bytes: Vec::new(), most, is_cut: false })
    }

    fn read(&mut self) {
        self.pipe.read(|portion| {
            let room = self.most - self.bytes.len();
            self.is_cut |= portion.len() > room;
            self.bytes.extend_from_slice(&portion[..portion.len().min(room)]);
        });
    }
}
