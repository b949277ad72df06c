//! The state that all components share: the agents with store and network, and effects and events not yet handled.
//!
//! `Core` keeps the store and the roster equal, one agent or subtree at a time. It has nothing to do with terminals,
//! clients and policies. An operation that returns an error has changed nothing, unless its documentation says otherwise.

pub(super) mod activity;
pub(super) mod archive;
pub(super) mod begin;
pub(super) mod delete;
pub(super) mod drafts;
pub(in crate::repl) mod file_steps;
pub(in crate::repl) mod files;
mod limits;
pub(super) mod log;
pub(super) mod mail;
pub(super) mod model;
pub(super) mod programs;
pub(super) mod queue;
pub(super) mod remove;
pub(super) mod spawn;
pub(super) mod turns;
pub(in crate::repl) mod unsaved;
pub(super) mod viewers;

use std::collections::{BTreeSet, VecDeque};

use crate::agent::{Agent, Context, Effect, Outbox, RecordedEvent, TracedEvent, Wake};
use crate::base::clock::{Clock, Moment};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::commands::{self, CommandContext, TerminalInfo};
use crate::domain::chunk::Status;
use crate::domain::config::Config;
use crate::domain::drafts::DraftSlots;
use crate::domain::rule::Grant;
use crate::domain::scrollback::LineKind;
use crate::net::Network;
use crate::reactor::{Reactor, Source};
use crate::repl::event::Event;
use crate::store::{DraftFile, Store};
use crate::team::compare::Comparisons;
use crate::team::{AgentFactory, Branches, RequestLimits, Roster, SendQueue, Trees, Viewers};
use crate::tools::Running;

pub struct Core {
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) reactor: Reactor,
    pub(super) network: Network,
    pub(super) waker: Wake,
    pub(super) store: Store,
    pub(super) roster: Roster,
    pub(super) viewers: Viewers,
    pub(super) factory: AgentFactory,
    pub(super) send_queue: SendQueue,
    pub(super) request_limits: RequestLimits,
    pub(super) trees: Trees,
    pub(super) comparisons: Comparisons,
    pub(in crate::repl) branches: Branches,
    pub(super) draft_slots: DraftSlots,
    /// The files of drafts, which go at the end if nothing refers to them.
    draft_files: Vec<DraftFile>,
    /// The rules that were given to all agents until the program exits.
    pub(super) session_rules: Vec<Grant>,
    /// Calls that were refused because the user may not be asked, for a run without a terminal.
    pub(super) refused: Vec<(AgentId, String)>,
    /// Effects that were not applied yet.
    outbox: Outbox,
    /// Events that were not delivered yet.
    events: VecDeque<Event>,
    /// The agents whose work a person sees.
    pub(in crate::repl) watched: BTreeSet<AgentId>,
    /// Agents that are archived when they are idle.
    archiving: BTreeSet<AgentId>,
    /// Tool threads of removed agents, joined when they end.
    pub(super) draining: Vec<Running>,
    pub(in crate::repl) unsaved: unsaved::UnsavedWrites,
}

impl Core {
    pub(super) fn new(
        config: Config,
        store: Store,
        clock: Clock,
        reactor: Reactor,
        roster: Roster,
        factory: AgentFactory,
    ) -> Self {
        let network = Network::through(config.replay.as_ref().map(|replay| replay.provider.clone()));
        // Without them a file stays in the store.
        let draft_files = store.files_of_drafts().unwrap_or_default();
        let send_queue = SendQueue::shared_in(config.pace_directory.clone(), &clock);
        let mut outbox = Outbox::default();
        if config.trace.is_some() {
            outbox.start_tracing();
        }
        if config.record.is_some() {
            outbox.start_recording();
        }
        Self {
            waker: reactor.waker(),
            config,
            clock,
            reactor,
            network,
            store,
            roster,
            send_queue,
            viewers: Viewers::default(),
            factory,
            request_limits: RequestLimits::default(),
            trees: Trees::default(),
            comparisons: Comparisons::default(),
            branches: Branches::default(),
            draft_slots: DraftSlots::default(),
            draft_files,
            session_rules: Vec::new(),
            refused: Vec::new(),
            outbox,
            events: VecDeque::new(),
            watched: BTreeSet::new(),
            archiving: BTreeSet::new(),
            draining: Vec::new(),
            unsaved: unsaved::UnsavedWrites::default(),
        }
    }

