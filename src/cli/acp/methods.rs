//! The requests and notifications of an editor.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::content::Content;
use super::editor::Editor;
use super::options;
use super::purpose::{Deletion, Purpose};
use super::servers;
use super::session::{Prompt, Session, text_of};
use crate::base::error::Result;
use crate::base::json_rpc::{AUTH_REQUIRED, Fault, INVALID_PARAMS, INVALID_REQUEST, UNKNOWN_METHOD};
use crate::cli::print::summary::Summary;
use crate::commands::{message_of, takes_arguments};
use crate::domain::choices::Choices;
use crate::domain::chunk::Position;
use crate::domain::custom::CustomCommand;
use crate::domain::mcp::ClientServer;
use crate::domain::wire::{Followed, NewAgent, Request};

/// How many seconds the tools of a cancelled prompt may take to end.
const LONGEST_END: f64 = 20.0;

/// The version of the protocol.
const VERSION: u64 = 1;

type Answer = std::result::Result<Option<Value>, Fault>;

impl Editor<'_> {
    /// Handles a request. `None`: it is answered later.
    pub(super) fn on_request(&mut self, id: &Value, method: &str, params: &Value) -> Answer {
        if !self.is_initialized && method != "initialize" {
            return Err(Fault::new(INVALID_REQUEST, format!("{method} before initialize: send initialize first")));
        }
        match method {
            "initialize" => self.initialize(params).map(Some),
            "authenticate" => self.require_model().map(|()| Some(json!({}))),
            "session/new" => self.new_session(id, params),
            "session/load" => self.take_up(id, params, true),
            "session/resume" => self.take_up(id, params, false),
            "session/list" => self.list(id, params),
            "session/close" => {
                let session = self.session_of(params)?;
                self.close_session(&session).map_err(Fault::from)?;
                Ok(Some(json!({})))
            }
            "session/delete" => self.delete(id, params),
            "session/prompt" => self.prompt(id, params),
            "session/set_mode" => {
                let session = self.session_of(params)?;
                let request = options::choose_mode(&session, &text_of(params, "modeId"))?;
                self.send(&request, Purpose::SetOption { id: id.clone(), session, is_mode: true }).map(|_| None)
            }
            "session/set_config_option" => {
                let session = self.session_of(params)?;
                let request = options::choose(&session, params)?;
                self.send(&request, Purpose::SetOption { id: id.clone(), session, is_mode: false }).map(|_| None)
            }
            _ => Err(Fault::new(UNKNOWN_METHOD, format!("unknown method {method:?}"))),
        }
    }

    pub(super) fn on_notification(&mut self, method: &str, params: &Value) -> Result<()> {
        let session = match method {
            "session/cancel" => params["sessionId"].as_str().map(str::to_owned),
            "$/cancel_request" => {
                let is_meant =
                    |session: &Session| session.prompt.as_ref().is_some_and(|prompt| prompt.id == params["requestId"]);
                self.sessions.iter().find(|(_, session)| is_meant(session)).map(|(id, _)| id.clone())
            }
            _ => None,
        };
        session.map_or(Ok(()), |session| self.cancel(&session))
    }

    fn initialize(&mut self, params: &Value) -> std::result::Result<Value, Fault> {
        if params["protocolVersion"].as_u64().is_none() {
            return Err(Fault::params("`protocolVersion` must be a number"));
        }
        if !std::mem::replace(&mut self.is_initialized, true) {
            self.follow_questions();
        }
        Ok(json!({
            "protocolVersion": VERSION,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
                "mcpCapabilities": {"http": cfg!(feature = "mcp"), "sse": false},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
            },
            "agentInfo": {"name": "polylogue", "title": "polylogue", "version": env!("CARGO_PKG_VERSION")},
            "authMethods": self.auth_methods(params),
        }))
    }

    fn new_session(&mut self, id: &Value, params: &Value) -> Answer {
        self.require_model()?;
        let directory = directory_of(params)?;
        let new = NewAgent {
            directory: Some(directory),
            is_for_terminal: true,
            choices: Choices { model: self.model.clone(), ..Choices::default() },
            ..NewAgent::default()
        };
        let servers = self.servers_in(params)?;
        self.send(&Request::create(new), Purpose::New { id: id.clone(), servers }).map(|_| None)
    }

    /// Takes up a conversation that exists.
    fn take_up(&mut self, id: &Value, params: &Value, is_replayed: bool) -> Answer {
        let session = params["sessionId"].as_str().ok_or_else(|| Fault::params("`sessionId` must be a string"))?;
        if self.sessions.get(session).is_some_and(|known| known.prompt.is_some()) {
            return Err(Fault::new(INVALID_REQUEST, "a prompt is under way in this session"));
        }
        let cwd = directory_of(params)?.to_string_lossy().into_owned();
        let (id, session) = (id.clone(), session.to_owned());
        let servers = self.servers_in(params)?;
        self.send(&Request::show(&session), Purpose::TakeUp { id, session, cwd, is_replayed, servers }).map(|_| None)
    }

    /// The MCP servers that the editor declares.
    fn servers_in(&mut self, params: &Value) -> std::result::Result<Vec<ClientServer>, Fault> {
        let (servers, notes) = servers::read(&params["mcpServers"])?;
        notes.iter().for_each(|note| self.note(note));
        Ok(servers)
    }

    fn list(&mut self, id: &Value, params: &Value) -> Answer {
        let directory = params["cwd"].as_str().map(|cwd| canonical(Path::new(cwd)));
        let start = params["cursor"].as_str().unwrap_or("0").parse().map_err(|_| Fault::params("unknown `cursor`"))?;
        self.send(&Request::run(["resume"]), Purpose::List { id: id.clone(), directory, start }).map(|_| None)
    }

    /// Deletes a conversation, which need not be open.
    fn delete(&mut self, id: &Value, params: &Value) -> Answer {
        let session = params["sessionId"].as_str().ok_or_else(|| Fault::params("`sessionId` must be a string"))?;
        if let Some(known) = self.sessions.get_mut(session) {
            // Closing it would delete it as well.
            known.is_unused = false;
        }
        self.close_session(session).map_err(Fault::from)?;
        let (id, session) = (id.clone(), session.to_owned());
        self.send(&Request::show(&session), Purpose::Delete { id, session, step: Deletion::Finding }).map(|_| None)
    }

    /// The next step of a deletion. That there is no such conversation is a success.
    pub(super) fn on_deletion(
        &mut self,
        id: &Value,
        (session, step): (String, Deletion),
        outcome: std::result::Result<Value, Fault>,
    ) -> Answer {
        let next = |step| Purpose::Delete { id: id.clone(), session: session.clone(), step };
        match (step, outcome) {
            (Deletion::Finding, Ok(agent)) if text_of(&agent, "id") == session => {
                let idle = Followed::Idle { agent: session.clone(), seconds: Some(LONGEST_END), with_questions: false };
                self.send(&Request::Follow(idle), next(Deletion::AwaitingRest)).map(|_| None)
            }
            (Deletion::AwaitingRest, _) => {
                self.send(&Request::run(["delete", &session]), next(Deletion::Deleting)).map(|_| None)
            }
            (_, Err(fault)) if fault.code != INVALID_PARAMS || step == Deletion::Deleting => Err(fault),
            _ => Ok(Some(json!({}))),
        }
    }

    /// The ways to get a model that can be used. A client that runs programs in a terminal can run the set-up itself.
    fn auth_methods(&self, params: &Value) -> Value {
        let Some(why) = &self.missing_model else { return json!([]) };
        let mut ways = vec![json!({"id": "configuration", "name": "Configure a model", "description": why})];
        if params["clientCapabilities"]["auth"]["terminal"] == true {
            let about = "Asks for a provider, a key and a model";
            ways.push(json!({
                "type": "terminal", "id": "setup", "name": "Set up polylogue", "description": about, "args": ["setup"],
            }));
        }
        ways.into()
    }

    /// Reads the configuration again if no model could be used; an error if that is still so.
    fn require_model(&mut self) -> std::result::Result<(), Fault> {
        if self.missing_model.is_none() {
            return Ok(());
        }
        // Other terminals and scripts may use this loop, and other requests be under way in it.
        let is_unused =
            self.peer.host.is_at_rest() && self.peer.links.all().iter().all(|(_, purpose)| purpose.is_lasting());
        if self.sessions.is_empty() && is_unused {
            self.reload_configuration()?;
        }
        let close = if self.sessions.is_empty() { "" } else { "; close the open conversations first" };
        self.missing_model.as_ref().map_or(Ok(()), |why| Err(Fault::new(AUTH_REQUIRED, format!("{why}{close}"))))
    }

    fn prompt(&mut self, id: &Value, params: &Value) -> Answer {
        let session = self.session_of(params)?;
        let mut content = Content::read(&params["prompt"])?;
        if let Some(expanded) = message_of(&self.commands, &content.text) {
            content.text = expanded?;
        }
        let known = self.sessions.get_mut(&session).filter(|known| known.prompt.is_none());
        let known = known.ok_or_else(|| {
            let message = "a prompt is under way in this session: wait for its end, or send session/cancel";
            Fault::new(INVALID_REQUEST, message)
        })?;
        known.is_unused = false;
        known.prompt = Some(Prompt {
            id: id.clone(),
            text: content.text,
            images: VecDeque::from(content.images),
            link: None,
            is_cancelled: false,
            has_begun: false,
            summary: Summary::default(),
            end: 0,
            outcome: None,
        });
        self.advance_prompt(&session);
        Ok(None)
    }

    /// Stores the next image of a prompt, or sends it.
    pub(super) fn advance_prompt(&mut self, session: &str) {
        let Some(prompt) = self.sessions.get_mut(session).and_then(|known| known.prompt.as_mut()) else { return };
        let agent = session.to_owned();
        let (request, purpose) = match prompt.images.pop_front() {
            Some(image) => (Request::Image { agent, image }, Purpose::Image { session: session.to_owned() }),
            None => {
                let text = prompt.text.clone();
                let turn = Request::Turn {
                    agent,
                    text,
                    max_requests: None,
                    approval: None,
                    is_attended: true,
                    retry_ms: None,
                    takes_commands: true,
                };
                (turn, Purpose::Turn { session: session.to_owned() })
            }
        };
        match self.send(&request, purpose) {
            Ok(link) => {
                if let Some(prompt) = self.sessions.get_mut(session).and_then(|known| known.prompt.as_mut()) {
                    prompt.link = Some(link);
                }
            }
            Err(fault) => self.fail_prompt(session, &fault),
        }
    }

    /// Ends a prompt with an error.
    pub(super) fn fail_prompt(&mut self, session: &str, fault: &Fault) {
        if let Some(prompt) = self.sessions.get_mut(session).and_then(|known| known.prompt.take()) {
            self.fail(&prompt.id, fault);
        }
    }

    /// Interrupts the prompt of a session, which then ends as cancelled.
    pub(super) fn cancel(&mut self, session: &str) -> Result<()> {
        let Some(known) = self.sessions.get_mut(session) else { return Ok(()) };
        let Some(prompt) = known.prompt.as_mut() else { return Ok(()) };
        if std::mem::replace(&mut prompt.is_cancelled, true) {
            return Ok(());
        }
        let Some(link) = prompt.link else { return Ok(()) };
        if matches!(self.peer.links.purpose(link), Some(Purpose::Turn { .. })) {
            self.peer.links.cut(link);
            return Ok(());
        }
        // It was not sent yet.
        let id = prompt.id.clone();
        known.prompt = None;
        self.respond(&id, json!({"stopReason": "cancelled"}));
        self.peer.links.close(&mut self.peer.host, link)
    }

    /// Forgets a session: its prompt is interrupted, and its conversation stays stored if there is one.
    pub(super) fn close_session(&mut self, session: &str) -> Result<()> {
        self.cancel(session)?;
        let Some(known) = self.sessions.remove(session) else { return Ok(()) };
        self.permissions.forget(session);
        if let Some(prompt) = known.prompt {
            prompt.link.into_iter().for_each(|link| self.peer.links.set_purpose(link, Purpose::Aside));
            self.respond(&prompt.id, json!({"stopReason": "cancelled"}));
        }
        for link in known.follow.into_iter().chain(known.offer) {
            self.peer.links.close(&mut self.peer.host, link)?;
        }
        if known.is_unused {
            // If this fails, an empty conversation stays.
            let _ = self.send(&Request::run(["delete", session]), Purpose::Aside);
        }
        Ok(())
    }

    /// Has the conversation of a session arrive from a position on, or from now on.
    pub(super) fn follow(&mut self, session: &str, from: Option<Position>) {
        let last = from.is_none().then_some(0);
        let request = Request::Follow(Followed::Chunks { agent: session.to_owned(), from, last, goes_on: true });
        match self.send(&request, Purpose::Follow { session: session.to_owned() }) {
            Ok(link) => {
                if let Some(known) = self.sessions.get_mut(session) {
                    known.follow = Some(link);
                }
            }
            Err(fault) => self.note(&fault.message),
        }
    }

    /// Announces the commands of a session, whose agent now has the servers of the editor.
    pub(super) fn offer(&mut self, session: &str) {
        let Some(known) = self.sessions.get(session) else { return };
        let commands = Followed::Commands { agent: session.to_owned(), servers: known.servers.clone() };
        match self.send(&Request::Follow(commands), Purpose::Commands { session: session.to_owned() }) {
            Ok(link) => {
                if let Some(known) = self.sessions.get_mut(session) {
                    known.offer = Some(link);
                }
            }
            Err(fault) => self.note(&fault.message),
        }
    }

    pub(super) fn follow_questions(&mut self) {
        match self.send(&Request::Follow(Followed::Questions), Purpose::Questions) {
            Ok(link) => self.questions = Some(link),
            Err(fault) => self.note(&fault.message),
        }
    }

    /// The commands of a session, which an editor offers after a slash: custom ones hide others.
    pub(super) fn commands_update(&self, session: &str) -> Value {
        let custom = |command: &CustomCommand| {
            let hint = if takes_arguments(command) { "arguments" } else { "" };
            command_json(&command.name, &command.description, hint)
        };
        let others = self.sessions.get(session).map(|known| known.commands.as_slice()).unwrap_or_default();
        let is_free = |other: &&Value| self.commands.iter().all(|command| other["name"] != *command.name);
        let other = |other: &Value| {
            command_json(&text_of(other, "name"), &text_of(other, "description"), &text_of(other, "hint"))
        };
        let commands: Vec<Value> =
            self.commands.iter().map(custom).chain(others.iter().filter(is_free).map(other)).collect();
        json!({"sessionUpdate": "available_commands_update", "availableCommands": commands})
    }

    fn session_of(&self, params: &Value) -> std::result::Result<String, Fault> {
        let session = params["sessionId"].as_str().ok_or_else(|| Fault::params("`sessionId` must be a string"))?;
        match self.sessions.contains_key(session) {
            true => Ok(session.to_owned()),
            false => Err(Fault::params(format!("unknown session {session:?}: send session/new or session/load first"))),
        }
    }
}

/// A command as an editor knows it; without a hint it takes no arguments.
fn command_json(name: &str, description: &str, hint: &str) -> Value {
    let mut offered = json!({"name": name, "description": description});
    if !hint.is_empty() {
        offered["input"] = json!({ "hint": hint });
    }
    offered
}

/// The directory of a session.
fn directory_of(params: &Value) -> std::result::Result<PathBuf, Fault> {
    let cwd = params["cwd"].as_str().ok_or_else(|| Fault::params("`cwd` must be a string"))?;
    let path = Path::new(cwd);
    if !path.is_absolute() {
        return Err(Fault::params(format!("`cwd` must be an absolute path (got {cwd:?})")));
    }
    if !path.is_dir() {
        return Err(Fault::params(format!("{cwd}: no such directory")));
    }
    Ok(canonical(path))
}

pub(super) fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}
