//! The trace of the loop, as lines of JSON in a file: what happened in each turn, and outside of turns, and why. Holds
//! no text of a conversation and no credential. `domain::trace` is the schema.
//!
//! With `--trace-stable`, two runs of one script on a manual clock write the same bytes: agents are numbered in the
//! order in which they appear, and the division into turns is left out, because it depends on the kernel.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::fd::RawFd;
use std::path::Path;
use std::time::Duration;

use crate::agent::{Agent, Effect, RecordedEvent, TracedEvent, UNFINISHED};
use crate::base::clock::{Clock, Moment, micros};
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, TerminalId};
use crate::domain::change::Change;
use crate::domain::config::Config;
use crate::domain::flow::{AgentOutcome, Origin};
use crate::domain::key::TypedInput;
use crate::domain::message::Body;
use crate::domain::trace::{Candidate, Name, SCHEMA, TraceLine, Watched};
use crate::reactor::{Ready, Source};
use crate::repl::event::Event;
use crate::repl::record::Record;
use crate::repl::timeout::{Timeout, WakeReason};
use crate::repl::watch::{SlowTurns, Watch};

/// Writes the trace and the record of the session, if they were asked for. With a trace, and in debug builds, the steps of
/// every turn are watched.
#[derive(Default)]
pub struct Trace {
    writer: Option<Writer>,
    watch: Option<Watch>,
    record: Record,
}

type Waits = (String, Option<Moment>);
/// The descriptors that a wait listens to, whether for reading and writing, and its time limits.
type Wait = (Vec<(Source, RawFd, bool, bool)>, Vec<(Duration, WakeReason)>);

struct Writer {
    out: BufWriter<File>,
    clock: Clock,
    start: Moment,
    turns: u64,
    /// The current turn, and when its wait ended.
    turn: Option<(u64, Moment)>,
    /// In the stable form: the agents in the order in which they appeared.
    stable: Option<Vec<AgentId>>,
    /// What each terminal showed last.
    focus: BTreeMap<TerminalId, AgentId>,
    /// For what each agent waited last, and until when.
    waits: BTreeMap<AgentId, Waits>,
    /// What the last wait listened to.
    watched: Vec<Watched>,
    /// Why a line could not be written; reported at the end of the turn.
    error: Option<io::Error>,
}

