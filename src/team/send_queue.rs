//! Requests waiting to be sent: one queue per provider, so that a paused provider does not delay the others.
//!
//! ```text
//!   openai     3 ── 7 ── 20 ── 21      paused: none is sent
//!   anthropic  5 ── 6                  open: 5 is sent next
//! ```
//! Among open queues the agent that has waited longest is first; a retry keeps its original position.
//!
//! After a 429 all agents of the provider pause; then one trial request is sent, and the others follow when it is accepted:
//!
//! ```text
//!            limited                        T has passed, an agent sends
//!   open ------------> paused until T --------------------------------------> half-open: one trial request
//!    ^                   ^  ^                                                       |    |    |
//!    |                   |  +---------------- limited again, until T' --------------+    |    |
//!    |                   +---------------- ended without an answer (killed, cut) ---------+    |
//!    +------------------------------- answered, or not refused for a while -------------------+
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::id::AgentId;

/// Providers reject at once, so a trial that is neither answered nor rejected for this long was accepted: some servers
/// send no headers before the model has read the whole conversation.
const TRIAL: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub struct SendQueue {
    providers: BTreeMap<String, BTreeSet<Rank>>,
    ranks: HashMap<AgentId, (String, Rank)>,
    joined: u64,
    /// The limited providers; one without a gate is open.
    gates: BTreeMap<String, Gate>,
}

/// Compared field by field: the longest wait first, then the earliest to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    since: Moment,
    number: u64,
    agent_id: AgentId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// No request is sent before this moment; then one is, as a trial.
    Paused { until: Moment, reason: String },
    /// The others follow when this agent's request is answered, or at this moment.
    HalfOpen { agent_id: AgentId, until: Moment },
}

impl Gate {
    const fn until(&self) -> Moment {
        match self {
            Self::Paused { until, .. } | Self::HalfOpen { until, .. } => *until,
        }
    }
}

impl SendQueue {
    /// Adds an agent that has waited since this moment. An agent that is in this queue already keeps its rank.
    pub fn join(&mut self, agent_id: AgentId, provider: &str, since: Moment) {
        if self.provider_of(agent_id) == Some(provider) {
            return;
        }
        self.leave(agent_id);
        self.joined += 1;
        let rank = Rank { since, number: self.joined, agent_id };
        self.providers.entry(provider.to_owned()).or_default().insert(rank);
        self.ranks.insert(agent_id, (provider.to_owned(), rank));
    }

    pub fn leave(&mut self, agent_id: AgentId) {
        let Some((provider, rank)) = self.ranks.remove(&agent_id) else { return };
        let Some(queue) = self.providers.get_mut(&provider) else { return };
        queue.remove(&rank);
        if queue.is_empty() {
            self.providers.remove(&provider);
        }
    }

    /// The provider for which an agent waits.
    pub fn provider_of(&self, agent_id: AgentId) -> Option<&str> {
        self.ranks.get(&agent_id).map(|(provider, _)| provider.as_str())
    }

    /// The agent that has waited longest, of all whose provider is open and `is_reachable`.
    pub fn next(&self, now: Moment, is_reachable: impl Fn(&str) -> bool) -> Option<AgentId> {
        let open = self.providers.iter().filter(|(provider, _)| self.allows(provider, now) && is_reachable(provider));
        open.filter_map(|(_, queue)| queue.first()).min().map(|rank| rank.agent_id)
    }

    /// How many agents are before this one, over all providers.
    pub fn position_of(&self, agent_id: AgentId) -> Option<usize> {
        let (_, rank) = self.ranks.get(&agent_id)?;
        Some(self.providers.values().map(|queue| queue.range(..rank).count()).sum())
    }

    /// What holds an agent up in the queue, if its provider does.
    pub fn gate_of(&self, agent_id: AgentId, now: Moment) -> Option<&Gate> {
        self.gate(self.provider_of(agent_id)?, now)
    }

