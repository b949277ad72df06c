//! The protocol between a server and its clients: one JSON object a line, in both directions. Plain data; the server's side
//! is in `repl/server`, the clients' in `cli`.
//!
//! The client begins. Every request names the version of the protocol:
//!
//! ```json
//! {"polylogue":6,"request":"run","argv":["tell","reviewer","look at this"]}
//! ```
//!
//! Each request is answered by one line, `{"ok":...}` or `{"error":{"kind":"usage","text":"..."}}`, before the next one is
//! read. Some are answered by further lines before that:
//!
//! | `request` | lines before `ok` |
//! |---|---|
//! | `turn`, `follow` of `chunks` | chunks ([`crate::domain::chunk`]), and `{"missed":N}` where chunks were dropped before they could be sent; a turn also `{"v":1,"type":"refused","title":...}` for each call of an agent below that was refused because it needs approval |
//! | `team` | the events of the run (`team::coordinator::event`), the same line for each such call, and `{"v":1,"type":"limit","text":...}` where a limit is reached |
//! | `follow` of `questions`, `commands` | `{"questions":[...]}` or `{"commands":[...]}`, now and whenever they have changed |
//! | `attach` | frames until `{"back":"..."}`, the options that come back to the conversation, and `{"end":"..."}` |
//!
//! While it is attached, the client sends `keys`, `size` and `redraw`, and `edited` after the server has sent `{"edit":TEXT}` or
//! `{"view":TEXT}`, `pasted` after `{"paste":{}}`; during a `turn` or `team` it may send `cut`. These six are not answered.
//!
//! | `request` | value of `ok` |
//! |---|---|
//! | `run` | `text`: what there is to say, or null; `data`: what the command returns, see below, or null. After `exit` the value is null, and the server has released the store when it closes the connection |
//! | `open` | one agent, as `agents` lists it, with `policy`, `context` (tokens of the conversation), `context_limit` and `warnings` (what it could not be restored with) |
//! | `turn` | `requests`: requests made to models, also by agents below it; `limited`: whether a limit ended the turn, and `limit`: which one, if it was not `max_requests`; `killed`: whether the agent is gone |
//! | `team` | the outcome of the run, as `polylogue multi-agent status --json` lists it |
//! | `follow` | of `chunks`: `epoch` and `n`, where a later request can continue; of `idle`: `status`, or an error of kind `timeout` after `seconds` |
//! | `image` | `marker`: what stands for the image in a text for the agent |
//! | `schema` | whether the protocol of the agent's model can enforce it |
//!
//! | command | `data` |
//! |---|---|
//! | `agents` | list of agents, see below |
//! | `sessions` | list of `number`, `agent` (an id), `label`, `columns`, `rows`, `read_only`, `attached`, `since` |
//! | `status` | `process` (an id), `version`, `memory` (bytes, proportional set size), `descriptors`, `threads`, `agents`, `clients` |
//! | `resume` | list of `id`, `title`, `directory` and `updated_at`, the newest first |
//! | `tell` | `queued`: number of texts that wait for the agent, including this one; 0 if it was sent at once |
//! | `mail` | list of `id`, `read`, `from`, `from_id`, `created_at`, `text`; with `--read` one of these, or null |
//!
//! An agent has `id`, `number`, `name`, `title`, `directory`, `parent` (an id), `status`, `activity` (text, or null), `model`,
//! `unread`, `queued`, `tokens`, `print_run` (it was made for one run of `--print`), `team_run` (the task of a team that it was
//! made for, or null), `created_at` and `age` (seconds). Points in time are milliseconds since 1970.
//!
//! A question has `id`, `agent` (an id), `label`, `directory`, `tool`, `title`, `detail` (a list of lines), `rules`
//! (that would allow it), `ancestors` (ids, the parent first), `call` (`id`, `name`, `arguments` of the call that asks) and `age` (seconds). The id names the agent, the question and a digest of the text, so an answer holds for what was shown and for
//! nothing else.
//!
//! A command in `commands` has `name`, `description` and `hint` (the arguments that it takes, perhaps empty).
//!
//! A client that closes its writing side has left; requests that it sent before are still carried out, and answered if that
//! needs no waiting.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::choices::{Choices, Opening};
use crate::domain::chunk::Position;
use crate::domain::display::Abilities;
use crate::domain::mcp::ClientServer;

