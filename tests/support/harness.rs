//! Drives a real loop turn by turn: bytes in for keys, a screen to read, real sockets, a real store, and a clock that the
//! test moves (or the real one).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use polylogue::agent::{Agent, State};
use polylogue::base::clock::Clock;
use polylogue::base::id::AgentId;
use polylogue::domain::config::{Config, Settings};
use polylogue::domain::custom::CustomCommand;
use polylogue::domain::endpoint::{Catalog, Endpoint, ProviderEntry};
use polylogue::domain::environment::EnvironmentEntry;
use polylogue::domain::flow::Change;
use polylogue::domain::message::{Body, Message};
use polylogue::domain::thinking::Thinking;
use polylogue::domain::tool::ToolResult;
use polylogue::repl::{Device, RemoteTerminal, Repl, Timeout, Turn};
use polylogue::store::Store;
use tempfile::TempDir;

use super::PATIENCE;
use super::peer::{Exchange, Peer};

/// How long the keyboard waits before a lone Esc is a key.
const ESCAPE_PATIENCE: Duration = Duration::from_millis(30);

/// How a house under test is set up.
pub struct Plan {
    /// Columns and rows of the terminal; `None` is a house without one.
    pub size: Option<(u16, u16)>,
    /// The model that all agents talk to.
    pub endpoint: Endpoint,
    /// How much models think where nobody has said so.
    pub thinking: Thinking,
    /// The limits.
    pub settings: Settings,
    /// Agents at work at once; 0 is no limit.
    pub working_limit: usize,
    /// `/fork` brings the child to the screen.
    pub follows_forks: bool,
    /// Time passes by itself.
    pub real_time: bool,
    /// Providers that are configured beside the one that all agents talk to.
    pub providers: Vec<ProviderEntry>,
    /// Commands that the person wrote.
    pub commands: Vec<CustomCommand>,
    /// Environments of the person's own.
    pub environments: Vec<EnvironmentEntry>,
    /// Where a trace is written that can be compared with that of another run.
    pub trace: Option<PathBuf>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            size: Some((80, 24)),
            endpoint: Endpoint::echo(),
            thinking: Thinking::default(),
            settings: Settings::default(),
            working_limit: 0,
            follows_forks: true,
            real_time: false,
            providers: Vec::new(),
            commands: Vec::new(),
            environments: Vec::new(),
            trace: None,
        }
    }
}

impl Plan {
    /// The provider of the endpoint, under its name, and the others.
    fn catalog(&self) -> Catalog {
        let Endpoint { provider: name, kind, base_url, key, key_command, headers, .. } = self.endpoint.clone();
        let own = ProviderEntry { name, kind, base_url, key, key_command, headers, models: Vec::new() };
        Catalog([own].into_iter().chain(self.providers.iter().cloned()).collect())
    }

    /// What the program would be told, in this directory.
    pub fn config(&self, directory: &Path) -> Config {
        Config {
            data_directory: Some(directory.into()),
            catalog: self.catalog(),
            endpoint: self.endpoint.clone(),
            working_directory: directory.into(),
            supervisor: env!("CARGO_BIN_EXE_polylogue").into(),
            thinking: self.thinking,
            settings: self.settings,
            working_limit: self.working_limit,
            follows_forks: self.follows_forks,
            commands: self.commands.clone(),
            environments: self.environments.clone(),
            trace: self.trace.clone(),
            trace_stable: self.trace.is_some(),
            ..Config::default()
        }
    }

    /// Agents that talk to an OpenAI-compatible server.
    pub fn peer(url: &str) -> Self {
        Self { endpoint: endpoint("openai", "test", url), ..Self::default() }
    }
}

/// A model of a provider that is called after its protocol, without a key.
pub fn endpoint(kind: &str, model: &str, url: &str) -> Endpoint {
    Endpoint { provider: kind.into(), kind: kind.into(), model: model.into(), base_url: url.into(), ..Endpoint::echo() }
}

/// The files of a house that is closed, once more.
pub fn copy_of(prepared: &Path) -> TempDir {
    let copy = TempDir::new().expect("a directory");
    for entry in std::fs::read_dir(prepared).expect("a directory").flatten() {
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("a copy");
    }
    copy
}

/// A house under test.
pub struct Harness {
    /// The loop.
    pub repl: Repl,
    /// Its clock.
    pub clock: Clock,
    /// From now on nothing is committed any more.
    pub is_disk_full: Arc<AtomicBool>,
    /// The same plan is used after a restart.
    plan: Plan,
    directory: TempDir,
    screen: vt100::Parser,
    /// All bytes that the terminal was sent.
    pub sent: Vec<u8>,
}

impl Harness {
    /// A fresh house.
    pub fn new(plan: Plan) -> Self {
        Self::open(plan, TempDir::new().expect("a directory for the store"))
    }

