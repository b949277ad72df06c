//! Questions that the loop itself has about a call of a model: a limit that was reached, or an agent that is not
//! below the caller. The agent shows the question as it shows those of tools; this component knows what it is about.

use std::collections::BTreeMap;

use crate::base::id::AgentId;
use crate::repl::component::Component;
use crate::repl::core::Core;
use crate::repl::event::Event;
use crate::team::Reached;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// Yes raises the limit, no stops the tree.
    Limit(Reached),
    /// Yes carries out the call, which concerns this agent.
    Consent(AgentId),
}

type Call = (AgentId, String);

#[derive(Debug, Default)]
pub(super) struct Objections {
    open: BTreeMap<Call, Subject>,
    /// Calls to which the person consented and that are carried out next, each for one agent.
    granted: BTreeMap<Call, AgentId>,
}

impl Objections {
    pub(super) fn open(&mut self, agent: AgentId, call: &str, subject: Subject) {
        self.open.insert((agent, call.to_owned()), subject);
    }

    /// The agent that a call may concern. It holds once: servers use ids of calls again.
    pub(super) fn take_consent(&mut self, agent: AgentId, call: &str) -> Option<AgentId> {
        self.granted.remove(&(agent, call.to_owned()))
    }

    /// The person has answered.
    pub(super) fn close(&mut self, agent: AgentId, call: String, is_allowed: bool) -> Option<Subject> {
        let call = (agent, call);
        let subject = self.open.remove(&call)?;
        if let (true, Subject::Consent(about)) = (is_allowed, subject) {
            self.granted.insert(call, about);
        }
        Some(subject)
    }

    /// Withdraws the questions about limits that are not what they were. The loop takes each call up again: it is
    /// carried out, or asked about with the limit of now.
    fn withdraw_outdated(&mut self, core: &mut Core) {
        let limit = |(call, subject): (&Call, &Subject)| match subject {
            Subject::Limit(reached) => Some((call.clone(), *reached)),
            Subject::Consent(_) => None,
        };
        let open: Vec<(Call, Reached)> = self.open.iter().filter_map(limit).collect();
        for (call, reached) in open {
            if core.trees.check_creation(&core.roster, call.0, core.clock.unix_ms()) == Some(reached) {
                // No other agent is to ask the same.
                core.trees.begin_to_ask(&reached);
                continue;
            }
            self.open.remove(&call);
            core.trees.forget_question(&reached);
            core.with_agent(call.0, |agent, context| agent.withdraw_question(&call.1, context));
        }
    }

    /// Forgets the questions about an agent's calls, which are over.
    fn forget(&mut self, core: &mut Core, agent: AgentId) {
        self.granted.retain(|(of, _), _| *of != agent);
        let of_agent: Vec<Call> = self.open.keys().filter(|(of, _)| *of == agent).cloned().collect();
        for call in of_agent {
            if let Some(Subject::Limit(reached)) = self.open.remove(&call) {
                core.trees.forget_question(&reached);
            }
        }
    }
}

impl Component for Objections {
    fn on_event(&mut self, event: &Event, core: &mut Core) {
        match event {
            Event::TurnEnded { agent, .. } | Event::Removed { agent, .. } => self.forget(core, *agent),
            Event::LimitChanged => self.withdraw_outdated(core),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consent_holds_once_and_for_one_agent() {
        let (caller, victim) = (AgentId::random(), AgentId::random());
        let mut objections = Objections::default();
        objections.open(caller, "call_0", Subject::Consent(victim));
        objections.close(caller, "call_0".into(), true);
        assert_eq!(objections.take_consent(caller, "call_0"), Some(victim));
        // Servers may number the calls of each reply from 0 again.
        assert_eq!(objections.take_consent(caller, "call_0"), None);
        objections.open(caller, "call_0", Subject::Consent(victim));
        objections.close(caller, "call_0".into(), false);
        assert_eq!(objections.take_consent(caller, "call_0"), None);
    }
}
