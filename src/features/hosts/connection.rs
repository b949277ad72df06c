//! The client side of the Agent Client Protocol (version 1) with one process: its messages, without the process itself and
//! without what they mean to agents. Unknown fields and updates are ignored, as the protocol asks.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::options::{Choice, Choices};
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::base::json_rpc::{self, AUTH_REQUIRED, Fault, Incoming, UNKNOWN_METHOD};
use crate::base::text::{sanitise, truncate};
use crate::domain::attachment::{Files, PDF, Piece, pieces};

/// The version of the protocol that is spoken (agentclientprotocol.com).
const VERSION: u64 = 1;
/// How long a host may take to answer `initialize` or to open a session.
const START: Duration = Duration::from_secs(60);
/// How long the images of a message may be, as they are sent.
const MAX_IMAGES: usize = 32 << 20;
/// The width of an error that is shown, in columns.
const ERROR_WIDTH: usize = 400;

/// How a session begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opening {
    New,
    /// The session with this id goes on.
    Load(String),
    /// The conversation of the session with this id goes on in a new one.
    Fork(String),
}

pub(super) enum Event {
    /// The session that this request has opened for an agent, or why there is none.
    Opened {
        agent: AgentId,
        request: u64,
        result: Result<Box<Opened>, Fault>,
    },
    Update {
        session: String,
        update: Value,
    },
    /// The host asks before a call; [`Connection::permit`] answers.
    Permission {
        session: String,
        request: Value,
        params: Value,
    },
    /// The options of a session are these now.
    Options {
        session: String,
        options: Value,
    },
    /// The turn that this request has begun is over.
    Ended {
        session: String,
        request: u64,
        result: Result<Value, Fault>,
    },
    /// The person should know this.
    Note {
        agent: AgentId,
        text: String,
    },
    /// The connection failed; the process must be ended.
    Failed(String),
}

pub(super) struct Opened {
    pub(super) session: String,
    /// It has the earlier conversation.
    pub(super) is_loaded: bool,
    pub(super) choices: Choices,
}

/// An answer for the host: to this request, with this option; without one the turn was cancelled.
pub(super) type Answer = (Value, Option<String>);

enum Pending {
    Initialize,
    Open {
        agent: AgentId,
        opening: Opening,
    },
    Prompt {
        session: String,
    },
    /// A value is chosen in a session.
    Set {
        agent: AgentId,
        session: String,
        what: &'static str,
        value: String,
    },
    /// Its answer is ignored.
    Other,
}

/// What the host can do.
#[derive(Default)]
struct Abilities {
    loads: bool,
    resumes: bool,
    closes: bool,
    forks: bool,
    takes_http_mcp: bool,
    takes_images: bool,
    /// Ways to log in, in its own words.
    logins: Vec<String>,
}

pub(super) struct Connection {
    next: u64,
    pending: BTreeMap<u64, (Pending, Option<Moment>)>,
    outgoing: Vec<String>,
    events: VecDeque<Event>,
    abilities: Option<Abilities>,
    /// Sessions that are being loaded, with the commands that they have. Their other updates repeat what is known.
    loading: BTreeMap<String, Option<Value>>,
}

impl Connection {
    /// Begins the handshake.
    pub(super) fn start(now: Moment) -> Self {
        let mut new = Self {
            next: 0,
            pending: BTreeMap::new(),
            outgoing: Vec::new(),
            events: VecDeque::new(),
            abilities: None,
            loading: BTreeMap::new(),
        };
        let capabilities = json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
        let info = json!({"name": "polylogue", "title": "polylogue", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"protocolVersion": VERSION, "clientCapabilities": capabilities, "clientInfo": info});
        new.request("initialize", params, Pending::Initialize, Some(now + START));
        new
    }

    pub(super) fn is_ready(&self) -> bool {
        self.abilities.is_some()
    }

    fn request(&mut self, method: &str, params: Value, pending: Pending, until: Option<Moment>) -> u64 {
        self.next += 1;
        self.outgoing.push(json_rpc::request(self.next, method, &params));
        self.pending.insert(self.next, (pending, until));
        self.next
    }