    /// A house in a directory that may hold one already.
    pub fn open(plan: Plan, directory: TempDir) -> Self {
        let clock = if plan.real_time { Clock::system() } else { Clock::manual() };
        let config = plan.config(directory.path());
        let device = plan.size.map(|size| Device::Remote(RemoteTerminal { size, ..RemoteTerminal::default() }));
        let mut store = Store::open(directory.path()).expect("the store opens");
        let is_disk_full = Arc::<AtomicBool>::default();
        let is_full = Arc::clone(&is_disk_full);
        store.on_commit(move || !is_full.load(Ordering::Relaxed)).expect("a store that asks");
        let repl = Repl::open(config, store, clock.clone(), device).expect("the house opens");
        let (columns, rows) = plan.size.unwrap_or((80, 24));
        let screen = vt100::Parser::new(rows, columns, 0);
        Self { repl, clock, is_disk_full, plan, directory, screen, sent: Vec::new() }
    }

    /// The program dies without a word, and is started again.
    pub fn crash_and_restart(self) -> Self {
        let Self { repl, plan, directory, .. } = self;
        // Dropping asks nothing of the agents: what was not stored is gone, as after SIGKILL.
        drop(repl);
        Self::open(plan, directory)
    }

    /// The program dies without a word, and its files stay.
    pub fn close(self) -> TempDir {
        let Self { repl, directory, .. } = self;
        drop(repl);
        directory
    }

    /// Where the store and the tools' files are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// One turn that waits for news as long as the loop itself would, but no longer than `limit`. With a clock of the
    /// test's, libcurl's own short timers pass by themselves; every other deadline comes when the test moves the clock.
    pub fn turn_within(&mut self, limit: Duration) -> Turn {
        let timeout = self.repl.compute_timeout();
        if !self.plan.real_time
            && let (Some(after), polylogue::repl::WakeReason::Agent(_, "curl timer")) = (timeout.after, timeout.why)
            && after < Duration::from_secs(1)
        {
            self.clock.advance(after);
        }
        let turn = self.repl.turn(Some(limit)).expect("the loop turns");
        self.take_output();
        turn
    }

    /// One turn that does not wait.
    pub fn turn(&mut self) -> Turn {
        self.turn_within(Duration::ZERO)
    }

