//! A server over streamable HTTP: a POST for each message, whose response is one message or a stream of them.
//!
//! Each request has its own transfer, driven by libcurl's socket callbacks like those of agents. A response that ends
//! without an answer is not requested again: a call may have been carried out. What was refused for want of a login was not:
//! it is sent once more with a new token. In the older era a stream whose events have ids is resumed by a GET after the
//! pause that the server wants, and a GET of its own listens for what belongs to no request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::listening::{End, LONGEST_PAUSE, Listening, MOST_ATTEMPTS, PAUSE};
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
/// More than this ends the stream that listens, which is opened again, in bytes.
const MOST_HEARD: usize = 32 << 20;
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
    /// Streams that ended without an answer and are resumed, and the one that is to listen.
    cut: Vec<Cut>,
    /// Once a session of the older era has begun.
    listening: Option<Listening>,
    /// The hosts that must not be reached, if there are any.
    guard: Option<(Target, AllowedHosts)>,
    /// Nothing is sent before it has ended: libcurl would wait for its own look-up when a transfer is closed.
    lookup: Option<Lookup>,
    /// `None` if the declaration has credentials of its own.
    login: Option<Login>,
}

/// What is sent next: its place among those that wait.
#[derive(Clone, Copy)]
enum Next {
    Cut(usize),
    Message(usize),
}