impl Trace {
    /// Appends to the configured file; without one, there is no trace, and only a debug build watches the steps.
    pub fn open<'a>(config: &Config, clock: &Clock, agents: impl Iterator<Item = &'a Agent> + Clone) -> Result<Self> {
        let watch = (cfg!(debug_assertions) || config.trace.is_some()).then(|| Watch::new(clock.clone()));
        let trace = config.trace.as_deref().map(|path| Writer::open(path, config, clock, agents.clone()));
        // The last, because it makes a file.
        Ok(Self { writer: trace.transpose()?, watch, record: Record::open(config, clock, agents)? })
    }

    /// Begins a turn before its wait.
    pub fn prepare(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.begin();
        }
    }

    /// Whether turns and their waits are written.
    pub fn has_turns(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.stable.is_none())
    }

    /// The wait has ended: `wait` is what it listened to and what could have ended it.
    pub fn begin(&mut self, timeout: &Timeout, wait: Option<Wait>, ready: &[Ready]) {
        if let Some(watch) = &mut self.watch {
            watch.skip_wait();
        }
        let Some(writer) = &mut self.writer else { return };
        writer.turns += 1;
        let now = writer.clock.now();
        writer.turn = Some((writer.turns, now));
        if writer.stable.is_some() {
            return;
        }
        writer.write_turn(timeout, wait.unwrap_or_default());
        for item in ready {
            let SourceName { source, agent, number, fd } = SourceName::of(item.source);
            let agent = agent.map(|agent| writer.name_of(agent));
            let (read, write) = (Some(item.readiness.readable), Some(item.readiness.writable));
            let error = Some(item.readiness.error);
            let source = Some(source.into());
            writer.write(TraceLine { agent, source, number, fd, read, write, error, ..TraceLine::of("ready") });
        }
    }

    /// A step of the turn has ended.
    pub fn step(&mut self, name: &'static str) {
        self.step_of(|| name);
    }

    /// The same with a name that takes time to find.
    pub fn step_of(&mut self, name: impl FnOnce() -> &'static str) {
        if let Some(watch) = &mut self.watch {
            watch.end_step(name());
        }
    }

    /// A terminal has handled this many keys, which are not recorded themselves.
    pub fn keys(&mut self, terminal: TerminalId, agent: AgentId, keys: u64) {
        if let Some(writer) = self.writer.as_mut().filter(|_| keys > 0) {
            let (terminal, keys) = (Some(terminal.0), Some(keys));
            writer.write_of(agent, TraceLine { terminal, keys, ..TraceLine::of("keys") });
        }
    }

    /// What was delivered to agents.
    pub fn on_delivered(&mut self, callbacks: Vec<TracedEvent>, recorded: Vec<(AgentId, RecordedEvent)>) {
        self.record.on_delivered(recorded);
        let Some(writer) = &mut self.writer else { return };
        for (agent, callback, bytes) in callbacks {
            if callback == UNFINISHED {
                // How often tools are looked at depends on the division into turns.
                if writer.stable.is_none() {
                    writer.write_of(agent, TraceLine::of(UNFINISHED));
                }
                continue;
            }
            let line = TraceLine { callback: Some(callback.into()), ..TraceLine::of("callback") };
            writer.write_of(agent, TraceLine { bytes: Some(bytes as u64), ..line });
        }
    }

    /// An agent's effect is about to be applied.
    pub fn effect(&mut self, agent: AgentId, effect: &Effect) {
        let Some(writer) = &mut self.writer else { return };
        let mut line = TraceLine { effect: Some(effect.name().into()), ..TraceLine::of("effect") };
        match effect {
            Effect::StateChanged(from, to) => (line.from, line.to) = (Some(from.name().into()), Some(to.name().into())),
            Effect::Persist(bodies) | Effect::Settle(bodies) | Effect::Finish(bodies) => {
                line.messages = bodies.iter().map(|body| Name::from(Body::kind(body))).collect();
            }
            Effect::Settled(outcome) => line.outcome = Some(outcome_name(outcome).into()),
            _ => {}
        }
        writer.write_of(agent, line);
    }

    /// A change is about to be made to an agent.
    pub fn change(&mut self, origin: Origin, agent: AgentId, change: &Change) {
        self.note_change(origin, agent, change.name());
        self.record.change(origin, change.name());
    }

    pub const fn is_recording(&self) -> bool {
        self.record.is_open()
    }

    /// A terminal is about to handle what it has received, for the record.
    pub fn typed(&mut self, input: &TypedInput) {
        self.record.input(input);
    }

    /// A change that no replay makes again.
    pub fn note_change(&mut self, origin: Origin, agent: AgentId, change: &'static str) {
        let Some(writer) = &mut self.writer else { return };
        let terminal = origin.terminal().map(|id| id.0);
        writer.write_of(agent, TraceLine { terminal, change: Some(change.into()), ..TraceLine::of("change") });
    }

    /// An agent was created or removed; `label` gives its name.
    pub fn event(&mut self, event: &Event, label: impl Fn(AgentId) -> String) {
        self.record.event(event, &label);
        let Some(writer) = &mut self.writer else { return };
        match event {
            Event::Spawned { parent, child, .. } => {
                let (parent, name) = (Some(writer.name_of(*parent)), Some(label(*child).into()));
                writer.write_of(*child, TraceLine { name, parent, ..TraceLine::of("spawned") });
            }
            Event::Removed { agent, adopter, .. } => {
                let parent = adopter.map(|adopter| writer.name_of(adopter));
                writer.write_of(*agent, TraceLine { parent, ..TraceLine::of("removed") });
            }
            _ => {}
        }
    }

    /// An agent has another name.
    pub fn write_name(&mut self, agent: AgentId, label: impl Fn() -> String) {
        self.record.rename(agent, &label());
        if let Some(writer) = &mut self.writer {
            writer.write_of(agent, TraceLine { name: Some(label().into()), ..TraceLine::of("agent") });
        }
    }

    /// The agents that terminals show; recorded when they change.
    pub fn focus(&mut self, shown: impl Iterator<Item = (TerminalId, AgentId)>) {
        let Some(writer) = &mut self.writer else { return };
        for (terminal, agent) in shown {
            if writer.focus.insert(terminal, agent) != Some(agent) {
                writer.write_of(agent, TraceLine { terminal: Some(terminal.0), ..TraceLine::of("focus") });
            }
        }
    }

    /// What agents wait for at the end of a turn; recorded when it changes. This depends on the division into turns.
    pub fn waits(&mut self, waits: impl FnOnce() -> BTreeMap<AgentId, Waits>) {
        let Some(writer) = self.writer.as_mut().filter(|writer| writer.stable.is_none()) else { return };
        let now = writer.clock.now();
        let before = std::mem::replace(&mut writer.waits, waits());
        let new: Vec<(AgentId, Waits)> = writer
            .waits
            .iter()
            .filter(|(agent, waits)| before.get(agent) != Some(waits))
            .map(|(a, w)| (*a, w.clone()))
            .collect();
        for (agent, (what, until)) in new {
            let timeout_us = until.map(|until| micros(until - now));
            writer.write_of(agent, TraceLine { timeout_us, why: Some(what.into()), ..TraceLine::of("waits") });
        }
    }

    /// These terminals were drawn. How often depends on the division into turns.
    pub fn rendered(&mut self, drawn: Vec<(TerminalId, AgentId)>) {
        let Some(writer) = self.writer.as_mut().filter(|writer| writer.stable.is_none()) else { return };
        for (terminal, agent) in drawn {
            writer.write_of(agent, TraceLine { terminal: Some(terminal.0), ..TraceLine::of("render") });
        }
    }

    /// The turn is over. If the trace or the record can no longer be written, it ends with this message; the loop continues.
    pub fn end(&mut self) -> Vec<String> {
        let ended = |what: &str, error: io::Error| format!("cannot write the {what}: {error}; it ends here");
        let trace = self.end_turn().map(|error| ended("trace", error));
        let record = self.record.take_error().map(|error| ended("record", error));
        trace.into_iter().chain(record).collect()
    }

    fn end_turn(&mut self) -> Option<io::Error> {
        let slow = self.watch.as_mut().and_then(Watch::end);
        let writer = self.writer.as_mut()?;
        if let Some((_, began)) = writer.turn.filter(|_| writer.stable.is_none()) {
            let duration_us = Some(micros(writer.clock.now() - began));
            let (step, step_us) = slow.map(|(step, took)| (step.into(), micros(took))).unzip();
            writer.write(TraceLine { duration_us, step, step_us, ..TraceLine::of("end") });
        }
        writer.turn = None;
        let error = writer.error.take().or_else(|| writer.out.flush().err());
        if error.is_some() {
            self.writer = None;
        }
        error
    }

    /// The turns that were slow, if they are watched.
    pub fn slow_turns(&self) -> SlowTurns {
        self.watch.as_ref().map(|watch| watch.slow.clone()).unwrap_or_default()
    }
}

