//! The `bash` tool: one command, run under [`super::supervise`] with a time limit, both of its outputs read as one.
//!
//! The reader waits for whichever comes first: output, the supervisor's end, cancellation, the deadline. It never waits
//! for the end of the pipe, which a stray process may hold open. Cancelling and timing out are one act: the control
//! pipe is closed, and the supervisor ends everything.

use std::fmt::Write as _;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;

use super::capture::Capture;
use super::{Environment, Job, Output, Question, Run, ToolSpec, one_line, supervise, visible};
use crate::domain::tool::{Reach, ToolDeclaration};

/// The row in the table of tools.
pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "bash",
        description: "Runs a bash command in the working directory and returns its output (stdout and stderr together) \
            and its exit code. There is no terminal and no input. Whatever the command started is ended with it: nothing \
            can be left running in the background. Long output is shortened in the middle and kept whole in a file.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command, as for bash -c."},
                "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 3600000,
                    "description": "After how many milliseconds it is ended; two minutes if left out."}
            },
            "required": ["command"],
            "additionalProperties": false
        }"#,
    },
    reach: Reach::Writes,
    check,
    run: Run::OnThread(run),
};

/// The longest command in bytes. The kernel takes 128 KiB in one argument (`MAX_ARG_STRLEN`, execve(2)).
const LONGEST_COMMAND: usize = 100_000;

/// How long the supervisor may take to end everything before the call is answered without it. It gives up by itself
/// before that; only one that cannot run at all (a hung disk) takes longer.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is read at most before the clock is looked at, and after the supervisor has ended: twice what a pipe holds by
/// default (pipe(7)). A process that cannot be ended might write for ever.
const READ_CAP: usize = 128 << 10;

fn check(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let command = arguments["command"].as_str().unwrap_or_default();
    if command.trim().is_empty() {
        return Err("`command` is empty.".into());
    }
    if command.contains('\0') {
        return Err("`command` contains a NUL character, which no command can; write it as \\0 for printf.".into());
    }
    if command.len() > LONGEST_COMMAND {
        return Err(format!(
            "`command` has {} bytes and may have {LONGEST_COMMAND}: write a script with write_file and run that.",
            command.len()
        ));
    }
    let mut detail: Vec<String> = command.lines().map(visible).collect();
    detail.push(format!("in {}", visible(&env.working_directory.to_string_lossy())));
    detail.push(format!("for at most {:?}", timeout(arguments, env)));
    Ok(Question { title: format!("bash: {}", one_line(command, 100)), detail })
}

fn timeout(arguments: &Value, env: &Environment) -> Duration {
    arguments["timeout_ms"].as_u64().map_or(env.bash_timeout, Duration::from_millis)
}

fn run(arguments: &Value, env: &Environment, job: &Job) -> Output {
    let command = arguments["command"].as_str().unwrap_or_default();
    if job.is_cancelled() {
        return Output::failure("[interrupted before it was started]");
    }
    match Supervised::start(command, env) {
        Ok(mut supervised) => {
            let limit = timeout(arguments, env);
            let mut capture = Capture::new(env.output_cap, &env.output_directory);
            let ending = supervised.watch(&mut capture, limit, job);
            answer(capture.finish(), &ending, limit)
        }
        Err(error) => {
            let (supervisor, directory) = (env.supervisor.display(), env.working_directory.display());
            Output::failure(format!("The command was not run: {error} ({supervisor} in {directory})."))
        }
    }
}

/// How a command came to its end.
enum Ending {
    Exited(Option<i32>),
    TimedOut,
    Interrupted,
    Lost(String),
}

fn answer(mut content: String, ending: &Ending, limit: Duration) -> Output {
    let note = match ending {
        Ending::Exited(Some(0)) if content.is_empty() => "[no output]".into(),
        Ending::Exited(Some(0)) => return Output::success(content),
        Ending::Exited(Some(code)) => format!("[exit code {code}]"),
        Ending::Exited(None) => "[the command was cut off: something killed its supervisor]".into(),
        Ending::TimedOut => format!("[timed out after {limit:?}]"),
        Ending::Interrupted => "[interrupted]".into(),
        Ending::Lost(why) => format!("[the command was lost: {why}]"),
    };
    if !content.is_empty() && !content.ends_with('\n') {
        content.push('\n');
    }
    let _ = write!(content, "{note}");
    Output { content, is_error: !matches!(ending, Ending::Exited(Some(0))) }
}

/// A command and the three ways to hear of it and to end it.
struct Supervised {
    child: Child,
    end: rustix::fd::OwnedFd,
    output: Option<PipeReader>,
    control: Option<PipeWriter>,
}

impl Supervised {
    fn start(command: &str, env: &Environment) -> io::Result<Self> {
        let (output, into_output) = io::pipe()?;
        let (from_control, control) = io::pipe()?;
        fcntl_setfl(&output, OFlags::NONBLOCK)?;
        // The writing ends live as long as the `Command` that holds them: no longer than this function.
        let child = Command::new(&env.supervisor)
            .args([supervise::FLAG, "--", "bash", "-c", command])
            .current_dir(&env.working_directory)
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
    fn watch(&mut self, capture: &mut Capture, limit: Duration, job: &Job) -> Ending {
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
