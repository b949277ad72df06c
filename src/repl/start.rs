//! Opens the loop: loads the stored agents, computes how many of them may work at once, and shows the first notes.

use crate::agent::{Agent, Queued};
use crate::base::clock::Clock;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::config::Config;
use crate::domain::environment::DEFAULT_ENVIRONMENT;
use crate::domain::scrollback::LineKind;
use crate::proxy::{Calls, Incoming};
use crate::reactor::{Reactor, Signals};
use crate::repl::core::Core;
use crate::repl::dispatcher::Dispatcher;
use crate::repl::external::ExternalDescriptors;
use crate::repl::jobs::Jobs;
use crate::repl::mail_waits::MailWaits;
use crate::repl::objections::Objections;
use crate::repl::proxy::Proxy;
use crate::repl::server::Server;
use crate::repl::terminals::Terminals;
use crate::repl::trace::Trace;
use crate::repl::viewers::Callbacks;
use crate::repl::{Device, Repl, TerminalMode};
use crate::store::Store;
use crate::team::{AgentFactory, MINUTE, Roster, Trees};

impl Repl {
    /// Loads the agents of the store; an empty store gets a first agent, the root.
    ///
    /// # Errors
    /// The store cannot be read, or the process has too many open files.
    pub fn open(config: Config, store: Store, clock: Clock) -> Result<Self> {
        Self::open_at(config, store, clock, None)
    }

    /// [`Repl::open`] with a terminal that shows the root.
    pub(crate) fn open_at(config: Config, store: Store, clock: Clock, device: Option<Device>) -> Result<Self> {
        let reactor = Reactor::new()?;
        // With a read-only store, another process may be in the middle of these turns.
        let interrupted = if store.is_read_only() { Vec::new() } else { store.recover(clock.unix_ms())? };
        let (calls, incoming) = Calls::new(reactor.waker());
        let mut factory = AgentFactory::new(&config, calls);
        let LoadedAgents { roster, damaged, is_fresh } =
            LoadedAgents::of(&store, &config, &mut factory, clock.unix_ms())?;
        let root = roster.nth(0).expect("there is at least agent 0");
        let trace = Trace::open(&config, &clock)?;
        let mut repl = Self::new(Core::new(config, store, clock, reactor, roster, factory), trace, incoming);
        restore_limits(&mut repl.core)?;
        restore_queues(&mut repl.core)?;
        restore_unread(&mut repl.core)?;
        for id in &interrupted {
            repl.core.roster.with(*id, Agent::note_interrupted);
        }
        let (asked, closed) = repl.restore_questions()?;
        print_welcome(&mut repl.core, root, is_fresh, &damaged);
        print_unfinished(&mut repl.core, root, interrupted.len() + closed, asked);
        repl.jobs.find_unused_worktrees(&mut repl.core, root);
        if let Some(device) = device {
            repl.terminals.attach(&mut repl.core, device, root, TerminalMode::default());
        }
        repl.terminals.render(&mut repl.core);
        Ok(repl)
    }

    /// Handles signals in the loop from now on, including those caught before: SIGTERM, SIGINT and SIGHUP end it.
    pub fn set_signals(&mut self, signals: Signals) {
        self.signals = Some(signals);
    }

    fn new(core: Core, trace: Trace, calls: Incoming) -> Self {
        Self {
            dispatcher: Dispatcher::new(slots(core.config.working_limit, 0)),
            jobs: Jobs::default(),
            mail_waits: MailWaits::default(),
            objections: Objections::default(),
            proxy: Proxy::new(calls),
            #[cfg(feature = "coordinator")]
            coordinator: crate::repl::coordinator::Coordinator::default(),
            editor: None,
            shell: crate::repl::shell::ShellCommands::default(),
            terminals: Terminals::default(),
            server: Server::default(),
            signals: None,
            trace,
            callbacks: Callbacks::default(),
            external: ExternalDescriptors::default(),
            tools_polled_at: core.clock.now(),
            core,
        }
    }
}

