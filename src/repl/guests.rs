//! For whoever drives the loop without a person who could be asked: descriptors of their own in the same poll, questions
//! that nobody will answer, and a limit on how many requests are made in all.

use std::os::fd::RawFd;

use crate::agent::{Asked, Wait};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::commands::{agent_called, agent_tree};
use crate::domain::scrollback::LineKind;
use crate::domain::socket::Readiness;
use crate::reactor::{News, Source};
use crate::repl::Repl;
use crate::repl::apply::nobody;

/// What the driver of the loop wants of it.
#[derive(Debug, Default)]
pub(super) struct Guests {
    /// News of its descriptors that it has not taken.
    news: Vec<(RawFd, Readiness)>,
    /// How many requests may still be made; `None`: as many as agents want.
    requests_left: Option<u32>,
    /// How many were made.
    requests: u32,
}

impl Guests {
    pub(super) fn hear(&mut self, news: &[News]) {
        for one in news {
            if let Source::Guest(fd) = one.source {
                self.news.push((fd, one.readiness));
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
    pub fn watch_guest(&mut self, fd: RawFd, readable: bool, writable: bool) -> Result<()> {
        self.reactor.watch(Source::Guest(fd), fd, readable, writable)
    }

    /// What the last turns brought for the driver's descriptors. Empties.
    pub fn take_guest_news(&mut self) -> Vec<(RawFd, Readiness)> {
        std::mem::take(&mut self.guests.news)
    }

    /// Refuses every call about which a person would have to decide, and tells the models why. Returns who wanted to run
    /// what, in one line.
    pub fn refuse_questions(&mut self) -> Vec<(AgentId, String)> {
        let asking: Vec<AgentId> = self.roster.asking().iter().copied().collect();
        let mut refused = Vec::new();
        for who in asking {
            refused.extend(self.refuse_question(who).map(|title| (who, title)));
        }
        if !refused.is_empty() {
            self.apply_outbox();
        }
        refused
    }

    /// Refuses what this agent asks, if it asks anything: its call in one line.
    pub(super) fn refuse_question(&mut self, who: AgentId) -> Option<String> {
        let Asked { number, question, .. } = self.roster.get(who)?.question().cloned()?;
        self.with_agent(who, |agent, context| agent.decide(number, Err(NOBODY), context));
        Some(question.title)
    }

    /// From now on no more than so many requests are made, by all agents together. A request that is sent again because it
    /// failed is the same one.
    pub fn limit_requests(&mut self, most: u32) {
        self.guests.requests_left = Some(most);
    }

    /// How many requests were made so far, those that were sent again not counted.
    pub fn requests(&self) -> u32 {
        self.guests.requests
    }

    /// Whether somebody waits to make a request that the limit does not allow: it will never be made.
    pub fn is_out_of_requests(&self) -> bool {
        self.first_in_line().is_some_and(|who| !self.may_request(who))
    }

    pub(super) fn may_request(&self, who: AgentId) -> bool {
        self.guests.requests_left != Some(0) && !self.serving.is_spent(who) || !self.is_first_try(who)
    }

    pub(super) fn count_request(&mut self, who: AgentId) {
        if self.is_first_try(who) {
            self.guests.requests += 1;
            self.serving.count_request(who);
            self.guests.requests_left = self.guests.requests_left.map(|left| left.saturating_sub(1));
        }
    }

    pub(super) fn is_first_try(&self, who: AgentId) -> bool {
        self.roster.get(who).is_none_or(|agent| matches!(agent.wait(), Wait::Place) && !agent.is_repeating())
    }

    /// The living agent that a person means by this.
    ///
    /// # Errors
    /// Nobody or more than one is meant.
    pub fn find(&self, text: &str) -> Result<AgentId> {
        agent_called(&self.roster, text)
    }

    /// Who was spoken to last; agent 0, if nobody was.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn last_spoken_to(&self) -> Result<AgentId> {
        let last = self.shared.store.last_spoken_to()?;
        last.or_else(|| self.roster.nth(0)).ok_or_else(nobody)
    }

    /// What this agent is called; where it does not live any more, its id.
    pub fn label_of(&self, who: AgentId) -> String {
        self.roster.get(who).map_or_else(|| who.to_string(), |agent| agent.identity.label())
    }

    /// All agents as `/agents` lists them.
    pub fn agents(&self, current: AgentId) -> String {
        agent_tree(&self.house(current))
    }

    /// Tells whoever looks at this agent something; no model is told.
    pub fn announce(&mut self, who: AgentId, text: &str) {
        self.note(who, LineKind::Note, text);
        self.render();
    }
}
