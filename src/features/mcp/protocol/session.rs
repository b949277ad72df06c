//! What is sent to one server, and what its messages mean.
//!
//! ```text
//!   start ─▶ server/discover ──answer──▶ newer era ──────────┐
//!                │ error or silence                           ▼
//!                └─▶ initialize ──answer──▶ older era ─▶ tools/list, page by page ─▶ ready
//! ```
//!
//! The owner sends [`Session::take_messages`], passes on what it receives, and calls [`Session::on_deadline`] in time. Nothing
//! here waits or fails: what goes wrong is an [`Event`].

mod listing;
mod start;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::message::{LEGACY_ACCEPTED, MODERN, Message, UNSUPPORTED_VERSION, is_modern, parse, supports};
use crate::base::clock::Moment;
use crate::base::json_rpc::{Fault, Incoming};
use crate::base::text;
use crate::domain::mcp::{McpServer, McpTool};

pub use listing::Catalog;
use listing::Pages;
use start::{capabilities, client};

/// How long the answer to the first message may take before the server counts as one of the older era. Python servers
/// take five seconds to start; a later answer is understood too.
const PROBE: Duration = Duration::from_secs(8);
/// How long a start may take before the person is told why.
const SLOW_START: Duration = Duration::from_secs(3);
/// Servers announce several changes of their list one after the other.
const SETTLE: Duration = Duration::from_millis(100);
/// How often one request may ask the person.
const MAX_ROUNDS: usize = 8;
/// How often a server that announces nothing is asked to announce changes.
const MAX_LISTENS: u32 = 5;
/// Questions about one request at once.
const MAX_ASKED: usize = 8;
const ELICITATION: &str = "elicitation/create";
/// Calls that report progress may take this many times their limit.
const MOST_EXTENSIONS: u32 = 10;
/// A server that sends this many bytes without answering a request is ended.
const MAX_UNSOLICITED: usize = 32 << 20;
/// Of a note or the reason of an end, in columns.
const MAX_WORDS: usize = 300;
/// The most columns of a server's error message: models use it to correct calls.
const MAX_ERROR: usize = 8_000;

/// The era of the protocol that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Up to 2025-11-25: `initialize` first.
    Legacy,
    /// 2026-07-28: every request is independent.
    Modern,
}

/// Events for the owner.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The tools are known, or have changed.
    Tools(Vec<McpTool>),
    /// The resources or templates or prompts are known, or have changed: the entries of all pages.
    Catalog(Catalog, Vec<Value>),
    /// The server asks the person for the sake of the request with this tag; [`Session::respond`] answers.
    Asked { tag: u64, inputs: Inputs },
    /// The answer to the request with this tag.
    Done { tag: u64, result: Result<Value, String> },
    /// Something that the person should know.
    Note(String),
    /// The session is over, and why.
    Failed(String),
}

/// A question of a server for the person.
#[derive(Debug, Clone, PartialEq)]
pub enum Inputs {
    /// A request of its own, with these parameters (older era).
    Request { id: Value, params: Value },
    /// Instead of an answer: the request is made again with the answers (newer era).
    Required(Vec<(String, Value)>),
}

impl Inputs {
    /// The key and the parameters of each question.
    pub fn questions(&self) -> Vec<(String, Value)> {
        match self {
            Self::Request { params, .. } => vec![(String::new(), params.clone())],
            Self::Required(requests) => requests.clone(),
        }
    }
}

/// A request as it was made, to be made again.
#[derive(Debug, Clone)]
struct Sent {
    tag: u64,
    method: String,
    params: Map<String, Value>,
    headers: Vec<(String, String)>,
    /// How often it was made again.
    rounds: usize,
    /// What the server expects back with the answers, unchanged.
    state: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting,
    Ready,
    Over,
}

