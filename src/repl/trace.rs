//! The trace of the loop, as lines of JSON in a file: what happened in each turn and why. Holds no text of a
//! conversation and no credential.
//!
//! With `--trace-stable` there is a line for each effect and change instead, and two runs of one script on a manual
//! clock write the same bytes: agents are numbered in the order in which they appear, times are whole milliseconds
//! since the start, and where one turn ends and the next begins is left out.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use serde::Serialize;
use serde_json::{Value, json};

use crate::agent::{Effect, TracedEvent};
use crate::base::clock::{Clock, Moment};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::config::Config;
use crate::domain::flow::{AgentOutcome, Origin};
use crate::domain::message::Body;
use crate::reactor::{Ready, Source};
use crate::repl::timeout::{Timeout, WakeReason};

/// Writes the trace, if one was asked for.
#[derive(Default)]
pub struct Trace {
    file: Option<BufWriter<File>>,
    turn: u64,
    /// The turn that is under way.
    line: Option<Value>,
    stable: Option<Stable>,
}

impl Trace {
    /// Appends to the configured file; without one, nothing is written.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(config: &Config, clock: &Clock) -> Result<Self> {
        let Some(path) = &config.trace else { return Ok(Self::default()) };
        let file = File::options().create(true).append(true).open(path);
        let file = file.map_err(|error| Error::from(error).context(format!("--trace {}", path.display())))?;
        let stable = config.trace_stable.then(|| Stable::new(clock));
        Ok(Self { file: Some(BufWriter::new(file)), stable, ..Self::default() })
    }

    /// Begins the trace of a turn after its wait.
    pub fn begin(&mut self, timeout: &Timeout, ready: &[Ready]) {
        self.turn += 1;
        if self.file.is_none() || self.stable.is_some() {
            return;
        }
        let ready: Vec<String> = ready.iter().map(|item| source_name(item.source)).collect();
        self.line = Some(json!({
            "turn": self.turn,
            "timeout_ms": timeout.after.map(|after| after.as_secs_f64() * 1000.0),
            "why": why_name(timeout.why),
            "ready": ready,
            "callbacks": [],
            "effects": [],
            "changes": [],
        }));
    }

    pub fn on_callbacks(&mut self, callbacks: Vec<TracedEvent>) {
        for (agent, callback, bytes) in callbacks {
            self.add("callbacks", || json!({"agent": agent.to_string(), "callback": callback, "bytes": bytes}));
        }
    }

    /// An agent's effect is about to be applied.
    pub fn effect(&mut self, agent: AgentId, effect: &Effect) {
        if let (Some(file), Some(stable)) = (&mut self.file, &mut self.stable) {
            return stable.write(file, agent, |line| line.describe_effect(effect));
        }
        let moved = if let Effect::StateChanged(from, to) = effect { Some([from.name(), to.name()]) } else { None };
        self.add("effects", || json!({"agent": agent.to_string(), "effect": effect.name(), "moved": moved}));
    }

    pub fn change(&mut self, origin: Origin, agent: AgentId, change: &'static str) {
        let terminal = origin.terminal().map(|id| id.0);
        if let (Some(file), Some(stable)) = (&mut self.file, &mut self.stable) {
            return stable.write(file, agent, |line| {
                line.change = Some(change);
                line.terminal = terminal;
            });
        }
        self.add("changes", || json!({"agent": agent.to_string(), "change": change, "terminal": terminal}));
    }

    fn add(&mut self, list: &str, entry: impl FnOnce() -> Value) {
        if let Some(list) = self.line.as_mut().and_then(|line| line[list].as_array_mut()) {
            list.push(entry());
        }
    }

    /// The turn is over. A trace that can no longer be written ends, with the reason, and the loop goes on.
    pub fn end(&mut self) -> Option<io::Error> {
        let file = self.file.as_mut()?;
        let line = self.line.take();
        let failed = self.stable.as_mut().and_then(|stable| stable.error.take());
        let written = failed.map_or(Ok(()), Err).and_then(|()| line.map_or(Ok(()), |line| writeln!(file, "{line}")));
        let error = written.and_then(|()| file.flush()).err();
        if error.is_some() {
            self.file = None;
        }
        error
    }
}

