//! The protocol between a server and its clients: one JSON object a line, in both directions. Plain data; the server's side
//! is in `repl/server`, the clients' in `cli`.
//!
//! The client begins. Every request names the version of the protocol:
//!
//! ```json
//! {"polylogue":4,"request":"send","agent":"reviewer","text":"look at this"}
//! ```
//!
//! Each request is answered by one line, `{"ok":...}` or `{"error":{"kind":"usage","text":"..."}}`, before the next one is
//! read. Some requests are answered by several lines: `logs` and `turn` by chunks ([`crate::domain::chunk`]), and by
//! `{"missed":N}` where chunks were dropped before they could be sent, then by `{"ok":...}`; `turn` also by `{"v":1,"type":"refused","title":...}` for each call of an agent below that was refused
//! because it needs approval; `team` by the events of the run (`team::coordinator::event`), by the same line for each such
//! call and by `{"v":1,"type":"limit","text":...}` where a limit is reached, then by `{"ok":...}`; `attach` by frames
//! until `{"back":"..."}`, the options that come back to the conversation, and `{"end":"..."}`; `approvals` with `follow` by `{"questions":[...]}` whenever others are open than before, and `commands` by
//! `{"commands":[...]}` in the same way. While it
//! is attached, the client sends `keys`, `size` and `redraw`, and `edited` after the server has sent `{"edit":TEXT}` or
//! `{"view":TEXT}`, `pasted` after `{"paste":{}}`; during a `turn` or `team` it may send `cut`.
//! These six are not answered.
//!
//! | `request` | value of `ok` |
//! |---|---|
//! | `ps` | list of agents, see below |
//! | `sessions` | list of `number`, `agent` (an id), `label`, `columns`, `rows`, `read_only`, `attached`, `since` |
//! | `status` | `process` (an id), `version`, `memory` (bytes, proportional set size), `descriptors`, `threads`, `agents`, `clients` |
//! | `run` | `text`: what there is to say, or null |
//! | `new`, `show` | one agent, as in `ps`, with `title`, `directory`, `policy`, `context` (tokens of the conversation), `context_limit` and `warnings` (what it could not be restored with); `show` is null where nothing was ever sent |
//! | `conversations` | list of `id`, `title`, `directory` and `updated_at`, the newest first |
//! | `send` | `queued`: number of texts that wait for the agent, including this one; 0 if it was sent at once |
//! | `turn` | `requests`: requests made to models, also by agents below it; `limited`: whether a limit ended the turn, and `limit`: which one, if it was not `max_requests`; `killed`: whether the agent is gone |
//! | `team` | the outcome of the run, as `polylogue multi-agent status --json` lists it |
//! | `mail` | `list`: list of `id`, `read`, `from`, `from_id`, `created_at`, `text`; `read`: one of these, or null; else null |
//! | `wait` | `status`; an error of kind `timeout` after `seconds` |
//! | `logs` | `epoch` and `n`: where a later request can continue |
//! | `approvals` | list of open questions, see below |
//! | `image` | `marker`: what stands for the image in a text for the agent |
//! | `policy`, `archive`, `stop`, `answer` | null. The server has ended, and released the store, when it closes the connection after `stop` |
//!
//! An agent has `id`, `number`, `name`, `parent` (an id), `status`, `activity` (text, or null), `model`, `unread`, `queued`,
//! `tokens`, `print_run` (it was made for one run of `--print`), `team_run` (the task of a team that it was made for, or null), `created_at` and `age` (seconds). Points in time are milliseconds since 1970.
//!
//! A question has `id`, `agent` (an id), `label`, `directory`, `tool`, `title`, `detail` (a list of lines), `rules`
//! (that would allow it), `ancestors` (ids, the parent first), `call` (`id`, `name`, `arguments` of the call that asks) and `age` (seconds). The id names the agent, the question and a digest of the text, so an answer holds for what was shown and for
//! nothing else.
//!
//! A command has `name`, `description` and `hint` (the arguments that it takes, perhaps empty).
//!
//! A client that closes its writing side has left; requests that it sent before are still carried out, and answered if that
//! needs no waiting.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::error::{Error, ErrorKind, Result};
use crate::domain::choices::{Choices, Opening};
use crate::domain::chunk::Position;
use crate::domain::display::Abilities;
use crate::domain::mcp::ClientServer;

