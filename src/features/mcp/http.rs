//! A server over streamable HTTP: a POST for each message, whose response is one message or a stream of them.
//!
//! Each request has its own transfer, driven by libcurl's socket callbacks like those of agents. A response that ends
//! without an answer is not requested again: a call may have been carried out. What was refused for want of a login was not:
//! it is sent once more with a new token. In the older era a stream whose events have ids is resumed by a GET after the
//! pause that the server wants.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::login::Login;
use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::domain::host::Target;
use crate::domain::http::HttpRequest;
use crate::domain::mcp::shell_word;
use crate::domain::readiness::Readiness;
use crate::features::mcp::protocol::message::{INITIALIZED, MODERN, Message};
use crate::features::mcp::protocol::{Era, Session};
use crate::net::{Connection, Lookup, Network, oauth};
use crate::provider::sse::Sse;
use crate::proxy::AllowedHosts;
use crate::reactor::{Reactor, Source};

/// Transfers at once; further messages wait.
const MOST_TRANSFERS: usize = 8;
/// More messages that wait than this end the session.
const MOST_WAITING: usize = 256;
/// How long the response to a message may take that is no request.
const ACCEPTANCE: Duration = Duration::from_secs(30);
const BYTES_PER_TURN: usize = 256 << 10;
/// A longer response ends the session, in bytes.
const MAX_BODY: usize = 16 << 20;
/// The pause before a stream is resumed, and the limit for one that the server asks for.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often a stream is resumed without an event.
const MOST_ATTEMPTS: u32 = 5;
/// The characters of the body of an error that are shown.
const SHOWN: usize = 160;

pub(super) struct Http {
    pub(super) session: Session,
    url: String,
    headers: Vec<(String, String)>,
    /// The id that a server of the older era has given the session.
    session_id: Option<String>,
    waiting: VecDeque<Message>,
    transfers: Vec<Transfer>,
    /// Streams that ended without an answer and are resumed.
    cut: Vec<Cut>,
    /// The hosts that must not be reached, if there are any.
    guard: Option<(Target, AllowedHosts)>,
    /// Nothing is sent before it has ended: libcurl would wait for its own look-up when a transfer is closed.
    lookup: Option<Lookup>,
    /// `None` if the declaration has credentials of its own.
    login: Option<Login>,
}

/// A stream that ended without an answer.
struct Cut {
    request: u64,
    last_id: String,
    /// When it is resumed.
    at: Moment,
    /// How often it was resumed without an event.
    attempts: u32,
}

struct Transfer {
    /// Its number in the reactor.
    number: u64,
    connection: Connection,
    /// The number of the request that it carries.
    request: Option<u64>,
    /// What was sent, unless a stream is resumed.
    message: Option<Message>,
    /// After which event the stream is resumed.
    last_id: Option<String>,
    /// The number of the token that was sent.
    token: u64,
    /// It is closed at this moment, unless it carries a request: the session limits those.
    until: Option<Moment>,
    /// Nothing else is sent before the server has accepted it.
    is_first: bool,
    /// Of the response; 0 before it is there.
    status: u16,
    /// What it asks for if the request was refused.
    challenge: String,
    body: Vec<u8>,
    stream: Option<Sse>,
    /// How often the stream was resumed before, without an event.
    attempts: u32,
}

impl Http {
    /// `guard`: the refusals of the rules for its host.
    pub(super) fn new(
        session: Session,
        url: String,
        headers: Vec<(String, String)>,
        guard: Option<(Target, AllowedHosts)>,
        login: Option<Login>,
    ) -> Self {
        Self {
            login,
            session,
            url,
            headers,
            session_id: None,
            waiting: VecDeque::new(),
            transfers: Vec::new(),
            cut: Vec::new(),
            guard,
            lookup: None,
        }
    }

    /// Sends the messages of the session. `next_number` gives the numbers of transfers.
    pub(super) fn write(
        &mut self,
        (network, reactor): (&Network, &mut Reactor),
        now: Moment,
        wake: &Arc<dyn Fn() + Send + Sync>,
        mut next_number: impl FnMut() -> u64,
    ) -> Result<()> {
        self.waiting.extend(self.session.take_messages());
        if self.waiting.len() > MOST_WAITING {
            self.session.fail(format!("does not accept messages: {} are waiting", self.waiting.len()));
            self.waiting.clear();
        }
        while self.transfers.len() < MOST_TRANSFERS && !self.is_beginning() {
            let is_due = |cut: &Cut| cut.at <= now;
            let is_idle = self.waiting.is_empty() && !self.cut.iter().any(is_due);
            if is_idle || self.awaits_token() || self.awaits_address(network, now, wake) {
                break;
            }
            if let Err(why) = self.check_addresses(network, now) {
                self.session.fail(why);
                (self.waiting, self.cut) = (VecDeque::new(), Vec::new());
                break;
            }
            let (request, mut transfer) = match self.cut.iter().position(is_due) {
                Some(at) => self.resumption(at, next_number()),
                None => {
                    let Some(message) = self.waiting.pop_front() else { break };
                    (self.request(&message), Transfer::new(next_number(), message, now))
                }
            };
            transfer.token = self.login.as_ref().map_or(0, Login::number);
            match transfer.connection.start(&request, network, now) {
                Ok(()) => {
                    transfer.register(reactor)?;
                    self.transfers.push(transfer);
                }
                Err(error) => self.session.fail(error.message),
            }
        }
        Ok(())
    }

