//! One running server: its pipes, registered in the reactor, and its session.

use std::collections::VecDeque;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::source;
use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::base::job::{Job, JobThread};
use crate::base::text::{sanitise, truncate};
use crate::features::mcp::protocol::Session;
use crate::features::mcp::protocol::lines::{Lines, MAX_LINE};
use crate::reactor::Reactor;
use crate::repl::core::Core;
use crate::sandbox::Watch;
use crate::tools::Environment;
use crate::tools::server_process::{ServerProcess, ServerProgram};

/// Bytes read from one pipe per turn, so that a server with much output does not delay others.
const BYTES_PER_TURN: usize = 256 << 10;
/// Bytes that wait to be written to a server that does not read.
const MAX_UNWRITTEN: usize = 16 << 20;
/// Bytes kept of the end of its standard error.
const MAX_ERRORS: usize = 4 << 10;
/// How long a server may run after it has closed its output.
const CLOSED: Duration = Duration::from_secs(1);
/// Width of an error that is shown, in columns.
const ERROR_WIDTH: usize = 160;

/// The descriptors of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    Input,
    Output,
    Errors,
    Exit,
}

/// A server that is being started on a thread, because finding out what the sandbox has to protect may take long.
pub(super) struct Starting(JobThread<ServerProcess>);

impl Starting {
    pub(super) fn begin(program: ServerProgram, env: Arc<Environment>, core: &Core) -> Result<Self> {
        let work = move |_: &Job| ServerProcess::start(&program, &env);
        JobThread::spawn("mcp start".into(), work, core.waker()).map(Self)
    }

    /// The process, once it is there. Returned once.
    pub(super) fn take(&self) -> Option<std::result::Result<ServerProcess, String>> {
        self.0.take()
    }
}

/// A server that runs.
pub(super) struct Process {
    pub(super) session: Session,
    process: ServerProcess,
    lines: Lines,
    unwritten: VecDeque<u8>,
    errors: Vec<u8>,
    /// The numbers of its descriptors in the reactor.
    sources: [(u64, Port); 4],
    /// Its output has ended: it should end itself before this moment.
    closed_until: Option<Moment>,
    may_have_ended: bool,
}

impl Process {
    /// Registers the descriptors with these numbers.
    pub(super) fn new(
        process: ServerProcess,
        session: Session,
        numbers: [u64; 4],
        reactor: &mut Reactor,
    ) -> Result<Self> {
        let [output, errors, exit, input] = numbers;
        let sources = [(output, Port::Output), (errors, Port::Errors), (exit, Port::Exit), (input, Port::Input)];
        let (lines, unwritten, errors) = (Lines::default(), VecDeque::new(), Vec::new());
        let new =
            Self { session, process, lines, unwritten, errors, sources, closed_until: None, may_have_ended: false };
        for (number, port) in &new.sources[..3] {
            reactor.watch(source(*number), new.fd(*port), true, false)?;
        }
        Ok(new)
    }

    /// What happens to protected files, if it can write any.
    pub(super) fn watch(&self) -> Option<Arc<Mutex<Watch>>> {
        self.process.watch.clone()
    }

    pub(super) fn sources(&self) -> impl Iterator<Item = (u64, Port)> {
        self.sources.into_iter()
    }

    fn fd(&self, port: Port) -> RawFd {
        match port {
            Port::Input => self.process.input.as_ref().map_or(-1, |input| input.as_raw_fd()),
            Port::Output => self.process.output.as_raw_fd(),
            Port::Errors => self.process.errors.as_raw_fd(),
            Port::Exit => self.process.supervised.exit().as_raw_fd(),
        }
    }

    /// Reads what has arrived, within bounds.
    pub(super) fn on_ready(&mut self, number: u64, port: Port, now: Moment, reactor: &mut Reactor) -> Result<()> {
        let mut bytes = Vec::new();
        let is_open = match port {
            Port::Output => read(&mut self.process.output, &mut bytes),
            Port::Errors => read(&mut self.process.errors, &mut bytes),
            Port::Exit => {
                self.may_have_ended = true;
                return reactor.rearm(source(number));
            }
            Port::Input => return Ok(()),
        };
        if is_open {
            reactor.rearm(source(number))?;
        } else {
            reactor.unwatch(source(number));
        }
        if port == Port::Errors {
            self.errors.extend_from_slice(&bytes);
            let surplus = self.errors.len().saturating_sub(MAX_ERRORS);
            self.errors.drain(..surplus);
            return Ok(());
        }
        if !is_open {
            self.closed_until = Some(now + CLOSED);
        }
        self.take_lines(&bytes, now);
        Ok(())
    }

