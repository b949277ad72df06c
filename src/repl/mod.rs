//! The loop: the only place where everything meets. One thread, one poll; every agent is served in every turn,
//! whether it is on the screen or not.
//!
//! A turn is the list in [`Repl::turn`]. Each step is a function of its own, so that a test can drive one turn at a
//! time. Agents are handed out one by one through `Repl::with_agent`; what they ask for is carried out in `apply`.

mod api;
mod apply;
mod attached;
mod component;
#[cfg(feature = "coordinator")]
mod coordinator;
mod core;
mod dispatcher;
mod event;
mod exit;
mod export;
mod external;
mod input;
mod jobs;
mod load;
mod mail_waits;
mod queue;
mod requests;
mod server;
mod staged;
mod terminals;
mod timeout;
mod tool_requests;
mod trace;
mod viewers;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::agent::Agent;
use crate::base::clock::{Clock, Moment};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::config::Config;
use crate::domain::scrollback::LineKind;
use crate::reactor::{Reactor, Ready, Signal, Signals, Source};
use crate::store::Store;
use crate::team::{AgentFactory, ViewerId};
pub use api::AgentSummary;
pub use component::Turn;
#[cfg(feature = "coordinator")]
pub use coordinator::RunId;
pub use terminals::{Device, RemoteTerminal, Terminal, TerminalMode, TerminalRequest};
pub use timeout::{Timeout, WakeReason};
pub use viewers::OnChunks;

use component::{Command, Component};
use core::Core;
use dispatcher::Dispatcher;
use external::ExternalHooks;
use jobs::Jobs;
use load::{LoadedAgents, slots};
use mail_waits::MailWaits;
use server::Server;
use terminals::Terminals;
use timeout::TOOL_POLL;
use trace::Trace;

/// The event loop with its agents, terminals and clients.
pub struct Repl {
    core: Core,
    trace: Trace,
    signals: Option<Signals>,
    terminals: Terminals,
    dispatcher: Dispatcher,
    jobs: Jobs,
    mail_waits: MailWaits,
    callbacks: Vec<(ViewerId, OnChunks)>,
    #[cfg(feature = "coordinator")]
    coordinator: coordinator::Coordinator,
    tools_polled_at: Moment,
    /// Dropped after the store: a client that reads to the end of its connection knows that the store is free.
    server: Server,
    external: ExternalHooks,
}