    /// Pauses this provider: it rejected a request. Of several rejections the longest pause counts.
    pub fn pause(&mut self, provider: &str, until: Moment, reason: &str) {
        let known = match self.gates.get(provider) {
            Some(Gate::Paused { until, .. }) => *until,
            Some(Gate::HalfOpen { .. }) | None => Moment::default(),
        };
        self.gates.insert(provider.to_owned(), Gate::Paused { until: until.max(known), reason: reason.to_owned() });
    }

    /// Ends a pause at the request of a person: the next request is the trial.
    pub fn end_pause(&mut self, provider: &str, now: Moment) {
        if let Some(Gate::Paused { until, .. }) = self.gates.get_mut(provider) {
            *until = now.min(*until);
        }
    }

    /// The provider accepted a request of this agent. If it was the trial, the provider is open again.
    pub fn on_answered(&mut self, provider: &str, agent_id: AgentId) {
        if matches!(self.gates.get(provider), Some(Gate::HalfOpen { agent_id: tried, .. }) if *tried == agent_id) {
            self.gates.remove(provider);
        }
    }

    /// A request of this agent is being sent. After a pause it is the trial.
    pub fn on_sent(&mut self, provider: &str, agent_id: AgentId, now: Moment) {
        if let Some(gate) = self.gates.get_mut(provider) {
            match gate {
                Gate::Paused { .. } => *gate = Gate::HalfOpen { agent_id, until: now + TRIAL },
                Gate::HalfOpen { .. } => drop(self.gates.remove(provider)),
            }
        }
    }

    /// Replaces trials that ended without an answer by the next request, and removes pauses that are over and for which no
    /// agent waits.
    pub fn settle_gates(&mut self, now: Moment, is_under_way: impl Fn(AgentId) -> bool) {
        for gate in self.gates.values_mut() {
            if matches!(gate, Gate::HalfOpen { agent_id, .. } if !is_under_way(*agent_id)) {
                *gate = Gate::Paused { until: now, reason: String::new() };
            }
        }
        self.gates.retain(|provider, gate| gate.until() > now || self.providers.contains_key(provider));
    }

    /// Whether a pause of this provider is over and its trial is still to be sent.
    pub fn wants_trial(&self, provider: &str, now: Moment) -> bool {
        matches!(self.gates.get(provider), Some(Gate::Paused { until, .. }) if *until <= now)
    }

    /// The earliest moment at which an agent that waits for a limited provider may send.
    pub fn deadline(&self, now: Moment) -> Option<Moment> {
        self.providers.keys().filter_map(|provider| self.gate(provider, now)).map(Gate::until).min()
    }

    /// Whether a request may be sent to this provider now.
    fn allows(&self, provider: &str, now: Moment) -> bool {
        self.gate(provider, now).is_none()
    }

