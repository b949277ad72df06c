//! The loop: the only place where everything meets. One thread, one poll; every agent is served in every turn,
//! whether it is on the screen or not.
//!
//! A turn is the list in [`Repl::turn`]. Each step is a function of its own, so that a test can drive one turn at a
//! time. Agents are handed out one by one through `Repl::with_agent`; what they ask for is carried out in `apply`.

mod activity;
mod apply;
mod credentials;
mod device;
mod draw;
mod environment;
mod exit;
mod export;
mod external;
mod fork;
mod input;
mod kill;
mod library;
mod load;
mod log;
mod mail;
mod queue;
mod request;
mod sending;
mod serve;
mod slice;
mod steer;
#[cfg(feature = "coordinator")]
mod team;
#[cfg(not(feature = "coordinator"))]
#[path = "team/left_out.rs"]
mod team;
mod terminal;
mod terminals;
mod timeout;
mod trace;
mod viewers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::agent::{Agent, Context, Outbox, Wake};
use crate::base::clock::{Clock, Moment};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::commands::CommandContext;
use crate::domain::chunk::Chunk;
use crate::domain::config::Config;
use crate::domain::flow::Change;
use crate::domain::scrollback::LineKind;
use crate::net::{Lookup, Network};
use crate::reactor::{Reactor, Ready, Signal, Signals, Source};
use crate::store::{QueueId, Store};
use crate::team::{AgentFactory, Limiter, Roster};
use crate::tools::Running;
pub use device::{Device, RemoteTerminal};
pub use library::AgentSummary;
#[cfg(feature = "coordinator")]
pub use team::RunId;
pub use terminal::{Terminal, TerminalMode, TerminalRequest};
pub use terminals::TerminalId;
pub use timeout::{Timeout, WakeReason};
pub use viewers::{OnChunks, ViewerId, ViewerOutput};

use credentials::Credentials;
use external::ExternalHooks;
use load::{LoadedAgents, slots};
use terminals::Terminals;
use trace::Trace;

/// Whether the loop goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It does.
    Continue,
    /// Somebody asked to leave.
    Exit,
}

/// What all share and no agent may reach.
struct SharedContext {
    config: Config,
    store: Store,
    clock: Clock,
    network: Network,
    wake: Wake,
    factory: AgentFactory,
    trace: Trace,
}

/// A change that waits until the agent's tools are done.
struct Parked {
    agent_id: AgentId,
    /// The terminal from which it was asked for.
    origin: Option<TerminalId>,
    change: Change,
    /// What the person typed for it, if that was more than the command.
    line: Option<String>,
}

/// The loop and all that it holds.
pub struct Repl {
    shared: SharedContext,
    roster: Roster,
    reactor: Reactor,
    signals: Option<Signals>,
    terminals: Terminals,
    outbox: Outbox,
    parked: Vec<Parked>,
    /// The terminals at which queued commands were entered.
    entered_at: BTreeMap<QueueId, TerminalId>,
    /// What happens in memory when what is being stored is kept.
    after_commit: Vec<queue::AfterCommit>,
    /// Cuts that wait for summaries.
    slice_jobs: Vec<slice::SliceJob>,
    /// Which providers have to be waited for.
    limiter: Limiter,
    credentials: Credentials,
    /// Hosts that are being looked up, by provider.
    lookups: BTreeMap<String, Lookup>,
    /// How many agents may be at work.
    slots: usize,
    /// Messages that could not be written and are only in memory.
    unsaved: usize,
    /// Idle agents that still hold a connection, the longest idle first.
    idle_connections: VecDeque<AgentId>,
    /// What still runs of agents that died: joined as it ends.
    draining: Vec<Running>,
    /// Worktrees that are being made or removed, and those that are to be removed when nobody works there any more.
    worktree_jobs: Vec<environment::WorktreeJob>,
    unused_worktrees: Vec<environment::UnusedWorktree>,
    /// Calls that wait for letters.
    mail_waits: Vec<mail::MailWait>,
    /// Who reads what agents say.
    viewers: viewers::Viewers,
    /// Tasks on which several agents work.
    team: team::Team,
    tools_polled_at: Moment,
    /// Clients at a socket. Closed last: who reads until the end knows that the store is free again.
    serving: serve::Serving,
    external: ExternalHooks,
}