    /// Opens a session in this directory, with an MCP server at this address if the host takes it. A host that can neither
    /// load nor fork sessions begins a new one. Returns the number of the request.
    pub(super) fn open(
        &mut self,
        (agent, opening): (AgentId, Opening),
        directory: &Path,
        server: Option<(&str, String)>,
        now: Moment,
    ) -> Option<u64> {
        let abilities = self.abilities.as_ref()?;
        let directory = directory.to_string_lossy();
        let server = server.filter(|_| abilities.takes_http_mcp);
        let servers = server.map(|(name, url)| json!({"type": "http", "name": name, "url": url, "headers": []}));
        let servers: Vec<Value> = servers.into_iter().collect();
        let mut params = json!({"cwd": directory, "mcpServers": servers});
        let (method, opening) = match opening {
            Opening::Load(id) if abilities.loads || abilities.resumes => {
                let method = if abilities.resumes { "session/resume" } else { "session/load" };
                params["sessionId"] = id.as_str().into();
                self.loading.insert(id.clone(), None);
                (method, Opening::Load(id))
            }
            Opening::Fork(id) if abilities.forks => {
                params["sessionId"] = id.as_str().into();
                ("session/fork", Opening::Fork(id))
            }
            _ => ("session/new", Opening::New),
        };
        Some(self.request(method, params, Pending::Open { agent, opening }, Some(now + START)))
    }

    /// Begins a turn of an agent with a text and the files that it refers to. Returns the number of the request.
    pub(super) fn prompt(&mut self, agent: AgentId, session: &str, text: &str, files: &Files) -> u64 {
        let takes_images = self.abilities.as_ref().is_some_and(|abilities| abilities.takes_images);
        let mut blocks: Vec<Value> = Vec::new();
        let mut room = MAX_IMAGES;
        for piece in pieces(text, files) {
            match piece {
                Piece::Text(text) => blocks.push(json!({"type": "text", "text": text})),
                Piece::File(_, file) if takes_images && file.media_type != PDF && file.base64.len() <= room => {
                    room -= file.base64.len();
                    blocks.push(json!({"type": "image", "mimeType": file.media_type, "data": file.base64}));
                }
                Piece::File(name, file) => {
                    let why = match takes_images && file.media_type != PDF {
                        true => format!("the images of a message are larger than {} MiB", MAX_IMAGES >> 20),
                        false => "this host does not take such a file in a message".to_owned(),
                    };
                    let text = format!("{name} was not sent: {why}");
                    self.events.push_back(Event::Note { agent, text });
                }
            }
        }
        let params = json!({"sessionId": session, "prompt": blocks});
        self.request("session/prompt", params, Pending::Prompt { session: session.to_owned() }, None)
    }

    /// Asks the host to end the turn; it answers the prompt then.
    pub(super) fn cancel(&mut self, session: &str) {
        self.outgoing.push(json_rpc::notification("session/cancel", &json!({"sessionId": session})));
    }

    pub(super) fn close(&mut self, session: &str) {
        if self.abilities.as_ref().is_some_and(|abilities| abilities.closes) {
            self.request("session/close", json!({"sessionId": session}), Pending::Other, None);
        }
    }

    /// Chooses a value in a session.
    pub(super) fn choose(
        &mut self,
        (agent, session): (AgentId, &str),
        what: &'static str,
        choice: &mut Choice,
        value: &str,
    ) {
        let (method, params) = choice.choose(session, value);
        self.request(
            method,
            params,
            Pending::Set { agent, session: session.to_owned(), what, value: value.to_owned() },
            None,
        );
    }

    /// Answers a question: with one of its options, or that the turn was cancelled.
    pub(super) fn permit(&mut self, (request, option): Answer) {
        let outcome = match option {
            Some(option) => json!({"outcome": "selected", "optionId": option}),
            None => json!({"outcome": "cancelled"}),
        };
        self.outgoing.push(json_rpc::response(&request, &json!({"outcome": outcome})));
    }

