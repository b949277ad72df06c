//! A reply or a failure of the provider, as a `[[reply]]` of a scenario.

use std::fmt::Write as _;

use serde_json::json;

use super::filler::{fill, redacted};
use super::{LONGEST_MS, toml_string};
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind};
use crate::domain::stream::{Finish, StreamEvent};
use crate::domain::tool::ToolCall;

/// A connection that is closed before the response: libcurl would ask again if it had received nothing at all.
const CLOSED: &str = "raw = \"HTTP/1.1 103 Early Hints\\r\\n\\r\\n\", cut = true";

/// A reply that is being received.
pub(super) struct Reply {
    sent: Moment,
    status: Option<u16>,
    retry_after: Option<u32>,
    /// When its head was received.
    head: Option<u128>,
    /// With the milliseconds after the request.
    steps: Vec<(u128, String)>,
    calls: Vec<(u128, ToolCall)>,
    finish: Option<Finish>,
}

impl Reply {
    pub(super) const fn new(sent: Moment) -> Self {
        Self { sent, status: None, retry_after: None, head: None, steps: Vec::new(), calls: Vec::new(), finish: None }
    }

    /// The head of a response was received now.
    pub(super) fn begin(&mut self, now: Moment) {
        self.head = Some((now - self.sent).as_millis());
    }

    /// Adds what was received now. Returns whether it was the end.
    pub(super) fn add(&mut self, event: StreamEvent, now: Moment, has_texts: bool) -> bool {
        let text_of = |text: &str| toml_string(&if has_texts { text.to_owned() } else { fill(text) });
        match event {
            StreamEvent::Text(text) => self.step(now, format!("text = {}", text_of(&text))),
            StreamEvent::Thinking(text) => self.step(now, format!("think = {}", text_of(&text))),
            StreamEvent::ToolCall { index, id, name, arguments } => {
                let after = (now - self.sent).as_millis();
                let empty = || (after, ToolCall { id: String::new(), name: String::new(), arguments: String::new() });
                self.calls.resize_with(self.calls.len().max(index + 1), empty);
                let (last, call) = &mut self.calls[index];
                *last = after;
                if call.name.is_empty() {
                    (call.id, call.name) = (id, name);
                }
                call.arguments += &arguments;
            }
            StreamEvent::Usage(usage) => self.step(now, format!("usage = [{}, {}]", usage.input, usage.output)),
            StreamEvent::Finish(finish) => self.finish = Some(finish),
            StreamEvent::Done => {
                self.add_calls(has_texts);
                let reason = self.finish.map_or("stop", reason_of);
                self.step(now, format!("finish = \"{reason}\""));
                return true;
            }
            StreamEvent::Signature(_) | StreamEvent::Error(_) => {}
        }
        false
    }

    /// The request failed now. A server that sends nothing more is silent in a scenario too.
    pub(super) fn fail(&mut self, status: Option<u16>, error: &Error, now: Moment, has_texts: bool) {
        self.add_calls(has_texts);
        let message = if has_texts { message_of(error, status) } else { filled_message(error, status) };
        match (error.kind, status.filter(|status| *status >= 300)) {
            (ErrorKind::Stalled, _) => {}
            (_, Some(status)) => self.refuse(status, error, &message, now),
            (ErrorKind::Network | ErrorKind::Timeout, None) if self.head.is_some() => {
                self.step(now, "cut = true".into())
            }
            (ErrorKind::Network | ErrorKind::Timeout, None) => self.step(now, CLOSED.into()),
            (kind, None) if self.steps.is_empty() => self.refuse(status_of(kind), error, &message, now),
            (kind, None) => {
                let error = json!({"error": {"message": message, "type": label_of(kind)}});
                let event = format!("data: {error}\n\n");
                let raw = format!("{:x}\r\n{event}\r\n", event.len());
                self.step(now, format!("raw = {}", toml_string(&raw)));
            }
        }
    }

    fn refuse(&mut self, status: u16, error: &Error, message: &str, now: Moment) {
        (self.status, self.retry_after) = (Some(status), error.retry_after);
        self.head = Some(0);
        self.steps.clear();
        self.step(now, format!("text = {}", toml_string(message)));
    }

    fn step(&mut self, now: Moment, what: String) {
        self.steps.push(((now - self.sent).as_millis(), what));
    }

    /// Each call comes in one piece, when its last one came.
    fn add_calls(&mut self, has_texts: bool) {
        for (after, call) in std::mem::take(&mut self.calls) {
            let arguments = if has_texts { call.arguments } else { redacted(&call.arguments) };
            let (tool, arguments) = (toml_string(&call.name), toml_string(&arguments));
            self.steps.push((after, format!("call = {{ tool = {tool}, arguments = {arguments} }}")));
        }
        self.steps.sort_by_key(|(after, _)| *after);
    }

    /// The keys of the table.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let _ = self.status.map(|status| writeln!(text, "status = {status}"));
        let _ = self.retry_after.map(|seconds| writeln!(text, "retry_after = {seconds}"));
        let head = self.head.unwrap_or(LONGEST_MS);
        // Writing into a `String` cannot fail.
        let _ = (head > 0).then(|| writeln!(text, "head = {head}"));
        text += "steps = [\n";
        for (after, what) in &self.steps {
            let _ = writeln!(text, "  {{ after = {after}, {what} }},");
        }
        text + "]\n"
    }
}

const fn reason_of(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::ContentFilter => "content_filter",
    }
}

/// A status that means this failure.
const fn status_of(kind: ErrorKind) -> u16 {
    match kind {
        ErrorKind::Auth => 401,
        ErrorKind::RateLimited => 429,
        ErrorKind::Overloaded => 503,
        _ => 400,
    }
}

/// The type of an error object that means this failure.
const fn label_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::RateLimited => "rate_limit_error",
        ErrorKind::Overloaded => "overloaded_error",
        ErrorKind::Refused => "content_filter",
        _ => "invalid_request_error",
    }
}

/// What the server said, without what the program put before it.
fn message_of(error: &Error, status: Option<u16>) -> String {
    let message = &error.message;
    let of_status = status.and_then(|status| message.split_once(&format!("({status})")));
    let said = of_status.or_else(|| message.split_once(": ")).map(|(_, said)| said);
    said.unwrap_or(message).trim_start_matches(": ").to_owned()
}

/// The same with filler, but for the words by which a failure is recognized.
fn filled_message(error: &Error, status: Option<u16>) -> String {
    match error.kind {
        ErrorKind::ContextTooLong => "maximum context length".into(),
        ErrorKind::NoTools => "does not support tools".into(),
        _ => fill(&message_of(error, status)),
    }
}
