//! Who sends a request next, and with what key: the line, the limiter and the keys meet here.
//!
//! Who wants to send stands in line. Its turn comes when fewer than the limit are at work, its provider is not paused,
//! its host is looked up, and its key is there. Behind a pause an agent on a screen goes first.

use crate::agent::{Agent, State, Wait};
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::domain::endpoint::Credential;
use crate::net::Lookup;
use crate::repl::Repl;
use crate::repl::event::Event;
use crate::team::Gate;

/// How many requests are sent in one turn; the others are sent in the next.
const REQUESTS_PER_TURN: usize = 64;

impl Repl {
    /// Sends the requests for which there is a slot, a bounded number of them; the others are sent in the next turn.
    pub(super) fn dispatch(&mut self) {
        for _ in 0..REQUESTS_PER_TURN {
            self.settle_gates();
            let Some(agent_id) = self.next_to_send() else { return };
            self.send_request_of(agent_id);
            self.apply_effects();
        }
    }

    /// Whether somebody could send at once.
    pub(super) fn can_send(&self) -> bool {
        self.next_in_line().is_some()
    }

    /// When those who wait for a provider may go on.
    pub(super) fn gate_deadline(&self, now: Moment) -> Option<Moment> {
        self.limiter.deadline(now, |provider| self.core.roster.is_awaited(provider))
    }

    /// What holds up an agent that stands in line, if its provider does.
    pub(super) fn gate_of(&self, agent_id: AgentId) -> Option<&Gate> {
        let provider = self.core.roster.stands_for(agent_id)?;
        self.limiter.gate(provider, self.core.clock.now())
    }

    /// Whether an agent waits for no more than a moment: that of its retry, or the end of its provider's pause.
    pub(super) fn is_held_up(&self, agent_id: AgentId) -> bool {
        let waiting = self.core.roster.get(agent_id).filter(|agent| agent.state() == State::WaitingForLlm);
        match waiting.map(Agent::wait) {
            Some(Wait::Retry { .. }) => true,
            Some(Wait::Slot) => matches!(self.gate_of(agent_id), Some(Gate::Paused { .. })),
            _ => false,
        }
    }

    /// A person does not wait for that moment: the request of this agent is tried for all.
    pub(super) fn try_now(&mut self, agent_id: AgentId) -> Option<()> {
        if self.is_held_up(agent_id) {
            let provider = &self.core.roster.get(agent_id)?.talk.endpoint.provider;
            self.limiter.end_pause(provider, self.core.clock.now());
            self.core.with_agent(agent_id, Agent::retry_now)?;
        }
        Some(())
    }

    fn settle_gates(&mut self) {
        let (now, roster) = (self.core.clock.now(), &self.core.roster);
        let is_under_way = |agent_id| roster.get(agent_id).is_some_and(|agent| agent.is_under_way());
        self.limiter.settle(now, is_under_way, |provider| roster.is_awaited(provider));
    }

    fn next_in_line(&self) -> Option<AgentId> {
        self.first_in_line().filter(|agent_id| self.may_request(*agent_id))
    }

    /// Who would be next if there were no limit of requests.
    pub(super) fn first_in_line(&self) -> Option<AgentId> {
        let now = self.core.clock.now();
        let is_open = |provider: &str| self.limiter.lets_through(provider, now) && !self.lookups.contains_key(provider);
        self.core.roster.next_in_line(self.slots, is_open)
    }

    fn next_to_send(&mut self) -> Option<AgentId> {
        let mut next = self.next_in_line()?;
        while self.look_up_for(next) {
            next = self.next_in_line()?;
        }
        let provider = self.core.roster.stands_for(next)?;
        let is_behind_pause = self.limiter.wants_trial(provider, self.core.clock.now());
        let mut on_screen =
            self.terminals.iter().filter(|_| is_behind_pause).map(|terminal| self.worker(terminal.focus));
        let agent_id = on_screen.find(|one| self.core.roster.stands_for(*one) == Some(provider)).unwrap_or(next);
        self.core.roster.leave_send_queue(agent_id);
        Some(agent_id)
    }

    /// Has the host of this agent's provider looked up, if its addresses are not known: until then nobody sends there.
    fn look_up_for(&mut self, agent_id: AgentId) -> bool {
        let now = self.core.clock.now();
        let Some(endpoint) = self.core.roster.get(agent_id).map(|agent| &agent.talk.endpoint) else { return false };
        let Some(host) = self.core.network.wants_lookup(&endpoint.base_url, now) else { return false };
        // Where no thread is left, libcurl tries and has the words.
        let Ok(lookup) = Lookup::start(host, self.core.waker.clone()) else { return false };
        self.lookups.insert(endpoint.provider.clone(), lookup);
        true
    }

    /// Takes the answers of the system's resolver.
    pub(super) fn poll_lookups(&mut self) {
        let now = self.core.clock.now();
        self.lookups.retain(|_, lookup| {
            let answer = lookup.take_result();
            let is_open = answer.is_none();
            if let Some(found) = answer {
                self.core.network.on_looked_up(lookup.host(), found, now);
            }
            is_open
        });
    }

    fn send_request_of(&mut self, agent_id: AgentId) {
        let Some(agent) = self.core.roster.get(agent_id).filter(|agent| matches!(agent.wait(), Wait::Slot)) else {
            return;
        };
        let endpoint = agent.talk.endpoint.clone();
        let configured = || endpoint.key.clone().map(|secret| Credential { secret, run: 0 });
        let key = match &endpoint.key_command {
            None => configured(),
            Some(_) => match self.credentials.key(&endpoint.provider) {
                Some(key) => Some(key.clone()),
                None => return self.await_key(agent_id),
            },
        };
        self.limiter.on_sent(&endpoint.provider, agent_id, self.core.clock.now());
        self.core.events.push_back(Event::RequestSent { agent: agent_id });
        self.count_request(agent_id);
        self.core.with_agent(agent_id, |agent, context| agent.send_request(key, context));
    }
}