#[derive(Debug)]
enum Pending {
    Probe,
    Initialize,
    List,
    Catalog(Catalog),
    Listen,
    /// A request of the owner.
    Own {
        tag: u64,
        limit: Duration,
        until: Moment,
        most: Moment,
        progress: Option<String>,
        sent: Box<Sent>,
        /// Questions of the server that a person has not answered: meanwhile there is no limit.
        asked: usize,
    },
}

/// The state of one server.
pub struct Session {
    server: McpServer,
    phase: Phase,
    era: Option<Era>,
    revision: Option<String>,
    /// Whether requests can be cancelled by a message: on a pipe they always can.
    is_pipe: bool,
    next_id: u64,
    pending: BTreeMap<u64, Pending>,
    messages: VecDeque<Message>,
    events: VecDeque<Event>,
    /// The pages of `tools/list` so far.
    tools: Pages,
    /// The other lists of the server.
    catalogs: BTreeMap<Catalog, Pages>,
    /// The capabilities that the server has declared.
    capabilities: Value,
    probe_until: Option<Moment>,
    start_until: Option<Moment>,
    /// What to say if it does not answer until then.
    slow_start: Option<(Moment, String)>,
    list_again_at: Option<Moment>,
    catalogs_again_at: Option<Moment>,
    /// Requests that wait for a person.
    waiting: BTreeMap<u64, Sent>,
    unsolicited: usize,
    /// How often it was asked to announce changes without announcing any.
    listens: u32,
    last_note: String,
}

impl Session {
    /// Begins with the first message. `era`: as known from an earlier session with this server.
    pub fn start(server: McpServer, era: Option<Era>, is_pipe: bool, now: Moment) -> Self {
        let start_until = Some(now + server.start_timeout);
        let mut session = Self {
            server,
            phase: Phase::Starting,
            era: None,
            revision: None,
            is_pipe,
            next_id: 1,
            pending: BTreeMap::new(),
            messages: VecDeque::new(),
            events: VecDeque::new(),
            tools: Pages::default(),
            catalogs: BTreeMap::new(),
            capabilities: Value::Null,
            probe_until: None,
            start_until,
            slow_start: None,
            list_again_at: None,
            catalogs_again_at: None,
            waiting: BTreeMap::new(),
            unsolicited: 0,
            listens: 0,
            last_note: String::new(),
        };
        if era == Some(Era::Legacy) {
            session.initialize();
        } else {
            session.probe_until = Some(now + PROBE);
            session.send(Pending::Probe, "server/discover", modern(Map::new()));
        }
        session
    }

    /// What to say if the start is slow.
    pub fn explain_slow_start(&mut self, why: String, now: Moment) {
        self.slow_start = Some((now + SLOW_START, why));
    }

    /// The era, once it is known.
    pub fn era(&self) -> Option<Era> {
        self.era
    }

    /// The revision of the older era that was agreed on.
    pub fn revision(&self) -> Option<&str> {
        self.revision.as_deref()
    }

    /// Whether the answer to our request of this number is awaited.
    pub fn is_pending(&self, id: u64) -> bool {
        self.pending.contains_key(&id)
    }

    /// Whether this is our request to announce changes.
    pub fn is_listen(&self, id: u64) -> bool {
        matches!(self.pending.get(&id), Some(Pending::Listen))
    }

    /// Whether requests can be made.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Whether it has not answered yet: a server that ends now may be one that does not know the newer era.
    pub fn is_probing(&self) -> bool {
        self.probe_until.is_some()
    }

    /// Makes a request. Its answer comes as [`Event::Done`] with this tag. By HTTP these headers go with it.
    pub fn request(
        &mut self,
        tag: u64,
        method: &str,
        params: Map<String, Value>,
        headers: Vec<(String, String)>,
        now: Moment,
    ) {
        self.make(Sent { tag, method: method.to_owned(), params, headers, rounds: 0, state: None }, Map::new(), now);
    }