pub const VERSION: u64 = 5;
/// The longest line that a server reads, in bytes: enough for a prompt of several MiB.
pub const LONGEST_LINE: usize = 16 << 20;
/// The longest text for the editor of a client, in bytes; as JSON it is at most six times as long.
pub const LONGEST_EDITED: usize = 2 << 20;

/// The terminal of an attached client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalFacts {
    pub columns: u16,
    pub rows: u16,
    #[serde(default)]
    pub color: bool,
    /// Whether it shows bold, dim and the like.
    #[serde(default)]
    pub attributes: bool,
    #[serde(default)]
    pub unicode: bool,
    #[serde(default, rename = "tmux")]
    pub is_in_tmux: bool,
    #[serde(default)]
    pub abilities: Abilities,
    /// Whether the client can open an editor on it.
    #[serde(default, rename = "editor")]
    pub can_edit: bool,
    /// Whether the client can open a pager on it.
    #[serde(default, rename = "pager")]
    pub can_view: bool,
    /// Whether the client can read images from the clipboard.
    #[serde(default, rename = "clipboard")]
    pub can_paste: bool,
}

/// What is done with a mailbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailAct {
    List,
    /// Mark a message as read, by default the oldest unread one.
    Read(Option<i64>),
    /// Send a message to the agent.
    Send(String),
    Delete(i64),
}

/// An agent to create.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewAgent {
    pub name: Option<String>,
    /// Where it works: the working directory of the client.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// It is made for one run of `--print`.
    #[serde(default, rename = "print_run")]
    pub is_print_run: bool,
    /// It is for the terminal that the client attaches next. A person can answer there, so it has the configured
    /// policy.
    #[serde(default, rename = "terminal")]
    pub is_for_terminal: bool,
    /// Its choices. Without a policy, what would ask is refused, unless it is for a terminal.
    #[serde(flatten)]
    pub choices: Choices,
}

