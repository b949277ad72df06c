//! The turns of a run. They are requested one after the other, so that at most one text of the run waits in the agent's
//! queue. In a server the agent goes on if this process is killed.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use serde::Deserialize as _;
use serde_json::Value;

use super::agent::RunAgent;
use super::output::{Ending, PrintOutput};
use super::prompt::retry_ms;
use super::summary::Failure;
use crate::base::error::{Error, ErrorKind, Result};
use crate::cli::client::server_ended;
use crate::cli::host::Host;
use crate::cli::links::{Links, News};
use crate::cli::stdio::streams::LAST_OUTPUT_TIMEOUT;
use crate::domain::chunk::Chunk;
use crate::domain::wire::{Request, Response};
use crate::repl::Turn;

#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    Working,
    AtRest,
    /// The agent cannot continue.
    Stuck(Ending),
}

pub struct Turns {
    agent: RunAgent,
    links: Links<()>,
    /// In this process one connection for all turns, so that requests between them count; in a server one for each, as an
    /// idle connection may be closed there.
    link: Option<u64>,
    is_under_way: bool,
    /// Prompts that are not sent yet, oldest first.
    queue: VecDeque<String>,
    max_requests: Option<u32>,
    deadline: Option<Instant>,
    requests: u32,
    /// Why the agent's request is not sent yet.
    wait: Option<String>,
    /// Set when the run cannot continue.
    ending: Option<Ending>,
}

impl Turns {
    pub fn new(agent: RunAgent, max_requests: Option<u32>, deadline: Option<Instant>) -> Self {
        let (links, queue) = (Links::default(), VecDeque::new());
        let (link, is_under_way, requests, wait, ending) = (None, false, 0, None, None);
        Self { agent, links, link, is_under_way, queue, max_requests, deadline, requests, wait, ending }
    }

    pub fn agent(&self) -> &RunAgent {
        &self.agent
    }

    /// Requests to models so far.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Prompts that wait for the turns before them.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Why the agent's request is not sent yet.
    pub fn waits_for(&self) -> Option<&str> {
        self.wait.as_deref()
    }

    /// Sends a prompt, or queues it while a turn is under way.
    pub fn send(&mut self, host: &mut Host, text: String) -> Result<()> {
        self.queue.push_back(text);
        self.start_next(host)
    }

    /// Interrupts the current turn; the next one follows.
    pub fn interrupt(&mut self) {
        if let Some(link) = self.link.filter(|_| self.is_under_way) {
            self.links.cut(link);
        }
    }

    pub fn progress(&self) -> Progress {
        match &self.ending {
            Some(ending) => Progress::Stuck(ending.clone()),
            None if self.is_under_way || !self.queue.is_empty() => Progress::Working,
            None => Progress::AtRest,
        }
    }

    /// One turn of the loop, in which what the agent did is written. Returns the other descriptors that the poll reported.
    pub fn turn(
        &mut self,
        host: &mut Host,
        limit: Option<Duration>,
        output: &mut PrintOutput,
    ) -> Result<(Turn, Vec<RawFd>)> {
        let turn = self.links.turn(host, limit)?;
        while let Some((number, news)) = self.links.next(|()| false) {
            let is_lost = matches!(news, News::Lost);
            self.on_news(news, output);
            if is_lost || !(self.is_under_way || host.is_local()) {
                self.link = None;
                self.links.close(host, number)?;
            }
        }
        self.start_next(host)?;
        Ok(turn)
    }

    fn start_next(&mut self, host: &mut Host) -> Result<()> {
        if self.is_under_way || self.ending.is_some() {
            return Ok(());
        }
        let Some(text) = self.queue.pop_front() else { return Ok(()) };
        let max_requests = self.max_requests.map(|max| max.saturating_sub(self.requests));
        if max_requests == Some(0) {
            self.ending = Some(Ending::max_turns());
            return Ok(());
        }
        let request = Request::Turn {
            agent: self.agent.id.clone(),
            text,
            max_requests,
            approval: self.agent.approval.clone(),
            is_attended: false,
            retry_ms: retry_ms(self.deadline),
            takes_commands: false,
        };
        match self.link {
            Some(link) => self.links.send_more(link, &request)?,
            None => self.link = Some(self.links.send(host, &request, ())?),
        }
        self.is_under_way = true;
        Ok(())
    }

