//! What a client and a server say to each other over the socket: one object of JSON a line, both ways. Plain data; who
//! sends it and what comes of it is elsewhere.
//!
//! A client speaks first. The first line is a request with the version that it speaks:
//!
//! ```json
//! {"polylogue":1,"do":"send","who":"reviewer","text":"look at this"}
//! ```
//!
//! A request is answered by one line, `{"ok":...}` or `{"error":{"kind":"usage","text":"..."}}`, after which the next may
//! follow on the same connection. Three requests are answered by a stream: `logs` and `turn` by chunks (see
//! [`crate::domain::chunk`]) and `{"missed":N}` where chunks were dropped before they could be sent, then `{"ok":...}`;
//! `attach` by frames until `{"end":"..."}`, while the client goes on sending `keys`, `size`, `redraw`, which are not
//! answered. While a `turn` is answered the client may send `cut`, which is not answered either.
//!
//! | `do` | with `ok` comes |
//! |---|---|
//! | `ps` | a list of agents, see below |
//! | `sessions` | a list of `number`, `agent` (an id), `label`, `columns`, `rows`, `read_only`, `attached`, `since` |
//! | `new`, `show` | one agent, as `ps` has it |
//! | `send` | `queued`: how many texts wait for the agent, this one included; 0 if it was said at once |
//! | `turn` | `requests`: how many were made to models; `limited`: whether `most` was too few, and cut it |
//! | `interrupt` | `interrupted`: whether there was anything to interrupt |
//! | `wait` | `status`; an error of kind `timeout` when the time is over |
//! | `logs` | `epoch` and `n`: from where another request would go on |
//! | `model`, `kill`, `stop` | null. The server has ended, and the store is free, when it closes the connection behind `stop` |
//!
//! An agent has `id`, `number`, `name`, `parent` (an id), `status`, `doing` (words, or null), `model`, `unread`, `queued`,
//! `tokens`, `created_at` and `age` (seconds). Points in time are milliseconds since 1970.
//!
//! A client that closes its writing side has left: what was asked before and can be answered at once is answered.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::base::error::{Error, ErrorKind, Result};

/// The version of what is said here. A client of another version is told so and refused.
pub const VERSION: u64 = 1;
/// The longest line that a server reads, in bytes: a letter or a prompt of some MiB fits, a stream without newlines ends.
pub const LONGEST_LINE: usize = 16 << 20;

/// A terminal at the client's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalFacts {
    /// Columns and rows.
    pub size: (u16, u16),
    /// It shows colours.
    pub color: bool,
    /// It shows bold and the like.
    pub attributes: bool,
    /// It shows more than ASCII.
    pub unicode: bool,
    /// It is inside tmux.
    pub is_in_tmux: bool,
}

/// Where a viewer goes on: behind the last chunk that it has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The process that gave the number.
    pub epoch: String,
    /// The number of the first chunk that it has not seen.
    pub number: u64,
}

/// What a client asks for. Agents are named as on the command line: by name, number or the beginning of an id.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// A terminal sits down, at this agent or where the last one sat.
    Attach {
        /// At whom.
        agent: Option<String>,
        /// It only watches.
        is_read_only: bool,
        /// What it is.
        terminal: TerminalFacts,
    },
    /// Bytes that were typed at an attached terminal.
    Keys(Vec<u8>),
    /// The attached terminal has another size: columns and rows.
    Size(u16, u16),
    /// The attached terminal is to be drawn anew.
    Redraw,
    /// A list of all agents.
    Agents,
    /// A list of all attached terminals.
    Sessions,
    /// Chunks of an agent.
    Logs {
        /// Whose.
        agent: String,
        /// From here on; without it from the oldest that is kept.
        from: Option<Place>,
        /// Only so many of the newest.
        last: Option<u64>,
        /// Goes on with what comes, until the client leaves or the agent dies.
        follows: bool,
    },
    /// A new agent without history, a child of the root. Answered with its id.
    New {
        /// Its name.
        name: Option<String>,
        /// Its model, as `provider/model`.
        model: Option<String>,
    },
    /// Text for an agent: queued while it works.
    Send {
        /// For whom.
        agent: String,
        /// What.
        text: String,
    },
    /// Text for an agent, and the chunks of the turn that it begins, from the first to the last; nothing of the turns of
    /// others before it. Whoever asks for this is a program: what a person would have to allow during the turn is refused.
    /// A client that leaves meanwhile leaves the turn as it is.
    Turn {
        /// For whom.
        agent: String,
        /// What.
        text: String,
        /// The most requests to models that it may make.
        most: Option<u32>,
    },
    /// The turn that is under way for this client is interrupted; if it has not begun, its text leaves the queue.
    Cut,
    /// One agent: this one, or the one that was spoken to last.
    Show {
        /// Which.
        agent: Option<String>,
    },
    /// An agent talks to another model from now on.
    Model {
        /// Who.
        agent: String,
        /// To which, as `provider/model`.
        model: String,
    },
    /// An agent dies.
    Kill {
        /// Who.
        agent: String,
        /// With all its descendants.
        cascade: bool,
    },
    /// An agent stops what it does.
    Interrupt {
        /// Who.
        agent: String,
    },
    /// Answered when the agent is at rest with nothing queued, or dead, with its status; or when the time is over.
    Wait {
        /// Who.
        agent: String,
        /// The longest wait, in seconds; without it there is none.
        seconds: Option<f64>,
    },
    /// The server ends, as by SIGTERM.
    Stop,
}

