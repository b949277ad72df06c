//! What is written where while a run goes on: the answer to standard output, everything else to standard error.

use std::time::Instant;

use serde_json::{Value, json};

use super::account::{Account, Failure};
use super::streams::{Streams, Trouble};
use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::arguments::OutputFormat;
use crate::cli::code;
use crate::domain::chunk::Chunk;

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
    /// Standard output and error.
    pub streams: Streams,
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
            streams: Streams::of_process()?,
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
            OutputFormat::StreamJson => self.streams.line(line()),
            OutputFormat::Text => self.streams.answer(&said),
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
        self.streams.refuse(title);
    }

    /// Tells something beside the answer, in one line.
    pub fn say(&mut self, words: &str) {
        self.streams.say(words);
    }

    /// The last of the answer, for the formats that have a last; returns the code with which the program ends.
    pub fn conclude(&mut self, ending: &Ending, agent: &str, requests: u32) -> u8 {
        match ending {
            Ending::Failed(failure) => self.say(&failure.text),
            Ending::Limit(words) => self.say(words),
            Ending::Done | Ending::Signal(_) | Ending::Unread => {}
        }
        if self.format != OutputFormat::Text {
            let line = self.result(ending, agent, requests).to_string();
            self.streams.line(line);
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
        self.streams.trouble().map(|trouble| match trouble {
            Trouble::Unread => Ending::Unread,
            Trouble::Failed(text) => Ending::Failed(Failure { kind: "system".into(), text }),
            Trouble::Stuck(words) => Ending::Limit(words.into()),
        })
    }
}
