//! The editor at the other end: reads its messages and those of the loop in turns, and writes the answers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Value, json};

use super::options;
use super::permissions::Permissions;
use super::purpose::Purpose;
use super::session::Session;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::json_rpc::{self, Fault, INTERNAL, Incoming};
use crate::cli::arguments::Arguments;
use crate::cli::client::Client;
use crate::cli::config::{Loaded, ProcessEnvironment};
use crate::cli::host::{Host, HostOptions};
use crate::cli::links::News;
use crate::cli::stdio_peer::{StdioPeer, StdioServer};
use crate::domain::config::Config;
use crate::domain::custom::CustomCommand;
use crate::domain::wire::Request;
use crate::reactor::Signals;

pub struct Editor<'a> {
    arguments: &'a Arguments,
    env: &'a ProcessEnvironment,
    pub(super) peer: StdioPeer<Purpose>,
    pub(super) sessions: BTreeMap<String, Session>,
    pub(super) permissions: Permissions,
    pub(super) commands: Vec<CustomCommand>,
    /// The models that sessions are offered.
    pub(super) models: Rc<[String]>,
    /// Why no model can be used, where a loop of this process would have to.
    pub(super) missing_model: Option<String>,
    /// The model of new sessions.
    pub(super) model: Option<String>,
    pub(super) is_initialized: bool,
    /// The connection over which open questions arrive.
    pub(super) questions: Option<u64>,
    /// A permanent connection was lost.
    pub(super) is_lost: bool,
    /// They are being opened again.
    is_recovering: bool,
}

impl<'a> Editor<'a> {
    pub fn start(arguments: &'a Arguments, env: &'a ProcessEnvironment) -> Result<Self> {
        let signals = Signals::catch_termination()?;
        let (host, Config { commands, catalog, .. }, missing_model) = open_host(arguments, env)?;
        Ok(Self {
            models: options::models(&catalog),
            missing_model,
            arguments,
            env,
            peer: StdioPeer::new(host, signals)?,
            sessions: BTreeMap::new(),
            permissions: Permissions::default(),
            commands,
            model: arguments.model.clone(),
            is_initialized: false,
            questions: None,
            is_lost: false,
            is_recovering: false,
        })
    }

    /// Runs until the editor closes standard input, or a signal arrives. Returns the exit code.
    pub fn run(mut self) -> Result<u8> {
        let code = self.serve()?;
        for session in self.sessions.keys().cloned().collect::<Vec<_>>() {
            self.close_session(&session)?;
        }
        self.leave()?;
        Ok(code)
    }

    pub(super) fn respond(&mut self, id: &Value, result: Value) {
        self.peer.respond(id, &result);
    }

    pub(super) fn fail(&mut self, id: &Value, fault: &Fault) {
        self.peer.fail(id, fault);
    }

    pub(super) fn notify(&mut self, method: &str, params: Value) {
        self.peer.send(json_rpc::notification(method, &params));
    }

    pub(super) fn request(&mut self, number: u64, method: &str, params: Value) {
        self.peer.send(json_rpc::request(number, method, &params));
    }

    pub(super) fn update(&mut self, session: &str, updates: Vec<Value>) {
        for update in updates {
            self.notify("session/update", json!({"sessionId": session, "update": update}));
        }
    }

    /// Writes a line to standard error, which editors keep as the log of an agent.
    pub(super) fn note(&mut self, message: &str) {
        self.peer.note(message);
    }

    /// Sends a request to the loop.
    pub(super) fn send(&mut self, request: &Request, purpose: Purpose) -> std::result::Result<u64, Fault> {
        match self.peer.links.send(&mut self.peer.host, request, purpose.clone()) {
            // Nothing was sent: a server may end before this process learns of it.
            Err(error) if error.kind == ErrorKind::System && !self.peer.host.is_local() && !self.is_recovering => {
                self.is_lost = true;
                self.recover()?;
                Ok(self.peer.links.send(&mut self.peer.host, request, purpose)?)
            }
            sent => Ok(sent?),
        }
    }

