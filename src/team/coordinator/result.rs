//! The result of one member: an answer, or why there is none. An error is never an answer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::base::error::{Error, ErrorKind};

/// How a member's part of a task ended. The texts are for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberOutcome {
    /// It answered in time; the answer may be blank.
    Answered(String),
    /// Its last attempt failed.
    Failed(Error),
    /// It was cancelled at its deadline.
    TimedOut(String),
    /// It was never started: its circuit breaker is open, or its answer is no longer needed. Neither success nor failure.
    Skipped(String),
    /// It was stopped while it worked: another member was first, or the run was interrupted. Neither success nor failure.
    Cancelled(String),
}

/// The result of one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberResult {
    /// The name of the member.
    pub member: String,
    /// The answer, or why there is none.
    pub outcome: MemberOutcome,
    /// Attempts that were made; 0 if the member was never started.
    pub attempts: u32,
    /// From the first slot to the end.
    pub duration: Duration,
    /// When it ended, from the start of the run.
    pub ended_at: Duration,
    /// Tokens of all attempts.
    pub tokens: u64,
}

impl MemberResult {
    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&str> {
        match &self.outcome {
            MemberOutcome::Answered(answer) => Some(answer),
            _ => None,
        }
    }

    /// Why there is no answer.
    pub fn error(&self) -> Option<&str> {
        match &self.outcome {
            MemberOutcome::Answered(_) => None,
            MemberOutcome::Failed(error) => Some(&error.message),
            MemberOutcome::TimedOut(reason) | MemberOutcome::Skipped(reason) | MemberOutcome::Cancelled(reason) => {
                Some(reason)
            }
        }
    }

    /// The kind of failure; `None` if the member did not fail.
    pub const fn failure(&self) -> Option<ErrorKind> {
        match &self.outcome {
            MemberOutcome::Failed(error) => Some(error.kind),
            MemberOutcome::TimedOut(_) => Some(ErrorKind::Timeout),
            MemberOutcome::Answered(_) | MemberOutcome::Skipped(_) | MemberOutcome::Cancelled(_) => None,
        }
    }

    /// Whether it answered.
    pub const fn is_success(&self) -> bool {
        matches!(self.outcome, MemberOutcome::Answered(_))
    }

    /// Whether it was cancelled at its deadline.
    pub const fn is_timed_out(&self) -> bool {
        matches!(self.outcome, MemberOutcome::TimedOut(_))
    }

    /// Whether it was never started.
    pub const fn is_skipped(&self) -> bool {
        matches!(self.outcome, MemberOutcome::Skipped(_))
    }

    /// The result for scripts: `answer`, or `error` with the `kind` of failure (null if it did not fail).
    pub fn json(&self) -> Value {
        let mut value = json!({
            "member": self.member,
            "success": self.is_success(),
            "timed_out": self.is_timed_out(),
            "skipped": self.is_skipped(),
            "cancelled": matches!(self.outcome, MemberOutcome::Cancelled(_)),
            "attempts": self.attempts,
            "duration_ms": millis(self.duration),
            "tokens": self.tokens,
        });
        match self.answer() {
            Some(answer) => value["answer"] = answer.into(),
            None => {
                value["error"] = self.error().unwrap_or_default().into();
                value["kind"] = self.failure().map(ErrorKind::name).into();
            }
        }
        value
    }
}

/// A line for each member that failed.
pub fn failures(results: &[MemberResult]) -> Vec<String> {
    let failed = results.iter().filter(|result| result.failure().is_some());
    failed.map(|result| format!("{}: {}", result.member, result.error().unwrap_or_default())).collect()
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(outcome: MemberOutcome) -> MemberResult {
        MemberResult {
            member: "m".into(),
            outcome,
            attempts: 2,
            duration: Duration::from_micros(1500),
            ended_at: Duration::from_secs(1),
            tokens: 7,
        }
    }

    #[test]
    fn each_outcome_has_its_flag_and_an_error_is_never_an_answer() {
        let text = || "text".to_owned();
        for (outcome, flags) in [
            (MemberOutcome::Answered(text()), [true, false, false, false]),
            (MemberOutcome::Failed(Error::new(ErrorKind::Auth, text())), [false, false, false, false]),
            (MemberOutcome::TimedOut(text()), [false, true, false, false]),
            (MemberOutcome::Skipped(text()), [false, false, true, false]),
            (MemberOutcome::Cancelled(text()), [false, false, false, true]),
        ] {
            let value = result(outcome.clone()).json();
            let found = ["success", "timed_out", "skipped", "cancelled"].map(|key| value[key] == true);
            assert_eq!(found, flags, "{outcome:?}");
            let has_answer = matches!(outcome, MemberOutcome::Answered(_));
            assert_eq!((value.get("answer").is_some(), value.get("error").is_some()), (has_answer, !has_answer));
            let kind = result(outcome.clone()).failure().map(ErrorKind::name);
            assert_eq!(value.get("kind").and_then(Value::as_str), kind, "{outcome:?}");
            assert_eq!(
                (&value["attempts"], &value["duration_ms"], &value["tokens"]),
                (&2.into(), &1.into(), &7.into())
            );
        }
    }

    #[test]
    fn failures_lists_only_failures() {
        let outcomes = [
            MemberOutcome::Answered("fine".into()),
            MemberOutcome::Failed(Error::new(ErrorKind::Auth, "no")),
            MemberOutcome::Skipped("open".into()),
            MemberOutcome::TimedOut("late".into()),
            MemberOutcome::Cancelled("lost".into()),
        ];
        let results = outcomes.map(result);
        assert_eq!(failures(&results), ["m: no", "m: late"]);
    }
}