/// An agent is given as on the command line: its name, its number or the beginning of its id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// The terminal shows the conversation that the opening says.
    Attach {
        #[serde(flatten)]
        opening: Box<Opening>,
        #[serde(default, rename = "read_only")]
        is_read_only: bool,
        terminal: TerminalFacts,
        /// Where the client was started.
        #[serde(default)]
        directory: Option<PathBuf>,
    },
    /// Bytes typed at an attached terminal.
    Keys {
        #[serde(with = "base64_text")]
        keys: Vec<u8>,
    },
    Size {
        columns: u16,
        rows: u16,
    },
    Redraw,
    /// The editor or pager has ended: the new text of the draft, or why there is none. The terminal is drawn again.
    Edited {
        text: Option<String>,
        #[serde(default)]
        error: Option<String>,
    },
    /// The image in the clipboard of the client, or why there is none.
    Pasted {
        #[serde(default, with = "base64_text")]
        image: Vec<u8>,
        #[serde(default)]
        error: Option<String>,
    },
    #[serde(rename = "ps")]
    Agents,
    /// The conversations that a person can resume, perhaps only those of one directory.
    Conversations {
        directory: Option<PathBuf>,
    },
    Sessions,
    Status,
    /// The chunks of an agent: all that are stored, or those from a position on, or the last few.
    Logs {
        agent: String,
        from: Option<Position>,
        last: Option<u64>,
        /// Go on with new chunks until the client leaves or the agent ends.
        #[serde(default, rename = "follow")]
        follows: bool,
    },
    /// Creates an agent without history, a child of the root.
    New(NewAgent),
    /// A command of the chat, at an agent or, without a name, at the one that was last sent a message.
    Run {
        agent: Option<String>,
        /// The name of the command, without the slash, and its arguments.
        argv: Vec<String>,
    },
    /// Text for an agent, queued while it works.
    Send {
        agent: String,
        text: String,
    },
    /// Text for an agent, answered by the chunks of the turn that it starts, and by each wait in it. The client is a
    /// program: tool calls that need a person's approval are refused during the turn. The turn continues if the client
    /// leaves.
    Turn {
        agent: String,
        text: String,
        max_requests: Option<u32>,
        /// The most that the agent may do without a question during the turn, which must not be more than it may do
        /// anyway; without one, what would ask is refused.
        #[serde(default)]
        approval: Option<String>,
        /// A person at the client answers the questions with `answer`: they stay open, and the agent keeps its own
        /// policy.
        #[serde(default, rename = "attended")]
        is_attended: bool,
        /// A text that begins with a slash and the name of a skill or of a server's prompt is run as that.
        #[serde(default, rename = "commands")]
        takes_commands: bool,
        /// How long its failed requests are tried again, if no person watches; ten minutes without it.
        #[serde(default)]
        retry_ms: Option<u64>,
    },
    /// The skills and the prompts of servers that an agent has for a person, now and whenever others are there, until the
    /// client leaves. As long as it is connected, the agent and those below it also have these MCP servers.
    Commands {
        agent: String,
        #[serde(default)]
        servers: Vec<ClientServer>,
    },
    /// A task for several agents, children of an agent that was made for one run, answered by the events of the run. Their
    /// tool calls that need a person's approval are refused. The run is interrupted if the client leaves, and the agent is
    /// archived when it has ended.
    Team {
        agent: String,
        /// A `team::coordinator::plan::Plan`.
        plan: Value,
    },
    /// Interrupts the client's run or turn, or removes its text from the queue if the turn has not begun.
    Cut,
    /// The mailbox of an agent, or, without a name, of the one that was last sent a message.
    Mail {
        agent: Option<String>,
        /// The only sender whose mail is listed; the sender of new mail.
        #[serde(default)]
        from: Option<String>,
        act: MailAct,
    },
    /// One agent; without a name, the agent that was last sent a message, perhaps only of those in this directory.
    Show {
        agent: Option<String>,
        #[serde(default)]
        directory: Option<PathBuf>,
    },
    /// What an agent may do without a question, as the person at the client says: any policy but `yolo`.
    Policy {
        agent: String,
        policy: String,
    },
    /// Store an image for a text that is sent to an agent next.
    Image {
        agent: String,
        #[serde(with = "base64_text")]
        image: Vec<u8>,
    },
    /// Have an agent answer as a JSON schema says, until the server ends. The response says whether its protocol can.
    Schema {
        agent: String,
        schema: Value,
    },
    /// Archives an agent and all below it, each as soon as it is idle.
    Archive {
        agent: String,
    },
    /// Stops the work of every agent.
    StopAgents,
    /// The open questions of all agents, the oldest first.
    Approvals {
        /// Send them again whenever others are open, until the client leaves.
        #[serde(default, rename = "follow")]
        follows: bool,
    },
    /// A person's answer to one of them.
    Answer {
        /// As in the list of open questions.
        id: String,
        allow: bool,
        /// Told to the model if the call is denied.
        reason: Option<String>,
        /// Rules to save for the directory of the agent, or, where it is denied, to refuse from now on: exactly those of the
        /// question, as they were listed.
        #[serde(default)]
        rules: Vec<String>,
        /// The rules are not saved and last until the server ends.
        #[serde(default, rename = "session")]
        is_for_session: bool,
    },
    /// Answered when the agent is at rest with nothing queued, or dead; or after this many seconds.
    Wait {
        agent: String,
        seconds: Option<f64>,
    },
    Stop,
}

#[derive(Serialize)]
struct Versioned<'a> {
    polylogue: u64,
    #[serde(flatten)]
    request: &'a Request,
}

impl Request {
    pub fn to_line(&self) -> String {
        to_line(&Versioned { polylogue: VERSION, request: self })
    }