    /// Makes a request, or makes it again with the answers of a person.
    fn make(&mut self, sent: Sent, answers: Map<String, Value>, now: Moment) {
        if self.listen() && self.listens > 1 {
            // Changes meanwhile were not announced.
            self.list_again_at.get_or_insert(now + SETTLE);
            self.catalogs_again_at.get_or_insert(now + SETTLE);
        }
        let limit = self.server.call_timeout;
        let most = now + limit * MOST_EXTENSIONS;
        let mut params = self.with_meta(sent.params.clone());
        params["_meta"]["progressToken"] = self.next_id.into();
        if sent.rounds > 0 {
            params["inputResponses"] = answers.into();
            sent.state.iter().for_each(|state| params["requestState"] = state.clone());
        }
        let (tag, method, headers) = (sent.tag, sent.method.clone(), sent.headers.clone());
        let sent = Box::new(sent);
        let pending = Pending::Own { tag, limit, until: now + limit, most, progress: None, sent, asked: 0 };
        self.send(pending, &method, params);
        self.messages.back_mut().into_iter().for_each(|message| message.headers.clone_from(&headers));
    }

    /// Sends a person's answers to a question of the server about a request.
    pub fn respond(&mut self, tag: u64, inputs: Inputs, answers: Map<String, Value>, now: Moment) {
        match inputs {
            Inputs::Required(_) => {
                let Some(sent) = self.waiting.remove(&tag) else { return };
                self.make(Sent { rounds: sent.rounds + 1, ..sent }, answers, now);
            }
            Inputs::Request { id, .. } => {
                let answer = answers.into_iter().next().map_or_else(decline_answer, |(_, answer)| answer);
                self.messages.push_back(Message::response(&id, &answer));
                for pending in self.pending.values_mut() {
                    if let Pending::Own { tag: own, limit, until, most, asked, .. } = pending
                        && *own == tag
                    {
                        *asked = asked.saturating_sub(1);
                        (*until, *most) = (now + *limit, now + *limit * MOST_EXTENSIONS);
                    }
                }
            }
        }
    }

    /// Cancels a request; its answer is not awaited any more. Returns the number of its message.
    pub fn cancel(&mut self, tag: u64, reason: &str) -> Option<u64> {
        self.waiting.remove(&tag);
        let is_it = |pending: &Pending| matches!(pending, Pending::Own { tag: own, .. } if *own == tag);
        let id = self.pending.iter().find(|(_, pending)| is_it(pending)).map(|(id, _)| *id)?;
        self.pending.remove(&id);
        // By HTTP, the newer era cancels by closing the response.
        if self.is_pipe || self.era == Some(Era::Legacy) {
            let params = [("requestId".into(), json!(id)), ("reason".into(), json!(reason))];
            self.notify("notifications/cancelled", Map::from_iter(params));
        }
        Some(id)
    }

    /// The messages to be sent, in order.
    pub fn take_messages(&mut self) -> impl Iterator<Item = Message> {
        std::mem::take(&mut self.messages).into_iter()
    }

