//! Real loops with real sockets and a real store, in this process, with a terminal in memory; and stores made in
//! advance for the program itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use polylogue::config::{Catalog, Endpoint, ProviderEntry, Settings};
use polylogue::{AgentId, Change, Clock, Config, Repl, Store, Turn};
use tempfile::TempDir;

use crate::process;
use crate::support::internals::{Agent, Body, Device, MessageId, NewAgent, Probe, RemoteTerminal, Reply, State};

/// How long something may take that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A loop in this process.
pub struct App {
    /// The loop.
    pub repl: Repl,
    /// The longest turn that did not wait, by the wall, and of all turns by processor time.
    pub longest: (Duration, Duration),
    /// The processor time of the last turn.
    pub last: Duration,
    directory: TempDir,
    workspace: TempDir,
}

impl App {
    /// An app with this many agents, all children of agent 0, that use the server at `url`, or echo without one.
    pub fn new(url: Option<&str>, agents: usize) -> App {
        let directory = TempDir::new().expect("a directory for the store");
        fill(directory.path(), agents, 0, "");
        App::open(directory, url, Settings::default())
    }

    /// An app with the store in this directory.
    pub fn open(directory: TempDir, url: Option<&str>, settings: Settings) -> App {
        App::open_with(directory, url, Config { settings, ..Config::default() })
    }

    /// The same with more of the configuration.
    pub fn open_with(directory: TempDir, url: Option<&str>, config: Config) -> App {
        App::open_limited(directory, url, config, 0)
    }

    /// The same with so many agents that may work at once; 0 is no limit.
    pub fn open_limited(directory: TempDir, url: Option<&str>, config: Config, working_limit: usize) -> App {
        let workspace = TempDir::new().expect("a directory for the tools");
        App::open_in(workspace, directory, url, config, working_limit)
    }

    /// The same in this workspace.
    pub fn open_in(
        workspace: TempDir,
        directory: TempDir,
        url: Option<&str>,
        config: Config,
        working_limit: usize,
    ) -> App {
        let config = Config {
            data_directory: Some(directory.path().into()),
            catalog: Catalog(url.map(provider).into_iter().collect()),
            endpoint: url.map_or_else(Endpoint::echo, openai),
            working_directory: workspace.path().into(),
            supervisor: env!("CARGO_BIN_EXE_polylogue").into(),
            working_limit,
            read_interval: Duration::from_millis(35),
            ..config
        };
        let memory = RemoteTerminal { size: (80, 24), ..RemoteTerminal::default() };
        let store = Store::open(directory.path()).expect("the store opens");
        let repl =
            Repl::open_at(config, store, Clock::system(), Some(Device::Remote(memory))).expect("the program opens");
        App { repl, longest: Default::default(), last: Duration::ZERO, directory, workspace }
    }

    /// The program is gone, its files stay: the workspace and the store.
    pub fn close(self) -> (TempDir, TempDir) {
        let App { repl, directory, workspace, .. } = self;
        drop(repl);
        (workspace, directory)
    }

    /// The program is killed: its files are those of this moment, without what it writes as it is dropped.
    pub fn kill(self) -> (TempDir, TempDir) {
        let left = TempDir::new().expect("a directory for the store");
        let mut files = self.directory.path().as_os_str().to_owned();
        files.push("/.");
        let copied = Command::new("cp").arg("-a").arg(files).arg(left.path()).status();
        assert!(copied.is_ok_and(|status| status.success()), "the files of the store can be copied");
        let (workspace, _) = self.close();
        (workspace, left)
    }

    /// Where a trace is written, if the configuration has it beside the store.
    pub fn trace(&self) -> PathBuf {
        self.directory.path().join("trace")
    }

    /// Where tools work.
    pub fn workspace(&self) -> &Path {
        self.workspace.path()
    }

