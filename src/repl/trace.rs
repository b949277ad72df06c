//! One JSON line a turn, for a person or a test that wants to see what the loop did and why. Holds no text of any
//! conversation and no credential.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::agent::{Effect, TracedEvent};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::flow::{Change, Origin};
use crate::reactor::{Ready, Source};
use crate::repl::timeout::{Timeout, WakeReason};

/// Where turns are written down, if anywhere.
#[derive(Default)]
pub struct Trace {
    file: Option<BufWriter<File>>,
    turn: u64,
    line: Option<Value>,
}

impl Trace {
    /// Appends to the file; without one, nothing is written.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let open = |path: &Path| {
            let file = File::options().create(true).append(true).open(path);
            file.map_err(|error| crate::base::error::Error::from(error).context(format!("--trace {}", path.display())))
        };
        let file = path.map(open).transpose()?.map(BufWriter::new);
        Ok(Self { file, ..Self::default() })
    }

    /// A wait is over.
    pub fn begin(&mut self, timeout: &Timeout, ready: &[Ready]) {
        self.turn += 1;
        if self.file.is_none() {
            return;
        }
        let ready: Vec<String> = ready.iter().map(|one| source_name(one.source)).collect();
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

    /// Whether anything is written.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Agents were told something.
    pub fn heard(&mut self, heard: Vec<TracedEvent>) {
        for (agent, what, bytes) in heard {
            self.add("callbacks", || json!({"agent": agent.to_string(), "callback": what, "bytes": bytes}));
        }
    }

    /// An agent asked for something.
    pub fn effect(&mut self, agent: AgentId, effect: &Effect) {
        let moved = if let Effect::StateChanged(from, to) = effect { Some([from.name(), to.name()]) } else { None };
        self.add("effects", || json!({"agent": agent.to_string(), "effect": effect.name(), "moved": moved}));
    }

    /// A person at a terminal, or somebody for an agent, asked for something.
    pub fn change(&mut self, origin: Origin, agent: AgentId, change: &Change) {
        let terminal = origin.terminal().map(|id| id.0);
        self.add("changes", || json!({"agent": agent.to_string(), "change": change.name(), "terminal": terminal}));
    }

    fn add(&mut self, list: &str, entry: impl FnOnce() -> Value) {
        if let Some(list) = self.line.as_mut().and_then(|line| line[list].as_array_mut()) {
            list.push(entry());
        }
    }

    /// The turn is over. A trace that can no longer be written ends, with the reason, and the loop goes on.
    pub fn end(&mut self) -> Option<io::Error> {
        let (Some(file), Some(line)) = (&mut self.file, self.line.take()) else { return None };
        let ended = writeln!(file, "{line}").and_then(|()| file.flush()).err();
        if ended.is_some() {
            self.file = None;
        }
        ended
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
    }
}

fn why_name(why: WakeReason) -> String {
    match why {
        WakeReason::Nothing => "nothing".into(),
        WakeReason::Leftover => "leftover".into(),
        WakeReason::Agent(id, what) => format!("{what} {id}"),
        WakeReason::Limiter => "limiter".into(),
        WakeReason::Tools => "tools".into(),
        WakeReason::Spinner => "spinner".into(),
        WakeReason::Countdown => "countdown".into(),
        WakeReason::Team => "team".into(),
        WakeReason::Keys => "keys".into(),
        WakeReason::Client => "client".into(),
    }
}
