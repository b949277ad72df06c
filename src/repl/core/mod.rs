//! The state that all components share: the agents with store and network, and effects and events not yet handled.
//!
//! `Core` keeps the store and the roster equal, one agent or subtree at a time. It has nothing to do with terminals,
//! clients and policies. An operation that returns an error has changed nothing, unless its documentation says otherwise.

pub(super) mod activity;
pub(super) mod archive;
pub(super) mod begin;
pub(super) mod context_lengths;
pub(super) mod delete;
pub(super) mod drafts;
pub(crate) mod file_steps;
pub(crate) mod files;
pub(super) mod limits;
pub(super) mod log;
pub(super) mod mail;
pub(super) mod model;
pub(crate) mod programs;
pub(super) mod queue;
pub(super) mod reads;
pub(crate) mod remove;
pub(super) mod restore;
pub(super) mod rules;
pub(super) mod spawn;
pub(super) mod turns;
pub(in crate::repl) mod unsaved;
pub(super) mod viewers;

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::time::Duration;

use crate::agent::{Agent, Context, Effect, Outbox, RecordedEvent, TracedEvent};
use crate::base::clock::{Clock, Moment};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::base::job::Wake;
use crate::commands::{self, CommandContext, TerminalInfo};
use crate::domain::config::Config;
use crate::domain::drafts::DraftSlots;
use crate::domain::rule::Grant;
use crate::domain::scrollback::LineKind;
use crate::net::Network;
use crate::reactor::{Reactor, Source};
use crate::repl::core::spawn::stored_place;
use crate::repl::event::Event;
use crate::store::{DraftFile, Store};
use crate::team::compare::Comparisons;
use crate::team::{AgentFactory, Branches, RequestLimits, Roster, SendQueue, Trees, Viewers};
use crate::tools::Running;