impl Request {
    /// The line, without the newline.
    pub fn to_line(&self) -> String {
        let mut line = self.to_json();
        line["polylogue"] = VERSION.into();
        line.to_string()
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Attach { agent, is_read_only, terminal } => json!({
                "do": "attach", "who": agent, "read_only": is_read_only, "columns": terminal.size.0,
                "rows": terminal.size.1, "color": terminal.color, "attributes": terminal.attributes,
                "unicode": terminal.unicode, "tmux": terminal.is_in_tmux,
            }),
            Self::Keys(bytes) => json!({"do": "keys", "keys": STANDARD.encode(bytes)}),
            Self::Size(columns, rows) => json!({"do": "size", "columns": columns, "rows": rows}),
            Self::Redraw => json!({"do": "redraw"}),
            Self::Agents => json!({"do": "ps"}),
            Self::Sessions => json!({"do": "sessions"}),
            Self::Logs { agent, from, last, follows } => {
                let (epoch, number) = from.as_ref().map(|from| (&from.epoch, from.number)).unzip();
                json!({"do": "logs", "who": agent, "epoch": epoch, "n": number, "last": last, "follow": follows})
            }
            Self::New { name, model } => json!({"do": "new", "name": name, "model": model}),
            Self::Send { agent, text } => json!({"do": "send", "who": agent, "text": text}),
            Self::Turn { agent, text, most } => json!({"do": "turn", "who": agent, "text": text, "most": most}),
            Self::Cut => json!({"do": "cut"}),
            Self::Show { agent } => json!({"do": "show", "who": agent}),
            Self::Model { agent, model } => json!({"do": "model", "who": agent, "model": model}),
            Self::Kill { agent, cascade } => json!({"do": "kill", "who": agent, "cascade": cascade}),
            Self::Interrupt { agent } => json!({"do": "interrupt", "who": agent}),
            Self::Wait { agent, seconds } => json!({"do": "wait", "who": agent, "seconds": seconds}),
            Self::Stop => json!({"do": "stop"}),
        }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] in words for whoever wrote it: no JSON, another version, an unknown request, a field that is
    /// missing or of the wrong kind.
    pub fn read(line: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(line).map_err(|error| usage(format!("this is not JSON: {error}")))?;
        match value.get("polylogue").and_then(Value::as_u64) {
            Some(VERSION) => Self::from_json(&value),
            Some(other) => Err(usage(format!(
                "this server speaks version {VERSION} of the protocol, not {other}: use the same polylogue on both sides"
            ))),
            None => Err(usage(format!("a request says \"polylogue\":{VERSION}"))),
        }
    }

    fn from_json(value: &Value) -> Result<Self> {
        let fields = Fields(value);
        Ok(match fields.text("do")?.as_str() {
            "attach" => Self::Attach {
                agent: fields.text_if_any("who")?,
                is_read_only: fields.flag("read_only")?,
                terminal: TerminalFacts {
                    size: (fields.columns("columns")?, fields.columns("rows")?),
                    color: fields.flag("color")?,
                    attributes: fields.flag("attributes")?,
                    unicode: fields.flag("unicode")?,
                    is_in_tmux: fields.flag("tmux")?,
                },
            },
            "keys" => {
                let bytes = STANDARD.decode(fields.text("keys")?);
                Self::Keys(bytes.map_err(|error| usage(format!("keys are base64: {error}")))?)
            }
            "size" => Self::Size(fields.columns("columns")?, fields.columns("rows")?),
            "redraw" => Self::Redraw,
            "ps" => Self::Agents,
            "sessions" => Self::Sessions,
            "logs" => Self::Logs {
                agent: fields.text("who")?,
                from: match (fields.text_if_any("epoch")?, fields.number_if_any("n")?) {
                    (Some(epoch), Some(number)) => Some(Place { epoch, number }),
                    (None, None) => None,
                    _ => return Err(usage("\"epoch\" and \"n\" belong together".into())),
                },
                last: fields.number_if_any("last")?,
                follows: fields.flag("follow")?,
            },
            "new" => Self::New { name: fields.text_if_any("name")?, model: fields.text_if_any("model")? },
            "send" => Self::Send { agent: fields.text("who")?, text: fields.text("text")? },
            "turn" => Self::Turn {
                agent: fields.text("who")?,
                text: fields.text("text")?,
                most: fields.count_if_any("most")?,
            },
            "cut" => Self::Cut,
            "show" => Self::Show { agent: fields.text_if_any("who")? },
            "model" => Self::Model { agent: fields.text("who")?, model: fields.text("model")? },
            "kill" => Self::Kill { agent: fields.text("who")?, cascade: fields.flag("cascade")? },
            "interrupt" => Self::Interrupt { agent: fields.text("who")? },
            "wait" => Self::Wait { agent: fields.text("who")?, seconds: fields.seconds_if_any("seconds")? },
            "stop" => Self::Stop,
            other => return Err(usage(format!("there is no request {other:?}"))),
        })
    }
}

