//! A small copy of the loop of the C program, with one of its faults: it serves only the agent on the screen where it should
//! serve all, or a callback writes into the agent on the screen. It shares nothing with the loop of this program but the
//! poll, and shows that a scenario fails where the fault is.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::outcome::{AgentOutcome, Happened, Outcome};
use super::provider::Provider;
use super::response::{Part, Response};
use super::scenario::{Input, Scenario, Story, Tool};
use crate::base::clock::{Clock, Moment};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::reactor::{Reactor, Ready, Source};

const SWITCH: &str = "/switch ";

#[derive(Default)]
struct Agent {
    outcome: AgentOutcome,
    question: String,
    partial: String,
    transfer: Option<Transfer>,
    retry_at: Option<Moment>,
    calls: Vec<String>,
    tools: Vec<Running>,
}

/// A transfer and what has arrived of it.
struct Transfer {
    socket: UnixStream,
    response: Response,
    is_complete: bool,
}

/// A tool, whose flag is set when it has ended.
struct Running {
    due: Moment,
    is_complete: bool,
}

struct Loop {
    story: Story,
    names: Vec<String>,
    agents: Vec<Agent>,
    current: usize,
    inputs: VecDeque<Input>,
    unused_tools: Vec<Tool>,
    reactor: Reactor,
    clock: Clock,
    start: Moment,
    socket: PathBuf,
    events: Vec<Happened>,
}

/// Plays a scenario with the fault of its story.
pub fn play(scenario: &Scenario, directory: &Path) -> Result<Outcome> {
    let message = "--like-the-original: this scenario has no story, which names a fault of the C program";
    let story = scenario.story.ok_or_else(|| Error::usage(message))?;
    let socket = directory.join("provider");
    let mut provider = Provider::listen(&socket, scenario.replies.clone())?;
    let clock = Clock::manual();
    let idle = || AgentOutcome { state: "idle".into(), ..AgentOutcome::default() };
    let mut played = Loop {
        story,
        names: scenario.agents.clone(),
        agents: scenario.agents.iter().map(|_| Agent { outcome: idle(), ..Agent::default() }).collect(),
        current: 0,
        inputs: scenario.inputs.clone().into(),
        unused_tools: scenario.tools.clone(),
        reactor: Reactor::new()?,
        start: clock.now(),
        clock,
        socket,
        events: Vec::new(),
    };
    let end = played.start + Duration::from_millis(scenario.end);
    loop {
        while provider.poll(played.clock.now())? | played.turn()? {}
        let next = played.next_moment().into_iter().chain(provider.next_due()).min();
        let Some(next) = next.filter(|next| *next <= end) else { break };
        played.clock.advance(next - played.clock.now());
    }
    Ok(played.outcome())
}

impl Loop {
    /// One turn, in the order of the C program. Returns whether anything happened.
    fn turn(&mut self) -> Result<bool> {
        let before = self.events.len();
        // As with `select`, the descriptors are named again for each wait.
        let served = self.served(Story::FrozenDescriptors);
        for (at, agent) in self.agents.iter().enumerate() {
            if let Some(fd) = agent.transfer.as_ref().map(|transfer| transfer.socket.as_raw_fd()) {
                self.reactor.watch(Source::Socket(id(at), fd), fd, served.contains(&at), false)?;
            }
        }
        let mut ready: Vec<Ready> = Vec::new();
        self.reactor.wait(Some(Duration::ZERO), &mut ready)?;
        self.handle_input()?;
        for at in 0..self.agents.len() {
            let is_ready = |item: &Ready| matches!(item.source, Source::Socket(agent, _) if agent == id(at));
            if ready.iter().any(is_ready) {
                self.read(at);
            }
        }
        self.served(Story::FrozenCompletions).into_iter().for_each(|at| self.check_completion(at));
        for at in self.served(Story::FrozenTools) {
            self.poll_tools(at)?;
        }
        for at in self.served(Story::FrozenTimeouts) {
            if self.agents[at].retry_at.is_some_and(|due| due <= self.clock.now()) {
                self.send(at)?;
            }
        }
        Ok(self.events.len() > before)
    }

    /// The agents that this part of a turn serves: with the fault, only the one on the screen.
    fn served(&self, fault: Story) -> Vec<usize> {
        if self.story == fault { vec![self.current] } else { (0..self.agents.len()).collect() }
    }

    /// The agent into which a callback of this one writes: with the fault, the one on the screen.
    fn target(&self, fault: Story, own: usize) -> usize {
        if self.story == fault { self.current } else { own }
    }

    fn note(&mut self, at: usize, event: &str) {
        let at_ms = u64::try_from((self.clock.now() - self.start).as_millis()).unwrap_or(u64::MAX);
        self.events.push(Happened { at_ms, agent: self.names[at].clone(), event: event.into() });
    }

