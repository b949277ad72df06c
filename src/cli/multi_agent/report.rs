//! The output of a run: the answer on standard output and progress on standard error; or, with `--json`, every event on
//! standard output.

use std::time::Duration;

use crate::base::error::ErrorKind;
use crate::cli::code;
use crate::cli::stdio::streams::Streams;
use crate::team::coordinator::event::{Event, What};
use crate::team::coordinator::outcome::{Outcome, RunEnding};
use crate::team::coordinator::result::{Ending, MemberResult};

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
        } else if let Some(line) = progress(&event.what) {
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

/// The line for standard error, if the event has one.
fn progress(what: &What) -> Option<String> {
    match what {
        What::AgentStarted { member, model: Some(model) } => Some(format!("{member} works, on {model}")),
        What::AgentStarted { member, model: None } => Some(format!("{member} works")),
        What::AgentFinished(result) => Some(ended(result)),
        What::AgentSkipped { member, reason } => Some(format!("{member} is skipped: {reason}")),
        What::TaskStarted { .. }
        | What::AggregationCompleted { .. }
        | What::TaskCompleted { .. }
        | What::TaskFailed { .. } => None,
    }
}

fn ended(result: &MemberResult) -> String {
    let (member, time) = (&result.member, seconds(result.duration));
    match &result.ending {
        Ending::Answered(_) if result.attempts > 1 => {
            format!("{member} has answered after {time}, the {} time", ordinal(result.attempts))
        }
        Ending::Answered(_) => format!("{member} has answered after {time}"),
        Ending::Failed(error) => format!("{member} has failed after {time}: {}", error.message),
        Ending::TimedOut(words) | Ending::Skipped(words) | Ending::Cancelled(words) => format!("{member}: {words}"),
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
    match &outcome.ending {
        RunEnding::Completed => code::DONE,
        RunEnding::Interrupted => code::INTERRUPTED,
        RunEnding::Failed(error) if error.kind == ErrorKind::Timeout && is_out_of_time(outcome) => code::LIMIT,
        RunEnding::Failed(error) => code::of_kind(error.kind.name()),
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

    fn result(ending: Ending) -> MemberResult {
        let duration = Duration::from_millis(1240);
        MemberResult { member: "ann".into(), ending, attempts: 2, duration, ended_at: duration, tokens: 0 }
    }

    fn failed(kind: ErrorKind) -> RunEnding {
        RunEnding::Failed(Error::new(kind, "no"))
    }

    #[test]
    fn the_code_tells_our_own_deadline_from_what_a_provider_did() {
        let late = || Ending::TimedOut("late".into());
        let told = |kind| Ending::Failed(Error::new(kind, "no"));
        for (ending, results, code) in [
            (RunEnding::Completed, vec![late()], 0),
            (RunEnding::Interrupted, vec![], 130),
            (failed(ErrorKind::Timeout), vec![late(), told(ErrorKind::Auth)], 4),
            (failed(ErrorKind::Timeout), vec![told(ErrorKind::Timeout), late()], 3),
            (failed(ErrorKind::Auth), vec![told(ErrorKind::Auth), late()], 3),
            (failed(ErrorKind::System), vec![Ending::Skipped("open".into())], 1),
        ] {
            let outcome = Outcome {
                run: "r".into(),
                results: results.into_iter().map(result).collect(),
                answer: None,
                chosen: None,
                ending,
                notes: Vec::new(),
                duration: Duration::ZERO,
                tokens: 0,
            };
            assert_eq!(code_of(&outcome), code, "{outcome:?}");
        }
    }

    #[test]
    fn progress_is_a_line_for_what_agents_do_and_none_for_the_run_as_a_whole() {
        let started = |model: Option<&str>| What::AgentStarted { member: "ann".into(), model: model.map(Into::into) };
        for (what, line) in [
            (started(None), Some("ann works")),
            (started(Some("echo")), Some("ann works, on echo")),
            (
                What::AgentFinished(result(Ending::Answered("x".into()))),
                Some("ann has answered after 1.2 s, the 2nd time"),
            ),
            (What::AgentFinished(result(Ending::Cancelled("stopped: enough".into()))), Some("ann: stopped: enough")),
            (What::TaskCompleted { answer: "x".into(), failures: Vec::new(), tokens: 0 }, None),
        ] {
            assert_eq!(progress(&what).as_deref(), line, "{what:?}");
        }
        assert_eq!(
            [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal).join(" "),
            "1st 2nd 3rd 4th 11th 12th 13th 21st 112th"
        );
    }
}
