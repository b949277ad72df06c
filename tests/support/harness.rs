//! Drives a real loop turn by turn: bytes in for keys, a screen to read, real sockets, a real store, and a clock that the
//! test moves (or the system's).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use polylogue::config::{
    AgentDefinition, AgentHost, Catalog, CustomCommand, DisplaySettings, DoneSettings, Endpoint, EnvironmentEntry,
    Hook, McpServer, ModelFacts, Network, Policy, ProviderEntry, Rules, SandboxSettings, Settings, Thinking,
    TreeLimits, UserToolEntry, WorktreeSettings,
};
use polylogue::{AgentId, Change, Clock, Config, Decision, Fork, Repl, Store, ToolResult, Turn};
use tempfile::TempDir;

use super::Patience;
use super::disk::Disk;
use super::peer::{Exchange, Peer};
use crate::support::internals::{
    Agent, Body, Device, Draft, DraftSlot, Message, Probe, RemoteTerminal, State, Timeout, WakeReason,
};

/// Timers of libcurl that pass by themselves; its time limits are longer.
const SHORT: Duration = Duration::from_secs(1);
/// A timer that is due so soon is not waited for.
const SOON: Duration = Duration::from_millis(5);
/// How long the loop waits before a lone Esc is a key.
const ESCAPE_PATIENCE: Duration = Duration::from_millis(30);

/// How long keys are text after a question appeared.
pub const QUESTION_SETTLES: Duration = Duration::from_millis(300);

/// The agents' working directory in the data directory.
const WORK: &str = "work";

/// How a [`Harness`] is set up.
pub struct Plan {
    /// Columns and rows of the terminal, if there is one.
    pub size: Option<(u16, u16)>,
    /// What the terminal can display; its size is `size`.
    pub device: fn() -> RemoteTerminal,
    /// The model of all agents.
    pub endpoint: Endpoint,
    /// The default amount of thinking.
    pub thinking: Thinking,
    pub settings: Settings,
    /// How many agents may work at once; 0 is no limit.
    pub working_limit: usize,
    /// How long the sockets of streaming replies wait for a common read.
    pub read_interval: Duration,
    /// Whether a server is asked for its models when the context of a model is unknown.
    pub looks_up_models: bool,
    /// Whether `/fork` brings the child to the screen.
    pub follows_forks: bool,
    /// Uses the system's clock instead of one that the test moves.
    pub real_time: bool,
    /// Waits are spread as they are in use; with a manual clock they are not otherwise, and end at the moment that a test
    /// says.
    pub spreads_waits: bool,
    /// Providers besides the one of `endpoint`.
    pub providers: Vec<ProviderEntry>,
    /// Custom commands.
    pub commands: Vec<CustomCommand>,
    /// MCP servers.
    pub mcp: Vec<McpServer>,
    /// Other agent programs as models.
    pub hosts: Vec<AgentHost>,
    /// Programs that are tools.
    pub user_tools: Vec<UserToolEntry>,
    pub definitions: Vec<AgentDefinition>,
    pub hooks: Vec<Hook>,
    /// The directories of the person's skills.
    pub skill_directories: Vec<PathBuf>,
    /// Custom environments.
    pub environments: Vec<EnvironmentEntry>,
    /// The policy of new agents.
    pub policy: Policy,
    /// Rules; by default every command asks, also those that only read.
    pub rules: Rules,
    /// The rules of single directories.
    pub project_rules: Vec<(PathBuf, Rules)>,
    /// The digests of trusted `AGENTS.md` files.
    pub trusted_instructions: BTreeSet<String>,
    /// Whether commands run in a sandbox.
    pub has_sandbox: bool,
    /// What commands in the sandbox always reach.
    pub network: Network,
    /// The screen around the conversation.
    pub display: DisplaySettings,
    /// Where a trace is written.
    pub trace: Option<PathBuf>,
    /// Whether it is the stable form.
    pub is_trace_stable: bool,
    /// Where the session is recorded as a scenario.
    pub record: Option<PathBuf>,
    /// Whether the record has the texts.
    pub records_texts: bool,
    /// The limits of each tree of agents.
    pub tree_limits: TreeLimits,
    /// Days after which agents that were not used are deleted.
    pub keep_days: u32,
    /// Whether an agent is done.
    pub done: DoneSettings,
    /// What new worktrees get.
    pub worktree: WorktreeSettings,
    /// The model that makes titles.
    pub title_model: Option<String>,
    /// Where `ssh` and `podman` are looked for.
    pub program_path: Option<OsString>,
    /// The disk to which the store is synced.
    pub disk: Option<Disk>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            size: Some((80, 24)),
            device: RemoteTerminal::default,
            endpoint: Endpoint::echo(),
            thinking: Thinking::default(),
            settings: Settings::default(),
            working_limit: 0,
            read_interval: Duration::ZERO,
            looks_up_models: false,
            follows_forks: true,
            real_time: false,
            spreads_waits: false,
            providers: Vec::new(),
            commands: Vec::new(),
            mcp: Vec::new(),
            hosts: Vec::new(),
            user_tools: Vec::new(),
            definitions: Vec::new(),
            hooks: Vec::new(),
            skill_directories: Vec::new(),
            environments: Vec::new(),
            policy: Policy::default(),
            rules: Rules { ask: vec!["bash(*)".parse().expect("a rule")], ..Rules::default() },
            project_rules: Vec::new(),
            trusted_instructions: BTreeSet::new(),
            has_sandbox: true,
            network: Network::Off,
            display: DisplaySettings::default(),
            trace: None,
            is_trace_stable: true,
            record: None,
            records_texts: false,
            tree_limits: TreeLimits::default(),
            keep_days: 0,
            done: DoneSettings::default(),
            worktree: WorktreeSettings::default(),
            title_model: None,
            program_path: None,
            disk: None,
        }
    }
}

