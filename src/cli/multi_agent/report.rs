//! The output of a run: the answer on standard output and progress on standard error; or, with `--json`, every event on
//! standard output.

use std::time::Duration;

use crate::base::error::ErrorKind;
use crate::cli::code;
use crate::cli::stdio::streams::Streams;
use crate::team::coordinator::event::{Event, EventKind};
use crate::team::coordinator::outcome::{Outcome, RunStatus};
use crate::team::coordinator::result::{MemberOutcome, MemberResult};

pub struct Report {
    pub streams: Streams,
    is_json: bool,
}

impl Report {
    pub fn new(streams: Streams, is_json: bool) -> Self {
        Self { streams, is_json }
    }

    pub fn on_event(&mut self, run: &str, event: &Event) {
        if self.is_json {
            self.streams.line(event.json_line(run));
        } else if let Some(line) = progress(&event.kind) {
            self.streams.note(&line);
        }
    }

    /// Writes the answer, notes and errors.
    pub fn finish(&mut self, outcome: &Outcome) {
        if let Some(answer) = outcome.answer.as_ref().filter(|_| !self.is_json) {
            self.streams.answer(answer);
            if !answer.ends_with('\n') {
                self.streams.answer("\n");
            }
        }
        // The result object has the error as well, but a person looks at standard error.
        let partial = (outcome.error().is_some() && outcome.answer.is_some()).then_some("partial answer");
        let last = outcome.error().into_iter().chain(partial);
        let notes = outcome.notes.iter().map(String::as_str).filter(|_| !self.is_json);
        notes.chain(last).for_each(|message| self.streams.note(message));
    }
}

/// The line about it on standard error, if it is worth one.
fn progress(event: &EventKind) -> Option<String> {
    match event {
        EventKind::AgentStarted { member, model: Some(model) } => Some(format!("{member} works, on {model}")),
        EventKind::AgentStarted { member, model: None } => Some(format!("{member} works")),
        EventKind::AgentFinished(result) => Some(ended(result)),
        EventKind::AgentSkipped { member, reason } => Some(format!("{member} is skipped: {reason}")),
        EventKind::TaskStarted { .. }
        | EventKind::AggregationCompleted { .. }
        | EventKind::TaskCompleted { .. }
        | EventKind::TaskFailed { .. } => None,
    }
}

fn ended(result: &MemberResult) -> String {
    let (member, time) = (&result.member, seconds(result.duration));
    match &result.outcome {
        MemberOutcome::Answered(_) if result.attempts > 1 => {
            format!("{member} has answered after {time}, the {} time", ordinal(result.attempts))
        }
        MemberOutcome::Answered(_) => format!("{member} has answered after {time}"),
        MemberOutcome::Failed(error) => format!("{member} has failed after {time}: {}", error.message),
        MemberOutcome::TimedOut(words) | MemberOutcome::Skipped(words) | MemberOutcome::Cancelled(words) => {
            format!("{member}: {words}")
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn ordinal(number: u32) -> String {
    let end = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

pub fn code_of(outcome: &Outcome) -> u8 {
    match &outcome.status {
        RunStatus::Completed => code::DONE,
        RunStatus::Interrupted => code::INTERRUPTED,
        RunStatus::Failed(error) if error.kind == ErrorKind::Timeout && is_out_of_time(outcome) => code::LIMIT,
        RunStatus::Failed(error) => code::of_kind(error.kind.name()),
    }
}

/// Whether the limit of the run ended the first member that failed, and not a timeout of its provider or connection.
fn is_out_of_time(outcome: &Outcome) -> bool {
    let first = outcome.results.iter().find(|result| result.failure() == Some(ErrorKind::Timeout));
    first.is_some_and(MemberResult::is_timed_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Error;

    fn result(outcome: MemberOutcome) -> MemberResult {
        let duration = Duration::from_millis(1240);
        MemberResult { member: "ann".into(), outcome, attempts: 2, duration, ended_at: duration, tokens: 0 }
    }

    fn failed(kind: ErrorKind) -> RunStatus {
        RunStatus::Failed(Error::new(kind, "no"))
    }

    #[test]
    fn the_code_tells_our_own_deadline_from_what_a_provider_did() {
        let late = || MemberOutcome::TimedOut("late".into());
        let told = |kind| MemberOutcome::Failed(Error::new(kind, "no"));
        for (status, results, code) in [
            (RunStatus::Completed, vec![late()], 0),
            (RunStatus::Interrupted, vec![], 130),
            (failed(ErrorKind::Timeout), vec![late(), told(ErrorKind::Auth)], 4),
            (failed(ErrorKind::Timeout), vec![told(ErrorKind::Timeout), late()], 3),
            (failed(ErrorKind::Auth), vec![told(ErrorKind::Auth), late()], 3),
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
            assert_eq!(code_of(&outcome), code, "{outcome:?}");
        }
    }

    #[test]
    fn progress_is_a_line_for_what_agents_do_and_none_for_the_run_as_a_whole() {
        let started =
            |model: Option<&str>| EventKind::AgentStarted { member: "ann".into(), model: model.map(Into::into) };
        for (event, line) in [
            (started(None), Some("ann works")),
            (started(Some("echo")), Some("ann works, on echo")),
            (
                EventKind::AgentFinished(result(MemberOutcome::Answered("x".into()))),
                Some("ann has answered after 1.2 s, the 2nd time"),
            ),
            (
                EventKind::AgentFinished(result(MemberOutcome::Cancelled("stopped: enough".into()))),
                Some("ann: stopped: enough"),
            ),
            (EventKind::TaskCompleted { answer: "x".into(), failures: Vec::new(), tokens: 0 }, None),
        ] {
            assert_eq!(progress(&event).as_deref(), line, "{event:?}");
        }
        assert_eq!(
            [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal).join(" "),
            "1st 2nd 3rd 4th 11th 12th 13th 21st 112th"
        );
    }
}