    /// Reopens the permanent connections, perhaps in another loop.
    fn recover(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.is_lost) {
            return Ok(());
        }
        self.is_recovering = true;
        let recovered = self.recover_links();
        self.is_recovering = false;
        recovered
    }

    fn recover_links(&mut self) -> Result<()> {
        if !self.peer.host.is_local() {
            self.note("the server has ended: opening the conversations again");
            self.abandon_links()?;
            self.reopen()?;
        }
        if self.questions.is_none() {
            self.follow_questions();
        }
        let lost = |is_lost: fn(&Session) -> bool| -> Vec<String> {
            self.sessions.iter().filter(|(_, session)| is_lost(session)).map(|(id, _)| id.clone()).collect()
        };
        let (follows, offers) = (lost(|session| session.follow.is_none()), lost(|session| session.offer.is_none()));
        follows.iter().for_each(|session| self.follow(session, None));
        offers.iter().for_each(|session| self.offer(session));
        Ok(())
    }

    /// Opens the loop again with the configuration as it is now. Called only while no session is open.
    pub(super) fn reload_configuration(&mut self) -> std::result::Result<(), Fault> {
        self.questions = None;
        self.abandon_links()?;
        self.peer.host.leave()?;
        // It holds the data directory until it is dropped.
        drop(std::mem::replace(&mut self.peer.host, Host::placeholder()?));
        self.reopen()?;
        self.follow_questions();
        Ok(())
    }

    fn reopen(&mut self) -> Result<()> {
        let (host, config, missing_model) = open_host(self.arguments, self.env)?;
        (self.peer.host, self.commands) = (host, config.commands);
        (self.models, self.missing_model) = (options::models(&config.catalog), missing_model);
        Ok(())
    }
}

impl StdioServer for Editor<'_> {
    type Purpose = Purpose;

    fn peer(&mut self) -> &mut StdioPeer<Purpose> {
        &mut self.peer
    }

    fn on_line(&mut self, line: &[u8]) -> Result<()> {
        match json_rpc::read(line) {
            Ok(Incoming::Request { id, method, params }) => match self.on_request(&id, &method, &params) {
                Ok(Some(result)) => self.respond(&id, result),
                Ok(None) => {}
                Err(fault) => self.fail(&id, &fault),
            },
            Ok(Incoming::Notification { method, params }) => self.on_notification(&method, &params)?,
            Ok(Incoming::Response { id, result }) => self.on_permission(&id, result)?,
            Err((id, fault)) => self.fail(&id, &fault),
        }
        Ok(())
    }

    fn on_news(&mut self, number: u64, news: News) -> Result<()> {
        self.handle_news(number, news)
    }

    fn is_last(purpose: &Purpose) -> bool {
        *purpose == Purpose::Questions
    }

    fn is_lasting(purpose: &Purpose) -> bool {
        purpose.is_lasting()
    }

    fn prepare(&mut self) -> Result<()> {
        self.recover()
    }
}

/// The loop with its configuration, and why no model can be used, if that is so: an editor is told when it asks for a session.
fn open_host(arguments: &Arguments, env: &ProcessEnvironment) -> Result<(Host, Config, Option<String>)> {
    let missing_model = RefCell::default();
    let configure = |loaded: Loaded| {
        missing_model.replace(loaded.model_error().map(str::to_owned));
        loaded.without_model_error().into_config()
    };
    let check_server = |client: &mut Client| {
        require_same_version(client)?;
        arguments.permission_option().map_or(Ok(()), |option| {
            Err(Error::usage(format!(
                "{option} has no effect on the agents of the running server: leave it out and choose a mode in the \
                 editor, or stop the server (polylogue stop)"
            )))
        })
    };
    let (host, config) = Host::open(&HostOptions::for_others((arguments, env), &configure, &check_server))?;
    Ok((host, config, missing_model.into_inner()))
}

/// An editor would wait for questions that a server of another version does not send.
fn require_same_version(client: &mut Client) -> Result<()> {
    let (own, found) = (env!("CARGO_PKG_VERSION"), client.server_version()?);
    let other = found.as_deref().unwrap_or("unknown");
    if other == own {
        return Ok(());
    }
    let message = format!("the running server is of version {other}, this program of {own}: stop it (polylogue stop)");
    Err(Error::new(ErrorKind::System, message))
}

/// The error for requests that were running in a server that has ended.
pub fn server_lost() -> Fault {
    Fault::new(INTERNAL, "the server that ran the agents has ended: send it again")
}
