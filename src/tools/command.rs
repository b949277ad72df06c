//! Runs a program under [`super::supervisor`] with a time limit, and reads its output.
//!
//! The reader waits for output, the end of the supervisor, cancellation or the deadline, whichever comes first. It
//! never waits for the end of the pipe, which another process may hold open. After a cancellation or the deadline the
//! control socket is closed, and the supervisor ends all processes.

use std::io::{self, PipeReader, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};

use super::capture::{Capture, Sink};
use super::linux::child_exit::ChildExit;
use super::linux::memory_file;
use super::linux::orphans;
use super::network::{self, NetworkRequest};
use super::shared_network::SharedNetworks;
use super::{Environment, Job, supervisor};
use crate::base::file::TemporaryDirectory;
use crate::domain::host::HostPattern;
use crate::domain::sandbox::Network;
use crate::proxy::{Announced, Calls, receive_listener};
use crate::sandbox::{Level, Places, Plan, Promise, Refusal, Report, Watch, send_descriptor};

/// How long the supervisor may take to end all processes before the call returns without it. It gives up before that,
/// unless it cannot run at all (a hung disk).
const END_TIME_LIMIT: Duration = Duration::from_secs(3);

/// A supervisor that is stopped more often while it ends its command is killed.
const MOST_STOPS_AT_END: usize = 2;

/// How often it is looked whether the command has stopped its supervisor.
const STOP_POLL: Duration = Duration::from_millis(500);
/// The interval while the supervisor ends the command.
const STOP_POLL_AT_END: Duration = Duration::from_millis(20);

/// How much is read before the clock is checked, and after the supervisor has ended: twice the default capacity of a
/// pipe (pipe(7)). A process that could not be ended might write for ever.
const READ_CAP: usize = 128 << 10;

/// How often it is looked what happens to protected files while a command runs that lasts.
const GLANCE: Duration = Duration::from_secs(1);

/// How long a command may take that only shows whether a sandbox can be built.
const TRIAL: Duration = Duration::from_secs(20);

pub enum Ending {
    /// With this exit code; without one if the supervisor was killed.
    Exited(Option<i32>),
    TimedOut,
    /// The job was cancelled, or the reader has enough.
    Interrupted,
    /// It was not started, and why.
    NotStarted(String),
    /// It was not started, because the sandbox is weaker than promised, and why. Further commands are judged by the
    /// actual one.
    Weaker(String),
    /// Waiting for it failed, and why.
    Lost(String),
}

/// Variables that name another repository than that of the directory (git(1)).
const SELECT_REPOSITORY: [&str; 4] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"];

/// What to run, and where.
pub struct Program<'a> {
    pub arguments: &'a [&'a str],
    pub directory: &'a Path,
    /// The workspace, if it is not the agent's.
    pub workspace: Option<&'a Path>,
    /// Directories that it may write besides the workspace.
    pub writable: &'a [PathBuf],
    /// Whether it is git itself, which changes the protected files of the repository around it.
    pub is_git: bool,
    /// It is not started with less.
    pub promised: Promise,
    /// The part of the network that it may reach, besides what the settings allow.
    pub network: Option<&'a NetworkRequest>,
    /// Its standard input; without one it is empty.
    pub input: Option<&'a [u8]>,
    /// Variables besides those of every command, with their values.
    pub variables: &'a [(String, String)],
    /// Additional readable paths, unless they are on the deny list.
    pub readable: &'a [PathBuf],
    /// Its standard error goes to [`Sink::push_errors`].
    pub separates_errors: bool,
    /// It changes nothing that outlasts the call.
    pub is_read_only: bool,
    /// It runs while other things happen in the workspace, in the background or as a server. Other commands of the agent reach
    /// its network.
    pub is_lasting: bool,
}

impl<'a> Program<'a> {
    /// Outside of the sandbox, with no further paths.
    pub fn new(arguments: &'a [&'a str], directory: &'a Path) -> Self {
        Self {
            arguments,
            directory,
            workspace: None,
            writable: &[],
            is_git: false,
            promised: Promise::NOTHING,
            network: None,
            input: None,
            variables: &[],
            readable: &[],
            separates_errors: false,
            is_read_only: false,
            is_lasting: false,
        }
    }
}

