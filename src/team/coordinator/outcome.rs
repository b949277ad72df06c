//! What became of a whole run.

use std::time::Duration;

use serde_json::{Value, json};

use super::result::{MemberResult, failures, millis};
use crate::base::error::{Error, ErrorKind};

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnding {
    /// There is an answer, and nothing that was needed for it failed.
    Completed,
    /// It failed. There may be an answer of what there is.
    Failed(Error),
    /// A person interrupted it. There may be an answer of what there is.
    Interrupted,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Which run.
    pub run: String,
    /// One result for each member, in the order of the members.
    pub results: Vec<MemberResult>,
    /// The answer, whole if the run has completed.
    pub answer: Option<String>,
    /// Whose answer it is, where it is one member's.
    pub chosen: Option<String>,
    /// How the run ended.
    pub ending: RunEnding,
    /// What a person should be told about how the answer came to be, a line each.
    pub notes: Vec<String>,
    /// From the start of the run to its end.
    pub duration: Duration,
    /// Of all members and the judge.
    pub tokens: u64,
}

impl Outcome {
    /// A line for each member that failed; these never stand in the answer.
    pub fn failures(&self) -> Vec<String> {
        failures(&self.results)
    }

    /// Why the run did not complete.
    pub fn error(&self) -> Option<&str> {
        match &self.ending {
            RunEnding::Completed => None,
            RunEnding::Failed(error) => Some(&error.message),
            RunEnding::Interrupted => Some("interrupted"),
        }
    }

    /// What sort of failure it was; `None` if it was none.
    pub const fn kind(&self) -> Option<ErrorKind> {
        match &self.ending {
            RunEnding::Failed(error) => Some(error.kind),
            RunEnding::Completed | RunEnding::Interrupted => None,
        }
    }

    /// The outcome as scripts read it.
    pub fn json(&self) -> Value {
        json!({
            "run": self.run,
            "success": self.ending == RunEnding::Completed,
            "interrupted": self.ending == RunEnding::Interrupted,
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
