//! What is written where while a run goes on: the answer to standard output, everything else to standard error.

use std::io::{stderr, stdout};
use std::os::fd::{AsFd, RawFd};
use std::time::Instant;

use serde_json::{Value, json};

use super::account::{Account, Failure};
use super::outlet::{Outlet, State};
use super::wanted::OutputFormat;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::text::sanitise;
use crate::cli::code;
use crate::domain::chunk::Chunk;

/// The most that waits for a reader that takes nothing, in bytes: more than any reply is long.
pub const MOST_WAITING: usize = 64 << 20;
/// The same for standard error, behind which lines are dropped.
const MOST_TOLD: usize = 1 << 20;

/// How a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Everything was done; how it went is in the account.
    Done,
    /// It cannot go on.
    Failed(Failure),
    /// A limit was reached, in words.
    Limit(String),
    /// This signal asked for it.
    Signal(i32),
    /// Nobody reads the answer any more.
    Unread,
}

impl Ending {
    /// The limit of `--max-turns` is reached.
    pub fn out_of_requests() -> Self {
        Self::Limit("--max-turns: no further request may be made".into())
    }
}

/// Where a run is written to.
pub struct Desk {
    format: OutputFormat,
    out: Outlet,
    err: Outlet,
    /// Standard output is a terminal: nothing that a model says may steer it.
    is_shown: bool,
    /// The call that was refused last, until it is seen.
    refused: Option<String>,
    /// So many chunks were gone before they could be passed on.
    missed: u64,
    /// What was seen.
    pub account: Account,
    started: Instant,
}

impl Desk {
    /// One at which nothing was written yet.
    ///
    /// # Errors
    /// No further descriptor is to be had.
    pub fn new(format: OutputFormat, started: Instant) -> Result<Self> {
        Ok(Self {
            format,
            is_shown: rustix::termios::isatty(stdout()),
            out: Outlet::on(stdout().as_fd()).map_err(std::io::Error::from)?,
            err: Outlet::on(stderr().as_fd()).map_err(std::io::Error::from)?,
            refused: None,
            missed: 0,
            account: Account::default(),
            started,
        })
    }

    /// A chunk of the agent, and how it is written as a line of JSON.
    pub fn on_chunk(&mut self, chunk: &Chunk, line: impl FnOnce() -> String) {
        let said = self.account.on_chunk(chunk);
        match self.format {
            OutputFormat::StreamJson => self.out.write((line() + "\n").as_bytes()),
            OutputFormat::Text if self.is_shown => self.out.write(sanitise(&said).as_bytes()),
            OutputFormat::Text => self.out.write(said.as_bytes()),
            OutputFormat::Json => {}
        }
        match chunk {
            Chunk::Error { message, .. } => self.say(message),
            Chunk::Note(text) => self.say(text),
            Chunk::Question { title, .. } => {
                self.refuse(title);
                self.refused = Some(title.clone());
            }
            // A call that was refused is seen as a call too.
            Chunk::ToolCall { title, .. } if self.refused.take().as_ref() == Some(title) => {}
            Chunk::ToolCall { title, .. } => self.say(&format!("calls {title}")),
            Chunk::Mail { .. } => self.say("a letter came"),
            _ => {}
        }
    }

    /// So many chunks were dropped before they could be read.
    pub fn miss(&mut self, count: u64) {
        self.missed += count;
    }

    /// What the end is called after all, if not everything that was said could be passed on.
    pub fn shortfall(&self) -> Option<Ending> {
        let words = "it was answered, but more was said at once than can be passed on";
        (self.missed > 0).then(|| Ending::Failed(Error::new(ErrorKind::Tool, words).into()))
    }

    /// Tells of a call that nobody could allow.
    pub fn refuse(&mut self, title: &str) {
        self.say(&format!("refused, because nobody is there who could allow it: {title}"));
    }

    /// Tells something beside the answer, in one line.
    pub fn say(&mut self, words: &str) {
        if self.err.waiting() < MOST_TOLD {
            let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
            self.err.write(format!("polylogue: {}\n", sanitise(&words)).as_bytes());
        }
    }

    /// The last of the answer, for the formats that have a last; returns the code with which the program ends.
    pub fn conclude(&mut self, ending: &Ending, agent: &str, requests: u32) -> u8 {
        match ending {
            Ending::Failed(failure) => self.say(&failure.text),
            Ending::Limit(words) => self.say(words),
            Ending::Done | Ending::Signal(_) | Ending::Unread => {}
        }
        if self.format != OutputFormat::Text {
            let line = self.result(ending, agent, requests).to_string() + "\n";
            self.out.write(line.as_bytes());
        }
        self.code(ending)
    }

    /// The code with which the program ends.
    pub fn code(&self, ending: &Ending) -> u8 {
        match (ending, self.account.failure()) {
            (Ending::Unread, _) => code::UNREAD,
            (Ending::Signal(number), _) => code::of_signal(*number),
            (Ending::Limit(_), _) => code::LIMIT,
            (Ending::Failed(failure), _) | (Ending::Done, Some(failure)) => code::of_kind(&failure.kind),
            (Ending::Done, None) if self.account.is_cut() => code::INTERRUPTED,
            (Ending::Done, None) => code::DONE,
        }
    }

    fn result(&self, ending: &Ending, agent: &str, requests: u32) -> Value {
        let told = |failure: &Failure| json!({"kind": failure.kind, "text": failure.text});
        let (outcome, error) = match (ending, self.account.failure()) {
            (Ending::Limit(words), _) => ("limit", json!({"kind": "limit", "text": words})),
            (Ending::Failed(failure), _) | (Ending::Done, Some(failure)) => ("failed", told(failure)),
            (Ending::Done, None) if !self.account.is_cut() => ("completed", Value::Null),
            (Ending::Done | Ending::Signal(_) | Ending::Unread, _) => ("interrupted", Value::Null),
        };
        let mut result = self.account.to_json();
        result["agent"] = agent.into();
        result["outcome"] = outcome.into();
        result["error"] = error;
        result["turns"] = requests.into();
        result["ms"] = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).into();
        result
    }

    /// Why nothing more can be written, if so.
    pub fn trouble(&self) -> Option<Ending> {
        match self.out.state() {
            State::Unread => Some(Ending::Unread),
            State::Failed(error) => {
                let text = format!("standard output cannot be written: {error}");
                Some(Ending::Failed(Failure { kind: "system".into(), text }))
            }
            State::Open if self.out.waiting() > MOST_WAITING => {
                let words = "whoever reads standard output takes nothing: more than 64 MiB wait";
                Some(Ending::Limit(words.into()))
            }
            State::Open => None,
        }
    }

    /// Whether something was not taken yet.
    pub fn is_waiting(&self) -> bool {
        self.out.state() == State::Open && self.out.waiting() > 0
    }

    /// Writes what is taken now.
    pub fn flush(&mut self) {
        self.out.flush();
        self.err.flush();
    }

    /// The descriptors to watch: which, and whether for writing. The news that a reader has gone comes for both.
    pub fn watched(&self) -> impl Iterator<Item = (RawFd, bool)> {
        let err = self.err.watched().filter(|_| self.err.waiting() > 0).map(|fd| (fd, true));
        let out = self.out.watched().map(|fd| (fd, self.out.waiting() > 0));
        out.into_iter().chain(err)
    }

    /// There is news of this descriptor, perhaps one of these.
    pub fn on_news(&mut self, fd: RawFd) {
        for outlet in [&mut self.out, &mut self.err] {
            if outlet.watched() == Some(fd) {
                outlet.on_news();
            }
        }
    }
}
