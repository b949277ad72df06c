//! Detects a model that repeats a call with the same result: a note in the result tells the model, and if it continues, the
//! person is asked.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use serde_json::Value;

use crate::domain::tool::{ToolCall, ToolResult};

/// From this many identical calls in a row on, the result has a note for the model.
const NOTE_AFTER: usize = 3;
/// The person is asked before the call that would be this many in a row.
const ASK_AT: usize = 5;

/// Begins the result of a call that was not made because the person cannot be asked. It does not count.
pub const NOT_MADE: &str = "not run, because ";

/// The newest calls of a turn that are identical.
#[derive(Default)]
pub struct Repeats {
    last: Option<(Same, u64)>,
    count: usize,
}

/// Identifies a call: the tool and its arguments, however they are formatted.
#[derive(PartialEq)]
struct Same {
    name: String,
    arguments: Value,
}

impl Same {
    /// `None` for calls that are repeated while they wait for something.
    fn of(call: &ToolCall) -> Option<Self> {
        let parsed = serde_json::from_str(&call.arguments);
        let arguments: Value = parsed.unwrap_or_else(|_| Value::from(call.arguments.as_str()));
        let waits = match call.name.as_str() {
            "wait" => true,
            "bash_output" => arguments.get("timeout").is_some(),
            _ => false,
        };
        (!waits).then(|| Self { name: call.name.clone(), arguments })
    }
}

impl Repeats {
    /// Counts a call, and adds a note to its result if it was repeated too often.
    pub fn add(&mut self, call: &ToolCall, result: &mut ToolResult) {
        if result.content.starts_with(NOT_MADE) {
            return;
        }
        let mut hash = DefaultHasher::new();
        (result.is_error, &result.content).hash(&mut hash);
        let Some(same) = Same::of(call) else { return self.forget() };
        let now = Some((same, hash.finish()));
        self.count = if self.last == now { self.count + 1 } else { 1 };
        self.last = now;
        if self.count >= NOTE_AFTER {
            let note = format!(
                "[this is call number {} in a row with the same arguments and the same result; do something else]",
                self.count
            );
            super::add_note(&mut result.content, &note);
        }
    }

    /// Why the person is asked before this call, if it was repeated too often.
    pub fn objection(&self, call: &ToolCall) -> Option<String> {
        let (last, _) = self.last.as_ref().filter(|_| self.count + 1 >= ASK_AT)?;
        let is_same = Same::of(call).is_some_and(|same| same == *last);
        is_same.then(|| format!("the last {} calls were the same and had the same result", self.count))
    }

    /// Starts counting again.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: "c".into(), name: name.into(), arguments: arguments.into() }
    }

    fn add(repeats: &mut Repeats, call: &ToolCall, content: &str) -> String {
        let mut result = ToolResult {
            call_id: "c".into(),
            name: call.name.clone(),
            content: content.into(),
            is_error: false,
            duration: Duration::ZERO,
        };
        repeats.add(call, &mut result);
        result.content
    }

    #[test]
    fn the_third_call_has_a_note_and_the_fifth_asks() {
        let mut repeats = Repeats::default();
        let ls = call("bash", r#"{"command": "ls", "timeout": 1}"#);
        let same = call("bash", r#"{"timeout":1,"command":"ls"}"#);
        assert_eq!([add(&mut repeats, &ls, "a"), add(&mut repeats, &same, "a")], ["a", "a"]);
        assert!(add(&mut repeats, &ls, "a").contains("call number 3 in a row"));
        assert_eq!(repeats.objection(&ls), None);
        assert!(add(&mut repeats, &ls, "a\n[exit code 1]").ends_with("a\n[exit code 1]"), "another result");
        for _ in 0..4 {
            add(&mut repeats, &ls, "b");
        }
        assert!(repeats.objection(&same).unwrap().contains("the last 4 calls"));
        assert_eq!(repeats.objection(&call("bash", r#"{"command": "pwd"}"#)), None);
        repeats.forget();
        assert_eq!(repeats.objection(&ls), None);
    }

    #[test]
    fn a_note_stands_before_how_a_command_ended() {
        let mut repeats = Repeats::default();
        let ls = call("bash", "not json");
        let last = (0..3).map(|_| add(&mut repeats, &ls, "no\n[exit code 2]")).last().unwrap();
        assert!(last.starts_with("no\n[this is call number 3") && last.ends_with("]\n[exit code 2]"), "{last}");
    }

    #[test]
    fn calls_that_wait_are_not_counted() {
        let mut repeats = Repeats::default();
        for call in [call("wait", "{}"), call("bash_output", r#"{"bash_id":"bash_1","timeout":10}"#)] {
            let last = (0..6).map(|_| add(&mut repeats, &call, "same")).last();
            assert_eq!((last.as_deref(), repeats.objection(&call)), (Some("same"), None));
        }
    }
}
