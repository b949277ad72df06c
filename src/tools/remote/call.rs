//! One script that runs elsewhere: a local process (ssh, podman) whose standard input and output are those of `sh` there.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};

use super::frame::Frame;
use crate::base::id::AgentId;
use crate::tools::linux::child_exit::ChildExit;
use crate::tools::{Job, visible};

/// How long a script has to say its last word once its input has ended.
const END_TIME_LIMIT: Duration = Duration::from_secs(3);

/// Poll interval.
const POLL: Duration = Duration::from_millis(500);

/// How much of what ssh or podman says about itself is kept.
const MAX_ERRORS: usize = 8 << 10;

/// How much of it a message has, in characters.
const MAX_REASON: usize = 300;

/// What runs there.
pub struct Request<'a> {
    /// Run by `sh` there, with the nonce in `$n`.
    pub script: &'a str,
    /// Follows the script on standard input, which then ends. Without it, standard input stays open until the call ends.
    pub data: Option<&'a [u8]>,
    pub limit: Duration,
}

/// How a script ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this word.
    Status(String),
    /// What it wrote was not wanted any more.
    Enough,
    TimedOut,
    Interrupted,
    /// Without a word, and why.
    Lost(String),
}

/// A process that is ended and reaped when this is dropped, also if its start fails half way.
struct Local(Child);

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A local process and what it carries.
pub struct Channel {
    child: Local,
    exit: ChildExit,
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    errors: Option<ChildStderr>,
    /// What is still to be written.
    pending: Vec<u8>,
    keeps_input: bool,
    frame: Frame,
    /// There was nothing to read the last time.
    is_dry: bool,
    said: Vec<u8>,
}

/// A program and its arguments, which begin a shell there.
pub struct Prefix {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// The arguments are one line for the login shell of a user, as sshd has it.
    pub is_line: bool,
    /// Variables that it must not see.
    pub withheld: Vec<String>,
}

impl Channel {
    pub fn start(prefix: &Prefix, request: &Request<'_>) -> io::Result<Self> {
        let nonce = AgentId::random().to_string().replace('-', "") + &AgentId::random().to_string();
        let script = format!("n={nonce}\nprintf '%s<\\n' \"$n\"\n{}\n", request.script);
        // Login shells of all kinds read this alike. `dd` takes the script and nothing that follows it.
        let boot = format!("eval \"$(dd bs=1 count={} 2>/dev/null)\"", script.len());
        let mut command = Command::new(&prefix.program);
        command.args(&prefix.arguments);
        if prefix.is_line {
            command.arg(format!("exec sh -c '{boot}'"));
        } else {
            command.args(["sh", "-c", &boot]);
        }
        for name in &prefix.withheld {
            command.env_remove(name);
        }
        command.current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Local(command.spawn()?);
        let (input, output, errors) = (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take());
        let exit = ChildExit::of(&child.0)?;
        for fd in [input.as_ref().map(|fd| fd.as_fd()), output.as_ref().map(|fd| fd.as_fd())].into_iter().flatten() {
            fcntl_setfl(fd, OFlags::NONBLOCK)?;
        }
        errors.as_ref().map(|fd| fcntl_setfl(fd, OFlags::NONBLOCK)).transpose()?;
        let pending = [script.as_bytes(), request.data.unwrap_or_default()].concat();
        let (keeps_input, frame) = (request.data.is_none(), Frame::new(&nonce));
        Ok(Self { child, exit, input, output, errors, pending, keeps_input, frame, is_dry: false, said: Vec::new() })
    }

    /// Whether the script has begun there.
    pub fn has_begun(&self) -> bool {
        self.frame.has_begun()
    }

    /// Carries bytes until the script has ended. `take` says whether it wants more.
    pub fn run(&mut self, limit: Duration, job: &Job, take: &mut dyn FnMut(&[u8]) -> bool) -> Ending {
        let mut deadline = Instant::now() + limit;
        let mut stopped = None;
        loop {
            let is_job_watched = stopped.is_none();
            let has_exited = match self.wait(deadline, is_job_watched.then_some(job)) {
                Ok(has_exited) => has_exited,
                Err(error) => return Ending::Lost(error.to_string()),
            };
            self.write();
            self.read_errors();
            let mut is_enough = false;
            let status = self.read(&mut |bytes| is_enough |= !take(bytes));
            if let Some(status) = status {
                return stopped.unwrap_or(Ending::Status(status));
            }
            if has_exited && self.is_dry {
                return stopped.unwrap_or_else(|| Ending::Lost(self.reason()));
            }
            let is_late = Instant::now() >= deadline;
            match stopped {
                Some(_) if is_late => return stopped.unwrap_or(Ending::TimedOut),
                Some(_) => continue,
                None if job.is_cancelled() => stopped = Some(Ending::Interrupted),
                None if is_enough => stopped = Some(Ending::Enough),
                None if is_late => stopped = Some(Ending::TimedOut),
                None => continue,
            }
            // The script there ends when its input ends.
            (self.input, self.pending) = (None, Vec::new());
            deadline = Instant::now() + END_TIME_LIMIT;
        }
    }

