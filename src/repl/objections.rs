//! Questions that the loop itself has about a call of a model: a limit that was reached, an agent that is not below the
//! caller, another provider. The agent shows the question as it shows those of tools; here stands what it is about.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::id::AgentId;
use crate::repl::component::Component;
use crate::repl::core::Core;
use crate::repl::event::Event;
use crate::team::Reached;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// Yes raises the limit, no stops the tree.
    Limit(Reached),
    /// Yes carries out the call.
    Consent,
}

type Call = (AgentId, String);

#[derive(Debug, Default)]
pub(super) struct Objections {
    open: BTreeMap<Call, Subject>,
    /// Calls to which the person consented and that are carried out next.
    granted: BTreeSet<Call>,
}

impl Objections {
    pub(super) fn open(&mut self, agent: AgentId, call: &str, subject: Subject) {
        self.open.insert((agent, call.to_owned()), subject);
    }

    pub(super) fn has_consent(&self, agent: AgentId, call: &str) -> bool {
        self.granted.contains(&(agent, call.to_owned()))
    }

    /// The person has answered.
    pub(super) fn close(&mut self, agent: AgentId, call: String, is_allowed: bool) -> Option<Subject> {
        let call = (agent, call);
        let subject = self.open.remove(&call)?;
        if is_allowed && subject == Subject::Consent {
            self.granted.insert(call);
        }
        Some(subject)
    }

    /// Forgets the questions about an agent's calls, which are over.
    fn forget(&mut self, core: &mut Core, agent: AgentId) {
        self.granted.retain(|(of, _)| *of != agent);
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
        if let Event::TurnEnded { agent, .. } | Event::Removed { agent, .. } = event {
            self.forget(core, *agent);
        }
    }
}
