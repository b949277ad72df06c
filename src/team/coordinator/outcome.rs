//! The outcome of a whole run.

use std::time::Duration;

use serde_json::{Value, json};

use super::result::{MemberResult, failures, millis};
use crate::base::error::{Error, ErrorKind};

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunStatus {
    /// There is an answer, and nothing that it depends on failed.
    Completed,
    /// It failed; there may be a partial answer.
    Failed(Error),
    /// The user interrupted it; there may be a partial answer.
    Interrupted,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The name of the run.
    pub run: String,
    /// One result per member, in member order.
    pub results: Vec<MemberResult>,
    /// The answer; partial unless the run completed.
    pub answer: Option<String>,
    /// The member whose answer was chosen, if the answer is that of one member.
    pub chosen: Option<String>,
    /// How the run ended.
    pub status: RunStatus,
    /// Remarks for the user on how the answer was made, a line each.
    pub notes: Vec<String>,
    /// From the start of the run to its end.
    pub duration: Duration,
    /// Tokens of all members and the judge.
    pub tokens: u64,
}

impl Outcome {
    /// A line for each member that failed.
    pub fn failures(&self) -> Vec<String> {
        failures(&self.results)
    }

    /// Why the run did not complete.
    pub fn error(&self) -> Option<&str> {
        match &self.status {
            RunStatus::Completed => None,
            RunStatus::Failed(error) => Some(&error.message),
            RunStatus::Interrupted => Some("interrupted"),
        }
    }

    /// The kind of failure; `None` if the run did not fail.
    pub const fn kind(&self) -> Option<ErrorKind> {
        match &self.status {
            RunStatus::Failed(error) => Some(error.kind),
            RunStatus::Completed | RunStatus::Interrupted => None,
        }
    }

    /// The outcome for scripts.
    pub fn json(&self) -> Value {
        json!({
            "run": self.run,
            "success": self.status == RunStatus::Completed,
            "interrupted": self.status == RunStatus::Interrupted,
            "answer": self.answer,
            "error": self.error(),
            "kind": self.kind().map(ErrorKind::name),
            "chosen": self.chosen,
            "notes": self.notes,
            "duration_ms": millis(self.duration),
            "tokens": self.tokens,
            "results": self.results.iter().map(MemberResult::json).collect::<Vec<_>>(),
        })
    }
}
