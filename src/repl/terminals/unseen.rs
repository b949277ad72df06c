//! The agents that have finished a turn while no terminal showed them.

use crate::base::id::AgentId;

#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// In the order in which they finished.
    agents: Vec<AgentId>,
    revision: u64,
}

impl Unseen {
    pub fn add(&mut self, agent: AgentId) {
        self.remove(agent);
        self.agents.push(agent);
        self.revision += 1;
    }

    pub fn remove(&mut self, agent: AgentId) {
        let before = self.agents.len();
        self.agents.retain(|other| *other != agent);
        self.revision += u64::from(self.agents.len() < before);
    }

    pub fn len(&self) -> usize {
        self.agents.len()
    }

    /// The agents, with the one that finished last first.
    pub fn newest(&self) -> impl Iterator<Item = AgentId> {
        self.agents.iter().rev().copied()
    }

    /// A number that changes with every change.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}
