//! A limit of a tree of agents that was reached, and its messages for the person and for the model.

use crate::agent::Objection;
use crate::base::id::AgentId;
use crate::domain::limits::{LimitName, SetLimit};
use crate::team::Roster;
use crate::tools::{Answers, Question};

/// A limit that does not allow any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// The agent whose tree it limits.
    pub agent: AgentId,
    pub name: LimitName,
    pub most: u64,
}

impl Reached {
    /// Says which limit of which tree was reached, and how to raise it.
    pub fn message(&self, roster: &Roster) -> String {
        let (label, value, about) = (roster.label_of(self.agent), self.value(), self.name.about());
        let (typed, setting) = (self.command(roster), self.name.setting());
        format!(
            "limit reached in the tree of {label}: {value} {about}; {typed} raises it, or {setting} in the \
             configuration"
        )
    }

    /// The message for the model whose call the limit forbids.
    pub fn message_for_model(&self, roster: &Roster) -> String {
        let (label, value, about) = (roster.label_of(self.agent), self.value(), self.name.about());
        format!(
            "limit reached: at most {value} {about} below {label}. No agent was created. Do not try again; work with \
             the agents that exist, or end those that are no longer needed"
        )
    }

    /// The activity of an agent whose request is held back.
    pub fn activity(&self) -> String {
        format!("held at the limit of {} {}", self.value(), self.name.about())
    }

    /// The question about a call that has reached the limit, which `raised` would replace.
    pub fn objection(&self, roster: &Roster, raised: SetLimit) -> Objection {
        let (label, value, about) = (roster.label_of(self.agent), self.value(), self.name.about());
        let raised = raised.most.map(|most| self.name.display_value(most)).unwrap_or_default();
        let title = format!("raise the limit from {value} to {raised}");
        let detail = vec![
            format!("limit reached in the tree of {label}: {value} {about}"),
            format!("yes raises it to {raised} ({} sets another one)", self.command(roster)),
            format!("no stops {label} and all agents that models made below it"),
        ];
        let answers = Answers { ask: "Raise this limit? ", yes: "raise it", no: "stop these agents" };
        let question = Question { answers, ..Question::new(title, detail) };
        Objection { question, refusal: self.message_for_model(roster) }
    }

    fn value(&self) -> String {
        self.name.display_value(self.most)
    }

    /// The command with which a person raises the limit.
    fn command(&self, roster: &Roster) -> String {
        let agent = roster.get(self.agent).map_or_else(|| self.agent.to_string(), |agent| agent.identity.word());
        format!("/limit {agent} {} N", self.name.name())
    }
}