    /// # Errors
    /// [`ErrorKind::Usage`] for anything that is not a request of this version.
    pub fn read(line: &[u8]) -> Result<Self> {
        if has_more_values(line, MAX_VALUES) {
            return Err(Error::usage(format!("the request has more than {MAX_VALUES} values")));
        }
        let value: Value =
            serde_json::from_slice(line).map_err(|error| Error::usage(format!("the request is not JSON: {error}")))?;
        match value.get("polylogue").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(other) => {
                return Err(Error::usage(format!(
                    "the server speaks protocol version {VERSION}, the client {other}: use the same version of \
                     polylogue for both"
                )));
            }
            None => return Err(Error::usage(format!("the request needs \"polylogue\":{VERSION}"))),
        }
        let name = value.get("request").and_then(Value::as_str).unwrap_or_default();
        let prefix = if name.is_empty() { "bad request".into() } else { format!("bad request {name:?}") };
        let request = Self::deserialize(&value).map_err(|error| Error::usage(format!("{prefix}: {error}")))?;
        request.check().map_err(|message| Error::usage(format!("{prefix}: {message}")))?;
        Ok(request)
    }

    fn check(&self) -> std::result::Result<(), &'static str> {
        match self {
            Self::Size { columns: 0, .. } | Self::Size { rows: 0, .. } => Err("columns and rows must be at least 1"),
            Self::Attach { terminal, .. } if terminal.columns == 0 || terminal.rows == 0 => {
                Err("columns and rows must be at least 1")
            }
            Self::Turn { max_requests: Some(0), .. } => Err("max_requests must be at least 1"),
            Self::Wait { seconds: Some(seconds), .. } if *seconds < 0.0 => Err("seconds must not be negative"),
            Self::Logs { from: Some(_), last: Some(_), .. } => Err("from and last cannot be used together"),
            _ => Ok(()),
        }
    }
}

/// The most values of one request. In memory a value takes up to a hundred times its size in the line, and the
/// allocator may keep that memory for long.
const MAX_VALUES: usize = 100_000;

/// Whether a line of JSON, if it is valid, has more than this many values.
fn has_more_values(line: &[u8], most: usize) -> bool {
    let (mut is_text, mut is_escaped, mut count) = (false, false, 0);
    for byte in line {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => count += 1,
            _ => {}
        }
        if count > most {
            return true;
        }
    }
    false
}

fn to_line(message: &impl Serialize) -> String {
    serde_json::to_string(message).expect("a message has only string keys")
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// The request was carried out; the value is its result, or null.
    #[serde(rename = "ok")]
    Done(Value),
    #[serde(rename = "error")]
    Refused {
        /// The name of an [`ErrorKind`].
        kind: String,
        #[serde(rename = "text")]
        message: String,
    },
    /// Output for the attached terminal.
    Frame(String),
    /// The client restores its terminal and stops its process until it is continued.
    Suspend {},
    /// The client hands its terminal to the person's editor, with this text, and answers with `edited`.
    Edit(String),
    /// The client shows this text in the person's pager, and answers with `edited` without a text.
    View(String),
    /// The client reads the image in the person's clipboard, and answers with `pasted`.
    Paste {},
    /// The options that come back to the conversation that the terminal shows, before its end.
    Back(String),
    /// The terminal is detached, for this reason; empty if there is nothing to say.
    End(String),
    /// This many chunks were dropped before they could be sent.
    Missed(u64),
    /// The questions that are open now.
    Questions(Value),
    /// The commands that there are now.
    Commands(Value),
    /// A line made by `Numbered::to_line` or `wait_line` of `domain::chunk`.
    #[serde(untagged, skip_deserializing)]
    Chunk(Value),
}

impl Response {
    pub fn to_line(&self) -> String {
        to_line(self)
    }

    /// # Errors
    /// [`ErrorKind::Protocol`] for anything that a server of this version does not send.
    pub fn read(line: &[u8]) -> Result<Self> {
        let unexpected = |_| Error::new(ErrorKind::Protocol, "unexpected response from the server");
        let value: Value = serde_json::from_slice(line).map_err(unexpected)?;
        if value.get("v").is_some() {
            return Ok(Self::Chunk(value));
        }
        serde_json::from_value(value).map_err(unexpected)
    }
}

impl From<&Error> for Response {
    fn from(error: &Error) -> Self {
        Self::Refused { kind: error.kind.name().into(), message: error.message.clone() }
    }
}

mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(|error| D::Error::custom(format!("keys are not base64: {error}")))
    }
}

#[cfg(test)]
mod tests;
