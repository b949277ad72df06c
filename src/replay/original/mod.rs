//! A small copy of the loop of the C program as it was first written, or with one of its faults only. It shares nothing with
//! the loop of this program but the poll, and plays the same scenario on the same clock.
//!
//! Each turn computes the three sets of `select` and the least of its time limits, waits, and then handles the keys, the
//! transfers and the tools, in this order. Names of the C program are kept where its design document uses them.

mod agent;
mod response;
mod world;

use std::time::Duration;

use crate::base::clock::{Clock, Moment, micros};
use crate::base::error::Result;
use crate::base::file::TemporaryDirectory;
use crate::base::id::AgentId;
use crate::domain::trace::{Candidate, Name, SCHEMA, TraceLine, Watched};
use crate::reactor::{Reactor, Source};

use super::fault::Fault;
use super::outcome::{Outcome, events_of};
use super::scenario::{Input, Scenario};
use agent::{Agent, State};
use response::Part;
use world::World;

/// The step of the spinner of the agent on the screen.
const SPINNER: Duration = Duration::from_millis(80);
/// How often the flag of a tool is checked.
const TOOL_POLL: Duration = Duration::from_millis(50);
/// A wait without a time limit ends after this time.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// After the last event from outside, the loop is at rest when so many turns have changed nothing.
const TURNS_AT_REST: u32 = 2;
const SWITCH: &str = "/switch ";
const UNREAD: &str = "select returns at once, again and again: nobody reads";

/// What came of a scenario, and the trace of it.
pub struct Played {
    pub outcome: Outcome,
    pub trace: Vec<TraceLine>,
}

struct Loop {
    faults: Vec<Fault>,
    agents: Vec<Agent>,
    /// The agent on the screen.
    current: usize,
    world: World,
    reactor: Reactor,
    clock: Clock,
    start: Moment,
    end: Moment,
    turns: u64,
    trace: Vec<TraceLine>,
    /// The agents whose descriptor is ready and that nobody reads: `select` returns at once, again and again.
    unread: Vec<usize>,
    turns_at_rest: u32,
}

/// Plays a scenario with these faults.
pub fn play(scenario: &Scenario, faults: &[Fault]) -> Result<Played> {
    let directory = TemporaryDirectory::create()?;
    let clock = Clock::manual();
    let start = clock.now();
    let mut played = Loop {
        faults: faults.to_vec(),
        agents: scenario.agents.iter().enumerate().map(|(number, name)| Agent::new(number, name)).collect(),
        current: 0,
        world: World::new(scenario, directory.path(), start)?,
        reactor: Reactor::new()?,
        end: start + Duration::from_millis(scenario.end),
        start,
        clock,
        turns: 0,
        trace: vec![TraceLine { schema: Some(SCHEMA), ..TraceLine::of("start") }],
        unread: Vec::new(),
        turns_at_rest: 0,
    };
    for agent in &played.agents {
        let name = Some(Name::from(agent.name.clone()));
        played.trace.push(TraceLine { agent: name.clone(), name, ..TraceLine::of("agent") });
    }
    played.write_focus();
    while let Some(ready) = played.wait()? {
        let before = played.trace.len();
        played.turn(&ready)?;
        played.turns_at_rest = if played.trace.len() == before { played.turns_at_rest + 1 } else { 0 };
    }
    Ok(played.finish())
}

impl Loop {
    /// `setup_fd_sets`, `calculate_select_timeout_ms` and `select`: the agents whose sockets are ready. `None` when nothing can
    /// happen any more.
    fn wait(&mut self) -> Result<Option<Vec<usize>>> {
        let watched = self.set_up_descriptors()?;
        let candidates = self.time_limits();
        let least = candidates.iter().map(|candidate| candidate.timeout_us).min();
        let limit = least.map_or(LONGEST_WAIT, Duration::from_micros);
        let deadline = self.clock.now() + limit;
        let ready = loop {
            self.advance_world()?;
            let ready = self.ready()?;
            if self.world.has_input(self.clock.now()) || !ready.is_empty() || deadline <= self.clock.now() {
                break ready;
            }
            let next = self.world.next_moment();
            match next {
                Some(_) => self.turns_at_rest = 0,
                None if self.turns_at_rest >= TURNS_AT_REST => return Ok(None),
                None => {}
            }
            let next = next.into_iter().chain([deadline]).min().filter(|next| *next <= self.end);
            let Some(next) = next else { return Ok(None) };
            self.clock.advance(next - self.clock.now());
        };
        self.turns += 1;
        let why = candidates.iter().min_by_key(|candidate| candidate.timeout_us);
        let (agent, why) = (why.and_then(|least| least.agent.clone()), why.map_or("nothing".into(), |w| w.why.clone()));
        let line = TraceLine { timeout_us: Some(micros(limit)), why: Some(why), agent, ..TraceLine::of("turn") };
        self.write(TraceLine { watched: Some(watched), candidates, ..line });
        Ok(Some(ready))
    }

