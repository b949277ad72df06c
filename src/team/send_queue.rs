//! Requests waiting to be sent: one queue per provider, so that a paused provider does not delay the others.
//!
//! ```text
//!   openai     3 ── 7 ── 20 ── 21      paused: none is sent
//!   anthropic  5 ── 6                  open: 5 is sent next
//! ```
//! Among open queues the agent that has waited longest is first; a retry keeps its original position. A fork may have to
//! wait for another one ([`crate::team::shared_prefix`]); those behind it do not.
//!
//! After a refusal (429) the [`Pace`] of the provider says when the next request may be sent, which all processes of one
//! data directory share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crate::base::digest::sha256;

use crate::agent::LimitsSeen;
use crate::base::clock::{Clock, Moment};
use crate::base::id::AgentId;
use crate::domain::endpoint::{Endpoint, Secret};
use crate::team::pace::{Gate, Pace, Refusal};
use crate::team::shared_prefix::{Prefix, SharedPrefixes};

#[derive(Default)]
pub struct SendQueue {
    providers: BTreeMap<String, BTreeSet<Rank>>,
    ranks: HashMap<AgentId, (String, Rank)>,
    joined: u64,
    /// The requests to each provider.
    paces: BTreeMap<String, Pace>,
    /// Those of the agents in the queue that may wait for another fork.
    prefixes: HashMap<AgentId, Prefix>,
    shared_prefixes: SharedPrefixes,
    /// Where processes share the paces.
    shared: Option<(PathBuf, Clock)>,
}

/// Compared field by field: the longest wait first, then the earliest to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    since: Moment,
    number: u64,
    agent_id: AgentId,
}

impl SendQueue {
    /// A queue whose paces are shared with the other processes that use this directory.
    pub fn shared_in(directory: Option<PathBuf>, clock: &Clock) -> Self {
        Self { shared: directory.map(|directory| (directory, clock.clone())), ..Self::default() }
    }

    /// Takes over the experience of another process with the host of this endpoint.
    pub fn look(&mut self, endpoint: &Endpoint) {
        let Some((directory, clock)) = self.shared.clone().filter(|_| endpoint.has_server()) else { return };
        let pace = self.pace(&endpoint.provider);
        if !pace.is_shared() {
            pace.share(pace_file(&directory, endpoint), clock);
        }
        pace.look();
    }

    /// Adds an agent that has waited since this moment. An agent that is in this queue already keeps its rank. `prefix`: what
    /// its request has in common with those of other forks.
    pub fn join(&mut self, agent_id: AgentId, provider: &str, since: Moment, prefix: Option<Prefix>) {
        if self.provider_of(agent_id) != Some(provider) {
            self.leave(agent_id);
            self.joined += 1;
            let rank = Rank { since, number: self.joined, agent_id };
            self.providers.entry(provider.to_owned()).or_default().insert(rank);
            self.ranks.insert(agent_id, (provider.to_owned(), rank));
        }
        // Its model may be another one now.
        match prefix {
            Some(prefix) => self.prefixes.insert(agent_id, prefix),
            None => self.prefixes.remove(&agent_id),
        };
    }

    pub fn leave(&mut self, agent_id: AgentId) {
        let Some((provider, rank)) = self.ranks.remove(&agent_id) else { return };
        let Some(queue) = self.providers.get_mut(&provider) else { return };
        queue.remove(&rank);
        self.prefixes.remove(&agent_id);
        if queue.is_empty() {
            self.providers.remove(&provider);
        }
    }

    /// The provider for which an agent waits.
    pub fn provider_of(&self, agent_id: AgentId) -> Option<&str> {
        self.ranks.get(&agent_id).map(|(provider, _)| provider.as_str())
    }

    /// The agent that has waited longest, of those whose provider is open and that are `is_reachable`.
    pub fn next(&self, now: Moment, is_reachable: impl Fn(&str) -> bool) -> Option<AgentId> {
        let open = self.providers.iter().filter(|(provider, _)| self.allows(provider, now) && is_reachable(provider));
        let may_send = |rank: &&Rank| self.waits_for_fork(rank.agent_id).is_none();
        open.filter_map(|(_, queue)| queue.iter().find(may_send)).min().map(|rank| rank.agent_id)
    }

    /// How many agents are before this one, over all providers.
    pub fn position_of(&self, agent_id: AgentId) -> Option<usize> {
        let (_, rank) = self.ranks.get(&agent_id)?;
        Some(self.providers.values().map(|queue| queue.range(..rank).count()).sum())
    }

    /// Why an agent waits in the queue, if its provider or another fork is the reason.
    pub fn gate_of(&self, agent_id: AgentId, now: Moment) -> Option<Gate> {
        let gate = self.paces.get(self.provider_of(agent_id)?).and_then(|pace| pace.gate(now));
        gate.or_else(|| self.waits_for_fork(agent_id).map(|until| Gate::Fork { until }))
    }

    fn waits_for_fork(&self, agent_id: AgentId) -> Option<Moment> {
        self.shared_prefixes.waits_until(self.prefixes.get(&agent_id)?)
    }

    /// This provider has refused a request of an agent, and gets no other before this moment.
    pub fn on_refused(&mut self, provider: &str, agent_id: AgentId, refusal: Refusal, reason: &str) {
        self.pace(provider).on_refused(agent_id, refusal, reason);
    }

    /// This provider says that it would refuse requests before this moment.
    pub fn hold_until(&mut self, provider: &str, (now, until): (Moment, Moment), reason: &str) {
        self.pace(provider).hold_until(now, until, reason);
    }

