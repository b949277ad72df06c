//! Rate limiting per provider. After a 429 all its agents pause; then one trial request is sent, and the others follow
//! when it is accepted. Holds no list of waiting agents.
//!
//! ```text
//!            limited                    the time has come, somebody sends
//!   open ------------> paused until T --------------------------------------> one request is tried
//!    ^                   ^  ^                                                       |    |    |
//!    |                   |  +---------------- limited again, until T' --------------+    |    |
//!    |                   +---------------- ended without an answer (killed, cut) ---------+    |
//!    +------------------------------- answered, or not refused for a while -------------------+
//! ```
//!
//! Everything here is a value with a moment; nothing is remembered about the agents that wait.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::id::AgentId;

/// A provider that limits refuses at once. A first request that is neither answered nor refused for so long was let in:
/// some servers send no headers before the model has read the whole conversation.
const TRIAL: Duration = Duration::from_secs(10);

/// What stands between agents and their providers. A provider without a gate is open.
#[derive(Debug, Default)]
pub struct Limiter {
    gates: BTreeMap<String, Gate>,
}

/// What agents of one provider wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// Nobody sends before this moment; then one does.
    Paused { until: Moment, reason: String },
    /// One request is tried; the others follow when it is answered, or at this moment.
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
    /// A request to this provider was refused: nobody sends before that moment. Of several refusals the longest counts.
    pub fn pause(&mut self, provider: &str, until: Moment, reason: &str) {
        let known = match self.gates.get(provider) {
            Some(Gate::Paused { until, .. }) => *until,
            Some(Gate::Trial { .. }) | None => Moment::default(),
        };
        self.gates.insert(provider.to_owned(), Gate::Paused { until: until.max(known), reason: reason.to_owned() });
    }

    /// A person does not wait for the end of a pause: whoever sends next is tried for the others.
    pub fn end_pause(&mut self, provider: &str, now: Moment) {
        if let Some(Gate::Paused { until, .. }) = self.gates.get_mut(provider) {
            *until = now.min(*until);
        }
    }

    /// A request of this agent has been let in: if it was tried for the others, they follow.
    pub fn on_answered(&mut self, provider: &str, agent_id: AgentId) {
        if matches!(self.gates.get(provider), Some(Gate::Trial { agent_id: tried, .. }) if *tried == agent_id) {
            self.gates.remove(provider);
        }
    }

    /// A request of this agent is being sent. Behind a pause it is the one that is tried.
    pub fn on_sent(&mut self, provider: &str, agent_id: AgentId, now: Moment) {
        if let Some(gate) = self.gates.get_mut(provider) {
            match gate {
                Gate::Paused { .. } => *gate = Gate::Trial { agent_id, until: now + TRIAL },
                Gate::Trial { .. } => drop(self.gates.remove(provider)),
            }
        }
    }

    /// Looks at trials that ended without an answer, for which the next in line is tried, and forgets pauses that have
    /// ended while nobody waited.
    pub fn settle(&mut self, now: Moment, is_under_way: impl Fn(AgentId) -> bool, waits: impl Fn(&str) -> bool) {
        for gate in self.gates.values_mut() {
            if matches!(gate, Gate::Trial { agent_id, .. } if !is_under_way(*agent_id)) {
                *gate = Gate::Paused { until: now, reason: String::new() };
            }
        }
        self.gates.retain(|provider, gate| gate.until() > now || waits(provider));
    }

    /// Whether a request may be sent to this provider now.
    pub fn lets_through(&self, provider: &str, now: Moment) -> bool {
        self.gates.get(provider).is_none_or(|gate| gate.until() <= now)
    }

    /// Whether a pause of this provider is over and its first request is still to be sent.
    pub fn wants_trial(&self, provider: &str, now: Moment) -> bool {
        matches!(self.gates.get(provider), Some(Gate::Paused { until, .. }) if *until <= now)
    }

    pub fn gate(&self, provider: &str, now: Moment) -> Option<&Gate> {
        self.gates.get(provider).filter(|gate| gate.until() > now)
    }

    /// The soonest moment at which somebody of those who wait may go on.
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
        assert!(!limiter.lets_through("one", at(6)) && limiter.lets_through("one", at(7)));
        assert!(limiter.lets_through("two", at(0)));
        assert_eq!(limiter.deadline(at(0), |_| true), Some(at(7)));
        assert_eq!(limiter.deadline(at(0), |_| false), None, "nobody waits");
        assert_eq!(limiter.deadline(at(7), |_| true), None, "it is over");
    }

    #[test]
    fn of_several_refusals_the_longest_counts_but_a_refused_trial_is_news() {
        let mut limiter = paused();
        limiter.pause("one", at(3), "slow down");
        assert!(!limiter.lets_through("one", at(6)));
        let agent_id = AgentId::random();
        limiter.on_sent("one", agent_id, at(7));
        limiter.pause("one", at(9), "still");
        assert_eq!(limiter.gate("one", at(8)), Some(&Gate::Paused { until: at(9), reason: "still".into() }));
    }

    #[test]
    fn one_request_is_tried_and_the_others_follow_when_it_is_answered_or_not_refused_for_long() {
        let agent_id = AgentId::random();
        let mut limiter = paused();
        assert!(limiter.wants_trial("one", at(7)));
        limiter.on_sent("one", agent_id, at(7));
        assert!(!limiter.lets_through("one", at(8)) && !limiter.wants_trial("one", at(8)));
        limiter.on_answered("one", AgentId::random());
        assert!(!limiter.lets_through("one", at(8)), "somebody else's stream went on");
        assert!(limiter.lets_through("one", at(7) + TRIAL));
        limiter.on_answered("one", agent_id);
        assert!(limiter.lets_through("one", at(8)) && limiter.deadline(at(8), |_| true).is_none());
    }

    #[test]
    fn a_trial_that_ends_without_an_answer_is_followed_by_another() {
        let mut limiter = paused();
        limiter.on_sent("one", AgentId::random(), at(7));
        limiter.settle(at(8), |_| true, |_| true);
        assert!(!limiter.wants_trial("one", at(8)));
        limiter.settle(at(8), |_| false, |_| true);
        assert!(limiter.wants_trial("one", at(8)) && limiter.lets_through("one", at(8)));
    }

    #[test]
    fn a_pause_that_ended_while_nobody_waited_is_forgotten() {
        let mut limiter = paused();
        limiter.settle(at(6), |_| false, |_| false);
        assert!(!limiter.lets_through("one", at(6)));
        limiter.settle(at(7), |_| false, |_| false);
        assert!(!limiter.wants_trial("one", at(8)));
    }
}
