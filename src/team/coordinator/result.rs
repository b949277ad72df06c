//! What became of one member: an answer, or why there is none. An error is never an answer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::base::error::{Error, ErrorKind};

/// How a member's part in a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It answered in time; the answer may be blank.
    Answered(String),
    /// Its last attempt failed.
    Failed(Error),
    /// It was stopped at its deadline; words for a person.
    TimedOut(String),
    /// It was never started: its breaker is open, or nobody needs it any more. Neither success nor failure.
    Skipped(String),
    /// It was stopped in the middle: somebody else was first, or a person interrupted. Neither success nor failure.
    Cancelled(String),
}

/// One member's part in a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberResult {
    /// The member's name.
    pub member: String,
    /// How it ended.
    pub ending: Ending,
    /// How often it was asked; 0 if it was never started.
    pub attempts: u32,
    /// From when it was given a place to work until it ended.
    pub duration: Duration,
    /// When it ended, from the start of the run.
    pub ended_at: Duration,
    /// Tokens of all its attempts.
    pub tokens: u64,
}

impl MemberResult {
    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&str> {
        match &self.ending {
            Ending::Answered(answer) => Some(answer),
            _ => None,
        }
    }

    /// Why there is no answer; `None` if there is one.
    pub fn error(&self) -> Option<&str> {
        match &self.ending {
            Ending::Answered(_) => None,
            Ending::Failed(error) => Some(&error.message),
            Ending::TimedOut(words) | Ending::Skipped(words) | Ending::Cancelled(words) => Some(words),
        }
    }

    /// What sort of failure it was; `None` if it was none.
    pub const fn failure(&self) -> Option<ErrorKind> {
        match &self.ending {
            Ending::Failed(error) => Some(error.kind),
            Ending::TimedOut(_) => Some(ErrorKind::Timeout),
            Ending::Answered(_) | Ending::Skipped(_) | Ending::Cancelled(_) => None,
        }
    }

    /// Whether it answered.
    pub const fn is_success(&self) -> bool {
        matches!(self.ending, Ending::Answered(_))
    }

    /// Whether it failed, be it by its deadline.
    pub const fn is_failure(&self) -> bool {
        self.failure().is_some()
    }

    /// Whether its time ran out.
    pub const fn is_timed_out(&self) -> bool {
        matches!(self.ending, Ending::TimedOut(_))
    }

    /// Whether it was never started.
    pub const fn is_skipped(&self) -> bool {
        matches!(self.ending, Ending::Skipped(_))
    }

    /// The result as scripts read it: `answer`, or `error` with the `kind` of the failure, if it was one.
    pub fn json(&self) -> Value {
        let mut value = json!({
            "member": self.member,
            "success": self.is_success(),
            "timed_out": self.is_timed_out(),
            "skipped": self.is_skipped(),
            "cancelled": matches!(self.ending, Ending::Cancelled(_)),
            "attempts": self.attempts,
            "duration_ms": millis(self.duration),
            "tokens": self.tokens,
        });
        match (self.answer(), self.error()) {
            (Some(answer), _) => value["answer"] = answer.into(),
            (None, error) => {
                value["error"] = error.unwrap_or_default().into();
                value["kind"] = self.failure().map(ErrorKind::name).into();
            }
        }
        value
    }
}

/// A line for each member that failed; these never stand in an answer.
pub fn failures(results: &[MemberResult]) -> Vec<String> {
    let failed = results.iter().filter(|result| result.is_failure());
    failed.map(|result| format!("{}: {}", result.member, result.error().unwrap_or_default())).collect()
}

/// Whole milliseconds, as JSON takes them.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(ending: Ending) -> MemberResult {
        MemberResult {
            member: "m".into(),
            ending,
            attempts: 2,
            duration: Duration::from_micros(1500),
            ended_at: Duration::from_secs(1),
            tokens: 7,
        }
    }

    #[test]
    fn each_ending_is_told_by_exactly_its_own_flag_and_an_error_never_stands_as_an_answer() {
        let words = || "words".to_owned();
        for (ending, flags) in [
            (Ending::Answered(words()), [true, false, false, false]),
            (Ending::Failed(Error::new(ErrorKind::Auth, words())), [false, false, false, false]),
            (Ending::TimedOut(words()), [false, true, false, false]),
            (Ending::Skipped(words()), [false, false, true, false]),
            (Ending::Cancelled(words()), [false, false, false, true]),
        ] {
            let value = result(ending.clone()).json();
            let told = ["success", "timed_out", "skipped", "cancelled"].map(|key| value[key] == true);
            assert_eq!(told, flags, "{ending:?}");
            let has_answer = matches!(ending, Ending::Answered(_));
            assert_eq!((value.get("answer").is_some(), value.get("error").is_some()), (has_answer, !has_answer));
            let kind = result(ending.clone()).failure().map(ErrorKind::name);
            assert_eq!(value.get("kind").and_then(Value::as_str), kind, "{ending:?}");
            assert_eq!(
                (&value["attempts"], &value["duration_ms"], &value["tokens"]),
                (&2.into(), &1.into(), &7.into())
            );
        }
    }

    #[test]
    fn only_failures_are_told_as_failures() {
        let endings = [
            Ending::Answered("fine".into()),
            Ending::Failed(Error::new(ErrorKind::Auth, "no")),
            Ending::Skipped("open".into()),
            Ending::TimedOut("late".into()),
            Ending::Cancelled("lost".into()),
        ];
        let results = endings.map(result);
        assert_eq!(failures(&results), ["m: no", "m: late"]);
    }
}