    fn on_news(&mut self, news: News, output: &mut PrintOutput) {
        match news {
            News::Response(Response::Chunk(value), line) => self.on_line(&value, line, output),
            News::Response(Response::Missed(count), _) => output.on_missed(count),
            News::Response(Response::Done(result), _) => {
                self.on_turn_ended(&result);
                if self.ending.is_none() {
                    output.on_turn_over(&self.agent.id, self.requests);
                }
            }
            News::Response(Response::Refused { kind, message }, _) => {
                self.is_under_way = false;
                self.ending = Some(Ending::Failed(Failure { kind, message }));
            }
            News::Response(..) => {}
            News::Lost => {
                self.is_under_way = false;
                // Not of kind `network`, which is about a provider.
                let lost = Error::new(ErrorKind::System, server_ended().message);
                self.ending = self.ending.take().or(Some(Ending::Failed(lost.into())));
            }
        }
    }

    /// A chunk, a wait, or a call of an agent below this one that was refused. A type that this version does not know is
    /// skipped.
    fn on_line(&mut self, value: &Value, line: Vec<u8>, output: &mut PrintOutput) {
        let line = || String::from_utf8(line).unwrap_or_default();
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        match text("type") {
            "wait" => {
                let length = Duration::from_millis(value["ms"].as_u64().unwrap_or_default());
                output.on_wait(length, text("text"), line);
                self.wait = Some(text("text").to_owned());
            }
            "refused" => output.streams.note_refused_call(text("title")),
            _ => {
                self.wait = None;
                if let Ok(chunk) = Chunk::deserialize(value) {
                    output.on_chunk(&chunk, line);
                }
            }
        }
    }

    fn on_turn_ended(&mut self, result: &Value) {
        self.is_under_way = false;
        let requests = result["requests"].as_u64().and_then(|count| u32::try_from(count).ok());
        self.requests = self.requests.saturating_add(requests.unwrap_or_default());
        if let Some(limit) = result["limit"].as_str() {
            self.ending = Some(Ending::Limit(limit.to_owned()));
        } else if result["limited"] == true {
            self.ending = Some(Ending::max_turns());
        } else if result["killed"] == true {
            self.ending = Some(Ending::Failed(Error::new(ErrorKind::Tool, "the agent was killed").into()));
        }
    }

    /// Interrupts the turn that is under way, and writes the rest of its output. Does not wait for ever: a server may not
    /// answer.
    pub fn end(&mut self, host: &mut Host, output: &mut PrintOutput) -> Result<()> {
        self.queue.clear();
        self.interrupt();
        let give_up = Instant::now() + LAST_OUTPUT_TIMEOUT;
        while self.is_under_way {
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.turn(host, Some(left), output)?;
        }
        // A loop that goes on waits for its clients.
        match self.link.take_if(|_| !self.is_under_way) {
            Some(link) => self.links.close(host, link),
            None => Ok(()),
        }
    }

    /// Archives the agent, if it was made for a run.
    pub fn archive(&mut self, host: &mut Host) {
        let request = Request::run(["archive", "--when-idle", "--", &self.agent.id]);
        // A server that has ended archives it at its next start, one that did not interrupt the turn when it goes on.
        let _ = match self.agent.is_print_run {
            true if self.is_under_way => self.links.send(host, &request, ()).map(drop),
            true => host.request_for(&request, Some(LAST_OUTPUT_TIMEOUT)).map(drop),
            false => Ok(()),
        };
    }
}