    /// Turns until something holds.
    pub fn turn_until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(start.elapsed() < PATIENCE, "never came: {what}\n{}", self.screen_text());
            self.turn_within(Duration::from_millis(20));
        }
    }

    /// Turns until the peer has the whole of a request.
    pub fn accept(&mut self, peer: &Peer) -> Exchange {
        let mut exchange = None;
        self.turn_until("a request", |_| {
            exchange = exchange.take().or_else(|| peer.try_accept());
            exchange.is_some()
        });
        exchange.expect("a request came")
    }

    /// Turns until nobody is busy.
    pub fn turn_until_idle(&mut self) {
        self.turn_until("everybody is idle", |app| app.repl.roster().busy().is_empty());
    }

    /// The clock moves on, and the loop turns once.
    pub fn advance(&mut self, by: Duration) -> Turn {
        self.clock.advance(by);
        self.turn()
    }

    /// How long the loop would wait now, and for what.
    pub fn timeout(&self) -> Timeout {
        self.repl.compute_timeout()
    }

    /// A lone Esc: the key that follows from waiting for the rest of a sequence that does not come.
    pub fn escape(&mut self) {
        self.type_bytes(b"\x1b");
        let deadline = self.clock.now() + ESCAPE_PATIENCE;
        if self.plan.real_time {
            self.turn_until("the patience with Esc has ended", |app| app.clock.now() > deadline);
            // The last turn may have looked at the clock before that moment, and this thread have been held up behind it.
            self.turn();
        } else {
            self.advance(ESCAPE_PATIENCE);
        }
    }

    /// Types bytes, and turns until they were looked at.
    pub fn type_bytes(&mut self, bytes: &[u8]) -> Turn {
        self.terminal().input.extend_from_slice(bytes);
        let mut turn = self.turn();
        while turn == Turn::Continue && !self.terminal().input.is_empty() {
            turn = self.turn();
        }
        turn
    }

    /// Types a line and Enter.
    pub fn enter(&mut self, line: &str) -> Turn {
        self.type_bytes(format!("{line}\r").as_bytes())
    }

    /// What the person sees.
    pub fn screen_text(&mut self) -> String {
        self.take_output();
        self.screen.screen().contents()
    }

    /// The terminal has another size from now on; the loop is told as by SIGWINCH.
    pub fn terminal(&mut self) -> &mut RemoteTerminal {
        self.repl.terminal().and_then(|terminal| terminal.remote()).expect("a house with a terminal in memory")
    }

    fn take_output(&mut self) {
        if self.plan.size.is_none() {
            // The terminals of others are theirs.
            return;
        }
        if let Some(memory) = self.repl.terminal().and_then(|terminal| terminal.remote()) {
            let output = std::mem::take(&mut memory.output);
            self.screen.process(&output);
            self.sent.extend_from_slice(&output);
        }
    }

    /// The `n`th agent by birth.
    pub fn id(&self, n: usize) -> AgentId {
        self.repl.roster().nth(n).expect("so many agents")
    }

    /// Which agent by birth has this name now: the death of another moves it.
    pub fn n(&self, name: &str) -> usize {
        let called = |agent: &Agent| agent.identity.name.as_deref() == Some(name);
        self.repl.roster().iter().position(called).unwrap_or_else(|| panic!("nobody is called {name}"))
    }

    /// Who is on the screen.
    pub fn focus(&mut self) -> usize {
        let focus = self.repl.terminal().expect("a house with a terminal").focus;
        self.repl.roster().ids().iter().position(|id| *id == focus).expect("who is on the screen lives")
    }

    /// The `n`th agent by birth, to look at.
    pub fn agent(&self, n: usize) -> &Agent {
        self.repl.roster().get(self.id(n)).expect("the agent lives")
    }

    /// What the `n`th agent does.
    pub fn state(&self, n: usize) -> State {
        self.agent(n).state()
    }

    /// Asks for a change on behalf of the `n`th agent.
    pub fn ask(&mut self, n: usize, change: Change) {
        let id = self.id(n);
        self.repl.ask(id, change).expect("the change can be carried out");
        self.take_output();
    }

    /// Says something to the `n`th agent, whether or not it is on the screen.
    pub fn say(&mut self, n: usize, text: &str) {
        self.ask(n, Change::Submit(text.into()));
    }

    /// A child of the `n`th agent; the screen goes there.
    pub fn fork(&mut self, n: usize) {
        self.ask(n, Change::Fork { prompt: None, name: None, model: None });
        self.switch(self.repl.roster().len() - 1);
    }

    /// A child of this name of the `n`th agent, wherever the screen is and then stays.
    pub fn fork_named(&mut self, n: usize, name: &str) -> usize {
        let focus = self.focus();
        self.ask(n, Change::Fork { prompt: None, name: Some(name.into()), model: None });
        self.switch(focus);
        self.n(name)
    }

    /// The `n`th agent comes to the screen.
    pub fn switch(&mut self, n: usize) {
        let id = self.id(n);
        self.ask(n, Change::Switch(id));
    }

    /// The whole log of the `n`th agent, as the store has it, ancestors included.
    pub fn log(&self, n: usize) -> Vec<Message> {
        let (messages, damaged) = self.repl.store().replay(self.id(n)).expect("the log can be read");
        assert_eq!(damaged, Vec::<String>::new());
        messages
    }

    /// Everything of the `n`th agent that news for another could disturb, as text: its log, its conversation in
    /// memory, what a person sees of it and has typed to it, its partial reply, its queue, its counts and its state.
    pub fn fingerprint(&self, n: usize) -> String {
        let agent = self.agent(n);
        format!(
            "{:?}",
            (
                (self.log(n), &agent.talk.history, agent.state(), agent.partial_text(), agent.deadline()),
                (&agent.view.scrollback, agent.view.revision(), agent.view.context_tokens, agent.output.next()),
                (agent.view.draft.text(), agent.view.draft.cursor(), &agent.queue, agent.used, agent.question()),
            )
        )
    }

    /// The kinds of all messages in the log of the `n`th agent.
    pub fn kinds(&self, n: usize) -> Vec<&'static str> {
        self.log(n).iter().map(|message| message.body.kind()).collect()
    }

    /// The words of the newest error in the log of the `n`th agent; empty if there is none.
    pub fn last_error(&self, n: usize) -> String {
        let words = |message: Message| if let Body::Error(words) = message.body { Some(words) } else { None };
        self.log(n).into_iter().rev().find_map(words).unwrap_or_default()
    }

    /// What the tools answered in the log of the `n`th agent.
    pub fn tool_results(&self, n: usize) -> Vec<ToolResult> {
        let result = |message: Message| if let Body::ToolResult(result) = message.body { Some(result) } else { None };
        self.log(n).into_iter().filter_map(result).collect()
    }

    /// The partial replies in the log of the `n`th agent.
    pub fn partial_replies(&self, n: usize) -> Vec<String> {
        let partial = |message: Message| match message.body {
            Body::Assistant(reply) if reply.is_partial => Some(reply.text),
            _ => None,
        };
        self.log(n).into_iter().filter_map(partial).collect()
    }

    /// Turns until the `n`th agent has a question, and gives its number.
    pub fn turn_until_asked(&mut self, n: usize) -> u64 {
        self.turn_until("a question", |app| app.agent(n).question().is_some());
        self.agent(n).question().expect("there is one").number
    }

    /// Answers the question that the `n`th agent has now.
    pub fn answer(&mut self, n: usize, allowed: bool) {
        let question = self.turn_until_asked(n);
        self.ask(n, Change::Answer { question, allowed });
    }

    /// The texts of all replies in the log of the `n`th agent.
    pub fn replies(&self, n: usize) -> Vec<String> {
        let text = |message: Message| match message.body {
            Body::Assistant(reply) => Some(reply.text),
            _ => None,
        };
        self.log(n).into_iter().filter_map(text).collect()
    }
}
