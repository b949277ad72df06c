//! The outcome of a scenario, and whether it is the expected one.

use std::collections::BTreeMap;

use super::scenario::{EventExpectation, Expect};
use crate::domain::trace::TraceLine;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    pub agents: BTreeMap<String, AgentOutcome>,
    /// In their order.
    pub events: Vec<Happened>,
    pub screen: Vec<String>,
    /// Events that the scenario did not provide for, in words.
    pub faults: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentOutcome {
    /// The texts of its replies, partial ones included.
    pub replies: Vec<String>,
    /// The results of its tools.
    pub results: Vec<String>,
    /// `idle`, `waiting`, `tool` or `asking`.
    pub state: String,
    /// Tokens of requests and replies.
    pub usage: [u64; 2],
    /// The newest error; empty if there is none.
    pub error: String,
}

/// Something that happened to an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Happened {
    pub at_ms: u64,
    pub agent: String,
    /// As `polylogue trace show` draws it, without numbers.
    pub event: String,
}

/// What happened to agents in a trace, with the names that they have at its end.
pub fn events_of(trace: &[TraceLine]) -> Vec<Happened> {
    let names = trace.iter().filter_map(|line| line.agent.as_deref().zip(line.name.as_deref()));
    let names: BTreeMap<&str, &str> = names.collect();
    let mut events = Vec::new();
    for line in trace {
        let Some(agent) = &line.agent else { continue };
        let agent = names.get(&**agent).unwrap_or(&&**agent).to_string();
        events.extend(line.word().map(|event| Happened { at_ms: line.at_us / 1000, agent, event }));
    }
    events
}

impl Outcome {
    /// The differences to the expectation, in words; empty if there are none.
    pub fn mismatches(&self, expect: &Expect) -> Vec<String> {
        let mut found = self.faults.clone();
        for (name, expected) in &expect.agent {
            let Some(agent) = self.agents.get(name) else {
                found.push(format!("there is no agent {name}"));
                continue;
            };
            let mut differ = |what: &str, expected: String, seen: String| {
                found.push(format!("{name}: expected {what} {expected}, got {seen}"));
            };
            if let Some(replies) = expected.replies.as_ref().filter(|replies| **replies != agent.replies) {
                differ("the replies", format!("{replies:?}"), format!("{:?}", agent.replies));
            }
            if let Some(results) = expected.results.as_ref().filter(|results| **results != agent.results) {
                differ("the results", format!("{results:?}"), format!("{:?}", agent.results));
            }
            if let Some(state) = expected.state.as_ref().filter(|state| **state != agent.state) {
                differ("the state", state.clone(), agent.state.clone());
            }
            if let Some(usage) = expected.usage.filter(|usage| *usage != agent.usage) {
                differ("the tokens", format!("{usage:?}"), format!("{:?}", agent.usage));
            }
            let is_as_expected = |error: &String| match error.is_empty() {
                true => agent.error.is_empty(),
                false => agent.error.contains(error.as_str()),
            };
            if let Some(error) = expected.error.as_ref().filter(|error| !is_as_expected(error)) {
                differ("the error", format!("{error:?}"), format!("{:?}", agent.error));
            }
        }
        found.extend(self.first_missing(&expect.order));
        let screen = self.screen.join("\n");
        let missing = expect.screen.iter().filter(|text| !screen.contains(text.as_str()));
        found.extend(missing.map(|text| format!("{text:?} is not on the screen")));
        let shown = expect.not_on_screen.iter().filter(|text| screen.contains(text.as_str()));
        found.extend(shown.map(|text| format!("{text:?} is on the screen")));
        found
    }

    /// The first event that does not follow the ones before it.
    fn first_missing(&self, order: &[EventExpectation]) -> Option<String> {
        let mut events = self.events.iter();
        for (number, expected) in order.iter().enumerate() {
            let is_it = |event: &&Happened| {
                (&event.agent, &event.event) == (&expected.agent, &expected.event)
                    && expected.at.is_none_or(|at| at == event.at_ms)
            };
            if events.find(is_it).is_none() {
                return Some(self.describe_missing(number, expected));
            }
        }
        None
    }

    fn describe_missing(&self, number: usize, expected: &EventExpectation) -> String {
        let EventExpectation { at, agent, event } = expected;
        let at = at.map(|at| format!(" at {at} ms")).unwrap_or_default();
        let same: Vec<String> = self
            .events
            .iter()
            .filter(|happened| happened.agent == *agent && happened.event == *event)
            .map(|happened| format!("{} ms", happened.at_ms))
            .collect();
        let seen = if same.is_empty() {
            "it never happened".to_owned()
        } else {
            format!("it happened at {}", same.join(", "))
        };
        format!("order, event {}: expected {agent} {event:?}{at} there; {seen}", number + 1)
    }
}