    fn take_lines(&mut self, bytes: &[u8], now: Moment) {
        match self.lines.push(bytes) {
            Ok(lines) => lines.iter().for_each(|line| self.session.on_text(line, now)),
            Err(_) => self.session.fail(format!("sent a message of more than {} MiB", MAX_LINE >> 20)),
        }
    }

    /// Writes the messages of the session as far as the server reads them; the rest follows.
    pub(super) fn write(&mut self, reactor: &mut Reactor) -> Result<()> {
        for message in self.session.take_messages() {
            self.unwritten.extend(message.text.as_bytes());
            self.unwritten.push_back(b'\n');
        }
        if self.unwritten.len() > MAX_UNWRITTEN {
            self.session.fail("does not read its input".into());
        }
        let source = source(self.sources[3].0);
        while let (Some(input), false) = (&mut self.process.input, self.unwritten.is_empty()) {
            match input.write(self.unwritten.as_slices().0) {
                Ok(count) => drop(self.unwritten.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let fd = input.as_raw_fd();
                    return reactor.watch(source, fd, false, true);
                }
                // It has closed its input: its end, or the limits of requests, follow.
                Err(_) => self.unwritten.clear(),
            }
        }
        reactor.unwatch(source);
        Ok(())
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Moment> {
        self.session.deadline().into_iter().chain(self.closed_until).min()
    }

    /// How it ended, if it has.
    pub(super) fn take_end(&mut self, now: Moment) -> Option<String> {
        let is_late = self.closed_until.is_some_and(|until| until <= now);
        if !std::mem::take(&mut self.may_have_ended) && !is_late {
            return None;
        }
        let Some(code) = self.process.supervised.take_ended() else {
            return is_late.then(|| format!("closed its output{}", self.last_error()));
        };
        let mut rest = Vec::new();
        read(&mut self.process.errors, &mut self.errors);
        read(&mut self.process.output, &mut rest);
        self.take_lines(&rest, now);
        if let Some(why) = self.process.refusal() {
            return Some(format!("was not started: {why}"));
        }
        let how = code.map_or_else(|| "was killed".into(), |code| format!("ended with exit code {code}"));
        Some(format!("{how}{}", self.last_error()))
    }

    /// The last line of its standard error.
    fn last_error(&self) -> String {
        let text = String::from_utf8_lossy(&self.errors);
        // npm ends with where its log is.
        let says = |line: &&str| !line.is_empty() && !line.contains("A complete log of this run");
        let line = text.lines().rev().map(str::trim).find(says);
        line.map(|line| format!(": {}", truncate(&sanitise(line), ERROR_WIDTH))).unwrap_or_default()
    }

    /// Ends it, with all its descendants. It is over when [`Ending::is_over`] says so.
    pub(super) fn end(mut self, until: Moment, reactor: &mut Reactor) -> Ending {
        // The kernel closes descriptors at once and gives their numbers to others.
        self.sources().for_each(|(number, _)| reactor.unwatch(source(number)));
        drop(self.process.input.take());
        self.process.supervised.end();
        Ending { process: Some(self.process), until }
    }
}

/// A server that is being ended.
pub(super) struct Ending {
    process: Option<ServerProcess>,
    /// What has not ended by then is killed.
    pub(super) until: Moment,
}

impl Ending {
    /// Whether the process has ended completely. One that does not end in time is killed on a thread, which may have to
    /// wait.
    pub(super) fn is_over(&mut self, now: Moment) -> bool {
        let Some(process) = &mut self.process else { return true };
        if process.supervised.take_ended().is_some() {
            return true;
        }
        if now >= self.until
            && let Some(mut process) = self.process.take()
        {
            let kill = move |_: &Job| {
                drop(process.supervised.kill());
                Ok(())
            };
            // Without a thread it is left to the kernel, which ends it with this process.
            drop(JobThread::spawn("mcp end".into(), kill, Arc::new(|| ())));
            return true;
        }
        false
    }
}

/// Appends what has arrived. Returns whether more may follow.
fn read(from: &mut impl Read, bytes: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 16 << 10];
    while bytes.len() < BYTES_PER_TURN {
        match from.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
    true
}
