//! What a run came to: put together from the chunks of its agent, as they are seen.

use serde_json::{Value, json};

use crate::base::error::Error;
use crate::domain::chunk::{Chunk, Status, VERSION};
use crate::domain::stream::Usage;

/// Something went wrong: the stable name of its kind, and words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// See [`crate::base::error::ErrorKind::name`].
    pub kind: String,
    /// Words for a person.
    pub text: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { kind: error.kind.name().into(), text: error.message }
    }
}

/// Notes of the house are told as errors too, but no turn ends with them.
const NO_END: [&str; 3] = ["internal", "tool", "stored"];

/// The sum of what was seen.
#[derive(Debug, Default)]
pub struct Account {
    speech: Speech,
    usage: Usage,
    /// The last turn was interrupted.
    is_cut: bool,
    /// What was wrong with the chunk before, if it was an error: an agent that is at rest right behind it has failed.
    just_failed: Option<Failure>,
    /// Why the first turn failed that did.
    failure: Option<Failure>,
}

impl Account {
    /// The next chunk. Returns what it adds to the text of the reply.
    pub fn on_chunk(&mut self, chunk: &Chunk) -> String {
        let failed = self.just_failed.take();
        match chunk {
            Chunk::User(_) => self.is_cut = false,
            Chunk::Error { kind, message } if !NO_END.contains(&kind.as_str()) => {
                self.just_failed = Some(Failure { kind: kind.clone(), text: message.clone() });
            }
            Chunk::Status(Status::Interrupted) => self.is_cut = true,
            Chunk::Status(Status::Idle) => self.failure = self.failure.take().or(failed),
            Chunk::Usage(usage) => self.usage.add(*usage),
            _ => {}
        }
        self.speech.on_chunk(chunk)
    }

    /// Why a turn failed, if one did: the first of them.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Whether the last turn was cut.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The text of the last turn.
    pub fn text(&self) -> &str {
        &self.speech.text
    }

    /// The object at the end of a run, without what only the run itself knows.
    pub fn to_json(&self) -> Value {
        let Usage { input, cached, written, output, cost } = self.usage;
        json!({
            "v": VERSION, "type": "result", "text": self.text(),
            "usage": {"input": input, "cached": cached, "written": written, "output": output}, "cost": cost,
        })
    }
}

/// The text of a turn, as one text: what is said in several replies stands on lines of its own.
#[derive(Debug, Default)]
struct Speech {
    text: String,
}

impl Speech {
    /// What this chunk adds.
    fn on_chunk(&mut self, chunk: &Chunk) -> String {
        let added = match chunk {
            Chunk::Text(text) => text.clone(),
            // What was said before a call, and what was said last, is a line.
            Chunk::ToolCall { .. } | Chunk::Status(_) if !self.text.is_empty() && !self.text.ends_with('\n') => {
                "\n".to_owned()
            }
            _ => String::new(),
        };
        match chunk {
            Chunk::User(_) => self.text.clear(),
            // The end of the last line belongs to the output, not to what was said.
            Chunk::Status(_) => {}
            _ => self.text.push_str(&added),
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

    fn told(chunks: &[Chunk]) -> (Account, String) {
        let mut account = Account::default();
        let text = chunks.iter().map(|chunk| account.on_chunk(chunk)).collect();
        (account, text)
    }

    fn turn(middle: &[Chunk], last: Status) -> Vec<Chunk> {
        let first = [Chunk::User("x".into()), Chunk::Status(Status::Running)];
        [&first, middle, &[Chunk::Status(last)]].concat()
    }

    #[test]
    fn a_turn_has_failed_if_an_error_of_its_own_is_the_last_thing_before_it_rests() {
        for (middle, kind) in [
            (vec![Chunk::Text("a".into())], None),
            (vec![error("auth")], Some("auth")),
            (vec![error("network"), Chunk::Text("again".into())], None),
            (vec![Chunk::Text("a".into()), error("internal")], None),
            (vec![Chunk::Mark("the reply ends here".into()), error("stalled")], Some("stalled")),
        ] {
            let (account, _) = told(&turn(&middle, Status::Idle));
            assert_eq!(account.failure().map(|failure| failure.kind.as_str()), kind, "{middle:?}");
        }
    }

    #[test]
    fn the_first_failure_counts_and_the_last_interrupt() {
        let turns = [vec![error("auth")], vec![error("network")], vec![Chunk::Text("fine".into())]];
        let chunks: Vec<Chunk> = turns.iter().flat_map(|middle| turn(middle, Status::Idle)).collect();
        assert_eq!(told(&chunks).0.failure().map(|failure| failure.text.as_str()), Some("auth!"));
        let (cut, fine) = (turn(&[], Status::Interrupted), turn(&[], Status::Idle));
        assert!(told(&[fine.clone(), cut.clone()].concat()).0.is_cut());
        assert!(!told(&[cut, fine].concat()).0.is_cut());
    }

    #[test]
    fn replies_stand_on_lines_of_their_own_and_only_the_last_turn_is_told_at_the_end() {
        let call = Chunk::ToolCall { id: "c".into(), name: "n".into(), arguments: "{}".into(), title: "t".into() };
        let text = |text: &str| Chunk::Text(text.into());
        let usage = Chunk::Usage(Usage { input: 3, output: 2, cost: Some(5), ..Usage::default() });
        let first = turn(&[text("one")], Status::Idle);
        let second = turn(&[text("let me "), text("look"), usage.clone(), call, text("so\n"), usage], Status::Idle);
        let (account, said) = told(&[first, second].concat());
        assert_eq!(said, "one\nlet me look\nso\n");
        let object = account.to_json();
        assert_eq!(object["text"], "let me look\nso\n");
        assert_eq!((&object["usage"]["input"], &object["cost"]), (&json!(6), &json!(10)));
    }
}
