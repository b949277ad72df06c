//! For whoever drives the loop without a person who could be asked: descriptors of their own in the same poll, questions
//! that nobody will answer, and a limit on how many requests are made in all.

use std::os::fd::RawFd;

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

impl Repl {
    /// Watches a descriptor of the driver in the loop's poll, from now on for this; for neither, it is forgotten. There is
    /// news once and then not again before the next call, even if that asks for the same.
    ///
    /// # Errors
    /// The kernel refuses: it is a plain file, for example, which can always be read and written.
    pub(crate) fn watch_external(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        self.core.reactor.watch(Source::External(fd), fd, readable, writable)
    }

    /// What the last turns brought for the driver's descriptors. Empties.
    pub(crate) fn take_external_ready(&mut self) -> Vec<(RawFd, Readiness)> {
        std::mem::take(&mut self.external.ready)
    }

    /// Refuses every call about which a person would have to decide, and tells the models why. Returns who wanted to run
    /// what, in one line.
    pub(crate) fn refuse_questions(&mut self) -> Vec<(AgentId, String)> {
        let asking: Vec<AgentId> = self.core.roster.asking().iter().copied().collect();
        let mut refused = Vec::new();
        for agent_id in asking {
            refused.extend(self.core.refuse_question(agent_id).map(|title| (agent_id, title)));
        }
        if !refused.is_empty() {
            self.apply_effects();
        }
        refused
    }

    /// From now on no more than so many requests are made, by all agents together. A request that is sent again because it
    /// failed is the same one.
    pub(crate) fn limit_requests(&mut self, most: u32) {
        self.core.limits.limit_requests(most);
    }

    /// How many requests were made so far, those that were sent again not counted.
    pub(crate) fn requests(&self) -> u32 {
        self.core.limits.requests()
    }

    /// Whether somebody waits to make a request that the limit does not allow: it will never be made.
    pub(crate) fn is_out_of_requests(&self) -> bool {
        self.dispatcher.first_in_queue(&self.core).is_some_and(|agent_id| !self.core.may_request(agent_id))
    }

    /// The living agent that a person means by this.
    ///
    /// # Errors
    /// Nobody or more than one is meant.
    pub(crate) fn find(&self, text: &str) -> Result<AgentId> {
        agent_called(&self.core.roster, text)
    }

    /// Who was spoken to last; agent 0, if nobody was.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn last_spoken_to(&self) -> Result<AgentId> {
        let last = self.core.store.last_addressed()?;
        last.or_else(|| self.core.roster.nth(0)).ok_or_else(agent_gone)
    }

    /// What this agent is called; where it does not live any more, its id.
    pub(crate) fn label_of(&self, agent_id: AgentId) -> String {
        self.core.label_of(agent_id)
    }

    /// All agents as `/agents` lists them.
    pub(crate) fn agents(&self, current: AgentId) -> String {
        agent_tree(&self.core.command_context(current, Vec::new()))
    }

    /// Tells whoever looks at this agent something; no model is told.
    pub(crate) fn announce(&mut self, agent_id: AgentId, text: &str) {
        self.core.note(agent_id, LineKind::Note, text);
        self.terminals.render(&mut self.core);
    }
}
