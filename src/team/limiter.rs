//! Rate limiting per provider. After a 429 all its agents pause; then one trial request is sent, and the others follow
//! when it is accepted. Holds no list of waiting agents.
//!
//! ```text
//!            limited                        T has passed, an agent sends
//!   open ------------> paused until T --------------------------------------> trial: one request
//!    ^                   ^  ^                                                       |    |    |
//!    |                   |  +---------------- limited again, until T' --------------+    |    |
//!    |                   +---------------- ended without an answer (killed, cut) ---------+    |
//!    +------------------------------- answered, or not refused for a while -------------------+
//! ```
//!
//! The limiter knows nothing of the agents that wait.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::id::AgentId;

/// Providers reject at once, so a trial that is neither answered nor rejected for this long was accepted: some servers
/// send no headers before the model has read the whole conversation.
const TRIAL: Duration = Duration::from_secs(10);

/// The limited providers; one without a gate is open.
#[derive(Debug, Default)]
pub struct Limiter {
    gates: BTreeMap<String, Gate>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// No request is sent before this moment; then one is, as a trial.
    Paused { until: Moment, reason: String },
    /// The others follow when this agent's request is answered, or at this moment.
    Trial { agent_id: AgentId, until: Moment },
}

impl Gate {
    const fn until(&self) -> Moment {
        match self {
            Self::Paused { until, .. } | Self::Trial { until, .. } => *until,
        }
    }
}

impl Limiter {
    /// Pauses this provider: it rejected a request. Of several rejections the longest pause counts.
    pub fn pause(&mut self, provider: &str, until: Moment, reason: &str) {
        let known = match self.gates.get(provider) {
            Some(Gate::Paused { until, .. }) => *until,
            Some(Gate::Trial { .. }) | None => Moment::default(),
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
        if matches!(self.gates.get(provider), Some(Gate::Trial { agent_id: tried, .. }) if *tried == agent_id) {
            self.gates.remove(provider);
        }
    }

    /// A request of this agent is being sent. After a pause it is the trial.
    pub fn on_sent(&mut self, provider: &str, agent_id: AgentId, now: Moment) {
        if let Some(gate) = self.gates.get_mut(provider) {
            match gate {
                Gate::Paused { .. } => *gate = Gate::Trial { agent_id, until: now + TRIAL },
                Gate::Trial { .. } => drop(self.gates.remove(provider)),
            }
        }
    }

    /// Replaces trials that ended without an answer by the next request, and removes pauses that are over and for which no
    /// agent waits.
    pub fn settle(&mut self, now: Moment, is_under_way: impl Fn(AgentId) -> bool, waits: impl Fn(&str) -> bool) {
        for gate in self.gates.values_mut() {
            if matches!(gate, Gate::Trial { agent_id, .. } if !is_under_way(*agent_id)) {
                *gate = Gate::Paused { until: now, reason: String::new() };
            }
        }
        self.gates.retain(|provider, gate| gate.until() > now || waits(provider));
    }

    /// Whether a request may be sent to this provider now.
    pub fn allows(&self, provider: &str, now: Moment) -> bool {
        self.gates.get(provider).is_none_or(|gate| gate.until() <= now)
    }

    /// Whether a pause of this provider is over and its trial is still to be sent.
    pub fn wants_trial(&self, provider: &str, now: Moment) -> bool {
        matches!(self.gates.get(provider), Some(Gate::Paused { until, .. }) if *until <= now)
    }

    pub fn gate(&self, provider: &str, now: Moment) -> Option<&Gate> {
        self.gates.get(provider).filter(|gate| gate.until() > now)
    }

    /// The earliest moment at which an agent that waits may send.
    pub fn deadline(&self, now: Moment, waits: impl Fn(&str) -> bool) -> Option<Moment> {
        let awaited = self.gates.iter().filter(|(provider, gate)| gate.until() > now && waits(provider));
        awaited.map(|(_, gate)| gate.until()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::default() + Duration::from_secs(seconds)
    }

    fn paused() -> Limiter {
        let mut limiter = Limiter::default();
        limiter.pause("one", at(7), "slow down");
        limiter
    }

    #[test]
    fn a_pause_holds_its_own_provider_until_its_moment_and_no_other() {
        let limiter = paused();
        assert!(!limiter.allows("one", at(6)) && limiter.allows("one", at(7)));
        assert!(limiter.allows("two", at(0)));
        assert_eq!(limiter.deadline(at(0), |_| true), Some(at(7)));
        assert_eq!(limiter.deadline(at(0), |_| false), None, "no agent waits");
        assert_eq!(limiter.deadline(at(7), |_| true), None, "it is over");
    }

    #[test]
    fn the_longest_pause_counts_but_a_rejected_trial_starts_a_new_one() {
        let mut limiter = paused();
        limiter.pause("one", at(3), "slow down");
        assert!(!limiter.allows("one", at(6)));
        let agent_id = AgentId::random();
        limiter.on_sent("one", agent_id, at(7));
        limiter.pause("one", at(9), "still");
        assert_eq!(limiter.gate("one", at(8)), Some(&Gate::Paused { until: at(9), reason: "still".into() }));
    }

    #[test]
    fn a_trial_opens_the_provider_when_it_is_answered_or_not_rejected_for_long() {
        let agent_id = AgentId::random();
        let mut limiter = paused();
        assert!(limiter.wants_trial("one", at(7)));
        limiter.on_sent("one", agent_id, at(7));
        assert!(!limiter.allows("one", at(8)) && !limiter.wants_trial("one", at(8)));
        limiter.on_answered("one", AgentId::random());
        assert!(!limiter.allows("one", at(8)), "a request of another agent");
        assert!(limiter.allows("one", at(7) + TRIAL));
        limiter.on_answered("one", agent_id);
        assert!(limiter.allows("one", at(8)) && limiter.deadline(at(8), |_| true).is_none());
    }

    #[test]
    fn a_trial_that_ends_without_an_answer_is_followed_by_another() {
        let mut limiter = paused();
        limiter.on_sent("one", AgentId::random(), at(7));
        limiter.settle(at(8), |_| true, |_| true);
        assert!(!limiter.wants_trial("one", at(8)));
        limiter.settle(at(8), |_| false, |_| true);
        assert!(limiter.wants_trial("one", at(8)) && limiter.allows("one", at(8)));
    }

    #[test]
    fn a_pause_that_ends_while_no_agent_waits_is_removed() {
        let mut limiter = paused();
        limiter.settle(at(6), |_| false, |_| false);
        assert!(!limiter.allows("one", at(6)));
        limiter.settle(at(7), |_| false, |_| false);
        assert!(!limiter.wants_trial("one", at(8)));
    }
}
