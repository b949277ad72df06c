//! Plays a scenario on the real loop: a real store, real libcurl over a Unix socket, real tool threads, a terminal in
//! memory, and a clock that moves from one event to the next. Two runs are equal.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::outcome::{AgentOutcome, Outcome, events_of};
use super::provider::Provider;
use super::scenario::{Input, Scenario};
use super::tools::Tools;
use crate::agent::Agent;
use crate::base::clock::{Clock, Moment};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::file::TemporaryDirectory;
use crate::base::id::NumberedIds;
use crate::domain::approval::Policy;
use crate::domain::change::{Change, Setting};
use crate::domain::config::{Config, Replay, RetryPolicy, Settings};
use crate::domain::endpoint::{Catalog, Endpoint, ProviderEntry};
use crate::domain::message::Body;
use crate::domain::trace::{TraceLine, short_state};
use crate::repl::{Device, Probe as _, RemoteTerminal, Repl, TerminalMode, Turn, WakeReason};
use crate::store::Store;

const PROVIDER: &str = "scripted";
/// Requests go to the socket; this names no host.
const URL: &str = "http://127.0.0.1:1/v1";
/// How long a turn waits for the wake of a tool thread that has ended.
const WAKE_WAIT: Duration = Duration::from_millis(20);
/// A timer of libcurl that is due so soon is a step of a transfer and not a time limit.
const CURL_STEP: Duration = Duration::from_millis(5);
/// Fail after this many turns in which the clock does not advance.
const TURNS_PER_MOMENT: usize = 100_000;

/// The loop in the middle of a scenario.
pub struct Stage {
    pub repl: Repl,
    clock: Clock,
    start: Moment,
    provider: Provider,
    tools: Arc<Tools>,
    inputs: VecDeque<Input>,
    end: Moment,
    has_ended: bool,
    directory: TemporaryDirectory,
    _ids: NumberedIds,
}

impl Stage {
    /// Opens the loop with the agents of a scenario. With turns, the trace contains those too, which differ between two
    /// runs.
    pub fn open(scenario: &Scenario, has_turns: bool) -> Result<Self> {
        Self::open_recorded(scenario, has_turns, None)
    }

    /// The same, recorded with its texts in this file.
    pub fn open_recorded(scenario: &Scenario, has_turns: bool, record: Option<PathBuf>) -> Result<Self> {
        let directory = TemporaryDirectory::create()?;
        let _ids = NumberedIds::begin();
        fastrand::seed(scenario.seed);
        let provider = Provider::listen(&directory.path().join("provider"), scenario.replies.clone())?;
        let tools = Arc::new(Tools::new(scenario.tools.clone()));
        let config = config(scenario, directory.path(), Arc::clone(&tools))?;
        let config = Config { trace_stable: !has_turns, records_texts: record.is_some(), record, ..config };
        let clock = Clock::manual();
        let [columns, rows] = scenario.size;
        let device = Device::Remote(RemoteTerminal { size: (columns, rows), ..RemoteTerminal::default() });
        let shown = scenario.shows.as_ref().and_then(|name| scenario.agents.iter().position(|agent| agent == name));
        let (first, later) = if shown.is_some() { (None, Some(device)) } else { (Some(device), None) };
        let mut repl = Repl::open_at(config, Store::in_memory()?, clock.clone(), first)?;
        let root = repl.roster().nth(0).expect("there is at least agent 0");
        if let Some(name) = given_name(&scenario.agents[0]) {
            repl.apply(root, Change::Setting(Setting::Name(Some(name.into()))))?;
        }
        for name in &scenario.agents[1..] {
            repl.create(given_name(name), Some(&model_of(scenario, name)))?;
        }
        if let Some((device, shown)) = later.zip(shown.and_then(|number| repl.roster().nth(number))) {
            repl.attach_device(device, shown, TerminalMode::default());
        }
        let mut inputs = scenario.inputs.clone();
        inputs.sort_by_key(|input| input.at);
        let start = clock.now();
        let end = start + Duration::from_millis(scenario.end);
        let inputs = inputs.into();
        Ok(Self { repl, clock, start, provider, tools, inputs, end, has_ended: false, directory, _ids })
    }

    /// The stable trace, which grows during the run.
    pub fn trace(&self) -> PathBuf {
        trace_in(self.directory.path())
    }

    pub fn screen(&mut self) -> Vec<String> {
        self.repl.terminal().map(|terminal| terminal.shown_lines()).unwrap_or_default()
    }

    /// Does all that happens at this moment, then moves the clock to the next one. Returns false at the end.
    pub fn step(&mut self) -> Result<bool> {
        self.run_until_quiet()?;
        let Some(next) = self.next_moment().filter(|next| *next <= self.end && !self.has_ended) else {
            return Ok(false);
        };
        self.clock.advance(next - self.clock.now());
        self.act();
        Ok(true)
    }

    /// Feeds the input of this moment, before the loop sees any of it.
    fn act(&mut self) {
        let now = self.clock.now();
        let due = |input: &Input| self.start + Duration::from_millis(input.at) <= now;
        let count = self.inputs.iter().take_while(|input| due(input)).count();
        for input in self.inputs.drain(..count) {
            let Some(terminal) = self.repl.terminal().and_then(|terminal| terminal.remote()) else { continue };
            self.has_ended |= input.leave;
            let bytes = input.keys.or_else(|| input.line.map(|line| line + "\r")).unwrap_or_default();
            terminal.input.extend_from_slice(bytes.as_bytes());
            if let Some([columns, rows]) = input.size {
                terminal.size = (columns, rows);
            }
        }
        self.tools.release(now);
    }