    /// Waits until the script has begun; it goes on.
    pub fn begin(&mut self, limit: Duration, job: &Job) -> Result<(), Ending> {
        let deadline = Instant::now() + limit;
        while !self.has_begun() {
            let has_exited = self.wait(deadline, Some(job)).map_err(|error| Ending::Lost(error.to_string()))?;
            self.write();
            self.read_errors();
            let _ = self.read(&mut |_| {});
            if job.is_cancelled() {
                return Err(Ending::Interrupted);
            }
            if !self.has_begun() && has_exited && self.is_dry {
                return Err(Ending::Lost(self.reason()));
            }
            if !self.has_begun() && Instant::now() >= deadline {
                return Err(Ending::TimedOut);
            }
        }
        Ok(())
    }

    /// Whether the process has ended. Takes what it has said meanwhile.
    pub fn has_ended(&mut self) -> bool {
        self.read_errors();
        let _ = self.read(&mut |_| {});
        !matches!(self.child.0.try_wait(), Ok(None))
    }

    /// Ends its input, on which it ends by itself.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// The last lines that ssh or podman said about itself.
    pub fn reason(&mut self) -> String {
        self.read_errors();
        let text = String::from_utf8_lossy(&self.said);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("Warning:"));
        let mut last: Vec<&str> = lines.collect();
        last.drain(..last.len().saturating_sub(2));
        if last.is_empty() {
            return "no reason was given".into();
        }
        visible(&last.join("; ")).chars().take(MAX_REASON).collect()
    }

    fn wait(&self, deadline: Instant, job: Option<&Job>) -> io::Result<bool> {
        let mut awaited = vec![PollFd::new(&self.exit, PollFlags::IN)];
        awaited.extend(self.output.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        awaited.extend(self.errors.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        awaited.extend(job.map(|job| PollFd::new(job, PollFlags::IN)));
        let writing = self.input.as_ref().filter(|_| !self.pending.is_empty());
        awaited.extend(writing.map(|fd| PollFd::new(fd, PollFlags::OUT)));
        let left = deadline.saturating_duration_since(Instant::now()).min(POLL);
        let left = Timespec::try_from(left).expect("it is short");
        match poll(&mut awaited, Some(&left)) {
            Ok(_) => Ok(!awaited[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn write(&mut self) {
        while let Some(input) = self.input.as_mut().filter(|_| !self.pending.is_empty()) {
            match input.write(&self.pending) {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The process has ended, or will.
                Err(_) => self.input = None,
            }
        }
        if !self.keeps_input {
            self.input = None;
        }
    }

    /// Reads what there is, but not for ever. Returns the word at the end.
    fn read(&mut self, take: &mut dyn FnMut(&[u8])) -> Option<String> {
        let mut buffer = [0; 16 << 10];
        self.is_dry = false;
        for _ in 0..16 {
            let Some(output) = self.output.as_mut() else {
                self.is_dry = true;
                return None;
            };
            match output.read(&mut buffer) {
                Ok(0) => self.output = None,
                Ok(count) => {
                    let status = self.frame.push(&buffer[..count], &mut *take);
                    if status.is_some() {
                        return status;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_dry = true;
                    return None;
                }
                Err(_) => self.output = None,
            }
        }
        None
    }

    fn read_errors(&mut self) {
        let mut buffer = [0; 4 << 10];
        for _ in 0..16 {
            let Some(errors) = self.errors.as_mut() else { return };
            match errors.read(&mut buffer) {
                Ok(0) => self.errors = None,
                Ok(count) => {
                    self.said.extend_from_slice(&buffer[..count]);
                    let surplus = self.said.len().saturating_sub(MAX_ERRORS);
                    self.said.drain(..surplus);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

impl Drop for Channel {
    /// What still runs there ends because its input has ended.
    fn drop(&mut self) {
        self.input = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_channel_was_not_completed_is_ended_and_reaped() {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = std::path::PathBuf::from(format!("/proc/{}", child.id()));
        assert!(process.exists());
        drop(Local(child));
        assert!(!process.exists(), "it is left as a zombie");
    }
}