/// Idle agents that keep their connection for the next request; it costs descriptors and is not worth more.
const IDLE_CONNECTIONS: usize = 16;
/// How many agents whose deadline has come, and how many with work left over, are served in one turn; the others come
/// in the next, before the same ones come again.
const AGENTS_PER_TURN: usize = 128;
/// The promise for a wake that is lost: tool threads are looked at this often.
const TOOL_POLL: Duration = Duration::from_millis(50);

impl Repl {
    /// The house as the store left it; with agent 0, if nobody is there yet. `device` is the terminal of whoever started
    /// it, if there is one.
    ///
    /// # Errors
    /// When the store cannot be read or the kernel gives no descriptors.
    pub fn open(config: Config, store: Store, clock: Clock, device: Option<Device>) -> Result<Self> {
        let reactor = Reactor::new()?;
        // Who only looks may be looking at turns that another process is in the middle of.
        let was_cut = if store.is_read_only() { Vec::new() } else { store.recover(clock.unix_ms())? };
        let mut factory = AgentFactory::new(&config);
        let LoadedAgents { roster, damaged, is_fresh } =
            LoadedAgents::of(&store, &config, &mut factory, clock.unix_ms())?;
        let root = roster.nth(0).expect("there is at least agent 0");
        let (slots, tools_polled_at) = (slots(config.working_limit, 0), clock.now());
        let shared = SharedContext {
            trace: Trace::open(config.trace.as_deref())?,
            wake: reactor.waker(),
            factory,
            network: Network::default(),
            store,
            clock,
            config,
        };
        let mut repl = Self {
            shared,
            roster,
            reactor,
            signals: None,
            terminals: Terminals::default(),
            outbox: Outbox::default(),
            parked: Vec::new(),
            entered_at: BTreeMap::new(),
            after_commit: Vec::new(),
            slice_jobs: Vec::new(),
            limiter: Limiter::default(),
            credentials: Credentials::default(),
            lookups: BTreeMap::new(),
            slots,
            unsaved: 0,
            idle_connections: VecDeque::new(),
            draining: Vec::new(),
            worktree_jobs: Vec::new(),
            unused_worktrees: Vec::new(),
            mail_waits: Vec::new(),
            viewers: viewers::Viewers::default(),
            team: team::Team::default(),
            tools_polled_at,
            serving: serve::Serving::default(),
            external: ExternalHooks::default(),
        };
        if repl.shared.trace.is_open() {
            repl.outbox.listen();
        }
        repl.read_queues()?;
        repl.count_mail()?;
        for cut in &was_cut {
            repl.roster.with(*cut, Agent::note_cut);
        }
        repl.print_welcome(root, is_fresh, &damaged, was_cut.len());
        repl.find_unused_worktrees(root);
        if let Some(device) = device {
            repl.attach_device(device, root, TerminalMode::default());
        }
        repl.render();
        Ok(repl)
    }

    /// Signals reach the loop from now on, also those that came before. For a process of its own, which catches them
    /// before it takes the terminal; not for a library user's.
    pub fn set_signals(&mut self, signals: Signals) {
        self.signals = Some(signals);
    }