    /// Ends a pause at the request of the user.
    pub fn end_pause(&mut self, provider: &str, now: Moment) {
        if let Some(pace) = self.paces.get_mut(provider) {
            pace.end_pause(now);
        }
    }

    /// The provider accepted a request of this agent.
    pub fn on_accepted(&mut self, provider: &str, agent_id: AgentId, now: Moment) {
        self.pace(provider).on_accepted(agent_id, now);
    }

    /// A request of this agent is being sent, with a prefix that other forks wait for.
    pub fn on_sent(&mut self, provider: &str, agent_id: AgentId, now: Moment, prefix: Option<Prefix>) -> LimitsSeen {
        prefix.into_iter().for_each(|prefix| self.shared_prefixes.on_sent(prefix, agent_id, now));
        self.pace(provider).on_sent(agent_id, now)
    }

    fn pace(&mut self, provider: &str) -> &mut Pace {
        if !self.paces.contains_key(provider) {
            self.paces.insert(provider.to_owned(), Pace::default());
        }
        self.paces.get_mut(provider).expect("it was inserted")
    }

    /// Forgets requests that have ended, and limits that are over. `replied_at`: when a reply to an agent last began.
    pub fn settle(
        &mut self,
        now: Moment,
        replied_at: impl Fn(AgentId) -> Option<Moment>,
        is_under_way: impl Fn(AgentId) -> bool,
    ) {
        self.shared_prefixes.settle(now, replied_at, &is_under_way);
        for (provider, pace) in &mut self.paces {
            pace.advance(now, self.providers.contains_key(provider), &is_under_way);
        }
    }

    /// Whether this provider has refused a request recently.
    pub fn is_paced(&self, provider: &str) -> bool {
        self.paces.get(provider).is_some_and(Pace::is_limited)
    }

    /// The earliest moment at which an agent that waits for a limited provider or for another fork may send.
    pub fn deadline(&self, now: Moment) -> Option<Moment> {
        let gates = self.providers.keys().filter_map(|provider| self.paces.get(provider)?.gate(now));
        let forks = self.prefixes.values().filter_map(|prefix| self.shared_prefixes.waits_until(prefix));
        gates.map(|gate| gate.until()).chain(forks).min()
    }

    /// Whether a request may be sent to this provider now.
    fn allows(&self, provider: &str, now: Moment) -> bool {
        self.paces.get(provider).is_none_or(|pace| pace.gate(now).is_none())
    }
}

/// The file of the pace of a host with a key. Its name tells neither.
fn pace_file(directory: &Path, endpoint: &Endpoint) -> PathBuf {
    let key = endpoint.key.as_ref().map(Secret::reveal).or(endpoint.key_command.as_deref());
    let parts = [endpoint.base_url.as_bytes(), &[0], key.unwrap_or_default().as_bytes()];
    directory.join(format!("pace-{}", &sha256(parts.concat())[..16]))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn refusal(seconds: u64, until: u64) -> Refusal {
        Refusal { at: at(seconds), until: at(until), spread: Duration::ZERO }
    }

    fn at(seconds: u64) -> Moment {
        Moment::default() + Duration::from_secs(seconds)
    }

    #[test]
    fn the_longest_wait_for_an_open_provider_is_next() {
        let [a, b, c] = [AgentId::random(), AgentId::random(), AgentId::random()];
        let mut send_queue = SendQueue::default();
        send_queue.join(a, "one", at(1), None);
        send_queue.join(b, "two", at(2), None);
        send_queue.join(c, "one", at(3), None);
        assert_eq!(send_queue.next(at(3), |_| true), Some(a));
        assert_eq!(send_queue.next(at(3), |provider| provider != "one"), Some(b));
        send_queue.on_refused("one", c, refusal(3, 7), "slow down");
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
        send_queue.join(b, "one", at(5), None);
        send_queue.join(c, "one", at(5), None);
        send_queue.join(a, "one", at(4), None);
        assert_eq!([a, b, c].map(|agent_id| send_queue.position_of(agent_id)), [Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn a_change_of_provider_changes_the_queue_and_an_empty_queue_is_removed() {
        let a = AgentId::random();
        let mut send_queue = SendQueue::default();
        send_queue.join(a, "one", at(1), None);
        send_queue.join(a, "two", at(1), None);
        assert_eq!(send_queue.provider_of(a), Some("two"));
        assert_eq!(send_queue.providers.keys().collect::<Vec<_>>(), ["two"]);
    }

    #[test]
    fn a_pause_holds_its_own_provider_until_its_moment_and_no_other() {
        let mut send_queue = SendQueue::default();
        let [a, b] = [AgentId::random(), AgentId::random()];
        send_queue.join(a, "one", at(0), None);
        send_queue.on_refused("one", b, refusal(0, 7), "slow down");
        assert!(!send_queue.allows("one", at(6)) && send_queue.allows("one", at(7)));
        assert!(send_queue.allows("two", at(0)));
        assert_eq!(send_queue.deadline(at(0)), Some(at(7)));
        assert_eq!(send_queue.deadline(at(7)), None, "it is over");
        send_queue.hold_until("two", (at(2), at(3)), "no agent waits for it");
        assert_eq!(send_queue.deadline(at(0)), Some(at(7)));
        assert!(send_queue.is_paced("two"));
        send_queue.settle(at(66), |_| None, |_| false);
        assert!(send_queue.is_paced("one") && !send_queue.is_paced("two"));
    }
}
