//! What an agent produces and receives, piece by piece: the vocabulary of everybody who looks at it, and its form as a line
//! of JSON. A chunk is numbered when it is appended to its agent's ring, before anybody sees it.
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
//! | `tool_call` | `id`, `name`, `arguments` (JSON text as the model wrote it), `title` (one line for a person) |
//! | `tool_result` | `id`, `name`, `text`, `is_error`, `ms` |
//! | `question` | `number`, `title`, `detail` (a list of lines) |
//! | `status` | `status`: `idle`, `running`, `awaiting_approval`, `interrupted`, `dead` |
//! | `usage` | `input`, `cached`, `written`, `output` (tokens), `cost` (billionths of a US dollar, or null) |
//! | `error` | `kind` (see [`crate::base::error::ErrorKind::name`]), `text` |
//! | `mail` | `from` (an agent's id), `id` |
//!
//! Consecutive `text` (or `thinking`) chunks are one text: where it is cut means nothing. A reader skips types and fields
//! that it does not know; what it knows keeps its meaning as long as `v` is 1.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::base::id::AgentId;
use crate::domain::mail::MailId;
use crate::domain::message::Body;
use crate::domain::stream::Usage;
use crate::domain::tool::ToolResult;

/// The version of the schema, the field `v` of every line.
pub const VERSION: u64 = 1;

/// One piece of what an agent produces or receives.
#[derive(Debug, Clone, PartialEq)]
pub enum Chunk {
    /// What a person, a script or a forking parent said to it.
    User(String),
    /// More of its reply.
    Text(String),
    /// More of the reasoning that the provider shows.
    Thinking(String),
    /// A tool is called.
    ToolCall {
        /// Names the call.
        id: String,
        /// The tool's name, as the model wrote it.
        name: String,
        /// JSON text of the arguments, as the model wrote it.
        arguments: String,
        /// The call in one line, for a person.
        title: String,
    },
    /// What came of a call.
    ToolResult(ToolResult),
    /// A person has to decide about a call.
    Question {
        /// Names the question; an answer is bound to it.
        number: u64,
        /// The call in one line.
        title: String,
        /// What exactly would run.
        detail: Vec<String>,
    },
    /// It is in this state from now on.
    Status(Status),
    /// What one request cost.
    Usage(Usage),
    /// Its turn failed, or something about it did.
    Error {
        /// The stable name of the kind of error.
        kind: String,
        /// Words for a person.
        message: String,
    },
    /// A letter came.
    Mail {
        /// Who wrote it.
        from: AgentId,
        /// Which letter.
        id: MailId,
    },
    /// The program tells something; no model is told.
    Note(String),
    /// A mark between parts: an interrupt, a fork, a place to come back to.
    Mark(String),
}

/// What an agent is doing, for whoever looks from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Status {
    /// Nothing; its last turn, if there was one, came to its end.
    #[default]
    Idle,
    /// It waits for its model or runs tools.
    Running,
    /// A person has to decide about a call.
    AwaitingApproval,
    /// Nothing; its last turn was interrupted, by somebody or by a crash. Is forgotten when the program is left in order.
    Interrupted,
    /// It was killed.
    Dead,
}

impl Status {
    const ALL: [Self; 5] = [Self::Idle, Self::Running, Self::AwaitingApproval, Self::Interrupted, Self::Dead];

    /// The stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Interrupted => "interrupted",
            Self::Dead => "dead",
        }
    }

    /// Whether its turn is over.
    pub const fn is_at_rest(self) -> bool {
        matches!(self, Self::Idle | Self::Interrupted | Self::Dead)
    }
}

/// The kinds, as a ring keeps them beside the content.
const KINDS: [&str; 12] = [
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
    "error",
    "mail",
];

