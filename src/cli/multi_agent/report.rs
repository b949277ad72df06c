//! The output of a run: the answer on standard output and progress on standard error; or, with `--json`, every event on
//! standard output.

use std::time::Duration;

use serde_json::Value;

use crate::base::error::ErrorKind;
use crate::cli::code;
use crate::cli::stdio::streams::Streams;

pub struct Report {
    pub streams: Streams,
    is_json: bool,
}

impl Report {
    pub fn new(streams: Streams, is_json: bool) -> Self {
        Self { streams, is_json }
    }

    /// `event` is one of [`crate::team::coordinator::event`].
    pub fn on_event(&mut self, event: &Value) {
        if self.is_json {
            self.streams.line(event.to_string());
        } else if let Some(line) = progress(event) {
            self.streams.note(&line);
        }
    }

    /// Writes the answer, notes and errors of an outcome.
    pub fn finish(&mut self, outcome: &Value) {
        let answer = outcome["answer"].as_str();
        if let Some(answer) = answer.filter(|_| !self.is_json) {
            self.streams.answer(answer);
            if !answer.ends_with('\n') {
                self.streams.answer("\n");
            }
        }
        // The result object has the error as well, but a person looks at standard error.
        let error = outcome["error"].as_str();
        let partial = (error.is_some() && answer.is_some()).then_some("partial answer");
        let notes = outcome["notes"].as_array().filter(|_| !self.is_json).into_iter().flatten();
        let notes = notes.filter_map(Value::as_str).chain(error).chain(partial);
        notes.for_each(|message| self.streams.note(message));
    }
}

/// The line for standard error, if the event has one.
fn progress(event: &Value) -> Option<String> {
    let member = text(event, "member");
    match (text(event, "type"), event["model"].as_str()) {
        ("agent_started", Some(model)) => Some(format!("{member} started, with {model}")),
        ("agent_started", None) => Some(format!("{member} started")),
        ("agent_finished", _) => Some(result_line(event)),
        ("agent_skipped", _) => Some(format!("{member} skipped: {}", text(event, "reason"))),
        _ => None,
    }
}

fn result_line(result: &Value) -> String {
    let (member, error) = (text(result, "member"), text(result, "error"));
    let time = Duration::from_millis(result["duration_ms"].as_u64().unwrap_or_default());
    let time = format!("{:.1} s", time.as_secs_f64());
    let is_stopped = ["timed_out", "skipped", "cancelled"].iter().any(|key| result[*key] == true);
    match result["attempts"].as_u64() {
        _ if is_stopped => format!("{member}: {error}"),
        _ if result["success"] != true => format!("{member} failed after {time}: {error}"),
        Some(attempts @ 2..) => format!("{member} answered after {time} (attempt {attempts})"),
        _ => format!("{member} answered after {time}"),
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// The exit code for an outcome.
pub fn code_of(outcome: &Value) -> u8 {
    match text(outcome, "kind") {
        _ if outcome["success"] == true => code::DONE,
        _ if outcome["interrupted"] == true => code::INTERRUPTED,
        kind if kind == ErrorKind::Timeout.name() && is_out_of_time(outcome) => code::LIMIT,
        kind => code::of_kind(kind),
    }
}

/// Whether the limit of the run ended the first member that failed, and not a timeout of its provider or connection.
fn is_out_of_time(outcome: &Value) -> bool {
    let mut results = outcome["results"].as_array().into_iter().flatten();
    let first = results.find(|result| text(result, "kind") == ErrorKind::Timeout.name());
    first.is_some_and(|result| result["timed_out"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Error;
    use crate::team::coordinator::event::{Event, EventKind};
    use crate::team::coordinator::outcome::{Outcome, RunStatus};
    use crate::team::coordinator::result::{MemberOutcome, MemberResult};

    fn result(outcome: MemberOutcome) -> MemberResult {
        let duration = Duration::from_millis(1240);
        MemberResult { member: "ann".into(), outcome, attempts: 2, duration, ended_at: duration, tokens: 0 }
    }

    fn failed(kind: ErrorKind) -> RunStatus {
        RunStatus::Failed(Error::new(kind, "no"))
    }

    #[test]
    fn a_timeout_of_the_run_and_one_of_a_provider_have_different_exit_codes() {
        let late = || MemberOutcome::TimedOut("late".into());
        let failure = |kind| MemberOutcome::Failed(Error::new(kind, "no"));
        for (status, results, code) in [
            (RunStatus::Completed, vec![late()], 0),
            (RunStatus::Interrupted, vec![], 130),
            (failed(ErrorKind::Timeout), vec![late(), failure(ErrorKind::Auth)], 4),
            (failed(ErrorKind::Timeout), vec![failure(ErrorKind::Timeout), late()], 3),
            (failed(ErrorKind::Auth), vec![failure(ErrorKind::Auth), late()], 3),
            (failed(ErrorKind::System), vec![MemberOutcome::Skipped("open".into())], 1),
        ] {
            let outcome = Outcome {
                run: "r".into(),
                results: results.into_iter().map(result).collect(),
                answer: None,
                chosen: None,
                status,
                notes: Vec::new(),
                duration: Duration::ZERO,
                tokens: 0,
            };
            assert_eq!(code_of(&outcome.json()), code, "{outcome:?}");
        }
    }

    #[test]
    fn events_of_agents_have_a_progress_line_and_those_of_the_run_none() {
        let started =
            |model: Option<&str>| EventKind::AgentStarted { member: "ann".into(), model: model.map(Into::into) };
        for (event, line) in [
            (started(None), Some("ann started")),
            (started(Some("echo")), Some("ann started, with echo")),
            (
                EventKind::AgentFinished(result(MemberOutcome::Answered("x".into()))),
                Some("ann answered after 1.2 s (attempt 2)"),
            ),
            (
                EventKind::AgentFinished(result(MemberOutcome::Cancelled("stopped: enough".into()))),
                Some("ann: stopped: enough"),
            ),
            (EventKind::TaskCompleted { answer: "x".into(), failures: Vec::new(), tokens: 0 }, None),
        ] {
            let event = Event { number: 1, at: Duration::ZERO, kind: event }.json("r");
            assert_eq!(progress(&event).as_deref(), line, "{event}");
        }
    }
}