    /// One turn after its wait, in the order of the C program.
    fn turn(&mut self, ready: &[usize]) -> Result<()> {
        for input in self.world.take_input(self.clock.now()) {
            self.handle_input(&input);
        }
        for at in self.served(Fault::FrozenCompletions) {
            self.perform(at)?;
        }
        self.served(Fault::FrozenTools).into_iter().for_each(|at| self.poll_tool(at));
        let served = self.served(Fault::FrozenCompletions);
        self.unread.retain(|at| !served.contains(at));
        for at in ready.iter().filter(|at| !served.contains(at)) {
            self.unread.push(*at);
            self.write_of(*at, TraceLine { why: Some(UNREAD.into()), ..TraceLine::of("waits") });
        }
        Ok(())
    }

    /// The agents that a part of the loop serves: with the fault, only the one on the screen.
    fn served(&self, fault: Fault) -> Vec<usize> {
        if self.faults.contains(&fault) { vec![self.current] } else { (0..self.agents.len()).collect() }
    }

    /// The agent into which a callback of this one writes: with the fault, the one on the screen.
    fn target(&self, fault: Fault, own: usize) -> usize {
        if self.faults.contains(&fault) { self.current } else { own }
    }

    /// Registers the descriptors for the next wait, as `select` is given its sets for each wait. A descriptor that is still
    /// readable is ready again.
    fn set_up_descriptors(&mut self) -> Result<Vec<Watched>> {
        let terminal = Watched { source: "terminal".into(), fd: Some(0), read: true, ..Watched::default() };
        let mut watched = vec![terminal];
        let served = self.served(Fault::FrozenDescriptors);
        for (at, agent) in self.agents.iter().enumerate() {
            let Some(fd) = agent.descriptor() else { continue };
            let read = served.contains(&at);
            self.reactor.watch(Source::Socket(id(at), fd), fd, read, false)?;
            if read {
                let agent = Some(agent.name.clone().into());
                let source = "socket".into();
                watched.push(Watched { source, agent, fd: Some(fd), read, ..Watched::default() });
            }
        }
        Ok(watched)
    }