/// How a program ended.
pub struct Outcome {
    pub ending: Ending,
    /// Changes of protected files, one line each.
    pub changes: Vec<String>,
    /// The refusals of the proxy, one line each.
    pub refused: Vec<String>,
    /// Its permissions, if it was started.
    pub plan: Option<Plan>,
}

impl From<Ending> for Outcome {
    fn from(ending: Ending) -> Self {
        Self { ending, changes: Vec::new(), refused: Vec::new(), plan: None }
    }
}

/// Runs a program in the sandbox and captures stdout and stderr together. If the level of the sandbox that was tried
/// cannot be built, a weaker one is tried at once, if the promise allows it.
pub fn run(
    program: &Program<'_>,
    env: &Environment,
    capture: &mut dyn Sink,
    limit: Duration,
    job: &Job,
) -> io::Result<Outcome> {
    let mut failed = "it could not be built for another command".to_owned();
    loop {
        let plan = match plan(program, env) {
            Ok(plan) if !plan.level.holds(program.promised.level) => {
                let why = format!("cannot create the full sandbox ({failed})");
                return Ok(Ending::Weaker(why).into());
            }
            Ok(plan) if program.promised.has_no_gap && !plan.gaps.is_empty() => {
                let why = format!("the sandbox cannot protect everything here: {}", plan.gaps.join("; "));
                return Ok(Ending::Weaker(why).into());
            }
            Ok(plan) => plan,
            Err(refusal) => return Ok(Ending::NotStarted(refusal).into()),
        };
        let mut watch = Watch::start(&plan);
        let glances = watch.as_mut().filter(|_| program.is_lasting);
        let attempt = attempt(program, &plan, env, capture, (limit, job), glances)?;
        let Attempt { ending, reports, refused } = attempt;
        let changes = watch.map(|mut watch| watch.changes()).unwrap_or_default();
        match (reports.into_iter().next(), ending) {
            (None, ending) => return Ok(Outcome { ending, changes, refused, plan: Some(plan) }),
            (Some(Report::NotStarted(why)), _) => return Ok(Ending::NotStarted(why).into()),
            (Some(_), ending @ (Ending::Interrupted | Ending::TimedOut)) => return Ok(ending.into()),
            // Files in the workspace that a command can change must not weaken the sandbox of the next one.
            (Some(Report::Unavailable(why)), _) if works_elsewhere(env, plan.level) => {
                return Ok(Ending::NotStarted(format!("the sandbox cannot be set up here: {why}")).into());
            }
            (Some(Report::Unavailable(why)), _) => {
                let mut level = env.sandbox.falls_from(plan.level);
                // The next question is to name the level that works.
                while level != Level::None && !level.holds(program.promised.level) && !works_elsewhere(env, level) {
                    level = env.sandbox.falls_from(level);
                }
                failed = why;
            }
        }
    }
}

/// Whether this level can be built for an empty directory that no command has seen.
fn works_elsewhere(env: &Environment, level: Level) -> bool {
    let Ok(directory) = TemporaryDirectory::create() else { return false };
    let sandbox = env.sandbox.clone().at_level(level);
    let networks = SharedNetworks::default();
    let working_directory = directory.path().to_owned();
    try_level(&Environment { sandbox, networks, worktree: None, working_directory, ..env.clone() }).is_ok()
}

/// The level that works on this system, and why each stronger one does not. Tries them all with a real command.
pub fn find_level(env: &Environment) -> (Level, Vec<(Level, String)>) {
    let mut failed = Vec::new();
    for level in Level::ALL {
        let env = Environment { sandbox: env.sandbox.clone().at_level(level), ..env.clone() };
        match try_level(&env) {
            Ok(()) => return (level, failed),
            Err(why) => failed.push((level, why)),
        }
    }
    (Level::None, failed)
}

pub(super) fn try_level(env: &Environment) -> Result<(), String> {
    let without_proxy = |mut plan: Plan| {
        if matches!(plan.network, Network::Hosts(_)) {
            plan.network = Network::Off;
        }
        plan
    };
    let program = Program::new(&["true"], &env.working_directory);
    try_plan(env, &program, plan(&program, env).map(without_proxy))
}

