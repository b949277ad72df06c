//! The events of a run: numbered, one JSON object per line.
//!
//! ```json
//! {"v":1,"run":"k3f0","n":1,"at_ms":0,"type":"task_started","task":"...","strategy":"parallel","members":["a","b"]}
//! ```
//!
//! | `type` | further fields |
//! |---|---|
//! | `task_started` | `task`, `strategy`, `schedule` (the order that the strategy resolves to), `aggregation`, `members` (names in order) |
//! | `agent_started` | `member`, `model` (null: the default) |
//! | `agent_finished` | `member`, `success`, `timed_out`, `skipped`, `cancelled`, `attempts`, `duration_ms`, `tokens`, and `answer`, or `error` and `kind` (null if it was stopped without a failure) |
//! | `agent_skipped` | `member`, `reason` |
//! | `aggregation_completed` | `aggregation`, `answers` (a count), `chosen` (a name or null), `notes` |
//! | `task_completed` | `answer`, `failures` (a line each), `tokens` |
//! | `task_failed` | `error`, `kind` (see [`ErrorKind::name`]; null for an interrupt), `interrupted`, `answer` (partial, or null), `failures`, `tokens` |
//!
//! `n` counts from 1 without gaps; `at_ms` counts from the start of the run. Every member has either one `agent_started`
//! and later one `agent_finished`, or one `agent_skipped`. The last event is `task_completed` or `task_failed`. Readers
//! should ignore unknown types and fields; known ones keep their meaning as long as `v` is 1.

use std::time::Duration;

use serde_json::{Value, json};

use super::result::{MemberResult, millis};
use crate::base::error::ErrorKind;

/// The version of the schema: the field `v` of every line.
const VERSION: u64 = 1;

/// One event of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// From 1, without gaps.
    pub number: u64,
    /// The time since the start of the run.
    pub at: Duration,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// The run began.
    TaskStarted {
        /// The text of the task.
        task: String,
        /// The strategy that was requested.
        strategy: &'static str,
        /// The order that it resolves to for these members.
        schedule: &'static str,
        /// How the answers are combined.
        aggregation: &'static str,
        /// The names of the members, in order.
        members: Vec<String>,
    },
    /// A member, or the judge, got a slot and works.
    AgentStarted {
        /// Its name.
        member: String,
        /// Its model, unless it is the default.
        model: Option<String>,
    },
    /// A started member answered, failed or was stopped.
    AgentFinished(MemberResult),
    /// A member is not started.
    AgentSkipped {
        /// Its name.
        member: String,
        /// Why, for the user.
        reason: String,
    },
    /// The answers were combined.
    AggregationCompleted {
        /// How.
        aggregation: &'static str,
        /// The number of answers.
        answers: usize,
        /// The member whose answer was chosen, if it is that of one member.
        chosen: Option<String>,
        /// Remarks for the user.
        notes: Vec<String>,
    },
    /// The run completed.
    TaskCompleted {
        /// The answer.
        answer: String,
        /// A line for each member that failed.
        failures: Vec<String>,
        /// Tokens of all members and the judge.
        tokens: u64,
    },
    /// The run failed or was interrupted.
    TaskFailed {
        /// Why, for the user.
        error: String,
        /// The kind of failure; `None` for an interrupt.
        kind: Option<ErrorKind>,
        /// Whether the user interrupted it.
        interrupted: bool,
        /// The partial answer, if there is one.
        answer: Option<String>,
        /// A line for each member that failed.
        failures: Vec<String>,
        /// Tokens of all members and the judge.
        tokens: u64,
    },
}

