//! What an agent produces and receives, piece by piece, for everything that displays or records it; and its form as a line
//! of JSON. A chunk is numbered when it is appended to its agent's ring, before any viewer sees it.
//!
//! One line, version 1:
//!
//! ```json
//! {"v":1,"agent":"<id>","epoch":"<of this process>","n":10000,"type":"text","text":"Hello"}
//! ```
//!
//! | `type` | further fields |
//! |---|---|
//! | `user`, `text`, `thinking`, `note`, `mark` | `text` |
//! | `replaced` | `text` (why the reply broke off); what came of it, `text` and `thinking`, is void: it begins again |
//! | `tool_call` | `id`, `name`, `arguments` (JSON text as the model wrote it), `title` (one line for a person) |
//! | `tool_result` | `id`, `name`, `text`, `is_error`, `ms` |
//! | `question` | `number`, `title`, `detail` (a list of lines) |
//! | `status` | `status`: `idle`, `running`, `awaiting_approval`, `interrupted`, `failed`, `dead` |
//! | `usage` | `input`, `cached`, `written`, `output` (tokens), `cost` (billionths of a US dollar, or null) |
//! | `finish` | `stop_reason`: `stop`, `length`, `content_filter`, `tool_rounds`, `empty` |
//! | `error` | `kind` (see [`crate::base::error::ErrorKind::name`]), `text` |
//! | `mail` | `from` (an agent's id), `id` |
//! | `wait` | `ms`, `text`; only for a turn of a program ([`wait_line`]), without `epoch` and `n` |
//!
//! Consecutive `text` (or `thinking`) chunks form one text; the boundaries between them have no meaning. A reader ignores
//! types and fields that it does not know; those that it knows keep their meaning as long as `v` is 1.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::id::AgentId;
use crate::domain::attachment::fold_files;
use crate::domain::call_title::title_of;
use crate::domain::mail::MailId;
use crate::domain::message::Body;
use crate::domain::stream::Usage;
use crate::domain::tool::ToolResult;

/// The version of the schema, the field `v` of every line.
pub const VERSION: u64 = 1;

/// The mark behind a reply that broke off.
pub const REPLY_INCOMPLETE: &str = "reply incomplete";

/// Begins the note about a call that needs approval and was refused.
pub const REFUSED_CALL: &str = "refused a tool call that needs approval";

/// One piece of what an agent produces or receives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Chunk {
    /// A prompt: from a person, a script or the parent that forked the agent.
    #[serde(with = "text_field")]
    User(String),
    /// A part of the reply.
    #[serde(with = "text_field")]
    Text(String),
    /// A part of the reasoning that the provider shows.
    #[serde(with = "text_field")]
    Thinking(String),
    /// The model calls a tool.
    ToolCall {
        /// Identifies the call.
        id: String,
        /// The name of the tool, as the model wrote it.
        name: String,
        /// JSON text of the arguments, as the model wrote it.
        arguments: String,
        /// The call in one line, for a person.
        title: String,
    },
    /// The result of a tool call.
    ToolResult(ToolResult),
    /// A person has to approve a tool call.
    Question {
        /// Identifies the question; an answer has to name it.
        number: u64,
        /// The call in one line.
        title: String,
        /// What would run, line by line.
        detail: Vec<String>,
    },
    /// The new status of the agent.
    #[serde(with = "status_field")]
    Status(Status),
    /// What one request cost.
    Usage(Usage),
    /// The last reply of a turn is complete or was cut.
    Finish {
        /// Why it ended.
        stop_reason: StopReason,
    },
    /// The turn failed, or something else about the agent did.
    Error {
        /// The stable name of the kind of error.
        kind: String,
        /// The message for a person.
        #[serde(rename = "text")]
        message: String,
    },
    /// The agent has received mail.
    Mail {
        /// The sender.
        from: AgentId,
        /// Identifies the message.
        id: MailId,
    },
    /// The reply broke off, for this reason, and the model is asked again: the partial reply is not part of the
    /// conversation.
    #[serde(with = "text_field")]
    Replaced(String),
    /// A note of the program, which models never see.
    #[serde(with = "text_field")]
    Note(String),
    /// A boundary in the conversation: an interrupt, a fork, a mark to rewind to.
    #[serde(with = "text_field")]
    Mark(String),
}

