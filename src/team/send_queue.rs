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

/// Who stands in line, lane by lane.
#[derive(Debug, Default)]
pub struct SendQueue {
    provider_queues: BTreeMap<String, BTreeSet<Rank>>,
    places: HashMap<AgentId, (String, Rank)>,
    joined: u64,
}

/// What decides who goes first: since when it wants to send, then who joined first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    since: Moment,
    number: u64,
    agent_id: AgentId,
}

impl SendQueue {
    /// Puts an agent into a lane, as one that wants to send since then. Who stands in that lane already stays there.
    pub fn join(&mut self, agent_id: AgentId, provider_queue: &str, since: Moment) {
        if self.provider_queue_of(agent_id) == Some(provider_queue) {
            return;
        }
        self.leave(agent_id);
        self.joined += 1;
        let rank = Rank { since, number: self.joined, agent_id };
        self.provider_queues.entry(provider_queue.to_owned()).or_default().insert(rank);
        self.places.insert(agent_id, (provider_queue.to_owned(), rank));
    }

    /// Takes an agent out, if it stands there.
    pub fn leave(&mut self, agent_id: AgentId) {
        let Some((name, rank)) = self.places.remove(&agent_id) else { return };
        let Some(provider_queue) = self.provider_queues.get_mut(&name) else { return };
        provider_queue.remove(&rank);
        if provider_queue.is_empty() {
            self.provider_queues.remove(&name);
        }
    }

    /// The lane in which an agent stands.
    pub fn provider_queue_of(&self, agent_id: AgentId) -> Option<&str> {
        self.places.get(&agent_id).map(|(provider_queue, _)| provider_queue.as_str())
    }

    /// Whether somebody stands in this lane.
    pub fn has_provider_queue(&self, provider_queue: &str) -> bool {
        self.provider_queues.contains_key(provider_queue)
    }

    /// Who goes next, of those whose lane is open.
    pub fn next(&self, is_open: impl Fn(&str) -> bool) -> Option<AgentId> {
        let open = self.provider_queues.iter().filter(|(provider_queue, _)| is_open(provider_queue));
        open.filter_map(|(_, provider_queue)| provider_queue.first()).min().map(|rank| rank.agent_id)
    }

    /// How many stand before an agent, over all lanes.
    pub fn place_of(&self, agent_id: AgentId) -> Option<usize> {
        let (_, rank) = self.places.get(&agent_id)?;
        Some(self.provider_queues.values().map(|provider_queue| provider_queue.range(..rank).count()).sum())
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
    fn of_the_open_lanes_who_has_waited_longest_goes_first_and_closed_ones_hold_nobody_up() {
        let [a, b, c] = [AgentId::random(), AgentId::random(), AgentId::random()];
        let mut send_queue = SendQueue::default();
        send_queue.join(a, "one", at(1));
        send_queue.join(b, "two", at(2));
        send_queue.join(c, "one", at(3));
        assert_eq!(send_queue.next(|_| true), Some(a));
        assert_eq!(send_queue.next(|provider_queue| provider_queue != "one"), Some(b));
        send_queue.leave(a);
        assert_eq!(
            (send_queue.next(|_| true), send_queue.next(|provider_queue| provider_queue == "one")),
            (Some(b), Some(c))
        );
        assert_eq!((send_queue.place_of(a), send_queue.place_of(b), send_queue.place_of(c)), (None, Some(0), Some(1)));
        assert_eq!(send_queue.next(|_| false), None);
    }

    #[test]
    fn who_comes_back_has_its_old_rank_and_of_equals_who_joined_first_goes_first() {
        let [a, b, c] = [AgentId::random(), AgentId::random(), AgentId::random()];
        let mut send_queue = SendQueue::default();
        send_queue.join(b, "one", at(5));
        send_queue.join(c, "one", at(5));
        send_queue.join(a, "one", at(4));
        assert_eq!([a, b, c].map(|agent_id| send_queue.place_of(agent_id)), [Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn who_changes_the_provider_changes_the_lane_and_an_empty_lane_is_gone() {
        let a = AgentId::random();
        let mut send_queue = SendQueue::default();
        send_queue.join(a, "one", at(1));
        send_queue.join(a, "two", at(1));
        assert_eq!(
            (
                send_queue.provider_queue_of(a),
                send_queue.has_provider_queue("one"),
                send_queue.has_provider_queue("two")
            ),
            (Some("two"), false, true)
        );
    }
}
