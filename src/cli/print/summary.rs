//! What the chunks of the agent add to the result of a run. `output` makes the result and writes it.

use serde::Serialize;
use serde_json::{Value, json};

use crate::base::error::Error;
use crate::domain::chunk::{Chunk, Status, StopReason, VERSION};
use crate::domain::stream::Usage;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The name of an [`crate::base::error::ErrorKind`], or of an error that a server reported.
    pub kind: String,
    #[serde(rename = "text")]
    pub message: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { kind: error.kind.name().into(), message: error.message }
    }
}

/// Errors of these kinds do not end a turn.
const NOT_FATAL: [&str; 3] = ["internal", "tool", "stored"];

#[derive(Debug, Default)]
pub struct Summary {
    text: TurnText,
    usage: Usage,
    is_interrupted: bool,
    /// The text of the last reply.
    last_reply: String,
    /// Why the last reply ended.
    stop_reason: Option<StopReason>,
    /// The previous chunk, if it was an error: the turn has failed if the agent is at rest right after it.
    last_error: Option<Failure>,
    /// The error of the first turn that failed.
    failure: Option<Failure>,
}

impl Summary {
    /// Adds a chunk. Returns what it adds to the text of the reply.
    pub fn on_chunk(&mut self, chunk: &Chunk) -> String {
        let last_error = self.last_error.take();
        match chunk {
            Chunk::Text(text) => self.last_reply.push_str(text),
            Chunk::ToolCall { .. } | Chunk::Replaced(_) => self.last_reply.clear(),
            _ => {}
        }
        match chunk {
            Chunk::User(_) => {
                (self.is_interrupted, self.stop_reason) = (false, None);
                self.last_reply.clear();
            }
            Chunk::Finish { stop_reason } => self.stop_reason = Some(*stop_reason),
            Chunk::Error { kind, message } if !NOT_FATAL.contains(&kind.as_str()) => {
                self.last_error = Some(Failure { kind: kind.clone(), message: message.clone() });
            }
            Chunk::Status(Status::Interrupted) => self.is_interrupted = true,
            Chunk::Status(Status::Idle | Status::Failed) => self.failure = self.failure.take().or(last_error),
            Chunk::Usage(usage) => self.usage.add(usage),
            _ => {}
        }
        self.text.on_chunk(chunk)
    }

    /// The error of the first turn that failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    pub fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// Why the last reply ended, if it was received to its end.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stop_reason
    }

    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    pub fn last_reply(&self) -> &str {
        &self.last_reply
    }

    pub fn text(&self) -> &str {
        &self.text.text
    }

    /// The fields of the result object that come from chunks.
    pub fn to_json(&self) -> Value {
        let Usage { input, cached, written, output, reasoning, cost, .. } = self.usage;
        json!({
            "v": VERSION, "type": "result", "text": self.text(),
            "usage": {"input": input, "cached": cached, "written": written, "output": output, "reasoning": reasoning},
            "cost": cost,
            "stop_reason": self.stop_reason,
        })
    }
}

/// The text of one turn. Each of its replies ends with a newline.
#[derive(Debug, Default)]
struct TurnText {
    text: String,
    /// Where the reply begins that is being received.
    reply: usize,
}

impl TurnText {
    /// Returns what the chunk adds to the output.
    fn on_chunk(&mut self, chunk: &Chunk) -> String {
        let added = match chunk {
            Chunk::Text(text) => text.clone(),
            Chunk::ToolCall { .. } | Chunk::Status(_) if !self.text.is_empty() && !self.text.ends_with('\n') => {
                "\n".to_owned()
            }
            _ => String::new(),
        };
        match chunk {
            Chunk::User(_) => *self = Self::default(),
            Chunk::Replaced(_) => self.text.truncate(self.reply),
            // The newline at the end of the turn is written, but is not part of its text.
            Chunk::Status(_) => {}
            _ => self.text.push_str(&added),
        }
        if matches!(chunk, Chunk::ToolCall { .. }) {
            self.reply = self.text.len();
        }
        added
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: &str) -> Chunk {
        Chunk::Error { kind: kind.into(), message: format!("{kind}!") }
    }

    fn summarise(chunks: &[Chunk]) -> (Summary, String) {
        let mut summary = Summary::default();
        let output = chunks.iter().map(|chunk| summary.on_chunk(chunk)).collect();
        (summary, output)
    }

    fn turn(middle: &[Chunk], last: Status) -> Vec<Chunk> {
        let first = [Chunk::User("x".into()), Chunk::Status(Status::Running)];
        [&first, middle, &[Chunk::Status(last)]].concat()
    }

    #[test]
    fn a_turn_has_failed_if_an_error_is_its_last_chunk() {
        for (middle, kind) in [
            (vec![Chunk::Text("a".into())], None),
            (vec![error("auth")], Some("auth")),
            (vec![error("network"), Chunk::Text("again".into())], None),
            (vec![Chunk::Text("a".into()), error("internal")], None),
            (vec![Chunk::Mark("the reply ends here".into()), error("stalled")], Some("stalled")),
        ] {
            let (summary, _) = summarise(&turn(&middle, Status::Idle));
            assert_eq!(summary.failure().map(|failure| failure.kind.as_str()), kind, "{middle:?}");
        }
    }

    #[test]
    fn the_first_failure_and_the_last_interrupt_count() {
        let turns = [vec![error("auth")], vec![error("network")], vec![Chunk::Text("fine".into())]];
        let chunks: Vec<Chunk> = turns.iter().flat_map(|middle| turn(middle, Status::Idle)).collect();
        assert_eq!(summarise(&chunks).0.failure().map(|failure| failure.message.as_str()), Some("auth!"));
        let (interrupted, completed) = (turn(&[], Status::Interrupted), turn(&[], Status::Idle));
        assert!(summarise(&[completed.clone(), interrupted.clone()].concat()).0.is_interrupted());
        assert!(!summarise(&[interrupted, completed].concat()).0.is_interrupted());
    }

    #[test]
    fn a_replaced_reply_is_not_part_of_the_result() {
        let call = Chunk::ToolCall { id: "c".into(), name: "n".into(), arguments: "{}".into(), title: "t".into() };
        let text = |text: &str| Chunk::Text(text.into());
        let cut = || Chunk::Replaced("cut".into());
        let (summary, _) = summarise(&turn(
            &[text("ha"), cut(), text("half"), call, text("wro"), cut(), cut(), text("right")],
            Status::Idle,
        ));
        assert_eq!((summary.text(), summary.last_reply()), ("half\nright", "right"));
        assert_eq!(summary.failure(), None);
    }

    #[test]
    fn replies_end_with_a_newline_and_the_result_has_the_last_turn() {
        let call = Chunk::ToolCall { id: "c".into(), name: "n".into(), arguments: "{}".into(), title: "t".into() };
        let text = |text: &str| Chunk::Text(text.into());
        let usage = Chunk::Usage(Usage { input: 3, output: 2, cost: Some(5), ..Usage::default() });
        let first = turn(&[text("one")], Status::Idle);
        let second = turn(&[text("let me "), text("look"), usage.clone(), call, text("so\n"), usage], Status::Idle);
        let (summary, output) = summarise(&[first, second].concat());
        assert_eq!(output, "one\nlet me look\nso\n");
        let object = summary.to_json();
        assert_eq!(object["text"], "let me look\nso\n");
        assert_eq!((&object["usage"]["input"], &object["cost"]), (&json!(6), &json!(10)));
    }
}
