//! A program that runs under [`super::supervise`] with a time limit, while its outputs are read.
//!
//! The reader waits for whichever comes first: output, the supervisor's end, cancellation, the deadline. It never waits
//! for the end of the pipe, which a stray process may hold open. Cancelling and timing out are one act: the control
//! pipe is closed, and the supervisor ends everything.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
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
    /// The job was cancelled, or nobody wants to hear more of it.
    Interrupted,
    /// It cannot be waited for any more, and why.
    Lost(String),
}

/// Runs a program with its arguments in this directory, without the variables that hold secrets, and captures both of its
/// outputs as one.
///
/// # Errors
/// It cannot be started, or no descriptor is left.
pub fn run(
    words: &[&str],
    directory: &Path,
    env: &Environment,
    capture: &mut Capture,
    limit: Duration,
    job: &Job,
) -> io::Result<Ending> {
    let (output, into_output) = io::pipe()?;
    let mut command = Command::new(&env.supervisor);
    command.args([supervise::FLAG, "--"]).args(words).current_dir(directory);
    command.env_clear().envs(supervise::environment());
    command.stdout(Stdio::from(into_output.try_clone()?)).stderr(into_output);
    let mut output = Captured { output: Pipe::new(output)?, capture };
    Ok(Supervised::start(command)?.watch(&mut output, limit, job))
}

/// Who reads what a command prints.
pub trait Listener {
    /// What is waited for.
    fn outputs(&self) -> impl Iterator<Item = &Pipe>;
    /// Reads what is there.
    fn read(&mut self);
    /// Whether the command is to be ended, because nobody wants more of it.
    fn has_enough(&self) -> bool;
}

struct Captured<'a> {
    output: Pipe,
    capture: &'a mut Capture,
}

impl Listener for Captured<'_> {
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

/// The reading end of an output, until it has ended.
pub struct Pipe(Option<PipeReader>);

impl Pipe {
    /// From now on it is read without waiting.
    ///
    /// # Errors
    /// The kernel refuses that.
    pub fn new(reader: PipeReader) -> io::Result<Self> {
        fcntl_setfl(&reader, OFlags::NONBLOCK)?;
        Ok(Self(Some(reader)))
    }

    /// Reads what is there, within bounds; a pipe that has ended is asked no more.
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

/// A command under the supervisor: how to hear of its end, and how to bring it about.
pub struct Supervised {
    child: Child,
    end: OwnedFd,
    control: Option<PipeWriter>,
}

impl Supervised {
    /// Starts the supervisor with what it is to run. The writing ends of its outputs live as long as the `Command` that
    /// holds them: no longer than this function.
    ///
    /// # Errors
    /// It cannot be started, or no descriptor is left.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (from_control, control) = io::pipe()?;
        let child = command.stdin(from_control).spawn()?;
        // Should this fail, `control` is closed on the way out, and the supervisor ends what it started.
        let end = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        Ok(Self { child, end, control: Some(control) })
    }

    /// Reads until the supervisor has ended, and ends it when it is time to.
    pub fn watch(&mut self, listener: &mut impl Listener, limit: Duration, job: &Job) -> Ending {
        let mut deadline = Instant::now() + limit;
        let mut stopped = None;
        loop {
            let has_ended = match self.wait(listener, deadline, stopped.is_none().then_some(job)) {
                Ok(has_ended) => has_ended,
                Err(error) => return Ending::Lost(error.to_string()),
            };
            listener.read();
            if has_ended {
                let exited = Ending::Exited(self.child.wait().ok().and_then(|status| status.code()));
                return stopped.unwrap_or(exited);
            }
            let is_late = Instant::now() >= deadline;
            match stopped {
                None if job.is_cancelled() || listener.has_enough() => stopped = Some(Ending::Interrupted),
                None if is_late => stopped = Some(Ending::TimedOut),
                Some(_) if is_late => return Ending::Lost("it could not be ended in time and may still run".into()),
                _ => continue,
            }
            deadline = Instant::now() + PATIENCE;
            self.control = None;
        }
    }

    /// Waits for output, the end, a cancellation (where one still matters) or the deadline. Whether it was the end.
    fn wait(&self, listener: &impl Listener, deadline: Instant, job: Option<&Job>) -> io::Result<bool> {
        let mut awaited = vec![PollFd::new(&self.end, PollFlags::IN)];
        let outputs = listener.outputs().filter_map(|output| output.0.as_ref());
        awaited.extend(outputs.map(|reader| PollFd::new(reader, PollFlags::IN)));
        awaited.extend(job.map(|job| PollFd::new(job, PollFlags::IN)));
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).expect("a time limit is at most a year");
        match poll(&mut awaited, Some(&left)) {
            Ok(_) => Ok(!awaited[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