/// A stream that ended without an answer, or did not begin yet.
struct Cut {
    /// The number of the request; `None` for the stream that listens.
    request: Option<u64>,
    last_id: Option<String>,
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
    /// When the head of the response was there.
    opened_at: Option<Moment>,
    /// What it brought that belongs to no request, in bytes.
    heard: usize,
    /// It cannot be understood, or has brought too much.
    is_broken: bool,
    /// The number of the token that was sent.
    token: u64,
    /// It is closed at this moment, unless it carries a request: the session limits those.
    until: Option<Moment>,
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
            listening: None,
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
            self.give_up(format!("does not accept messages: {} are waiting", self.waiting.len()));
        }
        self.forget_answered();
        while !self.is_beginning() {
            if self.waiting.iter().any(|message| message.id.is_some()) {
                self.listen(now);
            }
            let Some(next) = self.next(now) else { break };
            if matches!(next, Next::Message(_)) {
                self.login.iter_mut().for_each(|login| login.notice_changes(wake));
            }
            if self.awaits_token() || self.awaits_address(network, now, wake) {
                break;
            }
            if let Err(why) = self.check_addresses(network, now) {
                if self.forget_listening(next) {
                    continue;
                }
                self.give_up(why);
                break;
            }
            let (request, mut transfer) = match next {
                Next::Cut(at) => self.resumption(at, next_number()),
                Next::Message(at) => {
                    let Some(message) = self.waiting.remove(at) else { break };
                    (self.request(&message), Transfer::new(next_number(), message, now))
                }
            };
            transfer.token = self.login.as_ref().map_or(0, Login::number);
            match transfer.connection.start(&request, network, now) {
                Ok(()) => {
                    transfer.register(reactor)?;
                    self.transfers.push(transfer);
                }
                Err(_) if transfer.is_listening() => self.on_listening_end(&mut transfer, now),
                Err(error) => self.session.fail(error.message),
            }
        }
        Ok(())
    }

    /// Ends the session, of which nothing more is sent.
    fn give_up(&mut self, why: String) {
        self.session.fail(why);
        (self.waiting, self.cut) = (VecDeque::new(), Vec::new());
    }

    /// Does not open the stream that listens, if that is next.
    fn forget_listening(&mut self, next: Next) -> bool {
        let Next::Cut(at) = next else { return false };
        let is_it = self.cut[at].request.is_none();
        if is_it {
            self.cut.remove(at);
        }
        is_it
    }

    /// What is sent next, if there is a slot for it. Answers of the person must not wait for the calls that wait for them.
    fn next(&self, now: Moment) -> Option<Next> {
        let is_due = |cut: &Cut| cut.at <= now && (cut.request.is_none() || self.has_slot(true));
        let cut = self.cut.iter().position(is_due).map(Next::Cut);
        cut.or_else(|| self.next_message())
    }

    fn next_message(&self) -> Option<Next> {
        self.waiting.iter().position(|message| self.has_slot(message.id.is_some())).map(Next::Message)
    }

    fn has_slot(&self, is_request: bool) -> bool {
        let is_such = |transfer: &&Transfer| transfer.request.is_some() == is_request && !transfer.is_listening();
        self.transfers.iter().filter(is_such).count() < MOST_TRANSFERS
    }

    /// Forgets requests whose answer is not awaited any more.
    fn forget_answered(&mut self) {
        let session = &self.session;
        self.waiting.retain(|message| message.id.is_none_or(|id| session.is_pending(id)));
        self.cut.retain(|cut| cut.request.is_none_or(|id| session.is_pending(id)));
    }

    /// The request that resumes a stream, and its transfer.
    fn resumption(&mut self, at: usize, number: u64) -> (HttpRequest, Transfer) {
        let cut = self.cut.remove(at);
        let mut headers = self.headers_with_token();
        let mut add = |name: &str, value: String| headers.push((name.to_owned(), value));
        add("Accept", "text/event-stream".into());
        cut.last_id.iter().for_each(|id| add("Last-Event-ID", id.clone()));
        self.session.revision().into_iter().for_each(|revision| add("MCP-Protocol-Version", revision.to_owned()));
        self.session_id.iter().for_each(|id| add("Mcp-Session-Id", id.clone()));
        let request = HttpRequest { url: self.url.clone(), headers, body: [].into() };
        let Cut { request: carried, last_id, attempts, .. } = cut;
        let transfer = Transfer { request: carried, last_id, attempts, ..Transfer::empty(number) };
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
        self.transfers.iter().any(|transfer| transfer.is_first())
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
        if let Err(why) = login.take_token(self.session.server_name()) {
            self.give_up(why);
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
            let is_legacy = self.session.era() == Some(Era::Legacy);
            match transfer.connection.take_end() {
                end if transfer.is_listening() => match end.is_some() || transfer.is_useless() {
                    true => {
                        self.on_listening_end(&mut transfer, now);
                        transfer.close(reactor, now);
                    }
                    false => self.transfers.push(transfer),
                },
                None if transfer.until.is_some_and(|until| until <= now) => {
                    self.on_begun(&transfer, now);
                    transfer.close(reactor, now);
                }
                // Also a call that has met its time limit.
                None if !self.is_wanted(transfer.request) => transfer.close(reactor, now),
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
                    self.on_begun(&transfer, now);
                    match transfer.cut(now).filter(|_| is_legacy) {
                        Some(cut) if self.is_wanted(cut.request) => self.cut.push(cut),
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
        let is_wanted = self.is_wanted(transfer.request);
        let may_repeat = match &transfer.message {
            Some(message) => !message.was_refused,
            None => transfer.attempts < MOST_ATTEMPTS,
        };
        let Some(login) = self.login.as_mut().filter(|_| is_wanted && may_repeat) else { return false };
        // Calls may work without it.
        let is_listen = transfer.request.is_some_and(|id| self.session.is_listen(id));
        if is_listen && login.number() == transfer.token || !login.renew(transfer.token, wake.clone()) {
            return false;
        }
        if let Some(message) = transfer.message.take() {
            self.waiting.push_front(Message { was_refused: true, ..message });
        } else {
            let (request, last_id) = (transfer.request, transfer.last_id.take());
            self.cut.push(Cut { request, last_id, at: now, attempts: transfer.attempts + 1 });
        }
        true
    }

    /// Whether the answer to this request, or what belongs to none, is still awaited.
    fn is_wanted(&self, request: Option<u64>) -> bool {
        request.is_none_or(|request| self.session.is_pending(request))
    }

    /// The server has accepted that a session of the older era has begun, or says nothing to it.
    fn on_begun(&mut self, first: &Transfer, now: Moment) {
        if first.is_first() && self.session.era() == Some(Era::Legacy) {
            self.listening = Some(Listening::default());
            self.listen(now);
        }
    }

    /// Opens the stream that listens, unless it is open or the server has none.
    fn listen(&mut self, now: Moment) {
        let Some(listening) = &self.listening else { return };
        let is_open = self.transfers.iter().any(|transfer| transfer.is_listening());
        let is_due = self.cut.iter().any(|cut| cut.request.is_none());
        let token = self.login.as_ref().map_or(0, Login::number);
        if !is_open && !is_due && listening.may_open(token) {
            self.cut.push(Cut { request: None, last_id: listening.last_id(), at: now, attempts: 0 });
        }
    }

    fn on_listening_end(&mut self, transfer: &mut Transfer, now: Moment) {
        let end = transfer.listening_end(now);
        let again = self.listening.as_mut().and_then(|listening| listening.on_end(end, now));
        self.cut.extend(again.map(|(at, last_id, attempts)| Cut { request: None, last_id, at, attempts }));
    }

    /// Closes the response to a request, which cancels it in the newer era.
    pub(super) fn close(&mut self, request: u64, reactor: &mut Reactor, now: Moment) {
        for transfer in self.transfers.extract_if(.., |transfer| transfer.request == Some(request)) {
            transfer.close(reactor, now);
        }
        self.waiting.retain(|message| message.id != Some(request));
        self.cut.retain(|cut| cut.request != Some(request));
    }

    /// Returns the login if its token is being renewed: no other process would know the new one.
    pub(super) fn end(self, reactor: &mut Reactor, now: Moment) -> Option<Login> {
        self.transfers.into_iter().for_each(|transfer| transfer.close(reactor, now));
        self.login.filter(Login::is_pending)
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        let timers = self.transfers.iter().filter_map(|transfer| transfer.connection.timer());
        let limits = self.transfers.iter().filter_map(|transfer| transfer.until);
        // Without a slot, or before something else has ended, nothing is resumed.
        let resumed = self.cut.iter().map(|cut| cut.at).filter(|at| self.may_send() && self.next(*at).is_some());
        timers.chain(limits).chain(resumed).chain(self.session.deadline()).min()
    }

    /// Whether bytes were received and not read.
    pub(super) fn has_work(&self) -> bool {
        let is_due = |transfer: &Transfer| transfer.connection.has_bytes() || transfer.connection.has_ended();
        let has_message = || matches!(self.next_message(), Some(Next::Message(_)));
        self.transfers.iter().any(is_due) || self.may_send() && has_message()
    }

    /// Whether nothing that is under way has to end first.
    fn may_send(&self) -> bool {
        let is_pending = self.lookup.is_some() || self.login.as_ref().is_some_and(Login::is_pending);
        !self.is_beginning() && !is_pending
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
            opened_at: None,
            heard: 0,
            is_broken: false,
            token: 0,
            until: None,
            status: 0,
            challenge: String::new(),
            body: Vec::new(),
            stream: None,
            attempts: 0,
        }
    }

    /// How the stream of a response that has ended is resumed, if it can be.
    fn cut(&mut self, now: Moment) -> Option<Cut> {
        let pause = self.stream.as_ref()?.retry().unwrap_or(PAUSE).min(LONGEST_PAUSE);
        let (request, last_id) = (Some(self.request?), Some(self.last_event()?));
        let attempts = self.attempts + 1;
        (attempts <= MOST_ATTEMPTS).then_some(Cut { request, last_id, at: now + pause, attempts })
    }

    /// The id of the last event, also of the stream that this one resumes.
    fn last_event(&self) -> Option<String> {
        match &self.stream {
            Some(stream) if stream.has_ids() => stream.last_id().map(str::to_owned),
            _ => self.last_id.clone(),
        }
    }

    /// Nothing else is sent before the server has accepted that the session has begun.
    fn is_first(&self) -> bool {
        self.message.as_ref().is_some_and(|message| message.method == INITIALIZED)
    }

    /// What it brings belongs to no request.
    fn is_listening(&self) -> bool {
        self.request.is_none() && self.message.is_none()
    }

    /// Whether nothing can be heard there, although the response goes on.
    fn is_useless(&self) -> bool {
        self.is_broken || self.status != 0 && self.stream.is_none()
    }

    fn listening_end(&self, now: Moment) -> End {
        End {
            status: self.status,
            is_stream: self.stream.is_some(),
            resumed_after: self.last_id.clone(),
            last_id: self.last_event(),
            retry: self.stream.as_ref().and_then(Sse::retry),
            lasted: self.opened_at.map(|at| now.since(at)).unwrap_or_default(),
            attempts: self.attempts,
            token: self.token,
        }
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
        self.opened_at.get_or_insert(now);
        let is_listening = self.is_listening();
        let Self { stream, attempts, .. } = self;
        match stream {
            Some(stream) if is_listening => {
                self.heard += bytes.len();
                let fed = stream.feed(&bytes, |event| session.on_heard(event.data.as_bytes(), now));
                self.is_broken |= fed.is_err() || self.heard > MOST_HEARD;
            }
            Some(stream) => {
                let fed = stream.feed(&bytes, |event| {
                    // Events without data only tell their id.
                    *attempts = if event.data.is_empty() { *attempts } else { 0 };
                    session.on_text(event.data.as_bytes(), now);
                });
                fed.unwrap_or_else(|error| session.fail(error.message));
            }
            None if is_listening => {}
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
        if session.is_listen(id) {
            // Calls may work without it.
            return session.on_refused(id, String::new());
        }
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
