//! Opens the loop: loads the stored agents, creates the root in an empty store, computes how many agents may work at once, and
//! shows the first notes.

use std::time::Duration;

use crate::agent::Agent;
use crate::base::clock::Clock;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::config::Config;
use crate::domain::environment::DEFAULT_ENVIRONMENT;
use crate::domain::flow::TurnEnd;
use crate::domain::scrollback::LineKind;
use crate::proxy::{Calls, Incoming};
use crate::reactor::{Reactor, Signals};
use crate::repl::core::spawn::project_directory;
use crate::repl::core::{Core, context_lengths, restore};
use crate::repl::dispatcher::Dispatcher;
use crate::repl::jobs::Jobs;
use crate::repl::jobs::undo;
use crate::repl::objections::Objections;
use crate::repl::proxy::Proxy;
use crate::repl::restored::restore_questions;
use crate::repl::server::Server;
use crate::repl::terminals::{Terminals, directory};
use crate::repl::trace::Trace;
use crate::repl::{Device, Embedding, Process, Programs, Repl, TerminalMode, features};
use crate::store::{AgentRow, Store};
use crate::team::{AgentFactory, Roster};

/// The first line of the first conversation begins with this.
pub(super) const GREETING: &str = "polylogue ";
/// The directory in the first line is cut off at this many columns.
const PLACE_COLUMNS: usize = 40;
/// The task of an interrupted run is cut off at this many columns.
#[cfg(feature = "coordinator")]
const TASK_COLUMNS: usize = 60;

impl Repl {
    /// Loads the agents of the store; an empty store gets a first agent, the root.
    ///
    /// # Errors
    /// The store cannot be read, or the process has too many open files.
    pub fn open(config: Config, store: Store, clock: Clock) -> Result<Self> {
        Self::open_at(config, store, clock, None)
    }

    /// [`Repl::open`] with a terminal that shows the root.
    pub(crate) fn open_at(mut config: Config, mut store: Store, clock: Clock, device: Option<Device>) -> Result<Self> {
        if config.record.is_some() {
            // What is random does not happen again in a replay.
            config.settings.retry.jitter = 0.0;
        }
        let reactor = Reactor::new()?;
        let wake = reactor.waker();
        store.sync_in_background(move || wake())?;
        #[cfg(feature = "coordinator")]
        let cut_runs = if store.is_read_only() { Vec::new() } else { store.open_runs()? };
        // With a read-only store, another process may be in the middle of these turns.
        let interrupted = if store.is_read_only() { Vec::new() } else { store.recover(clock.unix_ms())? };
        if !store.is_read_only() {
            store.delete_unwritten(clock.unix_ms())?;
        }
        store.begin_reading()?;
        context_lengths::restore(&mut config, &store, clock.unix_ms());
        let (calls, incoming) = Calls::new(reactor.waker());
        let mut factory = AgentFactory::new(&config, calls);
        let LoadedAgents { roster, damaged, is_fresh, unseen } =
            LoadedAgents::of(&store, &config, &mut factory, clock.unix_ms())?;
        let root = roster.nth(0).expect("there is at least agent 0");
        let trace = Trace::open(&config, &clock, roster.iter())?;
        let mut repl = Self::new(Core::new(config, store, clock, reactor, roster, factory), trace, incoming);
        restore::restore(&mut repl.core)?;
        for id in &interrupted {
            repl.core.edit(*id, Agent::note_interrupted);
        }
        #[cfg(feature = "coordinator")]
        for (origin, run) in cut_runs {
            let task = text::shortened(run.task.lines().next().unwrap_or_default(), TASK_COLUMNS);
            let note = format!(
                "the team run {} was interrupted when the program ended: {task}; /team lists the runs",
                run.run
            );
            repl.core.note(origin, LineKind::Note, &note);
        }
        repl.terminals.restore_unseen(unseen, repl.core.now());
        repl.process.end.notes = undo::take_up(&mut repl.core);
        let (asked, closed) = restore_questions(&mut repl.core, &mut repl.objections)?;
        repl.apply_effects();
        repl.process.welcome = welcome(&repl.core, root, is_fresh, &damaged);
        repl.process.welcome.extend(unfinished(interrupted.len() + closed, asked));
        repl.show_welcome(root);
        repl.core.store().end_reading()?;
        repl.jobs.find_unused_worktrees(&mut repl.core, root);
        if let Some(device) = device {
            repl.terminals.attach(&mut repl.core, device, root, TerminalMode::default());
        }
        repl.render();
        Ok(repl)
    }

    /// Shows the messages at the start in an agent.
    pub(crate) fn show_welcome(&mut self, agent_id: AgentId) {
        self.process.welcome.iter().for_each(|(kind, note)| self.core.note(agent_id, *kind, note));
    }

    /// Handles signals in the loop from now on, including those caught before: SIGTERM, SIGINT and SIGHUP end it.
    pub fn set_signals(&mut self, signals: Signals) {
        self.process.signals = Some(signals);
    }

    fn new(core: Core, trace: Trace, calls: Incoming) -> Self {
        Self {
            dispatcher: Dispatcher::new(slots(core.config().working_limit, 0)),
            jobs: Jobs::default(),
            features: features(),
            objections: Objections::default(),
            proxy: Proxy::new(calls),
            #[cfg(feature = "coordinator")]
            coordinator: crate::repl::coordinator::Coordinator::default(),
            terminals: Terminals::default(),
            server: Server::default(),
            process: Process::default(),
            programs: Programs::default(),
            trace,
            embedding: Embedding::default(),
            core,
        }
    }
}