    pub(super) fn take_messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.outgoing)
    }

    pub(super) fn take_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        self.pending.values().filter_map(|(_, until)| *until).min()
    }

    /// Gives up requests that were not answered in time.
    pub(super) fn on_deadline(&mut self, now: Moment) {
        let is_late = |(_, until): &(Pending, Option<Moment>)| until.is_some_and(|until| until <= now);
        let late: Vec<_> = self.pending.extract_if(.., |_, pending| is_late(pending)).collect();
        for (request, (pending, _)) in late {
            let why = format!("no answer within {} s: run its command in a shell to see why", START.as_secs());
            match pending {
                Pending::Open { agent, .. } => {
                    let result = Err(Fault::new(json_rpc::INTERNAL, why));
                    self.events.push_back(Event::Opened { agent, request, result });
                }
                _ => self.events.push_back(Event::Failed(why)),
            }
        }
    }

    pub(super) fn on_line(&mut self, line: &[u8]) {
        match json_rpc::read(line) {
            Ok(Incoming::Response { id, result }) => {
                if let Some(request) = id.as_u64()
                    && let Some((pending, _)) = self.pending.remove(&request)
                {
                    self.on_response(request, pending, result);
                }
            }
            Ok(Incoming::Notification { method, params }) if method == "session/update" => {
                self.on_update(params);
            }
            Ok(Incoming::Request { id, method, params }) if method == "session/request_permission" => {
                let session = text(&params, "sessionId");
                self.events.push_back(Event::Permission { session, request: id, params });
            }
            Ok(Incoming::Request { id, method, .. }) => {
                let fault = Fault::new(UNKNOWN_METHOD, format!("{method} is not supported"));
                self.outgoing.push(json_rpc::error(&id, &fault));
            }
            // Some programs print more than messages.
            Ok(Incoming::Notification { .. }) | Err(_) => {}
        }
    }

    fn on_update(&mut self, mut params: Value) {
        let session = text(&params, "sessionId");
        let update = params["update"].take();
        match self.loading.get_mut(&session) {
            Some(commands) if update["sessionUpdate"] == "available_commands_update" => *commands = Some(update),
            Some(_) => {}
            None => self.events.push_back(Event::Update { session, update }),
        }
    }

    fn explained(&self, fault: Fault) -> Fault {
        Fault { message: self.why(&fault), ..fault }
    }

    fn on_response(&mut self, request: u64, pending: Pending, result: Result<Value, Fault>) {
        match pending {
            Pending::Initialize => match result {
                Ok(answer) => self.on_initialized(&answer),
                Err(fault) => self.events.push_back(Event::Failed(self.why(&fault))),
            },
            Pending::Open { agent, opening } => {
                let known = if let Opening::Load(id) = &opening { Some(id.clone()) } else { None };
                let commands = known.as_ref().and_then(|id| self.loading.remove(id)).flatten();
                let result = result.map_err(|fault| self.explained(fault));
                let opened = |answer: Value| {
                    Box::new(Opened {
                        is_loaded: opening != Opening::New,
                        choices: Choices::of(&answer),
                        session: known.unwrap_or_else(|| text(&answer, "sessionId")),
                    })
                };
                let result = result.map(opened);
                let session = result.as_ref().map(|opened| opened.session.clone()).unwrap_or_default();
                self.events.push_back(Event::Opened { agent, request, result });
                self.events.extend(commands.map(|update| Event::Update { session, update }));
            }
            Pending::Prompt { session } => {
                let result = result.map_err(|fault| self.explained(fault));
                self.events.push_back(Event::Ended { session, request, result });
            }
            Pending::Set { agent, session, what, value } => match result {
                Ok(mut answer) => {
                    let options = answer["configOptions"].take();
                    self.events.push_back(Event::Options { session, options });
                }
                Err(fault) => {
                    let text = format!("the {what} {value:?} was not set: {}", self.why(&fault));
                    self.events.push_back(Event::Note { agent, text });
                }
            },
            Pending::Other => {}
        }
    }

    fn on_initialized(&mut self, answer: &Value) {
        if answer["protocolVersion"].as_u64() != Some(VERSION) {
            let version = &answer["protocolVersion"];
            let why = format!("uses version {version} of the Agent Client Protocol, {VERSION} is needed: update it");
            return self.events.push_back(Event::Failed(why));
        }
        let capabilities = &answer["agentCapabilities"];
        let has = |name: &str| capabilities["sessionCapabilities"][name].is_object();
        let logins = answer["authMethods"].as_array().into_iter().flatten().map(login).collect();
        let loads = capabilities["loadSession"] == true;
        let takes_http_mcp = capabilities["mcpCapabilities"]["http"] == true;
        let takes_images = capabilities["promptCapabilities"]["image"] == true;
        let (resumes, closes, forks) = (has("resume"), has("close"), has("fork"));
        self.abilities = Some(Abilities { loads, resumes, closes, forks, takes_http_mcp, takes_images, logins });
    }

    /// An error for the person, and how to log in where that is missing.
    fn why(&self, fault: &Fault) -> String {
        let message = truncate(&sanitise(&fault.message), ERROR_WIDTH).to_owned();
        let logins = self.abilities.as_ref().map(|abilities| abilities.logins.as_slice()).unwrap_or_default();
        match fault.code {
            AUTH_REQUIRED if logins.is_empty() => {
                format!("{message}: log in with the program itself first, outside of polylogue")
            }
            AUTH_REQUIRED => {
                format!("{message}: log in with the program itself first, outside of polylogue ({})", logins.join("; "))
            }
            _ => message,
        }
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn login(method: &Value) -> String {
    let about = method["description"].as_str().or_else(|| method["name"].as_str()).unwrap_or_default();
    truncate(&sanitise(about), ERROR_WIDTH / 4).to_owned()
}
