//! Commands that a person runs from the input with `!`. They run outside of the sandbox, as in a shell, in a process
//! group of their own. Their output is shown, and added to the conversation when the agent is idle.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command as Program, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::base::error::{Error, Result, system_message};
use crate::base::id::AgentId;
use crate::base::job::{Job, JobThread, Outcome, Wake};
use crate::domain::change::Change;
use crate::domain::flow::Origin;
use crate::domain::message::Body;
use crate::domain::scrollback::LineKind;
use crate::features::Feature;
use crate::repl::component::{Command, Component};
use crate::repl::core::{Core, agent_gone};
use crate::tools::ChildExit;

pub const FEATURE: Feature =
    Feature { component: Some(|| Box::<ShellCommands>::default()), ..Feature::new("shell-commands") };

/// Bytes of output that are kept; the rest is counted.
const MOST_OUTPUT: usize = 32 * 1024;
/// How long output is awaited after the command has ended, which another process may hold open.
const GRACE: Duration = Duration::from_millis(200);

/// A command and where its output goes.
struct Running {
    agent: AgentId,
    command: String,
    /// The model gets the output too.
    is_shared: bool,
    group: Option<Pid>,
    end: JobThread<String>,
    /// Its output, once it has ended.
    output: Option<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.output.is_none() {
            self.stop();
        }
    }
}

impl Running {
    /// Ends the command and the processes that it started.
    fn stop(&self) {
        // It may have ended already.
        let _ = self.group.map(|group| kill_process_group(group, Signal::KILL));
    }
}

/// The commands that run, or whose output waits for an idle agent.
#[derive(Default)]
struct ShellCommands {
    commands: Vec<Running>,
}

impl ShellCommands {
    /// Starts a command in the agent's working directory.
    fn start(&mut self, core: &mut Core, agent: AgentId, command: &str, is_shared: bool) -> Result<()> {
        let directory = core.agent(agent).ok_or_else(agent_gone)?.inputs.environment.working_directory.clone();
        let (group, end) = run(command, &directory, &core.waker())?;
        core.note(agent, LineKind::Note, &format!("$ {command}"));
        self.commands.push(Running { agent, command: command.into(), is_shared, group, end, output: None });
        core.edit(agent, |agent| agent.view.has_command = true);
        Ok(())
    }

    fn collect(&mut self, core: &mut Core) {
        for running in self.commands.iter_mut().filter(|running| running.output.is_none()) {
            let Some(outcome) = running.end.take() else { continue };
            let output = outcome.unwrap_or_else(|why| format!("(the output was lost: {why})"));
            if !running.is_shared {
                core.note(running.agent, LineKind::Note, &output);
            } else if core.require_idle(running.agent).is_err() {
                core.note(
                    running.agent,
                    LineKind::Note,
                    &format!("$ {} has ended: the model gets its output after this turn", running.command),
                );
            }
            running.output = Some(output);
            core.edit(running.agent, |agent| agent.view.has_command = false);
        }
    }

    /// Puts output into the conversations of idle agents.
    fn share(&mut self, core: &mut Core) {
        let is_due = |running: &mut Running| {
            running.output.is_some()
                && (!running.is_shared
                    || core.require_idle(running.agent).is_ok()
                    || core.agent(running.agent).is_none())
        };
        let due: Vec<Running> = self.commands.extract_if(.., is_due).collect();
        for running in due.iter().filter(|running| running.is_shared) {
            let text = format!("$ {}\n{}", running.command, running.output.as_deref().unwrap_or_default());
            match core.append_event(running.agent, Body::User(text)) {
                Ok(messages) => core.remember(running.agent, messages),
                Err(error) => core.note(running.agent, LineKind::Error, &error.message),
            }
        }
    }
}

impl Component for ShellCommands {
    fn on_change(&mut self, core: &mut Core, _: Origin, agent: AgentId, change: Change) -> Result<Option<Change>> {
        let Change::Shell { command, is_shared } = change else { return Ok(Some(change)) };
        self.start(core, agent, &command, is_shared).map(|()| None)
    }