/// Why the last reply of a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model was done.
    Stop,
    /// The model's limit of length cut it.
    Length,
    /// The provider's content filter cut it.
    ContentFilter,
    /// The limit of tool rounds was reached, and the last reply has no answer: its calls did not run, or it is empty.
    ToolRounds,
    /// It has neither text nor calls.
    Empty,
}

/// The status of an agent, as clients see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// At rest; its last turn, if it had one, was completed.
    #[default]
    Idle,
    /// Waiting for its model, or running tools.
    Running,
    /// A person has to approve a tool call.
    AwaitingApproval,
    /// At rest; its last turn was interrupted, by a person or by a crash. An orderly exit resets it.
    Interrupted,
    /// At rest; its last turn ended with an error.
    Failed,
    /// Killed.
    Dead,
}

impl Status {
    /// The stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
            Self::Dead => "dead",
        }
    }

    /// Whether its turn is over.
    pub const fn is_at_rest(self) -> bool {
        matches!(self, Self::Idle | Self::Interrupted | Self::Failed | Self::Dead)
    }
}

/// The line for a wait in the turn of a program: a request of this agent is not sent before this time has passed.
pub fn wait_line(agent: &str, length: Duration, reason: &str) -> Value {
    let ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    json!({"v": VERSION, "agent": agent, "type": "wait", "ms": ms, "text": reason})
}

/// The tag of a record in a ring whose content is not plain text.
const JSON: u8 = 5;

impl Chunk {
    /// Tag and content of a record in a ring: text as it is, everything else as JSON.
    pub fn encode(&self) -> (u8, Cow<'_, [u8]>) {
        let (tag, text) = match self {
            Self::User(text) => (0, text),
            Self::Text(text) => (1, text),
            Self::Thinking(text) => (2, text),
            Self::Note(text) => (3, text),
            Self::Mark(text) => (4, text),
            _ => return (JSON, serde_json::to_vec(self).expect("a chunk has only string keys").into()),
        };
        (tag, text.as_bytes().into())
    }

    /// The inverse of [`Chunk::encode`]; `None` for anything else.
    pub fn decode(tag: u8, content: Vec<u8>) -> Option<Self> {
        if tag == JSON {
            return serde_json::from_slice(&content).ok();
        }
        let text = String::from_utf8(content).ok()?;
        match tag {
            0 => Some(Self::User(text)),
            1 => Some(Self::Text(text)),
            2 => Some(Self::Thinking(text)),
            3 => Some(Self::Note(text)),
            4 => Some(Self::Mark(text)),
            _ => None,
        }
    }

    /// The chunks that a stored message was made from.
    pub fn of_body(body: &Body) -> Vec<Self> {
        match body {
            Body::System(text) => vec![Self::Note(text.clone())],
            Body::Command(line) => vec![Self::Note(settled(line))],
            Body::User(text) => vec![Self::User(fold_files(text).into_owned())],
            Body::Assistant(reply) => {
                let parts = [Self::Thinking(reply.thinking.clone()), Self::Text(reply.text.clone())];
                parts.into_iter().filter(|chunk| !chunk.is_silent()).collect()
            }
            Body::ToolCall(call) => vec![Self::ToolCall {
                id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                title: title_of(&call.name, &call.arguments),
            }],
            Body::ToolResult(result) => {
                vec![Self::ToolResult(ToolResult { content: result.readable_text().into_owned(), ..result.clone() })]
            }
            Body::Clear => {
                let text = body.mark_text().unwrap_or_default();
                vec![Self::Mark(format!("{text}; /clear undo brings them back"))]
            }
            Body::Compaction(compaction) => vec![Self::Mark(compaction.note())],
            Body::Replaced(why) => vec![Self::Replaced(why.clone())],
            Body::Usage(usage) => vec![Self::Usage(usage.clone())],
            Body::Error(message) => vec![Self::Error { kind: "stored".into(), message: message.clone() }],
            Body::ClearUndone(_)
            | Body::CompactionUndone(_)
            | Body::Mark(_)
            | Body::Rewind(_)
            | Body::Fork(_)
            | Body::Interrupted(_)
            | Body::Exited
            | Body::AgentKilled => body.mark_text().map(Self::Mark).into_iter().collect(),
        }
    }