    /// The request that resumes a stream, and its transfer.
    fn resumption(&mut self, at: usize, number: u64) -> (HttpRequest, Transfer) {
        let cut = self.cut.remove(at);
        let mut headers = self.headers_with_token();
        let mut add = |name: &str, value: String| headers.push((name.to_owned(), value));
        add("Accept", "text/event-stream".into());
        add("Last-Event-ID", cut.last_id.clone());
        self.session.revision().into_iter().for_each(|revision| add("MCP-Protocol-Version", revision.to_owned()));
        self.session_id.iter().for_each(|id| add("Mcp-Session-Id", id.clone()));
        let request = HttpRequest { url: self.url.clone(), headers, body: [].into() };
        let (request_id, last_id) = (Some(cut.request), Some(cut.last_id));
        let transfer = Transfer { request: request_id, last_id, attempts: cut.attempts, ..Transfer::empty(number) };
        (request, transfer)
    }

    fn check_addresses(&self, network: &Network, now: Moment) -> std::result::Result<(), String> {
        let Some((target, hosts)) = &self.guard else { return Ok(()) };
        if network.host_to_look_up(&self.url, now).is_some() {
            return Err("was not connected: its host cannot be looked up to be checked against the rules".into());
        }
        let addresses = network.known_addresses(&self.url, now);
        let checked = addresses.into_iter().try_for_each(|address| hosts.check_denied_address(target, address));
        checked.map_err(|why| format!("was not connected: {why}"))
    }

    /// Whether the host of the server is being looked up, which begins now if its addresses are unknown.
    fn awaits_address(&mut self, network: &Network, now: Moment, wake: &Arc<dyn Fn() + Send + Sync>) -> bool {
        if let Some(lookup) = &self.lookup {
            let Some(addresses) = lookup.take_result() else { return true };
            network.on_looked_up(lookup.host(), addresses, now);
            self.lookup = None;
        }
        // Without a thread libcurl looks the host up itself and reports the error.
        let host = network.host_to_look_up(&self.url, now);
        self.lookup = host.and_then(|host| Lookup::start(host, wake.clone()).ok());
        self.lookup.is_some()
    }

    /// Whether the server still has to accept that the session has begun.
    fn is_beginning(&self) -> bool {
        self.transfers.iter().any(|transfer| transfer.is_first)
    }