/// What the program says at its start.
fn welcome(core: &Core, root: AgentId, is_fresh: bool, damaged: &[String]) -> Vec<(LineKind, String)> {
    let (mut notes, mut warnings) = (Vec::new(), core.config().notes.clone());
    if is_fresh {
        notes.push(introduction(core, root));
    }
    if core.store().is_read_only() {
        notes.push("read-only: nothing can be sent or changed, and new output is not shown".to_owned());
    } else {
        // A terminal begins with the panel instead.
        let is_alone = !core.config().settings.is_interactive;
        warnings.extend(core.config().hint.clone().filter(|_| is_alone));
    }
    if let Some(copy) = core.store().copy_before_migration() {
        notes.push(format!("the schema of the database was changed; a copy from before is {}", copy.display()));
    }
    if !crate::net::HAS_POLL {
        let most = crate::net::AGENTS_WITHOUT_POLL;
        notes.push(format!("at most {most} agents can work at once: libcurl was built without poll"));
    }
    let of_kind = |kind: LineKind, notes: Vec<String>| notes.into_iter().map(move |note| (kind, note));
    let notes = of_kind(LineKind::Note, notes).chain(of_kind(LineKind::Warning, warnings));
    notes.chain(of_kind(LineKind::Error, damaged.to_vec())).collect()
}

/// The name of the program, the directory and the model, and what to do next unless a hint says that.
pub(super) fn introduction(core: &Core, agent_id: AgentId) -> String {
    let Some(agent) = core.agent(agent_id) else { return String::new() };
    let (home, version) = (core.config().display.home.as_deref(), env!("CARGO_PKG_VERSION"));
    let place = directory(&agent.inputs.environment.working_directory, home, PLACE_COLUMNS);
    let model = agent.inputs.endpoint.shown_name();
    let is_next = core.config().hint.is_none() && !core.store().is_read_only();
    let next = if is_next { "; write a message, ? shows the keys" } else { "" };
    format!("{GREETING}{version}, many agents in one terminal: {model} in {place}{next}")
}

/// How many turns an earlier process has left, and how many of its questions are asked again.
fn unfinished(interrupted: usize, asked: usize) -> Vec<(LineKind, String)> {
    let mut notes = Vec::new();
    if asked > 0 {
        let questions = text::counted(asked, "question was", "questions were");
        notes.push(format!("{questions} open when the program ended: asked again (see /agents)"));
    }
    if interrupted > 0 {
        let turns = text::counted(interrupted, "turn was", "turns were");
        notes.push(format!("{turns} interrupted when the program ended; received text is kept (see /agents)"));
    }
    notes.into_iter().map(|note| (LineKind::Note, note)).collect()
}

/// File descriptors that are used neither by working agents nor by clients.
const OWN_DESCRIPTORS: u64 = 64;
/// File descriptors that a working agent needs.
const DESCRIPTORS_PER_AGENT: u64 = 4;

/// The agents in the store.
struct LoadedAgents {
    roster: Roster,
    /// A message for each row that could not be read.
    damaged: Vec<String>,
    /// The store was empty: the root was just created.
    is_fresh: bool,
    /// How the last turns ended that no terminal has shown, and how long ago, the oldest first.
    unseen: Vec<(AgentId, TurnEnd, Duration)>,
}

impl LoadedAgents {
    fn of(store: &Store, config: &Config, factory: &mut AgentFactory, unix_ms: i64) -> Result<Self> {
        let registry = store.load_agents()?;
        let mut roster = Roster::default();
        for row in &registry.agents {
            let agent = factory.restore(&config.catalog, row);
            match row.parent {
                Some(parent) if roster.get(parent).is_some() => roster.add(agent, Some(parent)),
                // The parent has ended, or its row cannot be read.
                _ => {
                    let (above, is_top) = store.living_ancestor(row.id)?;
                    roster.add_at(agent, above.or(roster.nth(0)), is_top);
                }
            }
        }
        let is_fresh = roster.is_empty();
        if is_fresh {
            let model = config.endpoint.full_name();
            let mut row = store.create_root(AgentId::random(), Some(&model), Some(DEFAULT_ENVIRONMENT), unix_ms)?;
            row.directory = project_directory(&factory.environments.usual().environment.working_directory);
            store.set_directory(row.id, row.directory.as_deref())?;
            let mut root = factory.restore(&config.catalog, &row);
            // It begins with this start, so it has the policy of this start.
            root.policy = factory.new_policy();
            roster.add(root, None);
        }
        Ok(Self { roster, damaged: registry.damaged, is_fresh, unseen: unseen(&registry.agents, unix_ms) })
    }
}

fn unseen(agents: &[AgentRow], unix_ms: i64) -> Vec<(AgentId, TurnEnd, Duration)> {
    // Members of a team are not shown to a person one by one.
    let of_person = agents.iter().filter(|row| row.team_run.is_none() && !row.was_busy);
    let mut ended: Vec<(i64, &AgentRow)> = of_person.filter_map(|row| Some((row.unseen_since?, row))).collect();
    ended.sort_by_key(|(at, _)| *at);
    let age = |at: i64| Duration::from_millis(u64::try_from(unix_ms - at).unwrap_or_default());
    ended.into_iter().filter_map(|(at, row)| Some((row.id, row.last_end?, age(at)))).collect()
}

/// How many agents may work at once: the minimum of the setting (0: no limit), of what the file descriptors allow
/// beside this many clients, and of what this build of libcurl can poll.
pub(super) fn slots(limit: usize, clients: u64) -> usize {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let agents = descriptors.saturating_sub(OWN_DESCRIPTORS + clients) / DESCRIPTORS_PER_AGENT;
    let limit = limit.min(usize::try_from(agents).unwrap_or(usize::MAX).max(1));
    if crate::net::HAS_POLL { limit } else { limit.min(crate::net::AGENTS_WITHOUT_POLL) }
}