    /// Whether a message begins with this chunk, after that one: the parts of a reply are one message, with their cost
    /// and the progress of the turn.
    pub fn begins_message(&self, before: Option<&Self>) -> bool {
        match self {
            Self::Text(_) | Self::Thinking(_) => !matches!(before, Some(Self::Text(_) | Self::Thinking(_))),
            Self::Status(_) | Self::Usage(_) | Self::Finish { .. } | Self::Replaced(_) => false,
            _ => true,
        }
    }

    fn is_silent(&self) -> bool {
        matches!(self, Self::Text(text) | Self::Thinking(text) if text.is_empty())
    }
}

/// What a command such as `/thinking high` did: "thinking: high". The typed line would look like a message.
fn settled(line: &str) -> String {
    match line.strip_prefix('/').and_then(|command| command.split_once(' ')) {
        Some((name, value)) => format!("{name}: {value}"),
        None => line.to_owned(),
    }
}

/// The number of the chunk with which the newest `count` messages begin, of chunks given newest first.
pub fn begin_of_last(count: u64, chunks: impl Iterator<Item = (u64, Chunk)>) -> Option<u64> {
    let mut chunks = chunks.peekable();
    let (mut begun, mut begin) = (0, None);
    while let Some((number, chunk)) = chunks.next().filter(|_| begun < count) {
        if chunk.begins_message(chunks.peek().map(|(_, before)| before)) {
            (begun, begin) = (begun + 1, Some(number));
        }
    }
    begin
}

/// A position in the stream of an agent's chunks, where a reader can continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The process that numbered the chunks.
    pub epoch: String,
    /// The number of the first chunk that the reader has not seen.
    #[serde(rename = "n")]
    pub number: u64,
}

/// A chunk with its number in the stream of its agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbered {
    /// The agent.
    pub agent: AgentId,
    /// Grows by one from chunk to chunk, within an epoch.
    pub number: u64,
    /// The chunk.
    pub chunk: Chunk,
}

#[derive(Serialize)]
struct Line<'a> {
    v: u64,
    agent: AgentId,
    epoch: &'a str,
    n: u64,
    #[serde(flatten)]
    chunk: &'a Chunk,
}

impl Numbered {
    /// The chunk as a line of JSON, without the newline. `epoch` identifies the process that gave the number.
    pub fn to_line(&self, epoch: &str) -> String {
        let line = Line { v: VERSION, agent: self.agent, epoch, n: self.number, chunk: &self.chunk };
        serde_json::to_string(&line).expect("a chunk has only string keys")
    }
}

mod text_field {
    use std::borrow::Cow;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Fields<'a> {
        text: Cow<'a, str>,
    }

    pub fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        Fields { text: text.into() }.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        Fields::deserialize(deserializer).map(|fields| fields.text.into_owned())
    }
}

mod status_field {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Status;

    #[derive(Serialize, Deserialize)]
    struct Fields {
        status: Status,
    }

