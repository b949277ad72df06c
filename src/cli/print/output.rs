//! Writes what happens during a run: the answer and, as JSON, the result to standard output, notes to standard error.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agent::RunAgent;
use super::claude_lines::ClaudeLines;
use super::schema::Schema;
use super::summary::{Failure, Summary};
use super::written::{REPLACED, Written};
use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::arguments::{Arguments, OutputFormat};
use crate::cli::code;
use crate::cli::stdio::streams::{Streams, WriteError};
use crate::domain::chunk::{Chunk, StopReason, VERSION};

const LIMIT: &str = ErrorKind::Limit.name();
pub const MAX_TURNS: &str = "--max-turns";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// All turns are over; the summary says how they went.
    Done,
    Failed(Failure),
    Limit(String),
    Signal(i32),
    /// The reader of standard output has gone.
    Closed,
}

impl Ending {
    pub fn max_turns() -> Self {
        Self::Limit(format!("reached the limit of {MAX_TURNS}"))
    }
}

pub struct PrintOutput {
    format: OutputFormat,
    pub streams: Streams,
    /// The call that was refused last, until its chunk arrives.
    refused_call: Option<String>,
    missed_chunks: u64,
    written: Written,
    claude: ClaudeLines,
    /// Each turn has a result in the format of Claude Code.
    pub has_result_per_turn: bool,
    /// That of the last turn was written.
    has_result: bool,
    pub summary: Summary,
    pub schema: Option<Schema>,
    /// The model of the run, once that is known.
    model: Option<String>,
    started: Instant,
}

impl PrintOutput {
    pub fn new(format: OutputFormat, started: Instant) -> Result<Self> {
        Ok(Self {
            format,
            streams: Streams::of_process()?,
            refused_call: None,
            missed_chunks: 0,
            written: Written::default(),
            claude: ClaudeLines::new(None),
            has_result_per_turn: false,
            has_result: false,
            summary: Summary::default(),
            schema: None,
            model: None,
            started,
        })
    }

    /// Says which agent carries out the run.
    pub fn begin(&mut self, agent: &RunAgent) {
        let RunAgent { id, model, directory, policy, .. } = agent;
        self.model = Some(model.clone());
        let begun = match self.format {
            OutputFormat::Text | OutputFormat::Json => return,
            OutputFormat::ClaudeStreamJson => self.claude.begin(agent),
            OutputFormat::StreamJson => json!({
                "v": VERSION, "type": "init", "agent": id, "model": model, "directory": directory, "approval": policy,
                "version": env!("CARGO_PKG_VERSION"),
            }),
        };
        self.streams.line(begun.to_string());
    }

    /// Writes a chunk; `line` makes its line of JSON.
    pub fn on_chunk(&mut self, chunk: &Chunk, line: impl FnOnce() -> String) {
        let added = self.summary.on_chunk(chunk);
        let is_refused_call =
            matches!(chunk, Chunk::ToolCall { title, .. } if self.refused_call.take().as_ref() == Some(title));
        match self.format {
            OutputFormat::ClaudeStreamJson => {
                self.has_result &= !matches!(chunk, Chunk::User(_));
                let lines = self.claude.on_chunk(chunk, is_refused_call);
                lines.iter().for_each(|line| self.streams.line(line.to_string()));
            }
            OutputFormat::StreamJson => self.streams.line(line()),
            OutputFormat::Text => {
                let (text, is_replacement) = self.written.on_chunk(chunk, &added);
                if is_replacement {
                    self.note(REPLACED);
                }
                self.streams.answer(&text);
            }
            OutputFormat::Json => {}
        }
        match chunk {
            Chunk::Error { message, .. } => self.note(message),
            Chunk::Note(text) => self.note(text),
            Chunk::Finish { stop_reason } => cut(*stop_reason).iter().for_each(|(_, message)| self.note(message)),
            Chunk::Question { title, .. } => {
                self.streams.note_refused_call(title);
                self.refused_call = Some(title.clone());
            }
            Chunk::ToolCall { title, .. } if !is_refused_call => self.note(&format!("calls {title}")),
            Chunk::Mail { .. } => self.note("received a message"),
            _ => {}
        }
    }

    /// A request of the agent is not sent before this time has passed; `line` makes its line of JSON.
    pub fn on_wait(&mut self, length: Duration, reason: &str, line: impl FnOnce() -> String) {
        if self.format == OutputFormat::StreamJson {
            self.streams.line(line());
        }
        self.note(&format!("waiting {:.1} s: {reason}", length.as_secs_f64()));
    }

    /// This many chunks were dropped before they could be read.
    pub fn on_missed(&mut self, count: u64) {
        self.missed_chunks += count;
    }

    /// The ending of a run that missed chunks.
    pub fn missed(&self) -> Option<Ending> {
        let message = "the answer is incomplete: it arrived faster than it could be written";
        (self.missed_chunks > 0).then(|| Ending::Failed(Error::new(ErrorKind::Tool, message).into()))
    }

    pub fn note(&mut self, message: &str) {
        self.streams.note(message);
    }