    fn interrupt(&mut self, _: &mut Core, agent: AgentId) -> bool {
        let running = self.commands.iter().filter(|running| running.agent == agent && running.output.is_none());
        running.inspect(|running| running.stop()).count() > 0
    }

    fn step(&mut self, core: &mut Core, _: &mut Vec<Command>) {
        if !self.commands.is_empty() {
            self.collect(core);
            self.share(core);
        }
    }
}

fn run(command: &str, directory: &Path, wake: &Wake) -> Result<(Option<Pid>, JobThread<String>)> {
    let failed = |error: std::io::Error| Error::usage(format!("cannot run {command:?}: {}", system_message(&error)));
    let (reader, writer) = std::io::pipe().map_err(failed)?;
    let mut program = Program::new("sh");
    program.args(["-c", command]).current_dir(directory).stdin(Stdio::null()).process_group(0);
    program.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
    let child = program.spawn().map_err(failed)?;
    // It holds the writing end as well.
    drop(program);
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let end = JobThread::spawn("shell command".into(), move |_: &Job| wait_for(child, reader), Arc::clone(wake));
    Ok((group, end.map_err(|error| error.context(format!("cannot run {command:?}")))?))
}

/// Waits for the end of a command, and returns its output and how it ended.
fn wait_for(mut child: Child, reader: std::io::PipeReader) -> Outcome<String> {
    let output = read_output(&child, reader);
    let status = child.wait();
    Ok(output.map_err(|error| system_message(&error))?.to_text(status.ok()))
}

/// Reads until the output has ended, or for [`GRACE`] after the command has.
fn read_output(child: &Child, reader: std::io::PipeReader) -> std::io::Result<Output> {
    let exit = ChildExit::of(child)?;
    let (mut output, mut end) = (Output::default(), None);
    loop {
        let left = end.map(|end: Instant| end.saturating_duration_since(Instant::now()));
        let limit = left.map(Timespec::try_from).transpose().map_err(std::io::Error::other)?;
        let mut watched = [PollFd::new(&reader, PollFlags::IN), PollFd::new(&exit, PollFlags::IN)];
        // The end of the command is seen once.
        let watched = &mut watched[..if end.is_none() { 2 } else { 1 }];
        retry_on_intr(|| poll(watched, limit.as_ref()))?;
        let is_ready = |at: usize| watched.get(at).is_some_and(|it| !it.revents().is_empty());
        let (has_output, has_ended) = (is_ready(0), is_ready(1));
        if left == Some(Duration::ZERO) || has_output && !output.read(&reader) {
            return Ok(output);
        }
        if has_ended {
            end = Some(Instant::now() + GRACE);
        }
    }
}

#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    left_out: usize,
}

impl Output {
    /// Reads what is there. Returns whether more can come.
    fn read(&mut self, mut reader: &std::io::PipeReader) -> bool {
        let mut buffer = [0; 16 * 1024];
        let Ok(count @ 1..) = reader.read(&mut buffer) else { return false };
        let kept = count.min(MOST_OUTPUT - self.bytes.len());
        self.bytes.extend_from_slice(&buffer[..kept]);
        self.left_out += count - kept;
        true
    }

    fn to_text(&self, status: Option<ExitStatus>) -> String {
        let mut text = String::from_utf8_lossy(&self.bytes).trim_end().to_owned();
        if self.left_out > 0 {
            text.push_str(&format!("\n[{} more bytes]", self.left_out));
        }
        let ending = match status.map(|status| status.code()) {
            Some(Some(0)) if text.is_empty() => "[no output]".into(),
            Some(Some(0)) => return text,
            Some(Some(code)) => format!("[exit code {code}]"),
            Some(None) => "[stopped]".into(),
            None => "[its end is unknown]".into(),
        };
        format!("{text}{}{ending}", if text.is_empty() { "" } else { "\n" })
    }
}