/// How many agents whose deadline has come, and how many with work left over, are served in one turn; the others come
/// in the next, before the same ones come again.
const AGENTS_PER_TURN: usize = 128;
const REQUESTS_PER_TURN: usize = 64;
/// How many components there are, in [`Repl::split`].
const COMPONENTS: usize = if cfg!(feature = "coordinator") { 6 } else { 5 };

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
        // Who only looks may be looking at turns that another process is in the middle of.
        let was_cut = if store.is_read_only() { Vec::new() } else { store.recover(clock.unix_ms())? };
        let mut factory = AgentFactory::new(&config);
        let LoadedAgents { roster, damaged, is_fresh } =
            LoadedAgents::of(&store, &config, &mut factory, clock.unix_ms())?;
        let root = roster.nth(0).expect("there is at least agent 0");
        let (slots, tools_polled_at) = (slots(config.working_limit, 0), clock.now());
        let trace = Trace::open(&config, &clock)?;
        let core = Core::new(config, store, clock, reactor, roster, factory);
        let mut repl = Self {
            core,
            trace,
            signals: None,
            terminals: Terminals::default(),
            dispatcher: Dispatcher::new(slots),
            jobs: Jobs::default(),
            mail_waits: MailWaits::default(),
            callbacks: Vec::new(),
            #[cfg(feature = "coordinator")]
            coordinator: coordinator::Coordinator::default(),
            tools_polled_at,
            server: Server::default(),
            external: ExternalHooks::default(),
        };
        if repl.trace.is_open() {
            repl.core.outbox.start_tracing();
        }
        repl.core.restore_queues()?;
        repl.core.restore_unread()?;
        for cut in &was_cut {
            repl.core.roster.with(*cut, Agent::note_interrupted);
        }
        repl.print_welcome(root, is_fresh, &damaged, was_cut.len());
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

    /// Calls [`Repl::turn`] until the loop is to end or fails, then [`Repl::leave`].
    ///
    /// # Errors
    /// The system call that waits for events fails.
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

    /// One turn of the loop: waits for events, at most as long as `limit` and the next deadline, and lets every agent and
    /// component handle what concerns it.
    ///
    /// # Errors
    /// The system call that waits for events fails. A failure of one agent is reported in its output.
    pub fn turn(&mut self, limit: Option<Duration>) -> Result<Turn> {
        self.setup_interests()?;
        let timeout = self.compute_timeout();
        let mut ready = Vec::new();
        self.core.reactor.wait(timeout.within(limit), &mut ready)?;
        self.trace.begin(&timeout, &ready);
        self.external.hear(&ready);
        let is_leaving = self.handle_signals(&ready)? == Turn::Exit
            || self.read_ready(&ready)? == Turn::Exit
            || self.handle_input()? == Turn::Exit;
        if is_leaving {
            drop(self.trace.end());
            return Ok(Turn::Exit);
        }
        let named = self.handle_curl_events(&ready);
        self.core.reap();
        for id in self.agents_with_work(named, &ready) {
            self.core.with_agent(id, |agent, context| {
                agent.absorb_stream(context);
                agent.poll_tools(context);
                agent.check_deadlines(context);
            });
        }
        self.trace.heard(self.core.outbox.take_traced());
        self.apply_effects();
        self.step_components();
        self.dispatch();
        self.call_back();
        self.terminals.render(&mut self.core);
        self.publish();
        if let Some(error) = self.trace.end() {
            self.report_trace_error(&error);
        }
        Ok(Turn::Continue)
    }

    /// Sends a bounded number of requests; the others are sent in the next turn.
    fn dispatch(&mut self) {
        let focused: Vec<AgentId> = self.terminals.focused().map(|agent| self.core.worker(agent)).collect();
        for _ in 0..REQUESTS_PER_TURN {
            if !self.dispatcher.send_next(&mut self.core, &focused) {
                return;
            }
            self.apply_effects();
        }
    }

    /// Shows on every terminal that the trace has ended.
    fn report_trace_error(&mut self, error: &std::io::Error) {
        let watched: BTreeSet<AgentId> = self.terminals.focused().collect();
        for focus in watched {
            self.core.note(focus, LineKind::Error, &format!("the trace ends here: {error}"));
        }
        self.terminals.render(&mut self.core);
    }

    /// The core and every component, in the order in which events are delivered and components are stepped.
    fn split(&mut self) -> (&mut Core, [&mut dyn Component; COMPONENTS]) {
        let Self {
            core,
            dispatcher,
            jobs,
            mail_waits,
            #[cfg(feature = "coordinator")]
            coordinator,
            terminals,
            server,
            ..
        } = self;
        let components: [&mut dyn Component; COMPONENTS] = [
            dispatcher,
            jobs,
            mail_waits,
            #[cfg(feature = "coordinator")]
            coordinator,
            terminals,
            server,
        ];
        (core, components)
    }

    fn components(&self) -> [&dyn Component; COMPONENTS] {
        [
            &self.dispatcher,
            &self.jobs,
            &self.mail_waits,
            #[cfg(feature = "coordinator")]
            &self.coordinator,
            &self.terminals,
            &self.server,
        ]
    }

    /// Lets every component read its descriptors, then handles the requests of clients.
    fn read_ready(&mut self, ready: &[Ready]) -> Result<Turn> {
        let (core, components) = self.split();
        components.into_iter().try_for_each(|component| component.on_ready(ready, core))?;
        Ok(self.handle_requests())
    }

    /// Lets every component do a bounded amount of its own work, and carries out what it asks for.
    fn step_components(&mut self) {
        let mut commands = Vec::new();
        let (core, components) = self.split();
        components.into_iter().for_each(|component| component.step(core, &mut commands));
        self.apply_effects();
        for Command { origin, agent, change } in commands {
            self.apply_or_notify(origin, agent, change);
            self.apply_effects();
        }
    }

    /// Registers the descriptors of the loop and of its components. The sockets of agents are registered by libcurl's
    /// requests.
    fn setup_interests(&mut self) -> Result<()> {
        if let Some(signals) = &self.signals
            && !self.core.reactor.is_watched(Source::Signals)
        {
            self.core.reactor.watch(Source::Signals, signals.fd(), true, false)?;
        }
        let (core, components) = self.split();
        components.into_iter().try_for_each(|component| component.watch(&mut core.reactor))
    }

    /// Drives the connections whose sockets are ready or whose timer is due. Returns the agents that this concerns.
    fn handle_curl_events(&mut self, ready: &[Ready]) -> BTreeSet<AgentId> {
        let now = self.core.clock.now();
        let mut named = BTreeSet::new();
        for one in ready {
            let Source::Socket(id, fd) = one.source else { continue };
            self.core.with_agent(id, |agent, context| {
                agent.connection().on_socket(fd, one.readiness, context.network, now);
            });
            // libcurl does not read or write until it is told "again": without this no further news would come.
            if let Err(error) = self.core.reactor.rearm(one.source) {
                self.core.note(id, LineKind::Error, &error.message);
            }
            named.insert(id);
        }
        for id in self.core.roster.due(now, AGENTS_PER_TURN) {
            self.core.with_agent(id, |agent, context| {
                if agent.connection().timer().is_some_and(|at| at <= now) {
                    agent.connection().on_timer(context.network, now);
                }
            });
            named.insert(id);
        }
        named
    }

    /// The agents to serve in this turn: named by libcurl or a deadline, with work left over, or with a tool thread.
    fn agents_with_work(&mut self, mut named: BTreeSet<AgentId>, ready: &[Ready]) -> BTreeSet<AgentId> {
        let now = self.core.clock.now();
        named.extend(self.core.roster.take_leftover(AGENTS_PER_TURN));
        let is_woken = ready.iter().any(|one| one.source == Source::Waker);
        if is_woken || now - self.tools_polled_at >= TOOL_POLL {
            self.tools_polled_at = now;
            named.extend(self.core.roster.with_live_tools());
        }
        named
    }

    fn handle_signals(&mut self, ready: &[Ready]) -> Result<Turn> {
        if !ready.iter().any(|one| one.source == Source::Signals) {
            return Ok(Turn::Continue);
        }
        let signals = self.signals.as_mut().map(Signals::take).unwrap_or_default();
        self.core.reactor.rearm(Source::Signals)?;
        for signal in signals {
            match signal {
                Signal::Terminate(_) => return Ok(Turn::Exit),
                // A server outlives the terminal from which it was started.
                Signal::Hangup if self.server.is_listening() => {}
                Signal::Hangup => return Ok(Turn::Exit),
                Signal::Suspend => self.suspend()?,
                Signal::Resized => {
                    self.terminals.iter_mut().filter(|terminal| terminal.is_local()).for_each(Terminal::measure)
                }
                Signal::Resume => self.terminals.resume_all()?,
            }
        }
        Ok(Turn::Continue)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;
    use crate::domain::endpoint::Endpoint;
    use crate::domain::flow::{Change, Origin};

    fn repl_in(directory: &std::path::Path) -> Repl {
        let config = Config {
            data_directory: Some(directory.into()),
            working_directory: directory.into(),
            supervisor: directory.into(),
            ..Config::default()
        };
        let store = Store::open(directory).expect("a store");
        Repl::open(config, store, Clock::system()).expect("a house")
    }

    #[test]
    fn a_tool_that_is_done_is_found_by_looking_although_its_wake_was_lost() {
        let directory = tempfile::tempdir().unwrap();
        let mut repl = repl_in(directory.path());
        repl.core.waker = Arc::new(|| {});
        let id = repl.core.roster.nth(0).unwrap();
        repl.apply(id, Change::Submit("!tool read_file {\"path\":\"none\"}".into())).unwrap();
        let start = Instant::now();
        while !repl.core.roster.busy().is_empty() {
            repl.turn(Some(Duration::from_secs(20))).unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(10), "it was found only when the test gave up waiting");
    }

    #[test]
    fn what_the_last_request_of_a_turn_leads_to_is_carried_out_in_that_turn() {
        let directory = tempfile::tempdir().unwrap();
        let mut repl = repl_in(directory.path());
        let root = repl.core.roster.nth(0).unwrap();
        let nobody_speaks = Rc::new(Endpoint { kind: "nonsense".into(), ..Endpoint::echo() });
        repl.core.roster.with(root, |agent| agent.talk.endpoint = nobody_speaks);
        for _ in 0..70 {
            repl.apply(root, Change::Fork { prompt: None, name: None, model: None }).unwrap();
        }
        for id in repl.core.roster.ids() {
            repl.apply_change(Origin::Internal, id, Change::Submit("hello".into())).unwrap();
        }
        repl.dispatch();
        assert_eq!(repl.core.roster.busy().len(), 7, "the others failed at once");
        assert!(repl.core.outbox.is_empty());
    }
}