    /// The ending of a run whose answer does not conform to the schema.
    pub fn nonconforming(&self) -> Option<Ending> {
        let schema = self.schema.as_ref()?;
        let is_whole = self.summary.failure().is_none() && !self.summary.is_interrupted() && self.cut().is_none();
        let message = schema.objection(self.summary.last_reply()).filter(|_| is_whole)?;
        Some(Ending::Failed(Failure { kind: "schema".into(), message }))
    }

    /// Writes the result, in the formats that have one. Returns the exit code.
    pub fn finish(&mut self, ending: &Ending, agent: &str, requests: u32) -> u8 {
        match ending {
            Ending::Failed(failure) => self.note(&failure.message),
            Ending::Limit(message) => self.note(message),
            Ending::Done | Ending::Signal(_) | Ending::Closed => {}
        }
        let result = match self.format {
            OutputFormat::Text => None,
            OutputFormat::ClaudeStreamJson if self.has_result && *ending == Ending::Done => None,
            OutputFormat::ClaudeStreamJson => Some(self.claude_result(ending, agent, requests)),
            OutputFormat::Json | OutputFormat::StreamJson => Some(self.result(ending, agent, requests)),
        };
        result.iter().for_each(|line| self.streams.line(line.to_string()));
        self.exit_code(ending)
    }

    pub fn exit_code(&self, ending: &Ending) -> u8 {
        match (ending, self.summary.failure()) {
            (Ending::Closed, _) => code::UNREAD,
            (Ending::Signal(number), _) => code::of_signal(*number),
            (Ending::Limit(_), _) => code::LIMIT,
            (Ending::Failed(failure), _) | (Ending::Done, Some(failure)) => code::of_kind(&failure.kind),
            (Ending::Done, None) if self.summary.is_interrupted() => code::INTERRUPTED,
            (Ending::Done, None) => match self.cut() {
                Some((kind, _)) => code::of_kind(kind),
                None => code::DONE,
            },
        }
    }

    /// A turn is over, and the run may go on.
    pub fn on_turn_over(&mut self, agent: &str, requests: u32) {
        if self.format == OutputFormat::ClaudeStreamJson && self.has_result_per_turn {
            let line = self.claude_result(&Ending::Done, agent, requests).to_string();
            self.streams.line(line);
            self.has_result = true;
        }
    }

    fn claude_result(&self, ending: &Ending, agent: &str, requests: u32) -> Value {
        self.claude.result(&self.result(ending, agent, requests), self.summary.last_reply())
    }

    fn cut(&self) -> Option<(&'static str, &'static str)> {
        self.summary.stop_reason().and_then(cut)
    }

    fn result(&self, ending: &Ending, agent: &str, requests: u32) -> Value {
        let (outcome, error) = match (ending, self.summary.failure()) {
            (Ending::Limit(message), _) => ("limit", json!({"kind": "limit", "text": message})),
            (Ending::Failed(failure), _) | (Ending::Done, Some(failure)) => ("failed", json!(failure)),
            (Ending::Done, None) if !self.summary.is_interrupted() => match self.cut() {
                Some((LIMIT, text)) => ("limit", json!({"kind": LIMIT, "text": text})),
                Some((kind, text)) => ("failed", json!({"kind": kind, "text": text})),
                None => ("completed", Value::Null),
            },
            (Ending::Done | Ending::Signal(_) | Ending::Closed, _) => ("interrupted", Value::Null),
        };
        let mut result = self.summary.to_json();
        result["agent"] = agent.into();
        result["model"] = self.model.as_deref().into();
        result["outcome"] = outcome.into();
        result["error"] = error;
        result["turns"] = requests.into();
        result["ms"] = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).into();
        result
    }

    /// The ending of a run whose output cannot be written any more.
    pub fn write_error(&self) -> Option<Ending> {
        self.streams.error().map(|error| match error {
            WriteError::Closed => Ending::Closed,
            WriteError::Failed(message) => Ending::Failed(Failure { kind: "system".into(), message }),
            WriteError::Stalled(message) => Ending::Limit(message.into()),
        })
    }
}

/// The result of a run that could not begin.
pub fn not_begun(arguments: &Arguments, error: &Error, started: Instant) -> Value {
    let mut result = Summary::default().to_json();
    (result["agent"], result["model"]) = (Value::Null, Value::Null);
    result["outcome"] = if error.kind == ErrorKind::Limit { "limit" } else { "failed" }.into();
    result["error"] = json!(Failure::from(error.clone()));
    result["turns"] = 0.into();
    result["ms"] = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX).into();
    match arguments.output_format {
        OutputFormat::ClaudeStreamJson => ClaudeLines::new(arguments.session_id).result(&result, ""),
        _ => result,
    }
}

/// The kind of error and the reason of an answer that is not whole. A content filter is an error of the turn.
const fn cut(stop_reason: StopReason) -> Option<(&'static str, &'static str)> {
    match stop_reason {
        StopReason::Stop | StopReason::ContentFilter => None,
        StopReason::Length => Some((LIMIT, "the reply was cut at the length limit of the model")),
        StopReason::ToolRounds => Some((LIMIT, "the limit of tool rounds was reached (limits.tool_iterations)")),
        StopReason::Empty => Some(("empty", "the reply is empty")),
    }
}
