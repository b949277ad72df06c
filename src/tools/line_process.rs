//! A program that exchanges lines with the loop over its standard input and output, for as long as it is used.

use std::collections::VecDeque;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Environment;
use super::server_process::{ServerProcess, ServerProgram};
use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::base::job::{Job, JobThread, Wake};
use crate::base::lines::{Lines, MAX_LINE};
use crate::base::text::{sanitise, truncate};
use crate::reactor::{Reactor, Source};
use crate::sandbox::Watch;

/// Bytes read from one pipe per turn, so that a process with much output does not delay others.
const BYTES_PER_TURN: usize = 256 << 10;
/// Bytes that wait to be written to a process that does not read, while more is sent to it.
const MAX_UNWRITTEN: usize = 64 << 20;
/// Bytes kept of the end of its standard error.
const MAX_ERRORS: usize = 4 << 10;
/// How long a process may take to end before it is killed. Its supervisor kills its descendants before that.
const END_TIME_LIMIT: Duration = Duration::from_secs(3);
/// How long it may run after it has closed its output.
const CLOSED: Duration = Duration::from_secs(1);
/// Width of an error that is shown, in columns.
const ERROR_WIDTH: usize = 160;

/// The descriptors of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    Input,
    Output,
    Errors,
    Exit,
}

impl Port {
    const ALL: [Self; 4] = [Self::Input, Self::Output, Self::Errors, Self::Exit];
}

/// A process that is being started on a thread, because finding out what the sandbox has to protect may take long.
pub struct Starting(JobThread<ServerProcess>);

impl Starting {
    /// `wake` is called once it has started or failed.
    pub fn begin(program: ServerProgram, env: Arc<Environment>, wake: Wake) -> Result<Self> {
        let work = move |_: &Job| ServerProcess::start(&program, &env);
        JobThread::spawn("server start".into(), work, wake).map(Self)
    }

    /// The process, once it is there. Returned once.
    pub fn take(&self) -> Option<std::result::Result<ServerProcess, String>> {
        self.0.take()
    }
}

/// A process that runs.
pub struct LineProcess {
    process: ServerProcess,
    lines: Lines,
    /// Complete lines that were not taken yet.
    arrived: Vec<Vec<u8>>,
    /// It broke the rules of the pipe: what it did.
    fault: Option<String>,
    unwritten: VecDeque<u8>,
    /// How much of it the last write has left.
    left: usize,
    errors: Vec<u8>,
    /// The feature that it belongs to, and its number there.
    feature: (&'static str, u64),
    /// Its output has ended: it should end itself before this moment.
    closed_until: Option<Moment>,
    may_have_ended: bool,
}

impl LineProcess {
    /// Registers the descriptors as `Source::Feature` with the name of a feature and the number of the process.
    pub fn new(process: ServerProcess, feature: (&'static str, u64), reactor: &mut Reactor) -> Result<Self> {
        let new = Self {
            process,
            lines: Lines::default(),
            arrived: Vec::new(),
            fault: None,
            unwritten: VecDeque::new(),
            left: 0,
            errors: Vec::new(),
            feature,
            closed_until: None,
            may_have_ended: false,
        };
        for port in [Port::Output, Port::Errors, Port::Exit] {
            reactor.watch(new.source(port), new.fd(port), true, false)?;
        }
        Ok(new)
    }

    /// What happens to protected files, if it can write any.
    pub fn watch(&self) -> Option<Arc<Mutex<Watch>>> {
        self.process.watch.clone()
    }

    fn source(&self, port: Port) -> Source {
        let (name, number) = self.feature;
        Source::Feature { name, number, fd: self.fd(port) }
    }

    fn fd(&self, port: Port) -> RawFd {
        match port {
            Port::Input => self.process.input.as_ref().map_or(-1, |input| input.as_raw_fd()),
            Port::Output => self.process.output.as_raw_fd(),
            Port::Errors => self.process.errors.as_raw_fd(),
            Port::Exit => self.process.supervised.exit().as_raw_fd(),
        }
    }

    /// Reads what has arrived at one of its descriptors, within bounds.
    pub fn on_ready(&mut self, fd: RawFd, now: Moment, reactor: &mut Reactor) -> Result<()> {
        let Some(port) = Port::ALL.into_iter().find(|port| self.fd(*port) == fd) else { return Ok(()) };
        let mut bytes = Vec::new();
        let is_open = match port {
            Port::Output => read(&mut self.process.output, &mut bytes),
            Port::Errors => read(&mut self.process.errors, &mut bytes),
            Port::Exit => {
                self.may_have_ended = true;
                return reactor.rearm(self.source(port));
            }
            Port::Input => return Ok(()),
        };
        if is_open {
            reactor.rearm(self.source(port))?;
        } else {
            reactor.unwatch(self.source(port));
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
        self.add_lines(&bytes);
        Ok(())
    }

    fn add_lines(&mut self, bytes: &[u8]) {
        match self.lines.push(bytes) {
            Ok(lines) => self.arrived.extend(lines),
            Err(_) => self.fault = Some(format!("sent a message of more than {} MiB", MAX_LINE >> 20)),
        }
    }

    /// The lines that have arrived since the last call.
    pub fn take_lines(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.arrived)
    }

    /// What it did against the rules of the pipe: it is to be ended.
    pub fn take_fault(&mut self) -> Option<String> {
        self.fault.take()
    }

    /// Adds a line to what is written next.
    pub fn push(&mut self, line: &str) {
        if self.left > MAX_UNWRITTEN {
            self.fault = Some("does not read its input".into());
        }
        self.unwritten.extend(line.as_bytes());
        self.unwritten.push_back(b'\n');
    }

    /// Writes as far as it reads; the rest follows.
    pub fn write(&mut self, reactor: &mut Reactor) -> Result<()> {
        let source = self.source(Port::Input);
        while let (Some(input), false) = (&mut self.process.input, self.unwritten.is_empty()) {
            match input.write(self.unwritten.as_slices().0) {
                Ok(count) => drop(self.unwritten.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.left = self.unwritten.len();
                    let fd = input.as_raw_fd();
                    return reactor.watch(source, fd, false, true);
                }
                // It has closed its input: its end, or the limits of requests, follow.
                Err(_) => self.unwritten.clear(),
            }
        }
        self.left = 0;
        reactor.unwatch(source);
        Ok(())
    }

    /// When something is due.
    pub const fn deadline(&self) -> Option<Moment> {
        self.closed_until
    }

    /// How it ended, if it has. Its last lines can be taken then.
    pub fn take_end(&mut self, now: Moment) -> Option<String> {
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
        self.add_lines(&rest);
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
    pub fn end(mut self, now: Moment, reactor: &mut Reactor) -> Ending {
        // The kernel closes descriptors at once and gives their numbers to others.
        Port::ALL.into_iter().for_each(|port| reactor.unwatch(self.source(port)));
        drop(self.process.input.take());
        self.process.supervised.end();
        Ending { process: Some(self.process), until: now + END_TIME_LIMIT }
    }
}

/// A process that is being ended.
pub struct Ending {
    process: Option<ServerProcess>,
    /// What has not ended by then is killed.
    until: Moment,
}

impl Ending {
    /// Whether the process has ended completely. One that does not end in time is killed on a thread, which may have to
    /// wait.
    pub fn is_over(&mut self, now: Moment) -> bool {
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
            drop(JobThread::spawn("server end".into(), kill, Arc::new(|| ())));
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
