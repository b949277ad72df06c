//! Runs a program under [`super::supervisor`] with a time limit, and reads its output.
//!
//! The reader waits for output, the end of the supervisor, cancellation or the deadline, whichever comes first. It
//! never waits for the end of the pipe, which another process may hold open. After a cancellation or the deadline the
//! control pipe is closed, and the supervisor ends all processes.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};

use super::capture::Capture;
use super::linux::child_exit::ChildExit;
use super::linux::strays;
use super::{Environment, Job, supervisor};

/// How long the supervisor may take to end all processes before the call returns without it. It gives up by itself
/// before that, unless it cannot run at all (a hung disk).
const END_TIME_LIMIT: Duration = Duration::from_secs(3);

/// A supervisor that is stopped more often while it ends its command is killed.
const MOST_STOPS_AT_END: usize = 2;

/// How often it is looked whether the command has stopped its supervisor.
const STOP_POLL: Duration = Duration::from_millis(500);
/// The same while the supervisor ends the command.
const STOP_POLL_AT_END: Duration = Duration::from_millis(20);

/// How much is read before the clock is checked, and after the supervisor has ended: twice the default capacity of a
/// pipe (pipe(7)). A process that could not be ended might write for ever.
const READ_CAP: usize = 128 << 10;

pub enum Ending {
    /// With this exit code; without one if the supervisor was killed.
    Exited(Option<i32>),
    TimedOut,
    /// The job was cancelled, or the reader has enough.
    Interrupted,
    /// Waiting for it failed, and why.
    Lost(String),
}

/// Runs a program with its arguments in this directory, without environment variables that hold secrets, and captures
/// stdout and stderr together.
///
/// # Errors
/// It cannot be started, or no descriptor is left.
pub fn run(
    arguments: &[&str],
    directory: &Path,
    env: &Environment,
    capture: &mut Capture,
    limit: Duration,
    job: &Job,
) -> io::Result<Ending> {
    let (output, into_output) = io::pipe()?;
    let mut command = Command::new(&env.supervisor);
    command.args([supervisor::FLAG, "--"]).args(arguments).current_dir(directory);
    command.env_clear().envs(supervisor::environment());
    command.stdout(Stdio::from(into_output.try_clone()?)).stderr(into_output);
    let mut output = Captured { output: Pipe::new(output)?, capture };
    Ok(Supervised::start(command)?.watch(&mut output, limit, job))
}

pub trait OutputReader {
    fn outputs(&self) -> impl Iterator<Item = &Pipe>;
    fn read(&mut self);
    /// Whether the command can be ended because no more output is wanted.
    fn has_enough(&self) -> bool;
}

struct Captured<'a> {
    output: Pipe,
    capture: &'a mut Capture,
}

impl OutputReader for Captured<'_> {
    fn outputs(&self) -> impl Iterator<Item = &Pipe> {
        std::iter::once(&self.output)
    }

    fn read(&mut self) {
        self.output.read(|bytes| self.capture.push(bytes));
    }

    fn has_enough(&self) -> bool {
        false
    }
}

/// The reading end of a pipe; empty once the pipe has ended.
pub struct Pipe(Option<PipeReader>);

impl Pipe {
    /// # Errors
    /// The pipe cannot be made non-blocking.
    pub fn new(reader: PipeReader) -> io::Result<Self> {
        fcntl_setfl(&reader, OFlags::NONBLOCK)?;
        Ok(Self(Some(reader)))
    }

    /// Reads what is available, at most [`READ_CAP`].
    pub fn read(&mut self, mut take: impl FnMut(&[u8])) {
        let mut buffer = [0; 16 << 10];
        let mut sum = 0;
        while sum < READ_CAP
            && let Some(reader) = &mut self.0
        {
            match reader.read(&mut buffer) {
                Ok(count) if count > 0 => {
                    take(&buffer[..count]);
                    sum += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Ok(_) | Err(_) => self.0 = None,
            }
        }
    }
}

/// A command that runs under the supervisor.
pub struct Supervised {
    child: Child,
    exit: ChildExit,
    /// Closing it ends the command.
    control: Option<PipeWriter>,
}

impl Supervised {
    /// Starts the supervisor. Takes the `Command` by value because that holds the writing ends of the output pipes,
    /// which must be closed here.
    ///
    /// # Errors
    /// It cannot be started, or no descriptor is left.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (from_control, control) = io::pipe()?;
        let child = strays::spawn(command.stdin(from_control))?;
        // If this fails, `control` is dropped, and the supervisor ends the command.
        let exit = ChildExit::of(&child)?;
        Ok(Self { child, exit, control: Some(control) })
    }

    /// Reads until the supervisor has ended; ends it at the deadline or when the job is cancelled.
    pub fn watch(&mut self, reader: &mut impl OutputReader, limit: Duration, job: &Job) -> Ending {
        let mut deadline = Instant::now() + limit;
        let (mut stopped, mut stops_at_end) = (None, 0);
        loop {
            let has_ended = match self.wait(reader, deadline, stopped.is_none().then_some(job)) {
                Ok(has_ended) => has_ended,
                Err(error) => return Ending::Lost(error.to_string()),
            };
            reader.read();
            if has_ended {
                let code = self.child.wait().ok().and_then(|status| status.code());
                if code.is_none() {
                    strays::end();
                }
                return stopped.unwrap_or(Ending::Exited(code));
            }
            // The first time it may have been stopped before; then something stops it again and again.
            stops_at_end += usize::from(self.exit.resume() && stopped.is_some());
            let is_late = Instant::now() >= deadline;
            match stopped {
                None if job.is_cancelled() || reader.has_enough() => stopped = Some(Ending::Interrupted),
                None if is_late => stopped = Some(Ending::TimedOut),
                Some(ending) if is_late || stops_at_end > MOST_STOPS_AT_END => {
                    return self.kill().map_or(ending, Ending::Lost);
                }
                _ => continue,
            }
            deadline = Instant::now() + END_TIME_LIMIT;
            self.control = None;
        }
    }

    /// Kills a supervisor that does not end, and what it leaves. Returns a message if that fails.
    fn kill(&mut self) -> Option<String> {
        let is_killed = self.child.kill().and_then(|()| self.child.wait()).is_ok();
        (!is_killed || !strays::end()).then(|| "its processes could not be killed and may still be running".into())
    }

    /// Waits for output, the end, cancellation (if a job is given) or the deadline, but not long, because the supervisor may
    /// have been stopped. Whether the command has ended.
    fn wait(&self, reader: &impl OutputReader, deadline: Instant, job: Option<&Job>) -> io::Result<bool> {
        let mut awaited = vec![PollFd::new(&self.exit, PollFlags::IN)];
        let pipes = reader.outputs().filter_map(|output| output.0.as_ref());
        awaited.extend(pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        awaited.extend(job.map(|job| PollFd::new(job, PollFlags::IN)));
        let most = if job.is_some() { STOP_POLL } else { STOP_POLL_AT_END };
        let left = deadline.saturating_duration_since(Instant::now()).min(most);
        let left = Timespec::try_from(left).expect("a time limit is at most a year");
        match poll(&mut awaited, Some(&left)) {
            Ok(_) => Ok(!awaited[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        strays::forget(&self.child);
    }
}
