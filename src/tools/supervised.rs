//! A program that runs under [`super::supervise`] with a time limit, both of its outputs read as one.
//!
//! The reader waits for whichever comes first: output, the supervisor's end, cancellation, the deadline. It never waits
//! for the end of the pipe, which a stray process may hold open. Cancelling and timing out are one act: the control
//! pipe is closed, and the supervisor ends everything.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::capture::Capture;
use super::{Environment, Job, supervise};

/// How long the supervisor may take to end everything before the call is answered without it. It gives up by itself
/// before that; only one that cannot run at all (a hung disk) takes longer.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is read at most before the clock is looked at, and after the supervisor has ended: twice what a pipe holds by
/// default (pipe(7)). A process that cannot be ended might write for ever.
const READ_CAP: usize = 128 << 10;

/// How a command came to its end.
pub enum Ending {
    /// With this exit code, if something did not kill the supervisor.
    Exited(Option<i32>),
    /// Its time was over.
    TimedOut,
    /// The job was cancelled.
    Interrupted,
    /// It cannot be waited for any more, and why.
    Lost(String),
}

/// A command and the three ways to hear of it and to end it.
pub struct Supervised {
    child: Child,
    end: rustix::fd::OwnedFd,
    output: Option<PipeReader>,
    control: Option<PipeWriter>,
}

impl Supervised {
    /// Starts a program with its arguments in this directory.
    ///
    /// # Errors
    /// It cannot be started, or no descriptor is left.
    pub fn start(words: &[&str], directory: &Path, env: &Environment) -> io::Result<Self> {
        let (output, into_output) = io::pipe()?;
        let (from_control, control) = io::pipe()?;
        fcntl_setfl(&output, OFlags::NONBLOCK)?;
        // The writing ends live as long as the `Command` that holds them: no longer than this function.
        let child = Command::new(&env.supervisor)
            .args([supervise::FLAG, "--"])
            .args(words)
            .current_dir(directory)
            .env_clear()
            .envs(supervise::environment())
            .stdin(from_control)
            .stdout(Stdio::from(into_output.try_clone()?))
            .stderr(into_output)
            .spawn()?;
        // Should this fail, `control` is closed on the way out, and the supervisor ends what it started.
        let end = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        Ok(Self { child, end, output: Some(output), control: Some(control) })
    }

    /// Reads until the supervisor has ended, and ends it when it is time to.
    pub fn watch(&mut self, capture: &mut Capture, limit: Duration, job: &Job) -> Ending {
        let mut deadline = Instant::now() + limit;
        let mut stopped = None;
        loop {
            let has_ended = match self.wait(deadline, stopped.is_none().then_some(job)) {
                Ok(has_ended) => has_ended,
                Err(error) => return Ending::Lost(error.to_string()),
            };
            self.read(capture);
            if has_ended {
                let exited = Ending::Exited(self.child.wait().ok().and_then(|status| status.code()));
                return stopped.unwrap_or(exited);
            }
            let is_late = Instant::now() >= deadline;
            match stopped {
                None if job.is_cancelled() => stopped = Some(Ending::Interrupted),
                None if is_late => stopped = Some(Ending::TimedOut),
                Some(_) if is_late => return Ending::Lost("it could not be ended in time and may still run".into()),
                _ => continue,
            }
            deadline = Instant::now() + PATIENCE;
            self.control = None;
        }
    }

    /// Waits for output, the end, a cancellation (where one still matters) or the deadline. Whether it was the end.
    fn wait(&self, deadline: Instant, job: Option<&Job>) -> io::Result<bool> {
        let mut awaited = vec![PollFd::new(&self.end, PollFlags::IN)];
        awaited.extend(self.output.as_ref().map(|output| PollFd::new(output, PollFlags::IN)));
        awaited.extend(job.map(|job| PollFd::new(job, PollFlags::IN)));
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).expect("a time limit is at most an hour");
        match poll(&mut awaited, Some(&left)) {
            Ok(_) => Ok(!awaited[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads what is there, within bounds; a pipe that has ended is asked no more.
    fn read(&mut self, capture: &mut Capture) {
        let mut buffer = [0; 16 << 10];
        let mut sum = 0;
        while sum < READ_CAP
            && let Some(output) = &mut self.output
        {
            match output.read(&mut buffer) {
                Ok(count) if count > 0 => {
                    capture.push(&buffer[..count]);
                    sum += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Ok(_) | Err(_) => self.output = None,
            }
        }
    }
}