    fn gate(&self, provider: &str, now: Moment) -> Option<&Gate> {
        self.gates.get(provider).filter(|gate| gate.until() > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::default() + Duration::from_secs(seconds)
    }

    #[test]
    fn the_longest_wait_for_an_open_provider_is_next() {
        let [a, b, c] = [AgentId::random(), AgentId::random(), AgentId::random()];
        let mut send_queue = SendQueue::default();
        send_queue.join(a, "one", at(1));
        send_queue.join(b, "two", at(2));
        send_queue.join(c, "one", at(3));
        assert_eq!(send_queue.next(at(3), |_| true), Some(a));
        assert_eq!(send_queue.next(at(3), |provider| provider != "one"), Some(b));
        send_queue.pause("one", at(7), "slow down");
        assert_eq!((send_queue.next(at(6), |_| true), send_queue.next(at(7), |_| true)), (Some(b), Some(a)));
        send_queue.leave(a);
        assert_eq!(send_queue.next(at(7), |_| true), Some(b));
        assert_eq!(send_queue.next(at(7), |provider| provider == "one"), Some(c));
        assert_eq!([a, b, c].map(|agent_id| send_queue.position_of(agent_id)), [None, Some(0), Some(1)]);
        assert_eq!(send_queue.next(at(7), |_| false), None);
    }

    #[test]
    fn equal_waits_are_ordered_by_joining() {
        let [a, b, c] = [AgentId::random(), AgentId::random(), AgentId::random()];
        let mut send_queue = SendQueue::default();
        send_queue.join(b, "one", at(5));
        send_queue.join(c, "one", at(5));
        send_queue.join(a, "one", at(4));
        assert_eq!([a, b, c].map(|agent_id| send_queue.position_of(agent_id)), [Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn a_change_of_provider_changes_the_queue_and_an_empty_queue_is_removed() {
        let a = AgentId::random();
        let mut send_queue = SendQueue::default();
        send_queue.join(a, "one", at(1));
        send_queue.join(a, "two", at(1));
        assert_eq!(send_queue.provider_of(a), Some("two"));
        assert_eq!(send_queue.providers.keys().collect::<Vec<_>>(), ["two"]);
    }

    /// A queue whose provider "one" is paused; an agent waits for it.
    fn paused() -> SendQueue {
        let mut send_queue = SendQueue::default();
        send_queue.join(AgentId::random(), "one", at(0));
        send_queue.pause("one", at(7), "slow down");
        send_queue
    }

    #[test]
    fn a_pause_holds_its_own_provider_until_its_moment_and_no_other() {
        let mut send_queue = paused();
        assert!(!send_queue.allows("one", at(6)) && send_queue.allows("one", at(7)));
        assert!(send_queue.allows("two", at(0)));
        assert_eq!(send_queue.deadline(at(0)), Some(at(7)));
        assert_eq!(send_queue.deadline(at(7)), None, "it is over");
        send_queue.pause("two", at(3), "no agent waits for it");
        assert_eq!(send_queue.deadline(at(0)), Some(at(7)));
    }

    #[test]
    fn the_longest_pause_counts_but_a_rejected_trial_starts_a_new_one() {
        let mut send_queue = paused();
        send_queue.pause("one", at(3), "slow down");
        assert!(!send_queue.allows("one", at(6)));
        let agent_id = AgentId::random();
        send_queue.on_sent("one", agent_id, at(7));
        send_queue.pause("one", at(9), "still");
        assert_eq!(send_queue.gate("one", at(8)), Some(&Gate::Paused { until: at(9), reason: "still".into() }));
    }

    #[test]
    fn a_trial_opens_the_provider_when_it_is_answered_or_not_rejected_for_long() {
        let agent_id = AgentId::random();
        let mut send_queue = paused();
        assert!(send_queue.wants_trial("one", at(7)));
        send_queue.on_sent("one", agent_id, at(7));
        assert!(!send_queue.allows("one", at(8)) && !send_queue.wants_trial("one", at(8)));
        send_queue.on_answered("one", AgentId::random());
        assert!(!send_queue.allows("one", at(8)), "a request of another agent");
        assert!(send_queue.allows("one", at(7) + TRIAL));
        send_queue.on_answered("one", agent_id);
        assert!(send_queue.allows("one", at(8)) && send_queue.deadline(at(8)).is_none());
    }

    #[test]
    fn a_trial_that_ends_without_an_answer_is_followed_by_another() {
        let mut send_queue = paused();
        send_queue.on_sent("one", AgentId::random(), at(7));
        send_queue.settle_gates(at(8), |_| true);
        assert!(!send_queue.wants_trial("one", at(8)));
        send_queue.settle_gates(at(8), |_| false);
        assert!(send_queue.wants_trial("one", at(8)) && send_queue.allows("one", at(8)));
    }

    #[test]
    fn a_pause_that_ends_while_no_agent_waits_is_removed() {
        let mut send_queue = SendQueue::default();
        send_queue.pause("one", at(7), "slow down");
        send_queue.settle_gates(at(6), |_| false);
        assert!(!send_queue.allows("one", at(6)));
        send_queue.settle_gates(at(7), |_| false);
        assert!(!send_queue.wants_trial("one", at(8)));
    }
}
