//! The process that dies: how it is started, and what it runs.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use polylogue::{AgentId, Change, Clock, Decision, Repl, Store};
use rustix::process::{Signal, getpid, kill_process};

use super::scenarios;
use crate::support::PATIENCE;
use crate::support::harness::Plan;
use crate::support::internals::{Device, Probe, RemoteTerminal, TerminalMode};
use crate::support::pty::died_of;

/// In the environment of the process that is to die: the scenario, the write, and the directory.
const SCENARIO: &str = "POLYLOGUE_TEST_CRASH_SCENARIO";
const DEATH: &str = "POLYLOGUE_TEST_CRASH_AT";
const DIRECTORY: &str = "POLYLOGUE_TEST_CRASH_IN";

/// What the process printed before it died.
#[derive(Debug)]
pub struct Outcome {
    /// The last step that was acknowledged; 0 if none was.
    pub acknowledged: usize,
    /// It came to the end of the scenario.
    pub is_done: bool,
}

/// Lets a copy of this binary play the scenario in this directory until its `death`th write.
pub fn run_until_death(scenario: &str, directory: &Path, death: usize) -> Outcome {
    let mut copy = Command::new(std::env::current_exe().expect("the path of this binary"));
    copy.args(["--exact", "crashes::process::run_until_killed", "--nocapture", "--test-threads=1"]);
    copy.env(SCENARIO, scenario).env(DEATH, death.to_string()).env(DIRECTORY, directory);
    let output = crate::support::output(&mut copy);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(died_of(output.status, Signal::KILL), "{scenario}: no death at {death}\n{stdout}");
    let steps = stdout.lines().filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok());
    Outcome { acknowledged: steps.max().unwrap_or(0), is_done: stdout.lines().any(|line| line == "done") }
}

/// Not a test: the entry point of the copy of this binary.
#[test]
fn run_until_killed() {
    let Ok(name) = std::env::var(SCENARIO) else { return };
    let variable = |name| std::env::var(name).expect("set by the parent process");
    let death = variable(DEATH).parse().expect("a number");
    let scenario = scenarios::find(&name);
    let mut run = Run::open(Path::new(&variable(DIRECTORY)), death);
    (scenario.actions)(&mut run);
    say("done");
    die();
}

/// A loop that dies at one of its writes.
pub struct Run {
    pub repl: Repl,
}

impl Run {
    fn open(directory: &Path, death: usize) -> Self {
        let written = Arc::new(AtomicUsize::new(0));
        let mut store = Store::open(directory).expect("the store opens");
        let count = move || {
            if written.fetch_add(1, Ordering::Relaxed) + 1 == death {
                die();
            }
        };
        store.on_write(count).expect("a store that tells what it writes");
        let config = Plan::default().config(directory);
        Self { repl: Repl::open(config, store, Clock::system()).expect("the program opens") }
    }

    /// The `n`th agent in the order of creation.
    pub fn id(&self, n: usize) -> AgentId {
        self.repl.roster().nth(n).expect("so many agents")
    }

    /// Asks for a change on behalf of the `n`th agent.
    pub fn ask(&mut self, n: usize, change: Change) {
        self.repl.apply(self.id(n), change).expect("the change can be carried out");
    }

    pub fn say(&mut self, n: usize, text: &str) {
        self.ask(n, Change::Submit(text.into()));
    }

    /// Types at a terminal that shows agent 0, and waits until what is typed is stored.
    pub fn type_bytes(&mut self, bytes: &[u8]) {
        let at = self.repl.terminal_ids().first().copied().unwrap_or_else(|| {
            let root = self.id(0);
            self.repl.attach_device(Device::Remote(RemoteTerminal::default()), root, TerminalMode::default())
        });
        let remote = self.repl.terminal_at(at).and_then(|terminal| terminal.remote()).expect("a terminal");
        remote.input.extend(bytes);
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < PATIENCE, "the draft is not stored");
            self.repl.turn(Some(Duration::from_millis(20))).expect("the loop turns");
            let stored = self.repl.store().drafts(self.id(0)).expect("the drafts");
            if self.repl.draft_at(at) == stored.first().map(|(_, text)| text.as_str()).unwrap_or_default() {
                break;
            }
        }
    }

    /// Turns until the `n`th agent is idle.
    pub fn until_idle(&mut self, n: usize) {
        self.until("the end of its turn", |repl, id| !repl.roster().busy().contains(&id), n);
    }

    /// Turns until no summary is written for the `n`th agent.
    pub fn until_compacted(&mut self, n: usize) {
        let is_compacting = |repl: &Repl, id| repl.roster().get(id).is_some_and(|agent| agent.is_compacting());
        self.until("the compaction", |repl, id| !is_compacting(repl, id), n);
    }

    /// Turns until the `n`th agent has a question.
    pub fn until_asked(&mut self, n: usize) {
        self.until("a question", |repl, id| repl.roster().asking().contains(&id), n);
    }

    /// Answers the question of the `n`th agent.
    pub fn answer(&mut self, n: usize, decision: Decision) {
        let question =
            self.repl.roster().get(self.id(n)).and_then(|agent| agent.question()).expect("a question").number;
        self.ask(n, Change::Answer { question, decision });
    }

    fn until(&mut self, what: &str, holds: impl Fn(&Repl, AgentId) -> bool, n: usize) {
        let start = Instant::now();
        while !holds(&self.repl, self.id(n)) {
            assert!(start.elapsed() < PATIENCE, "agent {n}: never came: {what}");
            self.repl.turn(Some(Duration::from_millis(20))).expect("the loop turns");
        }
    }

    /// Reports the step with this number as done: it must survive the death.
    pub fn acknowledge(&self, step: usize) {
        say(&format!("acknowledged {step}"));
    }
}

fn say(line: &str) {
    // In a line of its own, whatever the test harness has left unfinished.
    println!("\n{line}");
    std::io::stdout().flush().expect("an open standard output");
}

fn die() {
    kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
}
