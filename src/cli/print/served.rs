//! A run at a server: the agent works in the server's house, as one among others, and goes on if we are killed. One turn is
//! asked for after the other, so that only one text of ours ever waits among those of others.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::account::Failure;
use super::desk::{Desk, Ending};
use super::session::{Host, Progress};
use super::streams::LAST_PATIENCE;
use super::wanted::Whom;
use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::arguments::Arguments;
use crate::cli::client::{Client, ended, line_of};
use crate::cli::config::ProcessEnvironment;
use crate::cli::connect;
use crate::domain::chunk::Chunk;
use crate::domain::wire::{Request, Response};
use crate::reactor::{Reactor, Source};
use crate::repl::Turn;
use crate::socket::{Connection, Line};

/// The only one at the other end of a connection.
const SERVER: Source = Source::Client(0);
/// Bytes that are read in one turn of the loop.
const BYTES_PER_TURN: usize = 1 << 20;

/// The connection, and the agent that is spoken to.
pub struct Served {
    server: Connection,
    reactor: Reactor,
    ready: Vec<RawFd>,
    /// The agent's id.
    agent: String,
    /// What is to be said next, oldest first.
    queue: VecDeque<String>,
    /// A turn of ours was asked for, and has not ended.
    is_under_way: bool,
    most_requests: Option<u32>,
    requests: u32,
    /// Why nothing more can be done.
    end: Option<Ending>,
}

impl Served {
    /// A run with this agent, of no more requests than so many.
    ///
    /// # Errors
    /// No further descriptor is to be had.
    fn new(client: Client, agent: String, most_requests: Option<u32>) -> Result<Self> {
        Ok(Self {
            // What an agent says in one piece may be long, and we have asked for it.
            server: Connection::new(client.into_stream(), usize::MAX)?,
            reactor: Reactor::new()?,
            ready: Vec::new(),
            agent,
            queue: VecDeque::new(),
            is_under_way: false,
            most_requests,
            requests: 0,
            end: None,
        })
    }

    /// Asks for the next turn, if none is under way.
    fn begin_next(&mut self) -> Result<()> {
        if self.is_under_way || self.end.is_some() {
            return Ok(());
        }
        let Some(text) = self.queue.pop_front() else { return Ok(()) };
        let most = self.most_requests.map(|most| most.saturating_sub(self.requests));
        if most == Some(0) {
            self.end = Some(Ending::out_of_requests());
            return Ok(());
        }
        let line = line_of(&Request::Turn { agent: self.agent.clone(), text, most })?;
        self.say(&line);
        self.is_under_way = true;
        Ok(())
    }

    fn say(&mut self, line: &str) {
        self.server.queue(line);
        self.server.flush();
    }

    /// Waits for news, and hears what the server says.
    fn wait(&mut self, limit: Option<Duration>, desk: &mut Desk) -> Result<()> {
        // One that has hung up would be news in every turn.
        let is_there = !self.server.has_ended();
        self.reactor.watch(SERVER, self.server.fd(), is_there, is_there && !self.server.is_ready())?;
        let has_more = self.server.has_line() || self.server.wants_to_read();
        let mut ready = Vec::new();
        self.reactor.wait(if has_more { Some(Duration::ZERO) } else { limit }, &mut ready)?;
        for one in ready {
            match one.source {
                SERVER => self.server.on_readable(),
                Source::External(fd) => self.ready.push(fd),
                _ => {}
            }
        }
        self.server.flush();
        self.server.read(BYTES_PER_TURN);
        self.hear(desk)
    }