    /// What limits the next wait.
    fn time_limits(&self) -> Vec<Candidate> {
        let mut limits = Vec::new();
        let mut limit = |at: usize, why: &'static str, after: Duration| {
            let agent = Some(self.agents[at].name.clone().into());
            limits.push(Candidate { why: why.into(), agent, timeout_us: micros(after) });
        };
        if self.agents[self.current].state != State::Idle {
            limit(self.current, "spinner", SPINNER);
        }
        for at in self.served(Fault::FrozenTimeouts) {
            if self.agents[at].state == State::ExecutingTool {
                limit(at, "tools", TOOL_POLL);
            }
            if self.agents[at].has_unsent_request() {
                limit(at, "curl timer", Duration::ZERO);
            }
        }
        limits
    }

    /// Lets the provider send and the threads of tools end, which happens beside the loop.
    fn advance_world(&mut self) -> Result<()> {
        while self.world.provider.poll(self.clock.now())? {}
        for thread in self.world.take_ended_threads(self.clock.now()) {
            let to = self.target(Fault::WrongTool, thread.agent);
            self.agents[to].tool_thread_complete = true;
            self.agents[to].tool_thread_result = thread.result;
            self.note(to, "flag");
        }
        Ok(())
    }

    /// The agents whose sockets have become ready.
    fn ready(&mut self) -> Result<Vec<usize>> {
        let mut ready = Vec::new();
        self.reactor.wait(Some(Duration::ZERO), &mut ready)?;
        let is_ready =
            |at: &usize| ready.iter().any(|item| matches!(item.source, Source::Socket(agent, _) if agent == id(*at)));
        Ok((0..self.agents.len()).filter(|at| is_ready(at) && !self.unread.contains(at)).collect())
    }

    /// Bytes as a terminal sends them, one after the other. What follows an escape is no text.
    fn handle_input(&mut self, input: &Input) {
        let typed = input.line.as_ref().map(|line| format!("{line}\r")).or_else(|| input.keys.clone());
        for key in typed.unwrap_or_default().chars() {
            let buffer = &mut self.agents[self.current].input_buffer;
            match key {
                '\r' => {
                    let line = std::mem::take(buffer);
                    self.handle_newline(&line);
                }
                '\u{7f}' => drop(buffer.pop()),
                '\u{1b}' => return,
                key if key.is_control() => {}
                key => buffer.push(key),
            }
        }
    }

    fn handle_newline(&mut self, line: &str) {
        let is_text = !line.starts_with('/') && !line.trim().is_empty();
        let named = |name: &str| self.agents.iter().position(|agent| agent.name == name);
        match line.strip_prefix(SWITCH).map(named) {
            Some(Some(at)) => {
                self.current = at;
                self.write_focus();
            }
            // The input is hidden while an agent works.
            None if is_text && self.agents[self.current].state == State::Idle => {
                self.write_of(self.current, TraceLine { change: Some("submit".into()), ..TraceLine::of("change") });
                self.agents[self.current].ask(line);
                self.submit(self.current);
            }
            _ => {}
        }
    }

    /// `curl_multi_add_handle`: the request is sent by the next call of `perform`.
    fn submit(&mut self, at: usize) {
        self.agents[at].add_request();
        self.set_state(at, State::WaitingForLlm);
    }

    /// `handle_curl_events` for an agent: continues its transfer, and handles the end of it.
    fn perform(&mut self, at: usize) -> Result<()> {
        if !self.agents[at].curl_still_running {
            return Ok(());
        }
        let socket = self.world.socket.clone();
        self.agents[at].send_request(&socket)?;
        while self.world.provider.poll(self.clock.now())? {}
        let source = self.agents[at].descriptor().map(|fd| Source::Socket(id(at), fd));
        let parts = self.agents[at].receive();
        parts.into_iter().for_each(|part| self.on_part(at, part));
        if !self.agents[at].curl_still_running {
            source.into_iter().for_each(|source| self.reactor.unwatch(source));
            self.on_completion(at);
        }
        Ok(())
    }

    /// The callback for a part of a reply.
    fn on_part(&mut self, at: usize, part: Part) {
        match part {
            Part::Text(text) => {
                let to = self.target(Fault::WrongContent, at);
                self.agents[to].assistant_response += &text;
                self.note_bytes(to, "text", text.len());
            }
            Part::Usage([input, output]) => {
                let to = self.target(Fault::WrongUsage, at);
                let usage = &mut self.agents[to].usage;
                *usage = [usage[0] + input, usage[1] + output];
                self.note(to, "usage");
            }
            Part::Call(arguments) => {
                let to = self.target(Fault::WrongCompletion, at);
                self.agents[to].pending_tool_call.get_or_insert(arguments);
            }
        }
    }

    /// The callback for the end of a transfer, and what the loop does then.
    fn on_completion(&mut self, at: usize) {
        if let Some(message) = self.agents[at].take_transfer_error() {
            let to = self.target(Fault::WrongError, at);
            self.agents[to].http_error_message = Some(message);
            self.note(to, "error");
        }
        let to = self.target(Fault::WrongCompletion, at);
        if self.agents[to].state != State::WaitingForLlm {
            return;
        }
        self.agents[to].finish_reply();
        match self.agents[to].pending_tool_call.take() {
            Some(arguments) => {
                self.agents[to].tool_thread_complete = false;
                self.world.start_tool(to, &arguments, self.clock.now());
                self.set_state(to, State::ExecutingTool);
            }
            None => self.set_state(to, State::Idle),
        }
    }

    /// Collects the result of a tool and sends it to the model.
    fn poll_tool(&mut self, at: usize) {
        let agent = &mut self.agents[at];
        if agent.state != State::ExecutingTool || !agent.tool_thread_complete {
            return;
        }
        let bytes = agent.collect_tool_result();
        self.note_bytes(at, "tool_result", bytes);
        self.submit(at);
    }

    fn set_state(&mut self, at: usize, state: State) {
        let from = std::mem::replace(&mut self.agents[at].state, state);
        let (from, to) = (Some(from.name().into()), Some(state.name().into()));
        let effect = Some("state_changed".into());
        self.write_of(at, TraceLine { effect, from, to, ..TraceLine::of("effect") });
    }

    fn write_focus(&mut self) {
        self.write_of(self.current, TraceLine { terminal: Some(1), ..TraceLine::of("focus") });
    }

    fn note(&mut self, at: usize, callback: &'static str) {
        self.note_bytes(at, callback, 0);
    }

    fn note_bytes(&mut self, at: usize, callback: &'static str, bytes: usize) {
        let line = TraceLine { callback: Some(callback.into()), ..TraceLine::of("callback") };
        self.write_of(at, TraceLine { bytes: Some(bytes as u64), ..line });
    }

    fn write_of(&mut self, at: usize, line: TraceLine) {
        let agent = Some(self.agents[at].name.clone().into());
        self.write(TraceLine { agent, ..line });
    }

    fn write(&mut self, line: TraceLine) {
        let turn = Some(self.turns).filter(|turn| *turn > 0);
        self.trace.push(TraceLine { turn, at_us: micros(self.clock.now() - self.start), ..line });
    }

    fn finish(self) -> Played {
        let screen = self.agents[self.current].screen();
        let agents = self.agents.into_iter().map(|agent| (agent.name.clone(), agent.outcome())).collect();
        let events = events_of(&self.trace);
        Played { outcome: Outcome { agents, events, screen, ..Outcome::default() }, trace: self.trace }
    }
}

fn id(at: usize) -> AgentId {
    AgentId::from_bytes((at as u128).to_be_bytes())
}
