//! For whoever drives the loop without a person who could be asked: descriptors of their own in the same poll, questions
//! that nobody will answer, and a limit on how many requests are made in all.

use std::os::fd::RawFd;

use crate::agent::{PendingQuestion, Wait};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::commands::{agent_called, agent_tree};
use crate::domain::readiness::Readiness;
use crate::domain::scrollback::LineKind;
use crate::reactor::{Ready, Source};
use crate::repl::Repl;
use crate::repl::core::agent_gone;

/// What the driver of the loop wants of it.
#[derive(Debug, Default)]
pub(super) struct ExternalHooks {
    /// News of its descriptors that it has not taken.
    ready: Vec<(RawFd, Readiness)>,
    /// How many requests may still be made; `None`: as many as agents want.
    requests_left: Option<u32>,
    /// How many were made.
    requests: u32,
}

impl ExternalHooks {
    pub(super) fn hear(&mut self, ready: &[Ready]) {
        for one in ready {
            if let Source::External(fd) = one.source {
                self.ready.push((fd, one.readiness));
            }
        }
    }
}

/// What a model is told of a call that nobody can allow.
const NOBODY: &str = "refused: this runs unattended, and nobody is there who could allow the call";

impl Repl {
    /// Watches a descriptor of the driver in the loop's poll, from now on for this; for neither, it is forgotten. There is
    /// news once and then not again before the next call, even if that asks for the same.
    ///
    /// # Errors
    /// The kernel refuses: it is a plain file, for example, which can always be read and written.
    pub fn watch_external(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        self.core.reactor.watch(Source::External(fd), fd, readable, writable)
    }

    /// What the last turns brought for the driver's descriptors. Empties.
    pub fn take_external_ready(&mut self) -> Vec<(RawFd, Readiness)> {
        std::mem::take(&mut self.external.ready)
    }

    /// Refuses every call about which a person would have to decide, and tells the models why. Returns who wanted to run
    /// what, in one line.
    pub fn refuse_questions(&mut self) -> Vec<(AgentId, String)> {
        let asking: Vec<AgentId> = self.core.roster.asking().iter().copied().collect();
        let mut refused = Vec::new();
        for agent_id in asking {
            refused.extend(self.refuse_question(agent_id).map(|title| (agent_id, title)));
        }
        if !refused.is_empty() {
            self.apply_effects();
        }
        refused
    }

    /// Refuses what this agent asks, if it asks anything: its call in one line.
    pub(super) fn refuse_question(&mut self, agent_id: AgentId) -> Option<String> {
        let PendingQuestion { number, question, .. } = self.core.roster.get(agent_id)?.question().cloned()?;
        self.core.with_agent(agent_id, |agent, context| agent.decide(number, Err(NOBODY), context));
        Some(question.title)
    }

    /// From now on no more than so many requests are made, by all agents together. A request that is sent again because it
    /// failed is the same one.
    pub fn limit_requests(&mut self, most: u32) {
        self.external.requests_left = Some(most);
    }

    /// How many requests were made so far, those that were sent again not counted.
    pub fn requests(&self) -> u32 {
        self.external.requests
    }

    /// Whether somebody waits to make a request that the limit does not allow: it will never be made.
    pub fn is_out_of_requests(&self) -> bool {
        self.first_in_line().is_some_and(|agent_id| !self.may_request(agent_id))
    }

    pub(super) fn may_request(&self, agent_id: AgentId) -> bool {
        self.external.requests_left != Some(0) && !self.serving.is_spent(agent_id) || !self.is_first_try(agent_id)
    }

    pub(super) fn count_request(&mut self, agent_id: AgentId) {
        if self.is_first_try(agent_id) {
            self.external.requests += 1;
            self.serving.count_request(agent_id);
            self.external.requests_left = self.external.requests_left.map(|left| left.saturating_sub(1));
        }
    }

    pub(super) fn is_first_try(&self, agent_id: AgentId) -> bool {
        self.core.roster.get(agent_id).is_none_or(|agent| matches!(agent.wait(), Wait::Slot) && !agent.is_repeating())
    }

    /// The living agent that a person means by this.
    ///
    /// # Errors
    /// Nobody or more than one is meant.
    pub fn find(&self, text: &str) -> Result<AgentId> {
        agent_called(&self.core.roster, text)
    }

    /// Who was spoken to last; agent 0, if nobody was.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn last_spoken_to(&self) -> Result<AgentId> {
        let last = self.core.store.last_addressed()?;
        last.or_else(|| self.core.roster.nth(0)).ok_or_else(agent_gone)
    }

    /// What this agent is called; where it does not live any more, its id.
    pub fn label_of(&self, agent_id: AgentId) -> String {
        self.core.roster.get(agent_id).map_or_else(|| agent_id.to_string(), |agent| agent.identity.label())
    }

    /// All agents as `/agents` lists them.
    pub fn agents(&self, current: AgentId) -> String {
        agent_tree(&self.command_context(current))
    }

    /// Tells whoever looks at this agent something; no model is told.
    pub fn announce(&mut self, agent_id: AgentId, text: &str) {
        self.core.note(agent_id, LineKind::Note, text);
        self.render();
    }
}