/// The fields of one request.
struct Fields<'a>(&'a Value);

impl Fields<'_> {
    fn any(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn text_if_any(&self, name: &str) -> Result<Option<String>> {
        let read = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| wrong(name, "a string"));
        self.any(name).map(read).transpose()
    }

    fn text(&self, name: &str) -> Result<String> {
        self.text_if_any(name)?.ok_or_else(|| usage(format!("\"{name}\" is missing")))
    }

    fn number_if_any(&self, name: &str) -> Result<Option<u64>> {
        self.any(name).map(|value| value.as_u64().ok_or_else(|| wrong(name, "a whole number"))).transpose()
    }

    fn count_if_any(&self, name: &str) -> Result<Option<u32>> {
        let read = |number: u64| u32::try_from(number).ok().filter(|count| *count > 0);
        let number = self.number_if_any(name)?;
        number.map(|number| read(number).ok_or_else(|| wrong(name, "a number from 1 to 4294967295"))).transpose()
    }

    fn seconds_if_any(&self, name: &str) -> Result<Option<f64>> {
        let read = |value: &Value| value.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        self.any(name).map(|value| read(value).ok_or_else(|| wrong(name, "a number of seconds"))).transpose()
    }

    fn columns(&self, name: &str) -> Result<u16> {
        let number = self.number_if_any(name)?.ok_or_else(|| usage(format!("\"{name}\" is missing")))?;
        u16::try_from(number).ok().filter(|number| *number > 0).ok_or_else(|| wrong(name, "a number from 1 to 65535"))
    }

    fn flag(&self, name: &str) -> Result<bool> {
        self.any(name).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| wrong(name, "true or false")))
    }
}

fn usage(words: String) -> Error {
    Error::new(ErrorKind::Usage, words)
}

fn wrong(name: &str, expected: &str) -> Error {
    usage(format!("\"{name}\" has to be {expected}"))
}

/// What a server says.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// A request was carried out; the value is what was asked for, or null.
    Done(Value),
    /// A request was not carried out, and why.
    Refused {
        /// The stable name of the kind of error.
        kind: String,
        /// Words for a person.
        message: String,
    },
    /// Bytes for the attached terminal.
    Frame(String),
    /// The attached terminal is to be given back and the client is to stop until it is continued.
    Suspend,
    /// The attached terminal is not attached any more, and why.
    End(String),
    /// So many chunks were dropped before they could be sent.
    Missed(u64),
    /// A chunk, as [`crate::domain::chunk::Numbered::to_line`] writes it.
    Chunk(Value),
}

impl Response {
    /// The line, without the newline.
    pub fn to_line(&self) -> String {
        match self {
            Self::Done(value) => json!({"ok": value}),
            Self::Refused { kind, message } => json!({"error": {"kind": kind, "text": message}}),
            Self::Frame(bytes) => json!({"frame": bytes}),
            Self::Suspend => json!({"suspend": true}),
            Self::End(why) => json!({"end": why}),
            Self::Missed(count) => json!({"missed": count}),
            Self::Chunk(chunk) => return chunk.to_string(),
        }
        .to_string()
    }