impl Plan {
    fn catalog(&self) -> Catalog {
        let Endpoint {
            provider: name,
            kind,
            base_url,
            key,
            key_variable,
            key_command,
            headers,
            parameters,
            fallback,
            stall_timeout,
            aws_region,
            is_bearer,
            ..
        } = self.endpoint.clone();
        let Endpoint { model, facts, send_reasoning, .. } = &self.endpoint;
        let models = if *facts == ModelFacts::default() { Vec::new() } else { vec![(model.clone(), *facts)] };
        let own = ProviderEntry {
            name,
            kind,
            base_url,
            key,
            key_variable,
            key_command,
            headers,
            send_reasoning: *send_reasoning,
            models,
            parameters,
            fallback,
            stall_timeout,
            aws_region,
            is_bearer,
            ..ProviderEntry::default()
        };
        Catalog([own].into_iter().chain(self.providers.iter().cloned()).collect())
    }

    /// The configuration for a program with this data directory, in which no command can run.
    pub fn config(&self, directory: &Path) -> Config {
        let mut settings = self.settings;
        if !self.real_time && !self.spreads_waits {
            settings.retry.jitter = 0.0;
        }
        std::fs::create_dir_all(directory.join(WORK)).expect("a directory");
        Config {
            data_directory: Some(directory.into()),
            catalog: self.catalog(),
            endpoint: self.endpoint.clone(),
            working_directory: directory.join(WORK),
            user_file: Some(directory.join("config.toml")),
            supervisor: env!("CARGO_BIN_EXE_polylogue").into(),
            thinking: self.thinking,
            settings,
            working_limit: self.working_limit,
            read_interval: self.read_interval,
            looks_up_models: self.looks_up_models,
            follows_forks: self.follows_forks,
            commands: self.commands.clone(),
            mcp: self.mcp.clone(),
            hosts: self.hosts.clone(),
            user_tools: self.user_tools.clone(),
            definitions: self.definitions.clone().into(),
            hooks: self.hooks.clone().into(),
            skill_directories: self.skill_directories.clone(),
            environments: self.environments.clone(),
            policy: self.policy,
            rules: self.rules.clone(),
            project_rules: self.project_rules.clone(),
            trusted_instructions: self.trusted_instructions.clone(),
            sandbox: SandboxSettings {
                is_enabled: self.has_sandbox,
                network: self.network.clone(),
                ..SandboxSettings::default()
            },
            display: self.display.clone(),
            trace: self.trace.clone(),
            trace_stable: self.is_trace_stable,
            record: self.record.clone(),
            records_texts: self.records_texts,
            tree_limits: self.tree_limits,
            keep_days: self.keep_days,
            done: self.done.clone(),
            worktree: self.worktree.clone(),
            title_model: self.title_model.clone(),
            program_path: self.program_path.clone(),
            ..Config::default()
        }
    }

