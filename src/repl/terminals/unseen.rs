//! The agents that have finished a turn while no terminal showed them. They are stored, so that they survive a restart.

use std::time::Duration;

use crate::agent::Agent;
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::domain::flow::TurnEnd;
use crate::domain::scrollback::LineKind;
use crate::repl::core::{Core, unsaved};
use crate::team::UnseenEnd;

#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// In the order in which they finished.
    ends: Vec<UnseenEnd>,
    revision: u64,
}

impl Unseen {
    pub fn add(&mut self, agent: &Agent, at: Moment) {
        let end = agent.last_end().unwrap_or(TurnEnd::Completed);
        self.push(UnseenEnd { agent: agent.id(), end, at, before: Duration::ZERO });
    }

    pub fn push(&mut self, end: UnseenEnd) {
        self.remove(end.agent);
        self.ends.push(end);
        self.revision += 1;
    }

    /// False if it was not among them.
    pub fn remove(&mut self, agent: AgentId) -> bool {
        let before = self.ends.len();
        self.ends.retain(|end| end.agent != agent);
        let is_removed = self.ends.len() < before;
        self.revision += u64::from(is_removed);
        is_removed
    }

    /// In the order in which they finished.
    pub fn iter(&self) -> impl Iterator<Item = &UnseenEnd> {
        self.ends.iter()
    }

    /// The agents whose last turn ended like this, the newest first.
    pub fn newest(&self, how: TurnEnd) -> impl Iterator<Item = AgentId> {
        self.ends.iter().rev().filter(move |end| end.end == how).map(|end| end.agent)
    }

    pub fn contains(&self, agent: AgentId) -> bool {
        self.ends.iter().any(|end| end.agent == agent)
    }

    /// A number that changes with every change.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

/// Stores that a terminal has shown how the last turn of this agent ended.
pub(super) fn store_seen(core: &mut Core, agent: AgentId) {
    // An end that is stored later counts as new after a restart, which is not worth a message beside the one that it is
    // not stored yet.
    if core.store().is_read_only() || unsaved::has(core, agent) {
        return;
    }
    if let Err(error) = core.store().set_seen(agent) {
        core.note(agent, LineKind::Error, &format!("after a restart this turn is shown as new again: {error}"));
    }
}
