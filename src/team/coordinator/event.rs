//! What happens in a run, as scripts read it: numbered events, one JSON object a line.
//!
//! One line, version 1, in the manner of the chunks of one agent ([`crate::domain::chunk`]):
//!
//! ```json
//! {"v":1,"run":"k3f0","n":1,"at_ms":0,"type":"task_started","task":"...","strategy":"parallel","members":["a","b"]}
//! ```
//!
//! | `type` | further fields |
//! |---|---|
//! | `task_started` | `task`, `strategy`, `schedule` (what the strategy comes to), `aggregation`, `members` (names in order) |
//! | `agent_started` | `member`, `model` (or null: the usual one) |
//! | `agent_finished` | `member`, `success`, `timed_out`, `skipped`, `cancelled`, `attempts`, `duration_ms`, `tokens`, and `answer`, or `error` and `kind` (null if it did not fail but was stopped) |
//! | `agent_skipped` | `member`, `reason` |
//! | `aggregation_completed` | `aggregation`, `answers` (how many), `chosen` (a name, or null), `notes` |
//! | `task_completed` | `answer`, `failures` (a line each), `tokens` |
//! | `task_failed` | `error`, `kind` (see [`ErrorKind::name`]; null for an interrupt), `interrupted`, `answer` (of what there is, or null), `failures`, `tokens` |
//!
//! `n` counts from 1 without gaps; `at_ms` from the start of the run. Every member has either one `agent_started` and later
//! one `agent_finished`, or one `agent_skipped`; the last event is `task_completed` or `task_failed`. A reader skips types
//! and fields that it does not know; what it knows keeps its meaning as long as `v` is 1.

use std::time::Duration;

use serde_json::{Value, json};

use super::result::{MemberResult, millis};
use crate::base::error::ErrorKind;

/// The version of the schema, the field `v` of every line.
pub const VERSION: u64 = 1;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// From 1, without gaps.
    pub number: u64,
    /// When, from the start of the run.
    pub at: Duration,
    /// What.
    pub what: What,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// The run begins.
    TaskStarted {
        /// The task's own words.
        task: String,
        /// What was asked for.
        strategy: &'static str,
        /// In which order that makes the members work.
        schedule: &'static str,
        /// How answers become one.
        aggregation: &'static str,
        /// The members' names, in order.
        members: Vec<String>,
    },
    /// A member, or the judge, was given its place and works.
    AgentStarted {
        /// Its name.
        member: String,
        /// Its model, where it is not the usual one.
        model: Option<String>,
    },
    /// A member that was started answered, failed or was stopped.
    AgentFinished(MemberResult),
    /// A member is not started.
    AgentSkipped {
        /// Its name.
        member: String,
        /// Why, for a person.
        reason: String,
    },
    /// The answers were made one.
    AggregationCompleted {
        /// How.
        aggregation: &'static str,
        /// Answers that there were.
        answers: usize,
        /// Whose answer it is, where it is one of them.
        chosen: Option<String>,
        /// What else there is to say about it.
        notes: Vec<String>,
    },
    /// The run ended as it should.
    TaskCompleted {
        /// The answer.
        answer: String,
        /// A line for each member that failed.
        failures: Vec<String>,
        /// Of all members and the judge.
        tokens: u64,
    },
    /// The run ended otherwise.
    TaskFailed {
        /// Why, for a person.
        error: String,
        /// What sort of failure it was; `None` for an interrupt.
        kind: Option<ErrorKind>,
        /// Whether a person has interrupted it.
        interrupted: bool,
        /// What there is of an answer.
        answer: Option<String>,
        /// A line for each member that failed.
        failures: Vec<String>,
        /// Of all members and the judge.
        tokens: u64,
    },
}

impl What {
    /// The stable name that stands behind `type`.
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
                "task": task, "strategy": strategy, "course": schedule, "aggregation": aggregation, "members": members,
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
                "error": error, "kind": kind.map(ErrorKind::name), "interrupted": interrupted, "answer": answer, "failures": failures, "tokens": tokens,
            }),
        }
    }
}

impl Event {
    /// The event of this run as one line, without the newline.
    pub fn json_line(&self, run: &str) -> String {
        let mut value = json!({
            "v": VERSION, "run": run, "n": self.number, "at_ms": millis(self.at), "type": self.what.name(),
        });
        if let (Value::Object(all), Value::Object(fields)) = (&mut value, self.what.fields()) {
            all.extend(fields);
        }
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::coordinator::result::Ending;

    fn each() -> Vec<What> {
        let result = MemberResult {
            member: "m".into(),
            ending: Ending::Answered("two\nlines \u{2028}".into()),
            attempts: 1,
            duration: Duration::from_millis(5),
            ended_at: Duration::from_millis(5),
            tokens: 3,
        };
        vec![
            What::TaskStarted {
                task: "t".into(),
                strategy: "adaptive",
                schedule: "parallel",
                aggregation: "vote",
                members: vec!["m".into()],
            },
            What::AgentStarted { member: "m".into(), model: None },
            What::AgentFinished(result),
            What::AgentSkipped { member: "m".into(), reason: "r".into() },
            What::AggregationCompleted { aggregation: "vote", answers: 1, chosen: Some("m".into()), notes: vec![] },
            What::TaskCompleted { answer: "a".into(), failures: vec![], tokens: 3 },
            What::TaskFailed {
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
    fn every_event_is_one_line_with_version_run_number_time_and_type() {
        for (number, what) in (1..).zip(each()) {
            let name = what.name();
            let line = Event { number, at: Duration::from_millis(12), what }.json_line("r1");
            assert!(!line.contains('\n'), "{line}");
            let value: Value = serde_json::from_str(&line).expect("it is JSON");
            assert_eq!((&value["v"], &value["run"], &value["n"]), (&1.into(), &"r1".into(), &number.into()));
            assert_eq!((&value["at_ms"], &value["type"]), (&12.into(), &name.into()));
        }
    }

    #[test]
    fn the_fields_of_each_type_are_those_of_the_schema() {
        let fields = each().iter().map(What::fields).collect::<Vec<_>>();
        let keys: Vec<String> = fields
            .iter()
            .map(|value| value.as_object().expect("a table").keys().cloned().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            keys,
            [
                "aggregation course members strategy task",
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