impl Writer {
    fn open<'a>(path: &Path, config: &Config, clock: &Clock, agents: impl Iterator<Item = &'a Agent>) -> Result<Self> {
        let file = File::options().create(true).append(true).open(path);
        let file = file.map_err(|error| Error::from(error).context(format!("--trace {}", path.display())))?;
        let mut writer = Self {
            out: BufWriter::new(file),
            clock: clock.clone(),
            start: clock.now(),
            turns: 0,
            turn: None,
            stable: config.trace_stable.then(Vec::new),
            focus: BTreeMap::new(),
            waits: BTreeMap::new(),
            watched: Vec::new(),
            error: None,
        };
        writer.write(TraceLine { schema: Some(SCHEMA), ..TraceLine::of("start") });
        for agent in agents {
            let parent = agent.identity.parent.map(|parent| writer.name_of(parent));
            let name = Some(agent.identity.label().into());
            writer.write_of(agent.id(), TraceLine { name, parent, ..TraceLine::of("agent") });
        }
        Ok(writer)
    }

    /// A wait, as `setup_fd_sets` and the minimum of the time limits made it.
    fn write_turn(&mut self, timeout: &Timeout, (watched, limits): Wait) {
        let (why, agent) = reason(timeout.why);
        let agent = agent.map(|agent| self.name_of(agent));
        let watched = watched.into_iter().map(|(source, fd, read, write)| {
            let SourceName { source, agent, number, .. } = SourceName::of(source);
            let agent = agent.map(|agent| self.name_of(agent));
            Watched { source: source.into(), agent, number, fd: Some(fd), read, write }
        });
        let watched: Vec<Watched> = watched.collect();
        let candidates = limits.into_iter().map(|(after, why)| {
            let (why, agent) = reason(why);
            Candidate { why: why.into(), agent: agent.map(|agent| self.name_of(agent)), timeout_us: micros(after) }
        });
        let candidates = candidates.collect();
        let watched = (watched != self.watched).then(|| {
            self.watched.clone_from(&watched);
            watched
        });
        let timeout_us = timeout.after.map(micros);
        let line = TraceLine { timeout_us, why: Some(why.into()), agent, ..TraceLine::of("turn") };
        self.write(TraceLine { watched, candidates, ..line });
    }

    fn write_of(&mut self, agent: AgentId, line: TraceLine) {
        let agent = Some(self.name_of(agent));
        self.write(TraceLine { agent, ..line });
    }

    fn write(&mut self, line: TraceLine) {
        let turn = self.turn.map(|(number, _)| number).filter(|_| self.stable.is_none());
        let line = TraceLine { turn, at_us: micros(self.clock.now() - self.start), ..line };
        let text = serde_json::to_string(&line).map_err(io::Error::from);
        if let Err(error) = text.and_then(|text| writeln!(self.out, "{text}")) {
            self.error.get_or_insert(error);
        }
    }

    fn name_of(&mut self, agent: AgentId) -> Name {
        let Some(agents) = &mut self.stable else { return agent.to_string().into() };
        let known = agents.iter().position(|known| *known == agent);
        let index = known.unwrap_or_else(|| {
            agents.push(agent);
            agents.len() - 1
        });
        format!("agent-{}", index + 1).into()
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

/// A source as its line has it.
struct SourceName {
    source: &'static str,
    agent: Option<AgentId>,
    number: Option<u64>,
    fd: Option<RawFd>,
}

impl SourceName {
    fn of(source: Source) -> Self {
        let (source, agent, number, fd) = match source {
            Source::Terminal => ("terminal", None, None, None),
            Source::Signals => ("signals", None, None, None),
            Source::Waker => ("waker", None, None, None),
            Source::External(fd) => ("external", None, None, Some(fd)),
            Source::Socket(id, fd) => ("socket", Some(id), None, Some(fd)),
            Source::Listener => ("listener", None, None, None),
            Source::Client(number) => ("client", None, Some(number), None),
            Source::Proxy(number) => ("proxy", None, Some(number), None),
            Source::Feature { name, number, fd } => (name, None, Some(number), Some(fd)),
        };
        Self { source, agent, number, fd }
    }
}

fn reason(why: WakeReason) -> (&'static str, Option<AgentId>) {
    let name = match why {
        WakeReason::Agent(id, what) => return (what, Some(id)),
        WakeReason::Nothing => "nothing",
        WakeReason::Leftover => "leftover",
        WakeReason::Pause => "pause",
        WakeReason::Tools => "tools",
        WakeReason::Spinner => "spinner",
        WakeReason::Text => "text",
        WakeReason::Reads => "reads",
        WakeReason::Countdown => "countdown",
        WakeReason::Team => "team",
        WakeReason::Keys => "keys",
        WakeReason::Question => "question",
        WakeReason::Draft => "draft",
        WakeReason::Store => "store",
        WakeReason::Files => "files",
        WakeReason::Shell => "shell",
        WakeReason::View => "view",
        WakeReason::Client => "client",
        WakeReason::Proxy => "proxy",
        WakeReason::Feature(name) => name,
    };
    (name, None)
}