    fn handle_input(&mut self) -> Result<()> {
        let now = self.clock.now();
        while let Some(input) = self.inputs.pop_front_if(|input| self.start + Duration::from_millis(input.at) <= now) {
            let line = input.line.unwrap_or_default();
            match line.strip_prefix(SWITCH).and_then(|name| self.names.iter().position(|known| known == name)) {
                Some(at) => {
                    self.current = at;
                    self.note(at, "shown");
                }
                None => {
                    self.agents[self.current].question = line;
                    self.note(self.current, "/submit");
                    self.send(self.current)?;
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, at: usize) -> Result<()> {
        let body =
            json!({"model": self.names[at], "messages": [{"role": "user", "content": self.agents[at].question}]});
        let body = body.to_string();
        let mut socket = UnixStream::connect(&self.socket)?;
        write!(socket, "POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
        socket.set_nonblocking(true)?;
        let agent = &mut self.agents[at];
        agent.transfer = Some(Transfer { socket, response: Response::default(), is_complete: false });
        agent.retry_at = None;
        agent.outcome.state = "waiting".into();
        self.note(at, ">waiting");
        Ok(())
    }

    fn read(&mut self, at: usize) {
        let Some(transfer) = &mut self.agents[at].transfer else { return };
        let mut bytes = Vec::new();
        let mut portion = [0; 4096];
        while let Ok(count) = transfer.socket.read(&mut portion) {
            bytes.extend_from_slice(&portion[..count]);
            if count == 0 {
                transfer.is_complete = true;
                break;
            }
        }
        let fd = transfer.socket.as_raw_fd();
        let parts = transfer.response.feed(&bytes);
        transfer.is_complete |= transfer.response.is_complete;
        if transfer.is_complete {
            self.reactor.unwatch(Source::Socket(id(at), fd));
        }
        parts.into_iter().for_each(|part| self.on_part(at, part));
    }

    /// The callback for a part of a reply.
    fn on_part(&mut self, at: usize, part: Part) {
        match part {
            Part::Text(text) => {
                let to = self.target(Story::WrongContent, at);
                self.agents[to].partial += &text;
                self.note(to, "text");
            }
            Part::Usage([input, output]) => {
                let to = self.target(Story::WrongUsage, at);
                let usage = &mut self.agents[to].outcome.usage;
                *usage = [usage[0] + input, usage[1] + output];
                self.note(to, "usage");
            }
            Part::Call(arguments) => self.agents[at].calls.push(arguments),
        }
    }

    /// `curl_multi_info_read`: reports an ended transfer to the completion callback.
    fn check_completion(&mut self, at: usize) {
        let is_complete = self.agents[at].transfer.as_ref().is_some_and(|transfer| transfer.is_complete);
        let Some(transfer) = self.agents[at].transfer.take_if(|_| is_complete) else { return };
        if let Some(seconds) = transfer.response.retry_after() {
            self.agents[at].retry_at = Some(self.clock.now() + Duration::from_secs(seconds));
            return self.note(at, "error");
        }
        if let Some(message) = transfer.response.error() {
            let to = self.target(Story::WrongError, at);
            self.agents[to].outcome.error = message;
            self.note(to, "error");
        }
        let to = self.target(Story::WrongCompletion, at);
        let now = self.clock.now();
        let agent = &mut self.agents[to];
        let text = std::mem::take(&mut agent.partial);
        agent.outcome.replies.extend(Some(text).filter(|text| !text.is_empty()));
        for arguments in std::mem::take(&mut agent.calls) {
            let is_meant = |tool: &Tool| tool.with.as_ref().is_none_or(|with| arguments.contains(with.as_str()));
            let found = self.unused_tools.iter().position(is_meant).map(|found| self.unused_tools.remove(found));
            let due = now + Duration::from_millis(found.map_or(0, |tool| tool.after));
            agent.tools.push(Running { due, is_complete: false });
        }
        let state = if agent.tools.is_empty() { "idle" } else { "tool" };
        agent.outcome.state = state.into();
        self.note(to, &format!(">{state}"));
    }

    fn poll_tools(&mut self, at: usize) -> Result<()> {
        let now = self.clock.now();
        let agent = &mut self.agents[at];
        agent.tools.iter_mut().for_each(|tool| tool.is_complete = tool.due <= now);
        if agent.tools.is_empty() || agent.tools.iter().any(|tool| !tool.is_complete) {
            return Ok(());
        }
        for _ in agent.tools.drain(..).collect::<Vec<_>>() {
            self.note(at, "tool_result");
        }
        self.send(at)
    }

    fn next_moment(&self) -> Option<Moment> {
        let input = self.inputs.front().map(|input| self.start + Duration::from_millis(input.at));
        let retries = self.served(Story::FrozenTimeouts).into_iter().filter_map(|at| self.agents[at].retry_at);
        let tools = self.agents.iter().flat_map(|agent| &agent.tools).map(|tool| tool.due);
        let later = |moment: &Moment| *moment > self.clock.now();
        input.into_iter().chain(retries).chain(tools).filter(later).min()
    }

    fn outcome(self) -> Outcome {
        let outcome = |agent: Agent| {
            let mut outcome = agent.outcome;
            outcome.replies.extend(Some(agent.partial).filter(|partial| !partial.is_empty()));
            outcome
        };
        let agents: BTreeMap<String, AgentOutcome> =
            self.names.into_iter().zip(self.agents.into_iter().map(outcome)).collect();
        Outcome { agents, events: self.events, ..Outcome::default() }
    }
}

fn id(at: usize) -> AgentId {
    AgentId::from_bytes((at as u128).to_be_bytes())
}