    fn headers_with_token(&self) -> Vec<(String, String)> {
        let token = self.login.as_ref().and_then(Login::token);
        let authorization = token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}")));
        self.headers.iter().cloned().chain(authorization).collect()
    }

    /// Whether the token of the login is being read or renewed. Ends the session if it cannot be had.
    fn awaits_token(&mut self) -> bool {
        let Some(login) = &mut self.login else { return false };
        if login.is_pending() {
            return true;
        }
        if let Err(why) = login.take_token() {
            self.session.fail(why);
            (self.waiting, self.cut) = (VecDeque::new(), Vec::new());
            return true;
        }
        false
    }

    fn request(&self, message: &Message) -> HttpRequest {
        let mut headers = self.headers_with_token();
        let mut add = |name: &str, value: String| headers.push((name.to_owned(), value));
        add("Content-Type", "application/json".into());
        add("Accept", "application/json, text/event-stream".into());
        let is_legacy = self.session.era() == Some(Era::Legacy) || message.method == "initialize";
        if is_legacy {
            self.session.revision().into_iter().for_each(|revision| add("MCP-Protocol-Version", revision.to_owned()));
            self.session_id.iter().for_each(|id| add("Mcp-Session-Id", id.clone()));
        } else {
            add("MCP-Protocol-Version", MODERN.into());
            add("Mcp-Method", message.method.clone());
            message.subject.iter().for_each(|subject| add("Mcp-Name", header_value(subject)));
            message.headers.iter().for_each(|(name, value)| add(name, header_value(value)));
        }
        HttpRequest { url: self.url.clone(), headers, body: message.text.as_bytes().into() }
    }

    /// A socket of one of the transfers is ready. Returns whether it is known.
    pub(super) fn on_socket(
        &mut self,
        (number, fd): (u64, i32),
        readiness: Readiness,
        (network, reactor): (&Network, &mut Reactor),
        now: Moment,
    ) -> Result<()> {
        if let Some(transfer) = self.transfers.iter_mut().find(|transfer| transfer.number == number) {
            transfer.connection.on_socket(fd, readiness, network, now);
            transfer.register(reactor)?;
            reactor.rearm(Source::Feature { name: "transfer", number, fd })?;
        }
        Ok(())
    }

    /// Drives timers, and reads what has arrived.
    pub(super) fn step(
        &mut self,
        (network, reactor): (&Network, &mut Reactor),
        now: Moment,
        wake: &Arc<dyn Fn() + Send + Sync>,
    ) -> Result<()> {
        for transfer in &mut self.transfers {
            if transfer.connection.timer().is_some_and(|at| at <= now) {
                transfer.connection.on_timer(network, now);
            }
            transfer.read(&mut self.session, &mut self.session_id, now);
            transfer.register(reactor)?;
        }
        let has_session = self.session_id.is_some() && self.session.era() == Some(Era::Legacy);
        for mut transfer in std::mem::take(&mut self.transfers) {
            match transfer.connection.take_end() {
                None if transfer.until.is_some_and(|until| until <= now) => transfer.close(reactor, now),
                // The revisions of the older era say so, "Session Management".
                Some(_) if has_session && transfer.status == 404 => {
                    self.session.fail("has forgotten the session (HTTP 404)".into());
                    transfer.close(reactor, now);
                }
                None => self.transfers.push(transfer),
                Some(_) if transfer.status == 401 && self.send_again(&mut transfer, now, wake) => {
                    transfer.close(reactor, now);
                }
                Some(outcome) => {
                    let is_legacy = self.session.era() == Some(Era::Legacy);
                    match transfer.cut(now).filter(|_| is_legacy) {
                        Some(cut) if self.session.is_pending(cut.request) => self.cut.push(cut),
                        _ => transfer.finish(outcome, self.login.is_some(), &mut self.session, now),
                    }
                    transfer.close(reactor, now);
                }
            }
        }
        Ok(())
    }

    /// Sends a message again with another token, if the login has one, or resumes a stream with it. The server has refused
    /// the request, and done nothing.
    fn send_again(&mut self, transfer: &mut Transfer, now: Moment, wake: &Arc<dyn Fn() + Send + Sync>) -> bool {
        let is_wanted = transfer.request.is_none_or(|request| self.session.is_pending(request));
        let may_repeat = match &transfer.message {
            Some(message) => !message.was_refused,
            None => transfer.attempts < MOST_ATTEMPTS,
        };
        let Some(login) = self.login.as_mut().filter(|_| is_wanted && may_repeat) else { return false };
        if !login.renew(transfer.token, wake.clone()) {
            return false;
        }
        if let Some(message) = transfer.message.take() {
            self.waiting.push_front(Message { was_refused: true, ..message });
        } else if let (Some(request), Some(last_id)) = (transfer.request, transfer.last_id.take()) {
            self.cut.push(Cut { request, last_id, at: now, attempts: transfer.attempts + 1 });
        }
        true
    }

    /// Closes the response to a request, which cancels it in the newer era.
    pub(super) fn close(&mut self, request: u64, reactor: &mut Reactor, now: Moment) {
        for transfer in self.transfers.extract_if(.., |transfer| transfer.request == Some(request)) {
            transfer.close(reactor, now);
        }
        self.waiting.retain(|message| message.id != Some(request));
        self.cut.retain(|cut| cut.request != request);
    }

    pub(super) fn end(self, reactor: &mut Reactor, now: Moment) {
        self.transfers.into_iter().for_each(|transfer| transfer.close(reactor, now));
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        let timers = self.transfers.iter().filter_map(|transfer| transfer.connection.timer());
        let limits = self.transfers.iter().filter_map(|transfer| transfer.until);
        let resumed = self.cut.iter().map(|cut| cut.at).filter(|_| self.may_send());
        timers.chain(limits).chain(resumed).chain(self.session.deadline()).min()
    }

    /// Whether bytes were received and not read.
    pub(super) fn has_work(&self) -> bool {
        let is_due = |transfer: &Transfer| transfer.connection.has_bytes() || transfer.connection.has_ended();
        self.transfers.iter().any(is_due) || !self.waiting.is_empty() && self.may_send()
    }

    /// Whether something that waits could be sent now.
    fn may_send(&self) -> bool {
        let is_pending = self.lookup.is_some() || self.login.as_ref().is_some_and(Login::is_pending);
        self.transfers.len() < MOST_TRANSFERS && !self.is_beginning() && !is_pending
    }

    pub(super) fn owns(&self, number: u64) -> bool {
        self.transfers.iter().any(|transfer| transfer.number == number)
    }
}