    /// An agent in memory.
    pub fn agent(&self, id: AgentId) -> Option<&Agent> {
        self.roster.get(id)
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The rules that were given to all agents until the program exits.
    pub fn session_rules(&self) -> &[Grant] {
        &self.session_rules
    }

    /// The current moment.
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// What wakes the loop from another thread.
    pub fn waker(&self) -> Wake {
        self.waker.clone()
    }

    pub fn reactor(&mut self) -> &mut Reactor {
        &mut self.reactor
    }

    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Calls `act` with one agent, then registers the sockets of its connection before anything else can happen: the
    /// kernel reuses descriptors at once.
    pub fn with_agent<T>(&mut self, id: AgentId, act: impl FnOnce(&mut Agent, &mut Context) -> T) -> Option<T> {
        let Self { config, clock, network, waker, outbox, roster, session_rules, .. } = self;
        let usual = config.settings;
        let (now, unix_ms, is_watched) = (clock.now(), clock.unix_ms(), self.watched.contains(&id));
        let (outcome, requests) = roster.with(id, |agent| {
            let settings = agent.settings(usual);
            let mut context =
                Context { now, unix_ms, settings: &settings, is_watched, session_rules, network, wake: waker, outbox };
            let outcome = act(agent, &mut context);
            (outcome, agent.take_socket_requests())
        })?;
        if let Err(error) = self.reactor.apply(|fd| Source::Socket(id, fd), &requests) {
            self.note(id, LineKind::Error, &error.context("cannot watch a connection").message);
        }
        Some(outcome)
    }

    /// The next effect to apply.
    pub(super) fn take_effect(&mut self) -> Option<(AgentId, Effect)> {
        self.outbox.pop()
    }

    /// Deliveries to agents since the last call, for the trace and for the record of the session.
    pub(super) fn take_delivered(&mut self) -> (Vec<TracedEvent>, Vec<(AgentId, RecordedEvent)>) {
        (self.outbox.take_traced(), self.outbox.take_recorded())
    }

    /// The next event to deliver.
    pub(super) fn take_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Has an event delivered to all components, before the next effect is applied.
    pub(super) fn emit(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Whether an agent, an effect or an event is left to be handled.
    pub(super) fn has_leftover(&self) -> bool {
        !self.roster.with_leftover().is_empty() || !self.outbox.is_empty() || !self.events.is_empty()
    }

    /// Whether a tool thread is running whose wake could be lost.
    pub(super) fn has_tool_threads(&self) -> bool {
        !self.roster.with_live_tools().is_empty() || !self.draining.is_empty()
    }

    /// Runs `work` in one transaction of the store, which is rolled back after an error. `work` must not change memory.
    pub(super) fn transaction<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.store.begin()?;
        let outcome = work(self);
        self.store.end(outcome.is_ok())?;
        outcome
    }

    /// What commands may read. `terminals` is empty unless the command comes from a terminal or a client.
    pub(super) fn command_context(&self, current: AgentId, terminals: Vec<TerminalInfo>) -> CommandContext<'_> {
        CommandContext {
            roster: &self.roster,
            store: &self.store,
            config: &self.config,
            branches: &self.branches,
            current,
            unix_ms: self.clock.unix_ms(),
            terminal_infos: terminals,
            clients: None,
            activity: Box::new(|agent| self.activity(agent, false)),
        }
    }

    /// The name of an agent, or its id; also of an agent that has ended.
    pub(super) fn name_of(&self, id: AgentId) -> String {
        self.command_context(id, Vec::new()).name_of(id)
    }

    /// The status of an agent; that of a closed one is idle.
    pub(super) fn status(&self, id: AgentId) -> Result<Status> {
        if let Some(agent) = self.roster.get(id) {
            return Ok(agent.status());
        }
        let row = self.store.agent(id)?.ok_or_else(agent_gone)?;
        Ok(if row.is_running { Status::Idle } else { Status::Dead })
    }

    /// Answers a tool call that waits for it.
    pub fn answer_call(&mut self, id: AgentId, call: &str, answer: std::result::Result<String, String>) {
        self.with_agent(id, |agent, context| agent.answer_call(call, answer, context));
    }

    /// Shows a text at an agent. It is not part of the conversation.
    pub fn note(&mut self, id: AgentId, kind: LineKind, text: &str) {
        self.roster.with(id, |agent| agent.emit_note(kind, text));
    }
}

/// Gives all agents the current facts about their models.
pub(in crate::repl) fn learn_facts(core: &mut Core) {
    for id in core.roster.ids() {
        let catalog = &core.config.catalog;
        core.roster.with(id, |agent| agent.learn_facts(catalog));
    }
}

pub(in crate::repl) fn agent_gone() -> Error {
    Error::usage("this agent no longer exists: /agents lists the agents")
}

/// Finds an agent for a model, by name, id, number or `parent`.
pub(in crate::repl) fn agent_named(core: &Core, agent_id: AgentId, name: &str) -> Result<AgentId> {
    if name == commands::PARENT {
        return core.roster.shown_parent(agent_id).ok_or_else(|| Error::usage("you have no parent"));
    }
    commands::agent_called_by_model(&core.roster, name)
}

/// Reads the git branch of an agent's directory, unless it is known.
pub(super) fn read_branch(core: &mut Core, id: AgentId) {
    if let Some(agent) = core.roster.get(id) {
        core.branches.read(&agent.inputs.environment.working_directory);
    }
}

/// The agent to which a text was sent last, otherwise the root. One of a `--print` run may be archived.
pub(in crate::repl) fn last_addressed(core: &Core, directory: Option<&str>) -> Result<AgentId> {
    let last = core.store.last_addressed(directory)?;
    last.or_else(|| core.roster.nth(0)).ok_or_else(agent_gone)
}

/// Fails if an agent waits for a person's answer: a text for it would have to wait as well.
pub(in crate::repl) fn require_answered(core: &Core, agent_id: AgentId) -> Result<()> {
    let agent = core.roster.get(agent_id).ok_or_else(agent_gone)?;
    if agent.question().is_none() {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{} waits for the answer to a question: polylogue approvals shows it, or polylogue --resume {}; without a \
         server or a chat, start one with polylogue serve --background",
        agent.identity.label(),
        agent.identity.word()
    )))
}