    /// Turns until nothing moves: neither the loop nor the provider nor a tool thread.
    fn run_until_quiet(&mut self) -> Result<()> {
        let mut quiet = 0;
        for _ in 0..TURNS_PER_MOMENT {
            let has_ended_tool = self.wait_for_threads();
            let now = self.clock.now();
            let has_moved = self.provider.poll(now)? | self.tools.release(now);
            let timeout = self.repl.compute_timeout();
            let mut is_due = timeout.after == Some(Duration::ZERO);
            if let (WakeReason::Agent(agent, "curl timer"), Some(after)) = (timeout.why, timeout.after)
                && after <= CURL_STEP
            {
                // The clock stands still: how soon libcurl asks depends on the real time.
                is_due |= self.repl.fire_transfer_timer(agent, CURL_STEP);
            }
            quiet = if has_moved || is_due || has_ended_tool { 0 } else { quiet + 1 };
            if quiet > 2 {
                return Ok(());
            }
            let wait = if has_ended_tool { WAKE_WAIT } else { Duration::ZERO };
            if self.repl.turn(Some(wait))? == Turn::Exit {
                self.has_ended = true;
                return Ok(());
            }
            self.repl
                .terminal()
                .and_then(|terminal| terminal.remote())
                .into_iter()
                .for_each(|terminal| terminal.output.clear());
        }
        Err(Error::new(ErrorKind::System, "the loop does not come to rest"))
    }

    /// Waits until every tool thread waits for its moment or has ended. Returns whether the loop has one to collect.
    fn wait_for_threads(&self) -> bool {
        loop {
            let unfinished = |agent: &Agent| agent.unfinished_tools();
            let (running, cancelled) =
                self.repl.roster().iter().map(unfinished).fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
            if cancelled == 0 && running == self.tools.waiting() {
                let live = self.repl.roster().iter().map(Agent::live_tools).sum::<usize>();
                return live > running;
            }
            std::thread::yield_now();
        }
    }

    fn next_moment(&mut self) -> Option<Moment> {
        let input = self.inputs.front().map(|input| self.start + Duration::from_millis(input.at));
        let planned = input.into_iter().chain(self.provider.next_due()).chain(self.tools.next_due()).min();
        let is_at_rest = planned.is_none() && self.repl.roster().busy().is_empty();
        let timeout = self.repl.compute_timeout();
        let deadline = timeout.after.filter(|_| !is_at_rest).map(|after| self.clock.now() + after);
        planned.into_iter().chain(deadline).min()
    }

    pub fn outcome(&mut self) -> Result<Outcome> {
        let mut agents = BTreeMap::new();
        for agent in self.repl.roster().iter() {
            agents.insert(agent.identity.label(), outcome_of(&self.repl, agent)?);
        }
        let trace = std::fs::read_to_string(self.trace())?;
        let lines: Vec<TraceLine> = trace.lines().filter_map(|line| TraceLine::parse(line).ok()).collect();
        let events = events_of(&lines);
        let mut faults = std::mem::take(&mut self.provider.unanswered);
        if self.provider.unused() > 0 {
            faults.push(format!("no request has asked for {} of the replies", self.provider.unused()));
        }
        Ok(Outcome { agents, events, screen: self.screen(), faults })
    }
}

fn model_of(scenario: &Scenario, agent: &str) -> String {
    scenario.models.get(agent).cloned().unwrap_or_else(|| format!("{PROVIDER}/{agent}"))
}

/// The name of an agent, unless this is how an agent without one is called.
fn given_name(name: &str) -> Option<&str> {
    let is_number = |rest: &str| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit());
    Some(name).filter(|name| !name.strip_prefix("agent ").is_some_and(is_number))
}

fn trace_in(directory: &Path) -> PathBuf {
    directory.join("trace")
}

fn config(scenario: &Scenario, directory: &Path, tools: Arc<Tools>) -> Result<Config> {
    let provider = |name: &str| ProviderEntry {
        name: name.into(),
        kind: "openai".into(),
        base_url: URL.into(),
        ..ProviderEntry::default()
    };
    let named = scenario.models.values().filter_map(|model| Some(model.split_once('/')?.0));
    let names: BTreeSet<&str> = named.chain([PROVIDER]).collect();
    let catalog = Catalog(names.into_iter().map(provider).collect());
    let endpoint: Endpoint = catalog.find(&model_of(scenario, &scenario.agents[0]))?;
    let policy = match &scenario.approval {
        Some(policy) => policy.parse().map_err(|_| Error::usage(format!("approval: unknown policy {policy:?}")))?,
        None => Policy::Ask,
    };
    let retry = RetryPolicy { jitter: 0.0, retries: scenario.retries, ..RetryPolicy::default() };
    let work = directory.join("work");
    std::fs::create_dir(&work)?;
    Ok(Config {
        catalog,
        endpoint,
        policy,
        settings: Settings { retry, ..Settings::default() },
        working_directory: work,
        trace: Some(trace_in(directory)),
        trace_stable: true,
        replay: Some(Replay { provider: directory.join("provider"), tools }),
        ..Config::default()
    })
}

fn outcome_of(repl: &Repl, agent: &Agent) -> Result<AgentOutcome> {
    let (messages, _) = repl.store().replay(agent.id())?;
    let mut outcome = AgentOutcome { state: short_state(agent.state().name()).into(), ..AgentOutcome::default() };
    for message in messages {
        match message.body {
            Body::Assistant(reply) if !reply.text.is_empty() => outcome.replies.push(reply.text),
            Body::ToolResult(result) => outcome.results.push(result.content),
            Body::Error(text) => outcome.error = text,
            _ => {}
        }
    }
    let partial = agent.partial_text();
    outcome.replies.extend((!partial.is_empty()).then(|| partial.to_owned()));
    outcome.usage = [agent.used.input, agent.used.output];
    Ok(outcome)
}
