//! Which agent sends its request next, and with which key.
//!
//! Agents that want to send are in the send queue. An agent's turn comes when fewer agents than the limit work, its
//! provider is not paused, its host is looked up and its key is known. If a provider has refused requests, an agent on
//! a screen goes first. Tools that were allowed and wait for a slot start before any request is sent.

mod credentials;
mod lists;

use std::collections::{BTreeMap, VecDeque};

use crate::agent::{Agent, State, Wait};
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::commands;
use crate::domain::endpoint::Credential;
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::net::Lookup;
use crate::repl::component::{Command, Component};
use crate::repl::core::queue::{settle_send_queue, shared_prefix};
use crate::repl::core::{Core, activity, files, limits};
use crate::repl::event::Event;
use crate::repl::timeout::{TOOL_POLL, WakeReason};
use crate::team::tree_path;
use credentials::Credentials;
use lists::ModelLists;

/// Idle agents that keep their connection for the next request; each costs descriptors.
const IDLE_CONNECTIONS: usize = 16;

pub(super) struct Dispatcher {
    credentials: Credentials,
    /// Hosts that are being looked up, by provider.
    lookups: BTreeMap<String, Lookup>,
    lists: ModelLists,
    slots: usize,
    /// Idle agents that still have a connection, the longest idle first.
    idle_connections: VecDeque<AgentId>,
}

impl Dispatcher {
    pub(super) fn new(slots: usize) -> Self {
        let (credentials, lookups) = (Credentials::default(), BTreeMap::new());
        Self { credentials, lookups, lists: ModelLists::default(), slots, idle_connections: VecDeque::new() }
    }

    pub(super) fn set_slots(&mut self, slots: usize) {
        self.slots = slots;
    }

    /// The agent that would send next if requests were not limited.
    fn first_in_queue(&self, core: &Core) -> Option<AgentId> {
        let now = core.now();
        let is_reachable = |provider: &str| !self.lookups.contains_key(provider);
        if core.roster().at_work().len() < self.slots { core.send_queue().next(now, is_reachable) } else { None }
    }

    fn next_in_queue(&self, core: &Core) -> Option<AgentId> {
        self.first_in_queue(core).filter(|agent| may_request(core, *agent))
    }

    /// Starts one tool that waits for a slot, or else sends one request, if there is one that may be sent. Agents in
    /// `focused` go first where the provider has refused requests.
    pub(super) fn send_next(&mut self, core: &mut Core, focused: impl Iterator<Item = AgentId>) -> bool {
        settle_send_queue(core);
        if let Some(agent) = core.roster().next_to_start_tool(self.slots) {
            core.with_agent(agent, Agent::start_tools);
            return true;
        }
        let Some(agent) = self.take_next(core, focused) else { return false };
        self.send_request(core, agent);
        true
    }

    fn take_next(&mut self, core: &mut Core, focused: impl Iterator<Item = AgentId>) -> Option<AgentId> {
        let mut next = self.next_in_queue(core)?;
        while hold_back(core, next) || self.start_lookup(core, next) {
            next = self.next_in_queue(core)?;
        }
        let provider = core.send_queue().provider_of(next)?;
        let is_paced = core.send_queue().is_paced(provider);
        let mut on_screen = focused.filter(|_| is_paced).map(|agent| activity::worker(core, agent));
        let may_send = |agent: &AgentId| {
            let queue = core.send_queue();
            queue.provider_of(*agent) == Some(provider) && queue.gate_of(*agent, core.now()).is_none()
        };
        let agent = on_screen.find(may_send).unwrap_or(next);
        if agent != next && hold_back(core, agent) {
            core.send_queue_mut().leave(next);
            return Some(next);
        }
        core.send_queue_mut().leave(agent);
        Some(agent)
    }

    /// Starts a look-up of the host of this agent's provider if its addresses are unknown: until then nothing is sent
    /// there.
    fn start_lookup(&mut self, core: &Core, agent: AgentId) -> bool {
        let Some(endpoint) = core.agent(agent).map(|agent| &agent.inputs.endpoint) else { return false };
        let Some(host) = core.network().host_to_look_up(&endpoint.base_url, core.now()) else { return false };
        // Without a thread libcurl looks the host up itself and reports the error.
        let Ok(lookup) = Lookup::start(host, core.waker()) else { return false };
        self.lookups.insert(endpoint.provider.clone(), lookup);
        true
    }

    fn send_request(&mut self, core: &mut Core, agent: AgentId) {
        let Some(sender) = core.agent(agent).filter(|agent| matches!(agent.wait(), Wait::Slot)) else { return };
        let endpoint = sender.inputs.endpoint.clone();
        let key = match &endpoint.key_command {
            None => endpoint.key.clone().map(|secret| Credential { secret, run: 0 }),
            Some(_) => match self.credentials.key(&endpoint.provider) {
                Some(key) => Some(key.clone()),
                None => return self.credentials.await_key(core, agent),
            },
        };
        if endpoint.model.is_empty() {
            return self.lists.find_model(core, agent, key.as_ref());
        }
        if core.config().looks_up_models && endpoint.facts.context.is_none() && endpoint.has_server() {
            self.lists.start(core, &endpoint, key.as_ref());
        }
        let (now, prefix) = (core.now(), shared_prefix(core, agent));
        let seen = core.send_queue_mut().on_sent(&endpoint.provider, agent, now, prefix);
        core.emit(Event::RequestSent { agent });
        if is_first_try(core, agent) {
            limits::count_request(core, agent);
        }
        files::load(core, agent);
        core.with_agent(agent, |agent, context| agent.send_request(key, seen, context));
    }