    /// Turns until somebody asks to leave or it cannot go on, then leaves in order.
    ///
    /// # Errors
    /// When the kernel refuses to poll.
    pub fn run(&mut self) -> Result<()> {
        let outcome = loop {
            match self.turn(None) {
                Ok(Turn::Continue) => {}
                Ok(Turn::Exit) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let left = self.leave();
        outcome.and(left)
    }

    /// One turn. Waits for news at most as long as `limit`, if there is one.
    ///
    /// # Errors
    /// When the kernel refuses to poll; never because of one agent.
    pub fn turn(&mut self, limit: Option<Duration>) -> Result<Turn> {
        self.setup_interests()?;
        let timeout = self.compute_timeout();
        let mut ready = Vec::new();
        self.reactor.wait(timeout.within(limit), &mut ready)?;
        self.shared.trace.begin(&timeout, &ready);
        self.external.hear(&ready);
        let is_leaving = self.handle_signals(&ready)? == Turn::Exit
            || self.handle_clients(&ready)? == Turn::Exit
            || self.handle_input(&ready)? == Turn::Exit;
        if is_leaving {
            drop(self.shared.trace.end());
            return Ok(Turn::Exit);
        }
        let named = self.handle_curl_events(&ready);
        self.join_draining();
        self.poll_worktree_jobs();
        self.poll_key_commands();
        self.poll_lookups();
        for id in self.agents_with_work(named, &ready) {
            self.with_agent(id, |agent, context| {
                agent.absorb_stream(context);
                agent.poll_tools(context);
                agent.keep_deadlines(context);
            });
        }
        self.shared.trace.heard(self.outbox.take_heard());
        self.apply_outbox();
        self.play_runs();
        self.tell_viewers();
        self.render();
        self.serve_clients();
        if let Some(error) = self.shared.trace.end() {
            self.report_trace_error(&error);
        }
        Ok(Turn::Continue)
    }

    /// Who looks on is told that the trace has ended: from now on nothing is written.
    fn report_trace_error(&mut self, error: &std::io::Error) {
        let watched: BTreeSet<AgentId> = self.terminals.iter().map(|terminal| terminal.focus).collect();
        for focus in watched {
            self.note(focus, LineKind::Error, &format!("the trace ends here: {error}"));
        }
        self.render();
    }

    /// Registers what the house itself waits for. Sockets of agents are registered as libcurl asks for them.
    fn setup_interests(&mut self) -> Result<()> {
        if let Some(signals) = &self.signals
            && !self.reactor.is_watched(Source::Signals)
        {
            self.reactor.watch(Source::Signals, signals.fd(), true, false)?;
        }
        for terminal in self.terminals.iter_mut() {
            terminal.watch(&mut self.reactor)?;
        }
        self.serving.watch(&mut self.reactor)
    }

    /// Drives the connections whose sockets are ready or whose timer is due. Returns the agents that this concerns.
    fn handle_curl_events(&mut self, ready: &[Ready]) -> BTreeSet<AgentId> {
        let now = self.shared.clock.now();
        let mut named = BTreeSet::new();
        for one in ready {
            let Source::Socket(id, fd) = one.source else { continue };
            self.with_agent(id, |agent, context| {
                agent.connection().on_socket(fd, one.readiness, context.network, now);
            });
            // libcurl does not read or write until it is told "again": without this no further news would come.
            if let Err(error) = self.reactor.rearm(one.source) {
                self.note(id, LineKind::Error, &error.message);
            }
            named.insert(id);
        }
        for id in self.roster.due(now, AGENTS_PER_TURN) {
            self.with_agent(id, |agent, context| {
                if agent.connection().timer().is_some_and(|at| at <= now) {
                    agent.connection().on_timer(context.network, now);
                }
            });
            named.insert(id);
        }
        named
    }

    /// Who has to be looked at: named by libcurl or the deadlines, with work left over, or with a tool thread.
    fn agents_with_work(&mut self, mut named: BTreeSet<AgentId>, ready: &[Ready]) -> BTreeSet<AgentId> {
        let now = self.shared.clock.now();
        named.extend(self.roster.take_leftover(AGENTS_PER_TURN));
        let is_woken = ready.iter().any(|one| one.source == Source::Waker);
        if is_woken || now - self.tools_polled_at >= TOOL_POLL {
            self.tools_polled_at = now;
            named.extend(self.roster.with_live_tools());
        }
        named
    }

    fn handle_signals(&mut self, ready: &[Ready]) -> Result<Turn> {
        if !ready.iter().any(|one| one.source == Source::Signals) {
            return Ok(Turn::Continue);
        }
        let signals = self.signals.as_mut().map(Signals::take).unwrap_or_default();
        self.reactor.rearm(Source::Signals)?;
        for signal in signals {
            match signal {
                Signal::Leave(_) => return Ok(Turn::Exit),
                // A server outlives the terminal from which it was started.
                Signal::HangUp if self.serving.is_open() => {}
                Signal::HangUp => return Ok(Turn::Exit),
                Signal::Suspend => self.suspend()?,
                Signal::Resized => {
                    self.terminals.iter_mut().filter(|terminal| terminal.is_local()).for_each(Terminal::measure)
                }
                Signal::Resume => self.terminals.iter_mut().try_for_each(Terminal::resume)?,
            }
        }
        Ok(Turn::Continue)
    }

    /// Hands one agent to `act`, then carries out what its connection wants of the poll, before anything else can
    /// happen: descriptors are reused at once.
    fn with_agent<T>(&mut self, id: AgentId, act: impl FnOnce(&mut Agent, &mut Context) -> T) -> Option<T> {
        let settings = self.team.settings_of(id, self.shared.config.settings);
        let mut context = Context {
            now: self.shared.clock.now(),
            settings: &settings,
            network: &self.shared.network,
            wake: &self.shared.wake,
            outbox: &mut self.outbox,
        };
        let (outcome, wishes) = self.roster.with(id, |agent| {
            let outcome = act(agent, &mut context);
            (outcome, agent.take_wishes())
        })?;
        if let Err(error) = self.reactor.grant(id, wishes) {
            self.note(id, LineKind::Error, &error.context("a connection cannot be watched").message);
        }
        Some(outcome)
    }

    /// Says something to whoever looks at this agent; no model is told.
    fn note(&mut self, id: AgentId, kind: LineKind, text: &str) {
        let text = text.to_owned();
        let chunk = match kind {
            LineKind::Error => Chunk::Error { kind: "internal".into(), message: text },
            LineKind::Mark => Chunk::Mark(text),
            _ => Chunk::Note(text),
        };
        self.roster.with(id, |agent| agent.emit_aside(&chunk));
    }

    /// The house as a command may see it.
    fn command_context(&self, current: AgentId) -> CommandContext<'_> {
        let SharedContext { store, config, clock, .. } = &self.shared;
        CommandContext {
            roster: &self.roster,
            store,
            config,
            current,
            unix_ms: clock.unix_ms(),
            terminal_infos: Vec::new(),
        }
    }

    /// The same, asked from this terminal.
    fn command_context_at(&self, at: TerminalId, current: AgentId) -> CommandContext<'_> {
        CommandContext { terminal_infos: self.terminal_infos(at), ..self.command_context(current) }
    }