    pub fn take_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Session::on_deadline`] must be called.
    pub fn deadline(&self) -> Option<Moment> {
        let own = self.pending.values().filter_map(|pending| match pending {
            Pending::Own { until, asked: 0, .. } => Some(*until),
            _ => None,
        });
        let lists = self.list_again_at.into_iter().chain(self.catalogs_again_at);
        let slow_start = self.slow_start.as_ref().filter(|_| !self.is_ready()).map(|(at, _)| *at);
        own.chain(self.probe_until).chain(slow_start).chain(self.start_until).chain(lists).min()
    }

    pub fn on_deadline(&mut self, now: Moment) {
        if self.start_until.is_some_and(|until| until <= now) {
            let limit = self.server.start_timeout;
            let answered = if self.era.is_some() { "list its tools" } else { "answer" };
            return self.fail(format!("did not {answered} within {limit:?}"));
        }
        if let Some((_, why)) = self.slow_start.take_if(|(at, _)| *at <= now)
            && !self.is_ready()
        {
            self.events.push_back(Event::Note(why));
        }
        if self.probe_until.is_some_and(|until| until <= now) {
            self.initialize();
        }
        if self.list_again_at.is_some_and(|at| at <= now) {
            self.list_again_at = None;
            self.list_from_start();
        }
        if self.catalogs_again_at.is_some_and(|at| at <= now) {
            self.catalogs_again_at = None;
            self.list_catalogs();
        }
        let late = |pending: &Pending| match pending {
            Pending::Own { tag, until, asked: 0, .. } if *until <= now => Some(*tag),
            _ => None,
        };
        let late: Vec<u64> = self.pending.values().filter_map(late).collect();
        for tag in late {
            let (limit, progress) = self.limit_of(tag);
            self.cancel(tag, "timed out");
            let progress = progress.map(|progress| format!("; last progress: {progress}")).unwrap_or_default();
            let result = Err(format!("timed out: no answer within {limit:?}{progress}"));
            self.events.push_back(Event::Done { tag, result });
        }
    }

    fn limit_of(&self, wanted: u64) -> (Duration, Option<String>) {
        let found = self.pending.values().find_map(|pending| match pending {
            Pending::Own { tag, limit, progress, .. } if *tag == wanted => Some((*limit, progress.clone())),
            _ => None,
        });
        found.unwrap_or_default()
    }

    /// A line or body from the server. What is not a message is ignored, up to a limit.
    pub fn on_text(&mut self, text: &[u8], now: Moment) {
        self.unsolicited += text.len();
        self.on_heard(text, now);
        if self.unsolicited > MAX_UNSOLICITED && self.phase != Phase::Over {
            self.fail(format!("sent {} MiB without answering a request", MAX_UNSOLICITED >> 20));
        }
    }

    /// A message that belongs to no request, and counts for no limit of them.
    pub fn on_heard(&mut self, text: &[u8], now: Moment) {
        for message in parse(text).unwrap_or_default() {
            self.on_message(message, now);
        }
    }

    /// Our request of this number could not be made or was refused, and why. By HTTP only.
    pub fn on_refused(&mut self, id: u64, why: String) {
        match self.pending.remove(&id) {
            Some(Pending::Probe) if self.probe_until.is_none() => {}
            Some(Pending::Probe) => self.initialize(),
            Some(Pending::List) if self.phase == Phase::Ready => {
                self.note(format!("cannot list its tools again: {why}"));
            }
            Some(Pending::Initialize | Pending::List) => self.fail(why),
            Some(Pending::Own { tag, .. }) => self.events.push_back(Event::Done { tag, result: Err(why) }),
            Some(Pending::Catalog(_) | Pending::Listen) | None => {}
        }
    }

    fn on_message(&mut self, message: Incoming, now: Moment) {
        match message {
            Incoming::Response { id, result } => match id.as_u64() {
                Some(id) => {
                    // An answer to a request that was never made is ignored.
                    let Some(pending) = self.pending.remove(&id) else { return };
                    self.unsolicited = 0;
                    self.on_answer(pending, result);
                }
                // HTTP servers answer so to messages that they do not understand: here to the first one.
                None if result.is_err() && self.probe_until.is_some() => self.initialize(),
                None => {}
            },
            Incoming::Request { id: Value::Null, method, params } | Incoming::Notification { method, params } => {
                self.on_notification(&method, &params, now);
            }
            Incoming::Request { id, method, params } if method == ELICITATION => self.on_elicitation(id, params),
            Incoming::Request { id, method, .. } => self.messages.push_back(Message::answer(&id, &method)),
        }
    }

    /// The server asks the person. On a pipe it does not say for which request: for the oldest one.
    fn on_elicitation(&mut self, id: Value, params: Value) {
        let own = self.pending.values_mut().find_map(|pending| match pending {
            Pending::Own { tag, asked, .. } if *asked < MAX_ASKED => Some((*tag, asked)),
            _ => None,
        });
        match own {
            Some((tag, asked)) => {
                *asked += 1;
                self.events.push_back(Event::Asked { tag, inputs: Inputs::Request { id, params } });
            }
            None => self.messages.push_back(Message::response(&id, &decline_answer())),
        }
    }

    /// The server wants answers of the person before it carries a request out.
    fn on_input_required(&mut self, mut sent: Sent, result: &Value) {
        let tag = sent.tag;
        let requests = result["inputRequests"].as_object().cloned().unwrap_or_default();
        let other = requests.values().find(|request| request["method"] != ELICITATION);
        let problem = match other {
            Some(other) => {
                let method = other["method"].as_str().unwrap_or_default();
                Some(format!("the server wants {} of the user, which is not supported", text::sanitise(method)))
            }
            None if sent.rounds >= MAX_ROUNDS => Some(format!("the server asked the user {MAX_ROUNDS} times")),
            None if requests.len() > MAX_ASKED => Some("the server asks the user too much at once".into()),
            None => None,
        };
        if let Some(problem) = problem {
            return self.events.push_back(Event::Done { tag, result: Err(problem) });
        }
        sent.state = result.get("requestState").cloned();
        self.waiting.insert(tag, sent);
        let questions = requests.into_iter().map(|(key, request)| (key, request["params"].clone())).collect();
        self.events.push_back(Event::Asked { tag, inputs: Inputs::Required(questions) });
    }

    fn on_notification(&mut self, method: &str, params: &Value, now: Moment) {
        if method.ends_with("/list_changed") || method == "notifications/subscriptions/acknowledged" {
            self.listens = 1;
        }
        match method {
            "notifications/tools/list_changed" if self.phase != Phase::Over && self.era.is_some() => {
                self.list_again_at.get_or_insert(now + SETTLE);
            }
            "notifications/resources/list_changed" | "notifications/prompts/list_changed"
                if self.phase == Phase::Ready =>
            {
                self.catalogs_again_at.get_or_insert(now + SETTLE);
            }
            "notifications/progress" => {
                let Some(id) = params["progressToken"].as_u64() else { return };
                if let Some(Pending::Own { limit, until, most, progress, .. }) = self.pending.get_mut(&id) {
                    *until = (now + *limit).min(*most);
                    *progress = Some(progress_text(params));
                }
            }
            _ => {}
        }
    }

    fn on_answer(&mut self, pending: Pending, result: Result<Value, Fault>) {
        match (pending, result) {
            (Pending::Probe, Ok(result)) => self.on_discovered(&result),
            (Pending::Probe, Err(fault)) if supports(&fault, MODERN) => self.begin(Era::Modern),
            (Pending::Probe, Err(fault)) if LEGACY_ACCEPTED.iter().any(|known| supports(&fault, known)) => {
                self.initialize();
            }
            (Pending::Probe, Err(fault)) if is_modern(&fault) => {
                self.fail(format!("supports no known revision of MCP: {}", fault.message));
            }
            // Of a server that was slow, and is being initialized already.
            (Pending::Probe, Err(_)) if self.probe_until.is_none() => {}
            (Pending::Probe, Err(_)) => self.initialize(),
            // The answer to the first message has come meanwhile.
            (Pending::Initialize, _) if self.era.is_some() => {}
            (Pending::Initialize, Ok(result)) => self.on_initialized(&result),
            // It was slow to answer the first message, which has settled the era.
            (Pending::Initialize, Err(fault)) if fault.code == UNSUPPORTED_VERSION && supports(&fault, MODERN) => {
                self.begin(Era::Modern);
            }
            (Pending::Initialize, Err(fault)) => self.fail(format!("refused initialize: {}", fault.message)),
            (Pending::List, Ok(result)) => self.on_page(&result),
            (Pending::List, Err(fault)) if self.phase == Phase::Ready => {
                self.note(format!("cannot list its tools again: {}", fault.message));
            }
            (Pending::List, Err(fault)) => self.fail(format!("cannot list its tools: {}", fault.message)),
            (Pending::Catalog(catalog), Ok(result)) => self.on_catalog_page(catalog, &result),
            // Completions of what it does not list.
            (Pending::Catalog(_), Err(_)) | (Pending::Listen, Ok(_)) => {}
            (Pending::Listen, Err(_)) => self.listens = MAX_LISTENS,
            (Pending::Own { sent, .. }, Ok(result)) if result["resultType"] == "input_required" => {
                self.on_input_required(*sent, &result);
            }
            (Pending::Own { tag, .. }, result) => {
                let failed =
                    |fault: Fault| format!("{} (error {})", text::shortened(&fault.message, MAX_ERROR), fault.code);
                let result = result.map_err(failed);
                self.events.push_back(Event::Done { tag, result });
            }
        }
    }

    fn send(&mut self, pending: Pending, method: &str, params: Value) {
        let id = self.next_id;
        self.next_id += 1;
        self.pending.insert(id, pending);
        self.messages.push_back(Message::request(id, method, &params));
    }

    fn notify(&mut self, method: &str, params: Map<String, Value>) {
        let params = self.with_meta(params);
        let is_empty = params.as_object().is_some_and(Map::is_empty);
        self.messages.push_back(Message::notification(method, if is_empty { &Value::Null } else { &params }));
    }

    /// The parameters of a request, with the fields that the newer era requires in each.
    fn with_meta(&self, params: Map<String, Value>) -> Value {
        if self.era == Some(Era::Modern) { modern(params) } else { Value::Object(params) }
    }

    /// Notes for the person, each only once, because a server may change its list all the time.
    fn note(&mut self, note: String) {
        let note = text::shortened(&text::sanitise(&note), MAX_WORDS).into_owned();
        if self.last_note != note {
            self.last_note.clone_from(&note);
            self.events.push_back(Event::Note(note));
        }
    }

    pub fn server_name(&self) -> &str {
        &self.server.name
    }

    /// Ends the session; open requests are answered with the same reason.
    pub fn fail(&mut self, why: String) {
        if self.phase == Phase::Over {
            return;
        }
        let why = text::shortened(&text::sanitise(&why), MAX_WORDS).into_owned();
        self.phase = Phase::Over;
        (self.probe_until, self.start_until) = (None, None);
        (self.list_again_at, self.catalogs_again_at) = (None, None);
        for tag in std::mem::take(&mut self.waiting).into_keys() {
            self.events.push_back(Event::Done { tag, result: Err(format!("the server {why}")) });
        }
        for pending in std::mem::take(&mut self.pending).into_values() {
            if let Pending::Own { tag, .. } = pending {
                self.events.push_back(Event::Done { tag, result: Err(format!("the server {why}")) });
            }
        }
        self.messages.clear();
        self.events.push_back(Event::Failed(why));
    }
}

fn decline_answer() -> Value {
    json!({"action": "decline"})
}

fn modern(mut params: Map<String, Value>) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": client(),
        "io.modelcontextprotocol/clientCapabilities": capabilities(),
    });
    params.insert("_meta".into(), meta);
    Value::Object(params)
}

fn progress_text(params: &Value) -> String {
    let number = |name: &str| params[name].as_f64().map(|number| number.to_string());
    let of = number("total").map(|total| format!(" of {total}")).unwrap_or_default();
    let message = params["message"].as_str().map(|message| {
        let message: String = message.chars().filter(|c| !c.is_control()).take(200).collect();
        format!(", {message}")
    });
    format!("{}{of}{}", number("progress").unwrap_or_default(), message.unwrap_or_default())
}

#[cfg(test)]
mod tests;