pub struct Core {
    config: Config,
    clock: Clock,
    reactor: Reactor,
    reads: reads::Reads,
    network: Network,
    waker: Wake,
    store: Store,
    roster: Roster,
    viewers: Viewers,
    factory: AgentFactory,
    send_queue: SendQueue,
    request_limits: RequestLimits,
    trees: Trees,
    comparisons: Comparisons,
    branches: Branches,
    draft_slots: DraftSlots,
    /// The files of drafts, which go at the end if nothing refers to them.
    draft_files: Vec<DraftFile>,
    /// The rules that were given to all agents until the program exits.
    session_rules: Vec<Grant>,
    /// Calls that were refused because the user may not be asked, for a run without a terminal.
    refused: Vec<(AgentId, String)>,
    /// Effects that were not applied yet.
    outbox: Outbox,
    /// Events that were not delivered yet.
    events: VecDeque<Event>,
    /// The agents whose work a person sees.
    watched: BTreeSet<AgentId>,
    /// Agents that are archived when they are idle.
    archiving: BTreeSet<AgentId>,
    /// Kills of many agents that are not completed.
    kills: VecDeque<remove::LongKill>,
    /// Tool threads of removed agents, joined when they end.
    draining: Vec<Running>,
    /// Agents whose host is at a turn, or whose files are being compared after it.
    host_turns: BTreeSet<AgentId>,
    unsaved: unsaved::UnsavedWrites,
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
        let send_queue = SendQueue::shared_in(config.shared_directory.clone(), &clock);
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
            reads: reads::Reads::default(),
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
            kills: VecDeque::new(),
            draining: Vec::new(),
            host_turns: BTreeSet::new(),
            unsaved: unsaved::UnsavedWrites::default(),
        }
    }

    /// An agent in memory.
    pub fn agent(&self, id: AgentId) -> Option<&Agent> {
        self.roster.get(id)
    }

    /// All agents in memory, listed or not.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Calls `act` with one agent, which is shown again if that has touched it. Unlike in [`Core::with_agent`], it can
    /// cause no effects.
    pub fn edit<T>(&mut self, id: AgentId, act: impl FnOnce(&mut Agent) -> T) -> Option<T> {
        self.roster.with(id, act)
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The limits of trees of agents.
    pub(super) fn trees(&self) -> &Trees {
        &self.trees
    }

    pub(super) fn trees_mut(&mut self) -> &mut Trees {
        &mut self.trees
    }

    /// The agents whose requests wait to be sent.
    pub(super) fn send_queue(&self) -> &SendQueue {
        &self.send_queue
    }

    pub(super) fn send_queue_mut(&mut self) -> &mut SendQueue {
        &mut self.send_queue
    }

    /// What makes agents: their endpoints and environments.
    pub(super) fn factory(&self) -> &AgentFactory {
        &self.factory
    }

    pub(super) fn factory_mut(&mut self) -> &mut AgentFactory {
        &mut self.factory
    }

    pub(super) fn comparisons(&self) -> &Comparisons {
        &self.comparisons
    }

    pub(super) fn comparisons_mut(&mut self) -> &mut Comparisons {
        &mut self.comparisons
    }

    /// The git branches of directories, as far as they were read.
    pub(super) fn branches(&self) -> &Branches {
        &self.branches
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

    /// The network, with the reactor that watches its sockets.
    #[cfg_attr(not(feature = "mcp"), allow(dead_code))]
    pub fn network_and_reactor(&mut self) -> (&Network, &mut Reactor) {
        (&self.network, &mut self.reactor)
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
            activity: Box::new(|agent| activity::activity(self, agent, false)),
        }
    }

    /// The name of an agent, or its id; also of an agent that has ended.
    pub(super) fn name_of(&self, id: AgentId) -> String {
        self.command_context(id, Vec::new()).name_of(id)
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

/// From now on other threads do not wake the loop.
#[cfg(test)]
pub(in crate::repl) fn lose_wakes(core: &mut Core) {
    core.waker = std::sync::Arc::new(|| {});
}

pub(crate) fn agent_gone() -> Error {
    Error::usage("this agent no longer exists: /agents lists the agents")
}

/// Finds an agent for a model, by name, id, number or `parent`.
pub(in crate::repl) fn agent_named(core: &Core, agent_id: AgentId, name: &str) -> Result<AgentId> {
    if name == commands::PARENT {
        return core.roster.shown_parent(agent_id).ok_or_else(|| Error::usage("you have no parent"));
    }
    commands::agent_called_by_model(&core.roster, name)
}

/// The agents to serve now: at most so many with leftover work, and those with a tool thread, once in `poll` or when a
/// thread may have woken the loop.
pub(super) fn take_due(core: &mut Core, most: usize, is_woken: bool, poll: Duration) -> Vec<AgentId> {
    let mut due = core.roster.take_leftover(most);
    due.extend(core.roster.take_tools_due(is_woken, core.clock.now(), poll));
    due
}

/// The last conversation that a person had in this directory. One that works elsewhere counts if it was shown there last and has
/// the newest text of a person.
pub(in crate::repl) fn last_conversation(core: &Core, place: Option<&str>) -> Result<Option<AgentId>> {
    let place = place.unwrap_or_default();
    let shown = core.store.shown_conversation(place)?;
    let is_there = |id: &AgentId| core.roster.get(*id).is_some();
    if let Some((id, _)) = shown.filter(|(id, _)| place.is_empty() || works_in(core, *id, place)) {
        return Ok(Some(id).filter(is_there));
    }
    let addressed = core.store.addressed_conversation(place)?;
    let newer = shown.into_iter().chain(addressed).max_by_key(|(_, message)| *message);
    Ok(newer.map(|(id, _)| id).filter(is_there))
}

/// Whether an agent, or one that it was forked from, works in this directory.
pub(in crate::repl) fn works_in(core: &Core, id: AgentId, place: &str) -> bool {
    let is_there = |agent: &Agent| agent.inputs.environment.working_directory == Path::new(place);
    let mut lineage = std::iter::successors(Some(id), |id| core.roster.shown_parent(*id));
    lineage.any(|id| core.roster.get(id).is_some_and(is_there))
}

/// Reads the git branch of an agent's directory again.
pub(super) fn refresh_branch(core: &mut Core, id: AgentId) {
    if let Some(agent) = core.roster.get(id) {
        core.branches.refresh(&agent.inputs.environment.working_directory);
    }
}

/// Reads the git branch of an agent's directory, unless it is known.
pub(super) fn read_branch(core: &mut Core, id: AgentId) {
    if let Some(agent) = core.roster.get(id) {
        core.branches.read(&agent.inputs.environment.working_directory);
    }
}

/// The agent to which a text was sent last, otherwise the root; with a directory only among those that work there. One of a
/// `--print` run may be archived.
pub(in crate::repl) fn last_addressed(core: &Core, directory: Option<&Path>) -> Result<AgentId> {
    let place = directory.map(|directory| stored_place(directory).unwrap_or_default());
    if let Some(last) = core.store.last_addressed(place.as_deref())? {
        return Ok(last);
    }
    let root = core.roster.nth(0).ok_or_else(agent_gone)?;
    match directory.zip(place) {
        Some((directory, place)) if !works_in(core, root, &place) => {
            let directory = directory.display();
            Err(Error::usage(format!("no agent works in {directory}: name one; polylogue ps lists them")))
        }
        _ => Ok(root),
    }
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
