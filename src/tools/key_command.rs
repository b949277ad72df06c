//! A command of the person's own that prints a credential: a password store, a cloud's tool for short-lived tokens.
//!
//! It runs like a tool's command, on a thread of its own and under [`super::supervise`], but with the whole environment,
//! where such programs find their sockets and accounts, and with its outputs apart: what it prints is the key and is
//! shown to nobody, what it complains about is for the person. No model can ask for it.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

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
/// How long the supervisor may take to end everything, as for the `bash` tool.
const PATIENCE: Duration = Duration::from_secs(3);

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
    let answer = Supervised::start(command, env)
        .map_err(|error| format!("cannot be run: {error}"))
        .and_then(|mut supervised| supervised.watch(limit, job));
    answer.map_or_else(Output::failure, Output::success)
}

/// The command with what it has printed and the ways to hear of it and to end it.
struct Supervised {
    child: Child,
    end: rustix::fd::OwnedFd,
    control: Option<PipeWriter>,
    printed: Pipe,
    complaints: Pipe,
}

/// One of its outputs, as far as it is kept.
struct Pipe {
    reader: Option<PipeReader>,
    kept: Vec<u8>,
    most: usize,
    is_cut: bool,
}

impl Supervised {
    fn start(command: &str, env: &Environment) -> io::Result<Self> {
        let (printed, into_printed) = io::pipe()?;
        let (complaints, into_complaints) = io::pipe()?;
        let (from_control, control) = io::pipe()?;
        // The writing ends live as long as the `Command` that holds them: no longer than this function.
        let child = Command::new(&env.supervisor)
            .args([supervise::FLAG, supervise::WHOLE_ENVIRONMENT, "--", "sh", "-c", command])
            .stdin(from_control)
            .stdout(into_printed)
            .stderr(into_complaints)
            .spawn()?;
        // Should this fail, `control` is closed on the way out, and the supervisor ends what it started.
        let end = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let (printed, complaints) = (Pipe::new(printed, LONGEST_KEY)?, Pipe::new(complaints, COMPLAINTS)?);
        Ok(Self { child, end, control: Some(control), printed, complaints })
    }

    /// Reads until the command has ended, and ends it when it is time to.
    fn watch(&mut self, limit: Duration, job: &Job) -> std::result::Result<String, String> {
        let mut deadline = Instant::now() + limit;
        let mut stopped = None;
        loop {
            let has_ended =
                self.wait(deadline, stopped.is_none().then_some(job)).map_err(|error| format!("was lost: {error}"))?;
            self.printed.read();
            self.complaints.read();
            if has_ended {
                let status = self.child.wait().ok();
                return stopped.map_or_else(|| self.key(status), Err);
            }
            let is_late = Instant::now() >= deadline;
            match stopped {
                None if job.is_cancelled() => stopped = Some("was stopped".to_owned()),
                None if self.printed.is_cut => stopped = Some(too_much()),
                None if is_late => stopped = Some(format!("did not end within {limit:?}")),
                Some(words) if is_late => return Err(format!("{words}, and may still run")),
                _ => continue,
            }
            deadline = Instant::now() + PATIENCE;
            self.control = None;
        }
    }

    /// Waits for output, the end, a cancellation (where one still matters) or the deadline. Whether it was the end.
    fn wait(&self, deadline: Instant, job: Option<&Job>) -> io::Result<bool> {
        let mut awaited = vec![PollFd::new(&self.end, PollFlags::IN)];
        let pipes = [&self.printed, &self.complaints].into_iter().filter_map(|pipe| pipe.reader.as_ref());
        awaited.extend(pipes.map(|reader| PollFd::new(reader, PollFlags::IN)));
        awaited.extend(job.map(|job| PollFd::new(job, PollFlags::IN)));
        let left = deadline.saturating_duration_since(Instant::now());
        match poll(&mut awaited, Timespec::try_from(left).ok().as_ref()) {
            Ok(_) => Ok(!awaited[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn key(&self, status: Option<ExitStatus>) -> std::result::Result<String, String> {
        let printed = String::from_utf8_lossy(&self.printed.kept);
        let key = printed.trim();
        match status.and_then(|status| status.code()) {
            Some(0) if self.printed.is_cut => Err(too_much()),
            Some(0) if key.is_empty() => Err(format!("printed nothing{}", self.complaint(key))),
            // A header cannot hold anything else; and a page of text is a message, not a key.
            Some(0) if !key.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Err("printed something that is no key".into())
            }
            Some(0) => Ok(key.to_owned()),
            Some(code) => Err(format!("ended with exit code {code}{}", self.complaint(key))),
            None => Err("was cut off: something killed its supervisor".into()),
        }
    }

    /// The first line of what it complained about, without the key, should that be in it.
    fn complaint(&self, key: &str) -> String {
        let complaints = String::from_utf8_lossy(&self.complaints.kept);
        let Some(line) = complaints.lines().map(str::trim).find(|line| !line.is_empty()) else { return String::new() };
        let line = if key.is_empty() { line.to_owned() } else { line.replace(key, "[key]") };
        format!(": {}", text::truncate(&text::sanitise(&line), COMPLAINT_WIDTH))
    }
}

impl Pipe {
    fn new(reader: PipeReader, most: usize) -> io::Result<Self> {
        fcntl_setfl(&reader, OFlags::NONBLOCK)?;
        Ok(Self { reader: Some(reader), kept: Vec::new(), most, is_cut: false })
    }

    /// Reads what is there, at most what is kept once more; a pipe that has ended is asked no more.
    fn read(&mut self) {
        let mut portion = [0; 4096];
        for _ in 0..=self.most / portion.len() {
            let Some(reader) = &mut self.reader else { return };
            match reader.read(&mut portion) {
                Ok(count) if count > 0 => {
                    let room = self.most - self.kept.len();
                    self.is_cut |= count > room;
                    self.kept.extend_from_slice(&portion[..count.min(room)]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(_) | Err(_) => self.reader = None,
            }
        }
    }
}

fn too_much() -> String {
    format!("printed more than {} KiB", LONGEST_KEY >> 10)
}