    /// One turn that waits no longer than `limit`. What was drawn is thrown away.
    pub fn turn(&mut self, limit: Duration) -> Turn {
        let (wall, spent) = (Instant::now(), process::own_cpu());
        let turn = self.repl.turn(Some(limit)).expect("the loop turns");
        self.last = process::own_cpu() - spent;
        self.longest.1 = self.longest.1.max(self.last);
        if limit.is_zero() {
            self.longest.0 = self.longest.0.max(wall.elapsed());
        }
        self.memory().output.clear();
        turn
    }

    /// The terminal.
    pub fn memory(&mut self) -> &mut RemoteTerminal {
        self.repl.terminal().and_then(|terminal| terminal.remote()).expect("a terminal in memory")
    }

    /// Types bytes, and turns until they were looked at.
    pub fn type_bytes(&mut self, bytes: &[u8]) {
        self.memory().input.extend_from_slice(bytes);
        while !self.memory().input.is_empty() {
            self.turn(Duration::ZERO);
        }
    }

    /// Turns until something holds.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut App) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(start.elapsed() < PATIENCE, "never came: {what}");
            self.turn(Duration::from_millis(20));
        }
    }

    /// Turns for so long.
    pub fn run_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            self.turn(left.min(Duration::from_millis(20)));
        }
    }

    /// Turns until no agent is busy.
    pub fn until_idle(&mut self) {
        self.until("all agents are idle", |app| app.repl.roster().busy().is_empty());
    }

    /// The `n`th agent in the order of creation.
    pub fn id(&self, n: usize) -> AgentId {
        self.repl.roster().nth(n).expect("so many agents")
    }

    /// The `n`th agent in the order of creation, to read.
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
        self.repl.apply(id, change).expect("the change can be carried out");
        self.memory().output.clear();
    }

    /// Says `tag-N` to every agent but agent 0, which stays on the screen.
    pub fn send_to_all(&mut self) {
        for (number, id) in self.repl.roster().ids().into_iter().enumerate().skip(1) {
            self.repl.apply(id, Change::Submit(format!("tag-{number}"))).expect("a text can be sent");
        }
    }

    /// Chunks of the flood that the replies under way consist of.
    pub fn chunks(&self) -> usize {
        self.repl.roster().iter().map(|agent| agent.partial_text().matches(' ').count()).sum()
    }
}

/// The same server as a provider of the configuration.
fn provider(url: &str) -> ProviderEntry {
    let Endpoint { provider: name, kind, base_url, key, headers, .. } = openai(url);
    ProviderEntry { name, kind, base_url, key, headers, ..ProviderEntry::default() }
}

/// The endpoint of a server of the support folder.
fn openai(url: &str) -> Endpoint {
    Endpoint {
        provider: "openai".into(),
        kind: "openai".into(),
        model: "test".into(),
        base_url: url.into(),
        ..Endpoint::echo()
    }
}

/// Makes a store of so many agents, all children of agent 0, each with so many messages of its own.
pub fn fill(directory: &Path, agents: usize, messages: usize, text: &str) {
    let store = Store::open(directory).expect("the store opens");
    let root = AgentId::random();
    store.create_root(root, None, None, 0).expect("a root");
    for number in 0..agents {
        let id = if number == 0 { root } else { child_of(&store, root) };
        let bodies = (0..messages).map(|number| message(number, text)).collect();
        store.append(id, bodies, 0).expect("messages");
    }
}

fn child_of(store: &Store, parent: AgentId) -> AgentId {
    let id = AgentId::random();
    let new = NewAgent { id, name: None, parent, fork_point: MessageId(0), endpoint: None, environment: None };
    store.fork(&new, 0).expect("a child");
    id
}

/// Question and answer by turns.
pub fn message(number: usize, text: &str) -> Body {
    match number % 2 {
        0 => Body::User(text.to_owned()),
        _ => Body::Assistant(Reply { text: text.to_owned(), ..Reply::default() }),
    }
}