    pub fn serialize<S: Serializer>(status: &Status, serializer: S) -> Result<S::Ok, S::Error> {
        Fields { status: *status }.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Status, D::Error> {
        Fields::deserialize(deserializer).map(|fields| fields.status)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_stored_reply_that_broke_off_has_the_mark_that_was_shown() {
        let mark = |why: &str| Chunk::of_body(&Body::Interrupted(why.into()));
        assert_eq!(mark("network"), [Chunk::Mark(REPLY_INCOMPLETE.into())]);
        assert_eq!(mark("interrupted"), [Chunk::Mark("interrupted".into())]);
    }

    fn one_of_each() -> Vec<Chunk> {
        let result = ToolResult {
            call_id: "c".into(),
            name: "bash".into(),
            content: "out\n\u{0}".into(),
            is_error: true,
            duration: Duration::from_millis(1_500),
        };
        vec![
            Chunk::User("hi \"there\"\n".into()),
            Chunk::Text("né".into()),
            Chunk::Thinking("hm".into()),
            Chunk::Note("a note".into()),
            Chunk::Mark("interrupted".into()),
            Chunk::ToolCall { id: "c".into(), name: "bash".into(), arguments: "{".into(), title: "bash: ls".into() },
            Chunk::ToolResult(result),
            Chunk::Question { number: 3, title: "bash: ls".into(), detail: vec!["ls".into(), "-l".into()] },
            Chunk::Status(Status::AwaitingApproval),
            Chunk::Usage(Usage { input: 1, cached: 2, written: 3, output: 4, ..Usage::default() }),
            Chunk::Finish { stop_reason: StopReason::ToolRounds },
            Chunk::Error { kind: "auth".into(), message: "no".into() },
            Chunk::Mail { from: AgentId::from_bytes([7; 16]), id: MailId(9) },
            Chunk::Replaced("cut".into()),
        ]
    }

    #[test]
    fn every_chunk_survives_a_ring_and_a_line() {
        let types = [
            "user",
            "text",
            "thinking",
            "note",
            "mark",
            "tool_call",
            "tool_result",
            "question",
            "status",
            "usage",
            "finish",
            "error",
            "mail",
            "replaced",
        ];
        for (chunk, kind) in one_of_each().into_iter().zip(types) {
            let (tag, content) = chunk.encode();
            assert_eq!(Chunk::decode(tag, content.into_owned()), Some(chunk.clone()));
            let numbered = Numbered { agent: AgentId::from_bytes([1; 16]), number: 10_000, chunk: chunk.clone() };
            let line: Value = serde_json::from_str(&numbered.to_line("e")).unwrap();
            assert_eq!((&line["v"], &line["n"], &line["epoch"]), (&json!(1), &json!(10_000), &json!("e")));
            assert_eq!(line["type"], kind);
            assert_eq!(Chunk::deserialize(&line).ok(), Some(chunk));
        }
    }

    #[test]
    fn the_fields_of_each_type_are_those_of_the_schema() {
        let fields = |chunk: &Chunk| serde_json::to_value(chunk).unwrap();
        let all = one_of_each();
        assert_eq!(fields(&all[0]), json!({"type": "user", "text": "hi \"there\"\n"}));
        assert_eq!(
            fields(&all[6]),
            json!({"type": "tool_result", "id": "c", "name": "bash", "text": "out\n\0", "is_error": true, "ms": 1_500})
        );
        assert_eq!(fields(&all[8]), json!({"type": "status", "status": "awaiting_approval"}));
        let usage = json!({
            "type": "usage", "input": 1, "cached": 2, "written": 3, "output": 4, "reasoning": 0, "cost": null,
        });
        assert_eq!(fields(&all[9]), usage);
        assert_eq!(fields(&all[10]), json!({"type": "finish", "stop_reason": "tool_rounds"}));
        assert_eq!(fields(&all[11]), json!({"type": "error", "kind": "auth", "text": "no"}));
        let from = AgentId::from_bytes([7; 16]).to_string();
        assert_eq!(fields(&all[12]), json!({"type": "mail", "from": from, "id": 9}));
    }

    #[test]
    fn the_parts_of_a_reply_and_what_it_cost_are_one_message() {
        let text = |text: &str| Chunk::Text(text.into());
        let (usage, end) = (Chunk::Usage(Usage::default()), Chunk::Finish { stop_reason: StopReason::Stop });
        let all = [
            Chunk::Status(Status::Running),
            Chunk::User("a".into()),
            Chunk::Thinking("hm".into()),
            text("b"),
            text("c"),
            usage.clone(),
            Chunk::ToolCall { id: "c".into(), name: "n".into(), arguments: "{}".into(), title: "t".into() },
            text("d"),
            usage,
            end,
            Chunk::Status(Status::Idle),
        ];
        let begin = |count| {
            let newest = all.iter().enumerate().rev();
            begin_of_last(count, newest.map(|(number, chunk)| (number as u64, chunk.clone())))
        };
        let expected = [None, Some(7), Some(6), Some(2), Some(1), Some(1)];
        assert_eq!([0, 1, 2, 3, 4, 9].map(begin), expected);
    }

    #[test]
    fn unknown_tags_types_and_values_are_none() {
        assert_eq!(Chunk::decode(200, Vec::new()), None);
        assert_eq!(Chunk::decode(1, vec![0xff]), None);
        assert_eq!(Chunk::decode(JSON, b"{\"type\":\"status\",\"status\":\"asleep\"}".to_vec()), None);
        assert_eq!(Chunk::deserialize(json!({"type": "telepathy", "text": "x"})).ok(), None);
    }
}