    fn hear(&mut self, desk: &mut Desk) -> Result<()> {
        while let Line::Whole(line) = self.server.next_line() {
            match Response::read(&line).map_err(|error| Error::new(ErrorKind::System, error.message))? {
                Response::Chunk(value) => {
                    let kind = value["type"].as_str().unwrap_or_default();
                    if let Some(chunk) = Chunk::from_fields(kind, &value) {
                        desk.on_chunk(&chunk, || String::from_utf8_lossy(&line).into_owned());
                    }
                }
                Response::Missed(count) => desk.miss(count),
                Response::Done(value) => self.on_turn_ended(&value),
                Response::Refused { kind, message } => {
                    self.is_under_way = false;
                    self.end = Some(Ending::Failed(Failure { kind, text: message }));
                }
                Response::Frame(_) | Response::Suspend | Response::End(_) => {}
            }
        }
        if self.server.has_ended() && self.end.is_none() {
            self.is_under_way = false;
            // The kind of whatever fails here: no provider has to do with it.
            self.end = Some(Ending::Failed(Error::new(ErrorKind::System, ended().message).into()));
        }
        Ok(())
    }

    fn on_turn_ended(&mut self, told: &Value) {
        self.is_under_way = false;
        let requests = told["requests"].as_u64().and_then(|count| u32::try_from(count).ok());
        self.requests = self.requests.saturating_add(requests.unwrap_or_default());
        if told["limited"] == true {
            self.end = Some(Ending::out_of_requests());
        }
    }
}

impl Host for Served {
    fn watch(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        self.reactor.watch(Source::External(fd), fd, readable, writable)
    }

    fn take_news(&mut self) -> Vec<RawFd> {
        std::mem::take(&mut self.ready)
    }

    fn turn(&mut self, limit: Option<Duration>, desk: &mut Desk) -> Result<Turn> {
        self.wait(limit, desk)?;
        self.begin_next().map(|()| Turn::Continue)
    }

    fn send(&mut self, text: &str) -> Result<()> {
        self.queue.push_back(text.to_owned());
        self.begin_next()
    }

    fn interrupt(&mut self) -> Result<()> {
        if self.is_under_way {
            self.say(&Request::Cut.to_line());
        }
        Ok(())
    }

    fn queued(&self) -> usize {
        self.queue.len()
    }

    fn progress(&mut self) -> Result<Progress> {
        Ok(match &self.end {
            Some(end) => Progress::Stuck(end.clone()),
            None if self.is_under_way || !self.queue.is_empty() => Progress::Working,
            None => Progress::AtRest,
        })
    }

    /// A server that does not answer any more is not waited for.
    fn leave(&mut self, desk: &mut Desk) -> Result<Option<Ending>> {
        self.queue.clear();
        self.interrupt()?;
        let patience = Instant::now() + LAST_PATIENCE;
        while self.is_under_way {
            let left = patience.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.wait(Some(left), desk)?;
        }
        Ok(None)
    }

    fn agent(&self) -> String {
        self.agent.clone()
    }

    fn requests(&self) -> u32 {
        self.requests
    }
}

/// The server that holds the data directory, if one does: with the agent that the command line means.
///
/// # Errors
/// As for [`choose`], and where it is no server of ours.
pub fn host(arguments: &Arguments, around: &ProcessEnvironment) -> Result<Option<Box<dyn Host>>> {
    let Some(mut client) = connect::server_of(arguments, around)? else { return Ok(None) };
    let agent = choose(&mut client, &Whom::of(arguments), arguments.model.clone())?;
    Ok(Some(Box::new(Served::new(client, agent, arguments.max_turns)?)))
}

/// The id of the agent that is meant; `model`, if it is to be another one from now on.
///
/// # Errors
/// Nobody is meant, the model cannot be had, or the server does not answer.
fn choose(client: &mut Client, whom: &Whom, model: Option<String>) -> Result<String> {
    let agent = match whom {
        Whom::New => return Ok(id_of(&client.ask(&Request::New { name: None, model })?)),
        Whom::Last => None,
        Whom::Named(agent) => Some(agent.clone()),
        Whom::Unnamed => {
            let words = "--resume needs the name, number or id of an agent: polylogue ps lists them";
            return Err(Error::new(ErrorKind::Usage, words));
        }
    };
    let agent = id_of(&client.ask(&Request::Show { agent })?);
    if let Some(model) = model {
        client.ask(&Request::Model { agent: agent.clone(), model })?;
    }
    Ok(agent)
}

fn id_of(agent: &Value) -> String {
    agent["id"].as_str().unwrap_or_default().to_owned()
}