/// Whether a command can be given a proxy at this level, which restricts it to hosts. Tries it with a real command.
pub fn try_proxy(env: &Environment, level: Level) -> Result<(), String> {
    let (calls, incoming) = Calls::new(Arc::new(|| {}));
    let env = Environment { sandbox: env.sandbox.clone().at_level(level), proxy: Some(calls), ..env.clone() };
    let program = Program::new(&["true"], &env.working_directory);
    let proxied = |mut plan: Plan| {
        plan.network = Network::Hosts(vec![HostPattern::ANY]);
        plan
    };
    try_plan(&env, &program, plan(&program, &env).map(proxied))?;
    let listener = incoming.try_recv().ok().and_then(|call| receive_listener(&call.control).ok().flatten());
    listener.map(drop).ok_or_else(|| "its listener did not arrive".into())
}

fn try_plan(env: &Environment, program: &Program<'_>, plan: Result<Plan, Refusal>) -> Result<(), String> {
    let job = Job::new().map_err(|error| error.to_string())?;
    let mut capture = Capture::new(env.output_cap, &env.output_directory);
    let tried = plan.and_then(|plan| {
        attempt(program, &plan, env, &mut capture, (TRIAL, &job), None).map_err(|error| error.to_string())
    });
    let Attempt { ending, reports, .. } = tried?;
    let failure = reports.into_iter().next().map(|(Report::Unavailable(why) | Report::NotStarted(why))| why);
    match (failure, ending) {
        (Some(why), _) => Err(why),
        (None, Ending::Exited(Some(0))) => Ok(()),
        (None, _) => Err("the command failed".into()),
    }
}

pub(super) fn plan(program: &Program<'_>, env: &Environment) -> Result<Plan, Refusal> {
    let places = Places {
        workspace: program.workspace.or(env.worktree.as_deref()).unwrap_or(&env.working_directory),
        is_own_worktree: env.worktree.is_some() || program.workspace.is_some(),
        directory: program.directory,
        more: program.writable,
        is_git: program.is_git,
    };
    let mut plan = env.sandbox.plan(&places)?;
    plan.network = network::allowed(&env.sandbox, plan.level, program.network)?;
    (plan.own_variables, plan.has_input) = (program.variables.to_vec(), program.input.is_some());
    if program.is_git {
        plan.variables.retain(|name| !SELECT_REPOSITORY.contains(&name.as_str()));
    }
    let is_open = |path: &&PathBuf| !plan.denied.iter().any(|denied| path.starts_with(denied));
    let opened: Vec<PathBuf> = program.readable.iter().filter(is_open).cloned().collect();
    plan.readable.extend(opened);
    Ok(match (program.is_read_only, program.is_lasting) {
        (true, _) => plan.read_only(),
        (false, true) => plan.lasting(),
        (false, false) => plan,
    })
}

/// One way through the sandbox with a command.
struct Attempt {
    ending: Ending,
    reports: Vec<Report>,
    /// The refusals of the proxy.
    refused: Vec<String>,
}

fn attempt(
    program: &Program<'_>,
    plan: &Plan,
    env: &Environment,
    capture: &mut dyn Sink,
    (limit, job): (Duration, &Job),
    watch: Option<&mut Watch>,
) -> io::Result<Attempt> {
    // The proxy serves the command until this is closed.
    let proxy = match (&plan.network, &env.proxy) {
        (Network::Hosts(hosts), Some(calls)) => Some(calls.announce(network::hosts(hosts, &env.rules))?),
        _ => None,
    };
    let shared = env.networks.of(plan, program.is_lasting)?;
    let input = program.input.map(memory_file::with).transpose()?;
    let (output, into_output) = io::pipe()?;
    let mut command = Command::new(&env.supervisor);
    command.args([supervisor::FLAG, supervisor::SANDBOX, "--"]).args(program.arguments);
    command.current_dir(program.directory).env_clear().envs(env.sandbox.variables());
    let mut errors = None;
    let into_errors = if program.separates_errors {
        let (pipe, into_errors) = io::pipe()?;
        errors = Some(Pipe::new(pipe)?);
        into_errors
    } else {
        into_output.try_clone()?
    };
    command.stdout(into_output).stderr(into_errors);
    let glances = watch.map(|watch| (watch, Instant::now() + GLANCE));
    let mut output = Captured { output: Pipe::new(output)?, errors, capture, glances };
    let mut supervised = Supervised::start(command)?;
    // If it cannot be sent, the supervisor has ended, which is found out next.
    let mut plan = plan.clone();
    plan.sharing = shared.sharing();
    let mut descriptors = input.iter().map(|input| input.as_fd()).chain(shared.descriptors());
    let _ = plan
        .send(&supervised.control, proxy.as_ref().map(Announced::socket))
        .and_then(|()| descriptors.try_for_each(|descriptor| send_descriptor(&supervised.control, descriptor)));
    // A namespace lasts as long as this; only the supervisor holds the socket on which it arrives.
    let _network = shared.keep();
    let ending = supervised.watch(&mut output, limit, job);
    let refused = proxy.iter().flat_map(Announced::reported).collect();
    Ok(Attempt { ending, reports: Report::receive(&supervised.control), refused })
}

