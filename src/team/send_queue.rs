//! Requests waiting to be sent: one queue per provider, so that a paused provider does not delay the others.
//!
//! ```text
//!   openai     3 ── 7 ── 20 ── 21      paused: none is sent
//!   anthropic  5 ── 6                  open: 5 is sent next
//! ```
//!
//! Among open queues the agent that has waited longest is first; a retry keeps its original position. The caller knows
//! which queues are open.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::base::clock::Moment;
use crate::base::id::AgentId;

#[derive(Debug, Default)]
pub struct SendQueue {
    providers: BTreeMap<String, BTreeSet<Rank>>,
    ranks: HashMap<AgentId, (String, Rank)>,
    joined: u64,
}

/// Compared field by field: the longest wait first, then the earliest to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    since: Moment,
    number: u64,
    agent_id: AgentId,
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

    /// Whether an agent waits for this provider.
    pub fn has(&self, provider: &str) -> bool {
        self.providers.contains_key(provider)
    }

    /// The agent that has waited longest, of all whose provider is open.
    pub fn next(&self, is_open: impl Fn(&str) -> bool) -> Option<AgentId> {
        let open = self.providers.iter().filter(|(provider, _)| is_open(provider));
        open.filter_map(|(_, queue)| queue.first()).min().map(|rank| rank.agent_id)
    }

    /// How many agents are before this one, over all providers.
    pub fn position_of(&self, agent_id: AgentId) -> Option<usize> {
        let (_, rank) = self.ranks.get(&agent_id)?;
        Some(self.providers.values().map(|queue| queue.range(..rank).count()).sum())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        assert_eq!(send_queue.next(|_| true), Some(a));
        assert_eq!(send_queue.next(|provider| provider != "one"), Some(b));
        send_queue.leave(a);
        assert_eq!((send_queue.next(|_| true), send_queue.next(|provider| provider == "one")), (Some(b), Some(c)));
        assert_eq!(
            (send_queue.position_of(a), send_queue.position_of(b), send_queue.position_of(c)),
            (None, Some(0), Some(1))
        );
        assert_eq!(send_queue.next(|_| false), None);
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
        assert_eq!(
            (send_queue.provider_of(a), send_queue.has("one"), send_queue.has("two")),
            (Some("two"), false, true)
        );
    }
}