    /// All agents use an OpenAI-compatible server.
    pub fn peer(url: &str) -> Self {
        let endpoint = endpoint("openai", "test", url);
        Self { endpoint: Endpoint { key_variable: Some("OPENAI_API_KEY".into()), ..endpoint }, ..Self::default() }
    }
}

/// A model of a provider that is named after its protocol and needs no key.
pub fn endpoint(kind: &str, model: &str, url: &str) -> Endpoint {
    Endpoint { provider: kind.into(), kind: kind.into(), model: model.into(), base_url: url.into(), ..Endpoint::echo() }
}

/// A copy of a data directory that is not in use.
pub fn copy_of(prepared: &Path) -> TempDir {
    let copy = TempDir::new().expect("a directory");
    for entry in std::fs::read_dir(prepared).expect("a directory").flatten() {
        if entry.path().is_file() {
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("a copy");
        }
    }
    copy
}

/// The loop under test.
pub struct Harness {
    pub repl: Repl,
    pub clock: Clock,
    /// While this is set, no transaction of the store succeeds.
    pub is_disk_full: Arc<AtomicBool>,
    commits: Arc<AtomicUsize>,
    plan: Plan,
    directory: TempDir,
    workspace: TempDir,
    screen: vt100::Parser,
    /// All bytes that were written to the terminal.
    pub sent: Vec<u8>,
}

impl Harness {
    /// Starts with an empty data directory.
    pub fn new(plan: Plan) -> Self {
        Self::open(plan, TempDir::new().expect("a directory for the store"))
    }

    /// Starts with a data directory that may have agents already.
    pub fn open(plan: Plan, directory: TempDir) -> Self {
        Self::open_in(plan, directory, TempDir::new().expect("a directory for the tools"))
    }

    /// The same, with a directory that the tools have worked in already.
    pub fn open_in(plan: Plan, directory: TempDir, workspace: TempDir) -> Self {
        Self::open_with(plan, directory, workspace, |_| {})
    }