    /// Everybody, to look at.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// How many messages could not be written and will be gone after the end of the program.
    pub fn unsaved(&self) -> usize {
        self.unsaved
    }

    /// The store, to look at.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Asks the house for a change on behalf of an agent, as a command would that is typed at the terminal that has been
    /// there longest, those left out that only watch.
    ///
    /// # Errors
    /// When it cannot be carried out; the house is as it was.
    pub fn ask(&mut self, agent_id: AgentId, change: Change) -> Result<()> {
        self.apply_change(self.terminals.first_taking_part(), agent_id, change)?;
        self.apply_outbox();
        self.render();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;
    use crate::domain::endpoint::Endpoint;

    fn repl_in(directory: &std::path::Path) -> Repl {
        let config = Config {
            data_directory: Some(directory.into()),
            working_directory: directory.into(),
            supervisor: directory.into(),
            ..Config::default()
        };
        let store = Store::open(directory).expect("a store");
        Repl::open(config, store, Clock::system(), None).expect("a house")
    }

    #[test]
    fn a_tool_that_is_done_is_found_by_looking_although_its_wake_was_lost() {
        let directory = tempfile::tempdir().unwrap();
        let mut command_context = repl_in(directory.path());
        command_context.shared.wake = Arc::new(|| {});
        let id = command_context.roster.nth(0).unwrap();
        command_context.ask(id, Change::Submit("!tool read_file {\"path\":\"none\"}".into())).unwrap();
        let start = Instant::now();
        while !command_context.roster.busy().is_empty() {
            command_context.turn(Some(Duration::from_secs(20))).unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(10), "it was found only when the test gave up waiting");
    }

    #[test]
    fn what_the_last_request_of_a_turn_leads_to_is_carried_out_in_that_turn() {
        let directory = tempfile::tempdir().unwrap();
        let mut command_context = repl_in(directory.path());
        let root = command_context.roster.nth(0).unwrap();
        let nobody_speaks = Rc::new(Endpoint { kind: "nonsense".into(), ..Endpoint::echo() });
        command_context.roster.with(root, |agent| agent.talk.endpoint = nobody_speaks);
        for _ in 0..70 {
            command_context.ask(root, Change::Fork { prompt: None, name: None, model: None }).unwrap();
        }
        for id in command_context.roster.ids() {
            command_context.apply_change(None, id, Change::Submit("hello".into())).unwrap();
        }
        command_context.apply_outbox();
        assert_eq!(command_context.roster.busy().len(), 7, "the others failed at once");
        assert!(command_context.outbox.is_empty());
    }
}
