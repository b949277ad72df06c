//! Questions that the loop itself has about a call of a model: a limit that was reached, or an agent that is not
//! below the caller. The agent shows the question as it shows those of tools; this component keeps their subjects.

use std::collections::BTreeMap;

use crate::agent::Effect;
use crate::base::id::AgentId;
use crate::domain::flow::ToolRequest;
use crate::domain::scrollback::LineKind;
use crate::repl::component::Component;
use crate::repl::core::Core;
use crate::repl::core::turns::end_question;
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
    /// Calls besides the one that an agent asks about, which wait for the same answer.
    waiting: BTreeMap<AgentId, Vec<(String, ToolRequest)>>,
}

impl Objections {
    pub(super) fn open(&mut self, agent: AgentId, call: &str, subject: Subject) {
        self.open.insert((agent, call.to_owned()), subject);
    }

    /// The agent that a call may affect. Valid once: servers reuse ids of calls.
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

    /// Whether the person is being asked about a limit because of a call of this agent.
    pub(super) fn asks_about_limit(&self, agent: AgentId) -> bool {
        self.open.iter().any(|((of, _), subject)| *of == agent && matches!(subject, Subject::Limit(_)))
    }

    /// The call waits for the answer to the question of its agent.
    pub(super) fn wait(&mut self, agent: AgentId, call: String, request: ToolRequest) {
        self.waiting.entry(agent).or_default().push((call, request));
    }

    /// The question of this agent is closed: the loop resumes the calls that waited for its answer.
    pub(super) fn resume_waiting(&mut self, core: &mut Core, agent: AgentId) {
        for (call, request) in self.waiting.remove(&agent).unwrap_or_default() {
            let request = Effect::ToolRequest(call, request);
            core.with_agent(agent, |_, context| context.outbox.push(agent, request));
        }
    }

    /// Withdraws questions about limits that have changed. The loop takes each call up again: it is carried out, or
    /// asked about with the current limit.
    fn withdraw_outdated(&mut self, core: &mut Core) {
        let limit = |(call, subject): (&Call, &Subject)| match subject {
            Subject::Limit(reached) => Some((call.clone(), *reached)),
            Subject::Consent(_) => None,
        };
        let open: Vec<(Call, Reached)> = self.open.iter().filter_map(limit).collect();
        for (call, reached) in open {
            if core.trees().check_creation(core.roster(), call.0, core.clock().steady_ms()) == Some(reached) {
                // No other agent may ask the same.
                core.trees_mut().begin_to_ask(&reached);
                continue;
            }
            if let Err(error) = end_question(core, call.0) {
                // If the answer were not stored, the call would be carried out again after a restart.
                core.note(call.0, LineKind::Error, &format!("the question about a limit stays open: {error}"));
                continue;
            }
            self.open.remove(&call);
            core.trees_mut().forget_question(&reached);
            core.with_agent(call.0, |agent, context| agent.withdraw_question(&call.1, context));
            self.resume_waiting(core, call.0);
        }
    }

    /// Forgets the questions about an agent's calls, which are over.
    fn forget(&mut self, core: &mut Core, agent: AgentId) {
        self.granted.retain(|(of, _), _| *of != agent);
        self.waiting.remove(&agent);
        let of_agent: Vec<Call> = self.open.keys().filter(|(of, _)| *of == agent).cloned().collect();
        for call in of_agent {
            if let Some(Subject::Limit(reached)) = self.open.remove(&call) {
                core.trees_mut().forget_question(&reached);
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