impl EventKind {
    /// The stable name, the field `type`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::TaskStarted { .. } => "task_started",
            Self::AgentStarted { .. } => "agent_started",
            Self::AgentFinished(_) => "agent_finished",
            Self::AgentSkipped { .. } => "agent_skipped",
            Self::AggregationCompleted { .. } => "aggregation_completed",
            Self::TaskCompleted { .. } => "task_completed",
            Self::TaskFailed { .. } => "task_failed",
        }
    }

    fn fields(&self) -> Value {
        match self {
            Self::TaskStarted { task, strategy, schedule, aggregation, members } => json!({
                "task": task, "strategy": strategy, "schedule": schedule, "aggregation": aggregation, "members": members,
            }),
            Self::AgentStarted { member, model } => json!({"member": member, "model": model}),
            Self::AgentFinished(result) => result.json(),
            Self::AgentSkipped { member, reason } => json!({"member": member, "reason": reason}),
            Self::AggregationCompleted { aggregation, answers, chosen, notes } => json!({
                "aggregation": aggregation, "answers": answers, "chosen": chosen, "notes": notes,
            }),
            Self::TaskCompleted { answer, failures, tokens } => {
                json!({"answer": answer, "failures": failures, "tokens": tokens})
            }
            Self::TaskFailed { error, kind, interrupted, answer, failures, tokens } => json!({
                "error": error, "kind": kind.map(ErrorKind::name), "interrupted": interrupted, "answer": answer,
                "failures": failures, "tokens": tokens,
            }),
        }
    }
}

impl Event {
    /// The event as one line of JSON, without the newline.
    pub fn json_line(&self, run: &str) -> String {
        self.json(run).to_string()
    }

    /// The event as an object.
    pub fn json(&self, run: &str) -> Value {
        let mut value = json!({
            "v": VERSION, "run": run, "n": self.number, "at_ms": millis(self.at), "type": self.kind.name(),
        });
        if let (Value::Object(line), Value::Object(fields)) = (&mut value, self.kind.fields()) {
            line.extend(fields);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::coordinator::result::MemberOutcome;

    fn samples() -> Vec<EventKind> {
        let result = MemberResult {
            member: "m".into(),
            outcome: MemberOutcome::Answered("two\nlines \u{2028}".into()),
            attempts: 1,
            duration: Duration::from_millis(5),
            ended_at: Duration::from_millis(5),
            tokens: 3,
        };
        vec![
            EventKind::TaskStarted {
                task: "t".into(),
                strategy: "adaptive",
                schedule: "parallel",
                aggregation: "vote",
                members: vec!["m".into()],
            },
            EventKind::AgentStarted { member: "m".into(), model: None },
            EventKind::AgentFinished(result),
            EventKind::AgentSkipped { member: "m".into(), reason: "r".into() },
            EventKind::AggregationCompleted {
                aggregation: "vote",
                answers: 1,
                chosen: Some("m".into()),
                notes: vec![],
            },
            EventKind::TaskCompleted { answer: "a".into(), failures: vec![], tokens: 3 },
            EventKind::TaskFailed {
                error: "e".into(),
                kind: None,
                interrupted: true,
                answer: None,
                failures: vec![],
                tokens: 3,
            },
        ]
    }

    #[test]
    fn every_event_is_one_line_of_json_with_the_common_fields() {
        for (number, kind) in (1..).zip(samples()) {
            let name = kind.name();
            let line = Event { number, at: Duration::from_millis(12), kind }.json_line("r1");
            assert!(!line.contains('\n'), "{line}");
            let value: Value = serde_json::from_str(&line).expect("it is JSON");
            assert_eq!((&value["v"], &value["run"], &value["n"]), (&1.into(), &"r1".into(), &number.into()));
            assert_eq!((&value["at_ms"], &value["type"]), (&12.into(), &name.into()));
        }
    }

    #[test]
    fn each_type_has_the_fields_of_the_schema() {
        let fields = samples().iter().map(EventKind::fields).collect::<Vec<_>>();
        let keys: Vec<String> = fields
            .iter()
            .map(|value| value.as_object().expect("a table").keys().cloned().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            keys,
            [
                "aggregation members schedule strategy task",
                "member model",
                "answer attempts cancelled duration_ms member skipped success timed_out tokens",
                "member reason",
                "aggregation answers chosen notes",
                "answer failures tokens",
                "answer error failures interrupted kind tokens",
            ]
        );
        assert_eq!(fields[2]["answer"], "two\nlines \u{2028}");
    }
}