pub trait OutputReader {
    fn outputs(&self) -> impl Iterator<Item = &Pipe>;
    fn read(&mut self);
    /// Whether the command can be ended because no more output is wanted.
    fn has_enough(&self) -> bool;
}

struct Captured<'a> {
    output: Pipe,
    errors: Option<Pipe>,
    capture: &'a mut dyn Sink,
    /// Looks at protected files while a command runs that lasts, the next time at this moment.
    glances: Option<(&'a mut Watch, Instant)>,
}

impl OutputReader for Captured<'_> {
    fn outputs(&self) -> impl Iterator<Item = &Pipe> {
        std::iter::once(&self.output).chain(&self.errors)
    }

    fn read(&mut self) {
        self.output.read(|bytes| self.capture.push(bytes));
        self.errors.iter_mut().for_each(|errors| errors.read(|bytes| self.capture.push_errors(bytes)));
        if let Some((watch, at)) = self.glances.as_mut().filter(|(_, at)| *at <= Instant::now()) {
            *at = Instant::now() + GLANCE;
            watch.glance().iter().for_each(|line| self.capture.warn(line));
        }
    }

    fn has_enough(&self) -> bool {
        self.capture.has_enough()
    }
}

/// The reading end of a pipe; empty once the pipe has ended.
pub struct Pipe(Option<PipeReader>);

impl Pipe {
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
    /// Closing its writing side ends the command.
    control: UnixStream,
}

impl Supervised {
    /// Starts the supervisor. Takes the `Command` by value because that holds the writing ends of the output pipes,
    /// which must be closed here.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (theirs, control) = UnixStream::pair()?;
        let child = orphans::spawn(command.stdin(OwnedFd::from(theirs)))?;
        // If this fails, `control` is dropped, and the supervisor ends the command.
        let exit = ChildExit::of(&child)?;
        Ok(Self { child, exit, control })
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
                    orphans::end();
                }
                return stopped.unwrap_or(Ending::Exited(code));
            }
            // The first stop may be older; later ones are caused by something that stops it again and again.
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
            // Fails if the supervisor has just ended.
            let _ = self.control.shutdown(Shutdown::Write);
        }
    }

    /// The socket on which the supervisor gets its plan and answers.
    pub fn control(&self) -> &UnixStream {
        &self.control
    }

    /// Readable once the supervisor has ended.
    pub fn exit(&self) -> BorrowedFd<'_> {
        self.exit.as_fd()
    }

    /// Has the supervisor end the command and itself. Does not wait.
    pub fn end(&self) {
        // Fails if the supervisor has just ended.
        let _ = self.control.shutdown(Shutdown::Write);
    }

    /// The exit code if it has ended; without one if it was killed. Resumes it if it was stopped.
    pub fn take_ended(&mut self) -> Option<Option<i32>> {
        self.exit.resume();
        let status = self.child.try_wait().ok()??;
        if status.code().is_none() {
            orphans::end();
        }
        Some(status.code())
    }

    /// Kills a supervisor that does not end, and its remaining processes. Returns a message if that fails.
    pub fn kill(&mut self) -> Option<String> {
        let is_killed = self.child.kill().and_then(|()| self.child.wait()).is_ok();
        (!is_killed || !orphans::end()).then(|| "its processes could not be killed and may still be running".into())
    }

    /// Waits for output, the end, cancellation (if a job is given) or the deadline, but not long, because the
    /// supervisor may have been stopped. Returns whether the command has ended.
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
        orphans::forget(&self.child);
    }
}