    /// The same, with a store that was prepared for the test.
    pub fn open_with(plan: Plan, directory: TempDir, workspace: TempDir, prepare: impl FnOnce(&mut Store)) -> Self {
        let clock = if plan.real_time { Clock::system() } else { Clock::manual() };
        let config = Config { working_directory: workspace.path().into(), ..plan.config(directory.path()) };
        let device = plan.size.map(|size| Device::Remote(RemoteTerminal { size, ..(plan.device)() }));
        let mut store = Store::open(directory.path()).expect("the store opens");
        let is_disk_full = Arc::<AtomicBool>::default();
        let is_full = Arc::clone(&is_disk_full);
        let commits = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&commits);
        let may_commit = move || {
            counter.fetch_add(1, Ordering::Relaxed);
            !is_full.load(Ordering::Relaxed)
        };
        store.on_commit(may_commit).expect("a store that asks");
        if let Some(disk) = plan.disk.clone() {
            store.on_sync(None, move |_| disk.take());
        }
        prepare(&mut store);
        let repl = Repl::open_at(config, store, clock.clone(), device).expect("the program opens");
        let (columns, rows) = plan.size.unwrap_or((80, 24));
        let screen = vt100::Parser::new(rows, columns, 0);
        Self { repl, clock, is_disk_full, commits, plan, directory, workspace, screen, sent: Vec::new() }
    }

    /// Crashes the program and starts it again.
    pub fn crash_and_restart(self) -> Self {
        let Self { repl, plan, directory, workspace, .. } = self;
        // Dropping saves nothing: what was not stored is gone, as after SIGKILL.
        drop(repl);
        Self::open_in(plan, directory, workspace)
    }

    /// Changes what the program is configured with at its next start.
    pub fn reconfigure(&mut self, change: impl FnOnce(Plan) -> Plan) {
        self.plan = change(std::mem::take(&mut self.plan));
    }

    /// Crashes the program and keeps its files.
    pub fn close(self) -> TempDir {
        let Self { repl, directory, .. } = self;
        drop(repl);
        directory
    }

    /// How many transactions the store has made since it was opened.
    pub fn transactions(&self) -> usize {
        self.commits.load(Ordering::Relaxed)
    }

    /// The agents' working directory.
    pub fn directory(&self) -> PathBuf {
        self.workspace.path().to_path_buf()
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        self.directory.path()
    }

    /// One turn that waits as long as the loop itself would, but no longer than `limit`. With a manual clock, time passes for
    /// libcurl's short timers only: those that are due soon at once, and for the others as much as the turn really took.
    /// Every other deadline comes when the test moves the clock.
    pub fn turn_within(&mut self, limit: Duration) -> Turn {
        let timeout = self.repl.compute_timeout();
        let is_timer = !self.plan.real_time && matches!(timeout.why, WakeReason::Agent(_, "curl timer"));
        let timer = timeout.after.filter(|after| is_timer && *after < SHORT);
        if let Some(due) = timer.filter(|after| *after <= SOON) {
            self.clock.advance(due);
        }
        let begin = Instant::now();
        let turn = self.repl.turn(Some(limit)).expect("the loop turns");
        if let Some(later) = timer.filter(|after| *after > SOON) {
            self.clock.advance(later.min(begin.elapsed()));
        }
        self.take_output();
        turn
    }

    /// One turn that does not wait.
    pub fn turn(&mut self) -> Turn {
        self.turn_within(Duration::ZERO)
    }

    /// Turns until a condition holds. What the loop is not woken by, such as a request at the peer, is mostly there soon.
    pub fn turn_until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let mut patience = Patience::new();
        let mut limit = Duration::from_millis(1);
        while !holds(self) {
            assert!(patience.has_time(), "never came: {what}\n{}", self.screen_text());
            self.turn_within(limit);
            limit = Duration::from_millis(20).min(limit * 2);
        }
    }

    /// Changes the size of the terminal.
    pub fn resize(&mut self, (columns, rows): (u16, u16)) {
        self.take_output();
        self.terminal().size = (columns, rows);
        self.screen.screen_mut().set_size(rows, columns);
        self.turn();
    }

    /// Turns until the code on the screen has its colours.
    pub fn turn_until_colored(&mut self) {
        self.turn();
        self.turn_until("the colours", |app| !app.repl.is_coloring());
        self.turn();
    }

    /// Turns until the peer has received a whole request.
    pub fn accept(&mut self, peer: &Peer) -> Exchange {
        let mut exchange = None;
        self.turn_until("a request", |_| {
            exchange = exchange.take().or_else(|| peer.try_accept());
            exchange.is_some()
        });
        exchange.expect("a request came")
    }

    /// Turns until no agent is busy.
    pub fn turn_until_idle(&mut self) {
        self.turn_until("all agents are idle", |app| app.repl.roster().busy().is_empty());
    }

    /// Moves the clock on and turns once.
    pub fn advance(&mut self, by: Duration) -> Turn {
        self.clock.advance(by);
        self.turn()
    }

    /// How long the loop would wait now, and why.
    pub fn timeout(&mut self) -> Timeout {
        self.repl.compute_timeout()
    }

    /// Presses Esc, and waits until it is known not to begin a sequence.
    pub fn escape(&mut self) {
        self.type_bytes(b"\x1b");
        let deadline = self.clock.now() + ESCAPE_PATIENCE;
        if self.plan.real_time {
            self.turn_until("the patience with Esc has ended", |app| app.clock.now() > deadline);
            // The last turn may have read the clock before the deadline.
            self.turn();
        } else {
            self.advance(ESCAPE_PATIENCE);
        }
    }

    /// Types bytes, and turns until they were handled.
    pub fn type_bytes(&mut self, bytes: &[u8]) -> Turn {
        self.terminal().input.extend_from_slice(bytes);
        let mut turn = self.turn();
        while turn == Turn::Continue && !self.terminal().input.is_empty() {
            turn = self.turn();
        }
        if self.repl.is_searching() {
            self.turn_until("the search has ended, and the keys behind it are handled", |app| {
                !app.repl.is_searching() && app.timeout().why != WakeReason::Leftover
            });
        }
        turn
    }

    /// Presses a key at the question on the screen, as soon as it is an answer.
    pub fn press_at_question(&mut self, key: &[u8]) -> Turn {
        self.turn();
        if !self.plan.real_time {
            self.advance(QUESTION_SETTLES);
        }
        self.turn_until("keys answer", |app| {
            ["to refuse it", "to stop these agents", "to decline"].iter().any(|keys| app.screen_text().contains(keys))
        });
        self.type_bytes(key)
    }

    /// Types a line and Enter.
    pub fn enter(&mut self, line: &str) -> Turn {
        self.type_bytes(format!("{line}\r").as_bytes())
    }

    /// Types a line and Enter, and Enter again if the program asks whether it is meant.
    pub fn enter_and_confirm(&mut self, line: &str) -> Turn {
        let turn = self.enter(line);
        if !self.screen_text().contains("press Enter again") {
            return turn;
        }
        if self.plan.real_time {
            let settled = self.clock.now() + QUESTION_SETTLES;
            self.turn_until("Enter is not held", |app| app.clock.now() > settled);
        } else {
            self.advance(QUESTION_SETTLES);
        }
        self.type_bytes(b"\r")
    }

    /// What the person sees.
    pub fn screen_text(&mut self) -> String {
        self.take_output();
        self.screen.screen().contents()
    }

    /// The emulated terminal, with styles.
    pub fn screen(&mut self) -> &vt100::Screen {
        self.take_output();
        self.screen.screen()
    }

    /// Row and column of the cursor, from 0.
    pub fn cursor(&self) -> (u16, u16) {
        self.screen.screen().cursor_position()
    }

    /// The first terminal.
    pub fn terminal(&mut self) -> &mut RemoteTerminal {
        self.repl.terminal().and_then(|terminal| terminal.remote()).expect("a terminal in memory")
    }

    fn take_output(&mut self) {
        if self.plan.size.is_none() {
            // Attached terminals read their own output.
            return;
        }
        if let Some(memory) = self.repl.terminal().and_then(|terminal| terminal.remote()) {
            let output = std::mem::take(&mut memory.output);
            self.screen.process(&output);
            self.sent.extend_from_slice(&output);
        }
    }

    /// The id of the `n`th agent in the order of creation.
    pub fn id(&self, n: usize) -> AgentId {
        self.repl.roster().nth(n).expect("so many agents")
    }

    /// The number of the agent with this name now: it changes when an older agent is killed.
    pub fn n(&self, name: &str) -> usize {
        let called = |agent: &Agent| agent.identity.name.as_deref() == Some(name);
        self.repl.roster().iter().position(called).unwrap_or_else(|| panic!("no agent is named {name}"))
    }

    /// The number of the agent on the screen.
    pub fn focus(&mut self) -> usize {
        let focus = self.repl.terminal().expect("a terminal").focus;
        self.repl.roster().ids().iter().position(|id| *id == focus).expect("the agent on the screen exists")
    }

    pub fn agent(&self, n: usize) -> &Agent {
        self.repl.roster().get(self.id(n)).expect("the agent lives")
    }

    /// What was typed to the `n`th agent at the first terminal.
    pub fn draft(&self, n: usize) -> Draft {
        self.agent(n).view.drafts.get(DraftSlot(0)).cloned().unwrap_or_default()
    }

    /// What the store has of it.
    pub fn stored_draft(&self, n: usize) -> String {
        let drafts = self.repl.store().drafts(self.id(n)).expect("the drafts");
        drafts.into_iter().find(|(slot, _)| slot.0 == 0).map(|(_, text)| text).unwrap_or_default()
    }

    pub fn state(&self, n: usize) -> State {
        self.agent(n).state()
    }

    /// How many agents are before the `n`th one in the send queue, if it is there.
    pub fn place(&self, n: usize) -> Option<usize> {
        self.repl.list().swap_remove(n).place
    }

    /// Applies a change to the `n`th agent.
    pub fn ask(&mut self, n: usize, change: Change) {
        let id = self.id(n);
        self.repl.apply(id, change).expect("the change can be carried out");
        self.take_output();
    }

    /// Sends a text to the `n`th agent, whether or not it is on the screen.
    pub fn say(&mut self, n: usize, text: &str) {
        self.ask(n, Change::Submit(text.into()));
    }

    /// Forks the `n`th agent and shows the child.
    pub fn fork(&mut self, n: usize) {
        self.ask(n, Change::Fork(Fork::default()));
        self.switch(self.repl.roster().len() - 1);
    }

    /// Forks the `n`th agent without showing the child, and returns its number.
    pub fn fork_named(&mut self, n: usize, name: &str) -> usize {
        let focus = self.focus();
        self.ask(n, Change::Fork(Fork { name: Some(name.into()), ..Fork::default() }));
        self.switch(focus);
        self.n(name)
    }

    /// Shows the `n`th agent.
    pub fn switch(&mut self, n: usize) {
        let id = self.id(n);
        self.ask(n, Change::Switch(id));
    }

    /// The stored log of the `n`th agent, with what it inherits.
    pub fn log(&self, n: usize) -> Vec<Message> {
        let (messages, damaged) = self.repl.store().replay(self.id(n)).expect("the log can be read");
        assert_eq!(damaged, Vec::<String>::new());
        messages
    }

    /// Everything of the `n`th agent that must not change when another one gets something, as text: its log, history, view,
    /// draft, partial reply, queue, usage and state.
    pub fn fingerprint(&self, n: usize) -> String {
        let agent = self.agent(n);
        format!(
            "{:?}",
            (
                (self.log(n), &agent.inputs.history, agent.state(), agent.partial_text(), agent.deadline()),
                (&agent.view.scrollback, agent.view.revision(), agent.context_tokens(), agent.output.next()),
                (self.draft(n).text(), self.draft(n).cursor(), &agent.queue, &agent.used, agent.question()),
            )
        )
    }

    /// The kinds of all messages in the log of the `n`th agent.
    pub fn kinds(&self, n: usize) -> Vec<&'static str> {
        self.log(n).iter().map(|message| message.body.kind()).collect()
    }

    /// The newest error in the log of the `n`th agent; empty if there is none.
    pub fn last_error(&self, n: usize) -> String {
        let error_text = |message: Message| if let Body::Error(text) = message.body { Some(text) } else { None };
        self.log(n).into_iter().rev().find_map(error_text).unwrap_or_default()
    }

    /// The tool results in the log of the `n`th agent.
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

    /// Turns until the `n`th agent has a question, and returns its number.
    pub fn turn_until_asked(&mut self, n: usize) -> u64 {
        self.turn_until("a question", |app| app.agent(n).question().is_some());
        self.agent(n).question().expect("there is one").number
    }

    /// Turns until the `n`th agent has a question, and answers it.
    pub fn answer(&mut self, n: usize, allowed: bool) {
        let question = self.turn_until_asked(n);
        let decision = if allowed { Decision::Allow } else { Decision::Deny(None) };
        self.ask(n, Change::Answer { question, decision });
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