    /// Reads a line.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] for what no server of this version says.
    pub fn read(line: &[u8]) -> Result<Self> {
        let strange = || Error::new(ErrorKind::Protocol, "the server said what this version does not know");
        let value: Value = serde_json::from_slice(line).map_err(|_| strange())?;
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(strange);
        if value.get("v").is_some() {
            return Ok(Self::Chunk(value));
        }
        let (name, inner) = value.as_object().and_then(|object| object.iter().next()).ok_or_else(strange)?;
        match name.as_str() {
            "ok" => Ok(Self::Done(inner.clone())),
            "error" => Ok(Self::Refused { kind: text(&inner["kind"])?, message: text(&inner["text"])? }),
            "frame" => Ok(Self::Frame(text(inner)?)),
            "suspend" => Ok(Self::Suspend),
            "end" => Ok(Self::End(text(inner)?)),
            "missed" => Ok(Self::Missed(inner.as_u64().ok_or_else(strange)?)),
            _ => Err(strange()),
        }
    }
}

impl From<&Error> for Response {
    fn from(error: &Error) -> Self {
        Self::Refused { kind: error.kind.name().into(), message: error.message.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_read_as_it_was_written() {
        let agent = || "a".to_owned();
        let terminal =
            TerminalFacts { size: (80, 24), color: true, attributes: true, unicode: false, is_in_tmux: true };
        let from = Some(Place { epoch: "e".into(), number: 7 });
        for ask in [
            Request::Attach { agent: None, is_read_only: true, terminal },
            Request::Keys(vec![0, 0x1b, 0xff]),
            Request::Size(1, 65_535),
            Request::Redraw,
            Request::Agents,
            Request::Sessions,
            Request::Logs { agent: agent(), from, last: None, follows: true },
            Request::Logs { agent: agent(), from: None, last: Some(3), follows: false },
            Request::New { name: Some(agent()), model: None },
            Request::Send { agent: agent(), text: "x\n\"".into() },
            Request::Turn { agent: agent(), text: "x".into(), most: Some(2) },
            Request::Cut,
            Request::Show { agent: None },
            Request::Model { agent: agent(), model: "echo/echo".into() },
            Request::Kill { agent: agent(), cascade: true },
            Request::Interrupt { agent: agent() },
            Request::Wait { agent: agent(), seconds: Some(0.5) },
            Request::Stop,
        ] {
            assert_eq!(Request::read(ask.to_line().as_bytes()), Ok(ask));
        }
    }

    #[test]
    fn what_is_no_request_is_refused_in_words_that_name_what_is_wrong() {
        for (line, words) in [
            ("{", "not JSON"),
            ("{}", "says \"polylogue\":1"),
            ("{\"polylogue\":2,\"do\":\"ps\"}", "speaks version 1 of the protocol, not 2"),
            ("{\"polylogue\":1,\"do\":\"dance\"}", "no request \"dance\""),
            ("{\"polylogue\":1}", "\"do\" is missing"),
            ("{\"polylogue\":1,\"do\":\"send\",\"who\":3}", "\"who\" has to be a string"),
            ("{\"polylogue\":1,\"do\":\"size\",\"columns\":0,\"rows\":1}", "from 1 to 65535"),
            ("{\"polylogue\":1,\"do\":\"wait\",\"who\":\"a\",\"seconds\":-1}", "number of seconds"),
            ("{\"polylogue\":1,\"do\":\"logs\",\"who\":\"a\",\"n\":1}", "belong together"),
            ("{\"polylogue\":1,\"do\":\"turn\",\"who\":\"a\",\"text\":\"x\",\"most\":0}", "from 1 to"),
            ("{\"polylogue\":1,\"do\":\"keys\",\"keys\":\"?\"}", "base64"),
        ] {
            let error = Request::read(line.as_bytes()).expect_err(line);
            assert!(error.message.contains(words), "{line}: {error}");
        }
        assert!(Request::read(&[0xff, 0xfe]).is_err());
    }

    #[test]
    fn every_answer_is_read_as_it_was_written() {
        for told in [
            Response::Done(Value::Null),
            Response::Done(json!([1])),
            Response::Refused { kind: "usage".into(), message: "no".into() },
            Response::Frame("\x1b[2J".into()),
            Response::Suspend,
            Response::End("detached".into()),
            Response::Missed(3),
            Response::Chunk(json!({"v": 1, "type": "text", "text": "x"})),
        ] {
            assert_eq!(Response::read(told.to_line().as_bytes()), Ok(told));
        }
        for line in ["", "{}", "[]", "{\"ok\"", "{\"dance\":1}", "{\"missed\":-1}"] {
            assert!(Response::read(line.as_bytes()).is_err(), "{line}");
        }
    }
}