impl Transfer {
    fn new(number: u64, message: Message, now: Moment) -> Self {
        Self {
            request: message.id,
            until: message.id.is_none().then(|| now + ACCEPTANCE),
            is_first: message.method == INITIALIZED,
            message: Some(message),
            ..Self::empty(number)
        }
    }

    fn empty(number: u64) -> Self {
        Self {
            number,
            connection: Connection::default(),
            request: None,
            message: None,
            last_id: None,
            token: 0,
            until: None,
            is_first: false,
            status: 0,
            challenge: String::new(),
            body: Vec::new(),
            stream: None,
            attempts: 0,
        }
    }

    /// How the stream of a response that has ended is resumed, if it can be.
    fn cut(&mut self, now: Moment) -> Option<Cut> {
        let stream = self.stream.as_ref()?;
        let (request, last_id) = (self.request?, stream.last_id()?.to_owned());
        let pause = stream.retry().unwrap_or(PAUSE).min(LONGEST_PAUSE);
        (self.attempts < MOST_ATTEMPTS).then(|| Cut { request, last_id, at: now + pause, attempts: self.attempts + 1 })
    }

    /// The requests of libcurl have to be carried out at once.
    fn register(&mut self, reactor: &mut Reactor) -> Result<()> {
        let number = self.number;
        reactor.apply(|fd| Source::Feature { name: "transfer", number, fd }, &self.connection.take_socket_requests())
    }

    fn close(mut self, reactor: &mut Reactor, now: Moment) {
        self.connection.close(now);
        // Nothing is watched any more: there is nothing that the kernel could refuse.
        let _ = self.register(reactor);
    }

    fn read(&mut self, session: &mut Session, session_id: &mut Option<String>, now: Moment) {
        let bytes = self.connection.read(BYTES_PER_TURN, now);
        let Some(head) = self.connection.head().filter(|head| head.status >= 200) else { return };
        self.status = head.status;
        self.challenge.clone_from(&head.challenge);
        let is_success = head.status < 300;
        if is_success && session_id.is_none() {
            session_id.clone_from(&head.mcp_session);
        }
        if self.stream.is_none() && is_success && head.content_type.starts_with("text/event-stream") {
            self.stream = Some(Sse::default());
        }
        match &mut self.stream {
            Some(stream) => {
                let attempts = &mut self.attempts;
                let fed = stream.feed(&bytes, |event| {
                    // Events without data only tell their id.
                    *attempts = if event.data.is_empty() { *attempts } else { 0 };
                    session.on_text(event.data.as_bytes(), now);
                });
                fed.unwrap_or_else(|error| session.fail(error.message));
            }
            None => self.body.extend_from_slice(&bytes),
        }
        if self.body.len() > MAX_BODY {
            session.fail(format!("sent a response of more than {} MiB", MAX_BODY >> 20));
        }
    }

    /// The response has ended.
    fn finish(&mut self, outcome: Result<()>, may_log_in: bool, session: &mut Session, now: Moment) {
        if let Some(mut stream) = self.stream.take() {
            // An incomplete event is no message.
            let _ = stream.end(|event| session.on_text(event.data.as_bytes(), now));
        } else if !self.body.is_empty() && !matches!(self.status, 401 | 403) {
            session.on_text(&self.body, now);
        }
        let Some(id) = self.request.filter(|id| session.is_pending(*id)) else { return };
        let body: String =
            String::from_utf8_lossy(&self.body).chars().filter(|c| !c.is_control()).take(SHOWN).collect();
        let status = self.status;
        let login = format!("polylogue mcp login {}", session.server_name());
        let scope = oauth::scope_in(&self.challenge).filter(|_| may_log_in);
        match (outcome, status) {
            (Err(error), _) => session.on_refused(id, error.message),
            (Ok(()), 401) if may_log_in => session.fail(format!("needs a login (HTTP 401): {login}")),
            (Ok(()), 401) => session.fail("refuses the credentials of its declaration (HTTP 401)".into()),
            (Ok(()), 403) if scope.is_some() => {
                let scope = shell_word(&scope.unwrap_or_default());
                session.on_refused(id, format!("needs a login that may do more (HTTP 403): {login} --scope {scope}"));
            }
            (Ok(()), 300..=399) => session.fail(format!("redirects to another URL (HTTP {status}): declare that one")),
            (Ok(()), 200..=299) => session.on_refused(id, "the response ended without an answer".into()),
            (Ok(()), _) => session.on_refused(id, format!("HTTP {status}: {body}")),
        }
    }
}

/// A header has only visible ASCII; other values are sent in base64 (MCP 2026-07-28, "Standard headers").
fn header_value(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && text.trim() == text;
    if is_plain { text.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(text)) }
}