/// What the stable form has to remember between two lines.
struct Stable {
    clock: Clock,
    start: Moment,
    /// In the order in which they appeared.
    agents: Vec<AgentId>,
    /// Why a line could not be written; reported at the end of the turn.
    error: Option<io::Error>,
}

impl Stable {
    fn new(clock: &Clock) -> Self {
        Self { clock: clock.clone(), start: clock.now(), agents: Vec::new(), error: None }
    }

    fn write(&mut self, file: &mut BufWriter<File>, agent: AgentId, describe: impl FnOnce(&mut StableLine)) {
        let known = self.agents.iter().position(|known| *known == agent);
        let index = known.unwrap_or_else(|| {
            self.agents.push(agent);
            self.agents.len() - 1
        });
        let at_ms = (self.clock.now() - self.start).as_millis();
        let mut line = StableLine { at_ms, agent: format!("agent-{}", index + 1), ..StableLine::default() };
        describe(&mut line);
        let written = serde_json::to_string(&line).map_err(io::Error::from).and_then(|line| writeln!(file, "{line}"));
        if let Err(error) = written {
            self.error.get_or_insert(error);
        }
    }
}

/// One line of the stable form; the fields are written in this order.
#[derive(Default, Serialize)]
struct StableLine {
    at_ms: u128,
    agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    terminal: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<&'static str>,
    /// The states before and after.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved: Option<[&'static str; 2]>,
    /// The kinds of the messages that are written to the log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
}

impl StableLine {
    fn describe_effect(&mut self, effect: &Effect) {
        self.effect = Some(effect.name());
        match effect {
            Effect::StateChanged(from, to) => self.moved = Some([from.name(), to.name()]),
            Effect::Persist(bodies) | Effect::Settle(bodies) | Effect::Finish(bodies) => {
                self.messages = bodies.iter().map(Body::kind).collect();
            }
            Effect::Settled(outcome) => self.outcome = Some(outcome_name(outcome)),
            _ => {}
        }
    }
}

fn outcome_name(outcome: &AgentOutcome) -> &'static str {
    match outcome {
        AgentOutcome::Completed => "completed",
        AgentOutcome::Interrupted { partial: true } => "interrupted, partial answer",
        AgentOutcome::Interrupted { partial: false } => "interrupted",
        AgentOutcome::Exited => "exited",
        AgentOutcome::Error(error) => error.kind.name(),
    }
}

fn source_name(source: Source) -> String {
    match source {
        Source::Terminal => "terminal".into(),
        Source::Signals => "signals".into(),
        Source::Waker => "waker".into(),
        Source::External(fd) => format!("external {fd}"),
        Source::Socket(id, fd) => format!("socket {id} {fd}"),
        Source::Listener => "listener".into(),
        Source::Client(number) => format!("client {number}"),
        Source::Download(number, fd) => format!("download {number} {fd}"),
        Source::Proxy(number) => format!("proxy {number}"),
        Source::Mcp(number) => format!("mcp {number}"),
        Source::Transfer(number, fd) => format!("transfer {number} {fd}"),
    }
}

fn why_name(why: WakeReason) -> String {
    match why {
        WakeReason::Nothing => "nothing".into(),
        WakeReason::Leftover => "leftover".into(),
        WakeReason::Agent(id, what) => format!("{what} {id}"),
        WakeReason::Pause => "pause".into(),
        WakeReason::Tools => "tools".into(),
        WakeReason::Spinner => "spinner".into(),
        WakeReason::Text => "text".into(),
        WakeReason::Countdown => "countdown".into(),
        WakeReason::Team => "team".into(),
        WakeReason::Keys => "keys".into(),
        WakeReason::Question => "question".into(),
        WakeReason::Draft => "draft".into(),
        WakeReason::Files => "files".into(),
        WakeReason::View => "view".into(),
        WakeReason::Client => "client".into(),
        WakeReason::Web => "web".into(),
        WakeReason::Proxy => "proxy".into(),
        WakeReason::Mcp => "mcp".into(),
    }
}