impl Chunk {
    /// The stable name of its kind: the field `type`.
    pub fn kind(&self) -> &'static str {
        KINDS[usize::from(self.tag())]
    }

    fn tag(&self) -> u8 {
        match self {
            Self::User(_) => 0,
            Self::Text(_) => 1,
            Self::Thinking(_) => 2,
            Self::Note(_) => 3,
            Self::Mark(_) => 4,
            Self::ToolCall { .. } => 5,
            Self::ToolResult(_) => 6,
            Self::Question { .. } => 7,
            Self::Status(_) => 8,
            Self::Usage(_) => 9,
            Self::Error { .. } => 10,
            Self::Mail { .. } => 11,
        }
    }

    /// Bytes for a ring, and the tag beside them.
    pub fn encode(&self) -> (u8, Cow<'_, [u8]>) {
        let content = match self {
            Self::User(text) | Self::Text(text) | Self::Thinking(text) | Self::Note(text) | Self::Mark(text) => {
                text.as_bytes().into()
            }
            _ => Value::Object(self.fields()).to_string().into_bytes().into(),
        };
        (self.tag(), content)
    }

    /// What [`Chunk::encode`] made bytes of; `None` for anything else.
    pub fn decode(tag: u8, content: Vec<u8>) -> Option<Self> {
        let text = String::from_utf8(content).ok()?;
        match tag {
            0 => Some(Self::User(text)),
            1 => Some(Self::Text(text)),
            2 => Some(Self::Thinking(text)),
            3 => Some(Self::Note(text)),
            4 => Some(Self::Mark(text)),
            _ => Self::from_fields(KINDS.get(usize::from(tag))?, &serde_json::from_str(&text).ok()?),
        }
    }

    /// The chunk that a line of JSON tells of; `None` for a type or a form that is not known.
    pub fn from_fields(kind: &str, fields: &Value) -> Option<Self> {
        let text = |name: &str| Some(fields.get(name)?.as_str()?.to_owned());
        let number = |name: &str| fields.get(name)?.as_u64();
        Some(match kind {
            "user" => Self::User(text("text")?),
            "text" => Self::Text(text("text")?),
            "thinking" => Self::Thinking(text("text")?),
            "note" => Self::Note(text("text")?),
            "mark" => Self::Mark(text("text")?),
            "tool_call" => Self::ToolCall {
                id: text("id")?,
                name: text("name")?,
                arguments: text("arguments")?,
                title: text("title")?,
            },
            "tool_result" => Self::ToolResult(ToolResult {
                call_id: text("id")?,
                name: text("name")?,
                content: text("text")?,
                is_error: fields.get("is_error")?.as_bool()?,
                duration: Duration::from_millis(number("ms")?),
            }),
            "question" => {
                let detail = fields.get("detail")?.as_array()?.iter().map(|line| Some(line.as_str()?.to_owned()));
                Self::Question {
                    number: number("number")?,
                    title: text("title")?,
                    detail: detail.collect::<Option<_>>()?,
                }
            }
            "status" => {
                let name = text("status")?;
                Self::Status(Status::ALL.into_iter().find(|status| status.name() == name)?)
            }
            "usage" => Self::Usage(Usage {
                input: number("input")?,
                cached: number("cached")?,
                written: number("written")?,
                output: number("output")?,
                cost: number("cost"),
            }),
            "error" => Self::Error { kind: text("kind")?, message: text("text")? },
            "mail" => Self::Mail { from: text("from")?.parse().ok()?, id: MailId(fields.get("id")?.as_i64()?) },
            _ => return None,
        })
    }

    /// The fields that its kind has in a line of JSON.
    pub fn fields(&self) -> Map<String, Value> {
        let value = match self {
            Self::User(text) | Self::Text(text) | Self::Thinking(text) | Self::Note(text) | Self::Mark(text) => {
                json!({"text": text})
            }
            Self::ToolCall { id, name, arguments, title } => {
                json!({"id": id, "name": name, "arguments": arguments, "title": title})
            }
            Self::ToolResult(result) => json!({
                "id": result.call_id, "name": result.name, "text": result.content, "is_error": result.is_error,
                "ms": u64::try_from(result.duration.as_millis()).unwrap_or(u64::MAX),
            }),
            Self::Question { number, title, detail } => json!({"number": number, "title": title, "detail": detail}),
            Self::Status(status) => json!({"status": status.name()}),
            Self::Usage(usage) => json!({
                "input": usage.input, "cached": usage.cached, "written": usage.written, "output": usage.output,
                "cost": usage.cost,
            }),
            Self::Error { kind, message } => json!({"kind": kind, "text": message}),
            Self::Mail { from, id } => json!({"from": from.to_string(), "id": id.0}),
        };
        if let Value::Object(fields) = value { fields } else { Map::new() }
    }

    /// What a stored message was when it happened.
    pub fn of_body(body: &Body) -> Vec<Self> {
        match body {
            Body::System(text) | Body::Command(text) => vec![Self::Note(text.clone())],
            Body::User(text) => vec![Self::User(text.clone())],
            Body::Assistant(reply) => {
                let said = [Self::Thinking(reply.thinking.clone()), Self::Text(reply.text.clone())];
                said.into_iter().filter(|chunk| !chunk.is_silent()).collect()
            }
            Body::ToolCall(call) => vec![Self::ToolCall {
                id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                title: title_of(&call.name, &call.arguments),
            }],
            Body::ToolResult(result) => vec![Self::ToolResult(result.clone())],
            Body::Clear => vec![Self::Mark("cleared: what is above is no longer told to the model".into())],
            Body::Mark(label) => vec![Self::Mark(format!("mark {label}"))],
            Body::Rewind(_) => vec![Self::Mark("rewound".into())],
            // In a parent's log the id is the child's, in a child's log the parent's.
            Body::Fork(other) => vec![Self::Mark(format!("fork, {}", other.get(..6).unwrap_or(other)))],
            Body::Interrupted(why) => vec![Self::Mark(why.clone())],
            Body::Exited => vec![Self::Mark("polylogue exited during this turn".into())],
            Body::AgentKilled => vec![Self::Mark("killed".into())],
            Body::Usage(usage) => vec![Self::Usage(*usage)],
            Body::Error(words) => vec![Self::Error { kind: "stored".into(), message: words.clone() }],
        }
    }

    fn is_silent(&self) -> bool {
        matches!(self, Self::Text(text) | Self::Thinking(text) if text.is_empty())
    }
}