    /// Ends the wait of an agent for its retry or for its provider's pause: its request is tried at once.
    pub(super) fn retry_now(core: &mut Core, agent: AgentId) -> Option<()> {
        if activity::is_held_up(core, agent) {
            let (provider, now) = (core.agent(agent)?.inputs.endpoint.provider.clone(), core.now());
            core.send_queue_mut().end_pause(&provider, now);
            core.with_agent(agent, Agent::retry_now)?;
        }
        Some(())
    }

    /// A provider has refused the key of this run of its key command.
    pub(super) fn on_key_refused(&mut self, core: &mut Core, agent: AgentId, provider: &str, run: u64) {
        self.credentials.on_refused(core, agent, provider, run);
    }

    /// Keeps the connections of the agents that became idle last, and closes the others.
    pub(super) fn keep_connection(&mut self, core: &mut Core, agent: AgentId) {
        self.idle_connections.retain(|id| *id != agent);
        self.idle_connections.push_back(agent);
        let now = core.now();
        while self.idle_connections.len() > IDLE_CONNECTIONS {
            let Some(longest) = self.idle_connections.pop_front() else { return };
            core.with_agent(longest, |agent, _| {
                if agent.state() == State::Idle {
                    agent.connection().close(now);
                }
            });
        }
    }

    /// The models of all servers in words, or nothing if they are asked first; then they are shown later.
    pub(super) fn show_models(&mut self, core: &Core, origin: Origin, agent: AgentId) -> Option<String> {
        if !self.lists.are_known(core, origin, agent) {
            return None;
        }
        let mut text = commands::model_list(&core.command_context(agent, Vec::new()));
        for (provider, error) in self.lists.failures() {
            text += &format!("\n  {provider}: no list of models: {error}");
        }
        Some(text)
    }

    /// Takes the answers of the system's resolver.
    fn poll_lookups(&mut self, core: &Core) {
        let now = core.now();
        self.lookups.retain(|_, lookup| {
            let result = lookup.take_result();
            let is_open = result.is_none();
            if let Some(addresses) = result {
                core.network().on_looked_up(lookup.host(), addresses, now);
            }
            is_open
        });
    }
}

impl Component for Dispatcher {
    fn on_event(&mut self, event: &Event, core: &mut Core) {
        if let Event::Removed { agent, .. } = event {
            self.idle_connections.retain(|id| id != agent);
        }
        if *event == Event::ModelsWanted {
            self.lists.start_all(core);
        }
    }

    fn step(&mut self, core: &mut Core, commands: &mut Vec<Command>) {
        self.lists.poll(core, commands);
        self.credentials.poll(core);
        self.poll_lookups(core);
    }

    fn has_work(&self, core: &Core) -> bool {
        self.next_in_queue(core).is_some() || core.roster().next_to_start_tool(self.slots).is_some()
    }

    fn deadline(&self, core: &Core) -> Option<(Moment, WakeReason)> {
        let now = core.now();
        let pause = core.send_queue().deadline(now);
        let has_threads = self.credentials.is_running() || !self.lookups.is_empty() || self.lists.is_any_running();
        let poll = has_threads.then(|| (now + TOOL_POLL, WakeReason::Tools));
        pause.map(|at| (at, WakeReason::Pause)).into_iter().chain(poll).min_by_key(|(at, _)| *at)
    }
}

/// Whether the limits of turns allow the next request of an agent.
fn may_request(core: &Core, agent: AgentId) -> bool {
    !is_first_try(core, agent) || limits::may_request(core, agent)
}

fn is_first_try(core: &Core, agent: AgentId) -> bool {
    core.agent(agent).is_none_or(Agent::is_first_try)
}

/// Takes an agent out of the send queue if a limit of its tree does not allow the request, so that no other agent waits
/// for it. The person is told once. A retry belongs to a request that was allowed.
fn hold_back(core: &mut Core, agent: AgentId) -> bool {
    if !is_first_try(core, agent) {
        return false;
    }
    let Some(reached) = core.trees().check_request(core.roster(), agent, core.clock().steady_ms()) else {
        return false;
    };
    core.send_queue_mut().leave(agent);
    core.trees_mut().hold(agent, reached);
    if core.trees_mut().begin_to_ask(&reached) {
        core.trees_mut().close_question(&reached);
        // A summary agent is on no screen.
        let shown_at = tree_path(core.roster(), agent).first().copied().unwrap_or(agent);
        let message = format!("{}; /stop ends its work", reached.message(core.roster()));
        core.note(shown_at, LineKind::Error, &message);
    }
    core.edit(agent, |agent| agent.view.touch());
    true
}