/// Reads the stored limits and what counts against them.
fn restore_limits(core: &mut Core) -> Result<()> {
    let now = core.clock.unix_ms();
    let stored = core.store.load_limits(now - MINUTE)?;
    let Config { tree_limits, counts_usd_from_start, .. } = core.config;
    core.trees = Trees::new(tree_limits, counts_usd_from_start, stored, &core.roster, now);
    Ok(())
}

fn restore_queues(core: &mut Core) -> Result<()> {
    for id in core.store.agents_with_queue()? {
        match core.store.queued(id) {
            Ok(queued) => core.roster.with(id, |agent| agent.queue.extend(queued.into_iter().map(Queued::from))),
            Err(error) => {
                core.note(id, LineKind::Error, &format!("cannot read the queue: {error}"));
                None
            }
        };
    }
    Ok(())
}

/// Counts the unread messages of all agents.
fn restore_unread(core: &mut Core) -> Result<()> {
    for (agent_id, unread) in core.store.unread_mail()? {
        core.roster.with(agent_id, |agent| agent.unread = unread);
    }
    Ok(())
}

fn print_welcome(core: &mut Core, root: AgentId, is_fresh: bool, damaged: &[String]) {
    let mut notes = Vec::new();
    if is_fresh {
        notes.push(
            concat!("polylogue ", env!("CARGO_PKG_VERSION"), ": many agents in one terminal; /help lists the commands")
                .to_owned(),
        );
    }
    if core.store.is_read_only() {
        notes.push("read-only: nothing can be sent or changed, and new output is not shown".to_owned());
    } else {
        notes.extend(core.config.hint.clone());
    }
    notes.extend(core.config.notes.clone());
    if !crate::net::HAS_POLL {
        let most = crate::net::AGENTS_WITHOUT_POLL;
        notes.push(format!("at most {most} agents can work at once: libcurl was built without poll"));
    }
    notes.iter().for_each(|note| core.note(root, LineKind::Note, note));
    damaged.iter().for_each(|message| core.note(root, LineKind::Error, message));
}

/// Says how many turns an earlier process has left, and how many of its questions are asked again.
fn print_unfinished(core: &mut Core, root: AgentId, interrupted: usize, asked: usize) {
    if asked > 0 {
        let questions = text::counted(asked, "question was", "questions were");
        core.note(root, LineKind::Note, &format!("{questions} open when the program ended: asked again (see /agents)"));
    }
    if interrupted > 0 {
        let turns = text::counted(interrupted, "turn was", "turns were");
        let note = format!("{turns} interrupted when the program ended; received text is kept (see /agents)");
        core.note(root, LineKind::Note, &note);
    }
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
}

impl LoadedAgents {
    fn of(store: &Store, config: &Config, factory: &mut AgentFactory, unix_ms: i64) -> Result<Self> {
        let registry = store.load_agents()?;
        let mut roster = Roster::default();
        for row in &registry.agents {
            let parent = match row.parent {
                Some(parent) if roster.get(parent).is_some() => Some(parent),
                // The row of the parent cannot be read.
                _ => store.living_ancestor(row.id)?.or(roster.nth(0)),
            };
            roster.add(factory.restore(row), parent);
        }
        let is_fresh = roster.is_empty();
        if is_fresh {
            let model = config.endpoint.full_name();
            let row = store.create_root(AgentId::random(), Some(&model), Some(DEFAULT_ENVIRONMENT), unix_ms)?;
            roster.add(factory.restore(&row), None);
        }
        Ok(Self { roster, damaged: registry.damaged, is_fresh })
    }
}

/// How many agents may work at once: the minimum of the setting (0: no limit), what the file descriptors allow beside so
/// many clients, and what this build of libcurl can poll.
pub(super) fn slots(limit: usize, clients: u64) -> usize {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let agents = descriptors.saturating_sub(OWN_DESCRIPTORS + clients) / DESCRIPTORS_PER_AGENT;
    let limit = limit.min(usize::try_from(agents).unwrap_or(usize::MAX).max(1));
    if crate::net::HAS_POLL { limit } else { limit.min(crate::net::AGENTS_WITHOUT_POLL) }
}