pub const VERSION: u64 = 6;
/// The longest line that a server reads, in bytes: enough for a prompt of several MiB.
pub const LONGEST_LINE: usize = 16 << 20;
/// The longest text for the editor of a client, in bytes; as JSON it is at most six times as long.
pub const LONGEST_EDITED: usize = 2 << 20;

/// How the reason of an [`Response::End`] begins when the process ends under its client.
pub const SERVER_ENDED: &str = "the server has ended";

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
    /// Whether its lines come from a program, which answers no panel.
    #[serde(default, rename = "scripted")]
    pub is_scripted: bool,
}

/// An agent to create.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewAgent {
    /// By default a random one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<AgentId>,
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
        /// Nothing more will be typed: the terminal is detached as soon as all agents are idle.
        #[serde(default, rename = "last")]
        is_last: bool,
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
    /// One agent, which is brought back if it is archived: the named one, or the one that was sent a message last in this
    /// directory, or else a new one without history, a child of the root.
    Open {
        agent: Option<String>,
        #[serde(default)]
        last_in: Option<PathBuf>,
        #[serde(default)]
        new: Option<Box<NewAgent>>,
    },
    /// A command of the chat or for clients, at an agent or, without a name, at the one that was sent a message last; some
    /// commands look only at those that work in the directory.
    Run {
        agent: Option<String>,
        #[serde(default)]
        directory: Option<PathBuf>,
        /// The name of the command, without the slash, and its arguments.
        argv: Vec<String>,
    },
    /// Send chunks, questions or commands as they come, or wait for an agent.
    Follow(Followed),
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
        /// A person at the client answers the questions with `approve` and `deny`: they stay open, and the agent keeps its own
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
}

/// What a client follows, until it leaves or there is no more of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum Followed {
    /// The chunks of an agent: all that are stored, those from a position on, or the last few.
    Chunks {
        agent: String,
        #[serde(default)]
        from: Option<Position>,
        #[serde(default)]
        last: Option<u64>,
        /// Whether it goes on with new chunks.
        #[serde(default)]
        goes_on: bool,
    },
    /// The open questions of all agents, the oldest first.
    Questions,
    /// The skills and the prompts of servers that an agent has for a person. As long as the client is connected, the agent
    /// and those below it also have these MCP servers.
    Commands {
        agent: String,
        #[serde(default)]
        servers: Vec<ClientServer>,
    },
    /// Answered when the agent is idle or dead, or after this many seconds.
    Idle {
        agent: String,
        #[serde(default)]
        seconds: Option<f64>,
        /// Questions that the agent asks meanwhile are sent too.
        #[serde(default)]
        with_questions: bool,
    },
    /// Answered when the agent has unread mail or, if others are named, when each of them has sent it some, is at rest or
    /// has ended; or after this many seconds.
    Mail {
        agent: String,
        #[serde(default)]
        from: Vec<String>,
        #[serde(default)]
        seconds: Option<f64>,
    },
}

#[derive(Serialize)]
struct Versioned<'a> {
    polylogue: u64,
    #[serde(flatten)]
    request: &'a Request,
}

impl Request {
    /// A request to create an agent.
    pub fn create(new: NewAgent) -> Self {
        Self::Open { agent: None, last_in: None, new: Some(Box::new(new)) }
    }

    /// A request to describe an agent, which is brought back if it is archived.
    pub fn show(agent: &str) -> Self {
        Self::Open { agent: Some(agent.to_owned()), last_in: None, new: None }
    }

    /// A request to run a command that names its agents itself.
    pub fn run<const N: usize>(argv: [&str; N]) -> Self {
        Self::Run { agent: None, directory: None, argv: argv.map(str::to_owned).into() }
    }

    /// A request to run a command at an agent.
    pub fn run_at<const N: usize>(agent: &str, argv: [&str; N]) -> Self {
        Self::Run { agent: Some(agent.to_owned()), directory: None, argv: argv.map(str::to_owned).into() }
    }

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
            Self::Follow(
                Followed::Idle { seconds: Some(seconds), .. } | Followed::Mail { seconds: Some(seconds), .. },
            ) if *seconds < 0.0 => Err("seconds must not be negative"),
            Self::Follow(Followed::Chunks { from: Some(_), last: Some(_), .. }) => {
                Err("from and last cannot be used together")
            }
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