/// A stored call in one line: the tool checks and words live calls, but an old call may name a tool that is gone.
fn title_of(name: &str, arguments: &str) -> String {
    let value: Value = serde_json::from_str(arguments).unwrap_or_default();
    let main = ["command", "path"].iter().find_map(|key| value.get(key)?.as_str());
    format!("{name}: {}", main.unwrap_or(arguments))
}

/// A chunk at its place in the stream of its agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbered {
    /// Whose it is.
    pub agent: AgentId,
    /// Its number: grows by one from chunk to chunk, within an epoch.
    pub number: u64,
    /// What happened.
    pub chunk: Chunk,
}

impl Numbered {
    /// The chunk as a line of JSON, without the newline. `epoch` tells in which process the number was given.
    pub fn to_line(&self, epoch: &str) -> String {
        let mut line = json!({
            "v": VERSION, "agent": self.agent.to_string(), "epoch": epoch, "n": self.number, "type": self.chunk.kind(),
        });
        if let Value::Object(line) = &mut line {
            line.extend(self.chunk.fields());
        }
        line.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            Chunk::Note("told".into()),
            Chunk::Mark("interrupted".into()),
            Chunk::ToolCall { id: "c".into(), name: "bash".into(), arguments: "{".into(), title: "bash: ls".into() },
            Chunk::ToolResult(result),
            Chunk::Question { number: 3, title: "bash: ls".into(), detail: vec!["ls".into(), "-l".into()] },
            Chunk::Status(Status::AwaitingApproval),
            Chunk::Usage(Usage { input: 1, cached: 2, written: 3, output: 4, cost: None }),
            Chunk::Error { kind: "auth".into(), message: "no".into() },
            Chunk::Mail { from: AgentId::from_bytes([7; 16]), id: MailId(9) },
        ]
    }

    #[test]
    fn every_kind_comes_back_from_a_ring_and_from_a_line_as_it_was() {
        let all = one_of_each();
        assert_eq!(all.iter().map(Chunk::kind).collect::<Vec<_>>(), KINDS);
        for chunk in all {
            let (tag, content) = chunk.encode();
            assert_eq!(Chunk::decode(tag, content.into_owned()), Some(chunk.clone()));
            let numbered = Numbered { agent: AgentId::from_bytes([1; 16]), number: 10_000, chunk: chunk.clone() };
            let line: Value = serde_json::from_str(&numbered.to_line("e")).unwrap();
            assert_eq!((&line["v"], &line["n"], &line["epoch"]), (&json!(1), &json!(10_000), &json!("e")));
            assert_eq!(Chunk::from_fields(line["type"].as_str().unwrap(), &line), Some(chunk));
        }
    }

    #[test]
    fn what_is_no_chunk_is_none() {
        assert_eq!(Chunk::decode(200, Vec::new()), None);
        assert_eq!(Chunk::decode(1, vec![0xff]), None);
        assert_eq!(Chunk::decode(8, b"{\"status\":\"asleep\"}".to_vec()), None);
        assert_eq!(Chunk::from_fields("telepathy", &json!({"text": "x"})), None);
    }
}
