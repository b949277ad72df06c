//! The end of turns, the requests that they may make, and questions in turns that no person attends.

use crate::agent::{Agent, PendingQuestion, State, Wait};
use crate::base::id::AgentId;
use crate::repl::core::Core;
use crate::repl::event::Event;

/// What a model is told of a call that needs approval.
const UNATTENDED: &str = "refused: the call needs approval, and this runs unattended";

impl Core {
    /// Tells the components that a turn has ended. An earlier end may be told when the next turn is under way already:
    /// then the chunks of the two cannot be told apart any more.
    pub(in crate::repl) fn end_turn(&mut self, agent: AgentId) {
        if self.roster.get(agent).is_some_and(|agent| agent.state() == State::Idle) {
            let chunk = self.next_chunk(agent);
            self.events.push_back(Event::TurnEnded { agent, chunk });
        }
    }

    pub(super) fn next_chunk(&self, agent: AgentId) -> u64 {
        self.roster.get(agent).map_or(0, |agent| agent.output.next())
    }

    /// Whether the limits allow this agent's next request.
    pub(in crate::repl) fn may_request(&self, agent: AgentId) -> bool {
        self.limits.may_request(agent, self.is_first_try(agent))
    }

    /// This agent makes a request. One that is made again counts once.
    pub(in crate::repl) fn count_request(&mut self, agent: AgentId) {
        if self.is_first_try(agent) {
            self.limits.count_request(agent);
        }
    }

    /// Whether this agent waits to make a request that the limit of its turn does not allow.
    pub(in crate::repl) fn is_turn_over_limit(&self, agent: AgentId) -> bool {
        let is_waiting = |agent: &Agent| agent.state() == State::WaitingForLlm;
        self.limits.is_turn_exhausted(agent)
            && self.roster.get(agent).is_some_and(is_waiting)
            && self.is_first_try(agent)
    }

    fn is_first_try(&self, agent: AgentId) -> bool {
        self.roster.get(agent).is_none_or(|agent| matches!(agent.wait(), Wait::Slot) && !agent.is_repeating())
    }

    /// Refuses the call about which this agent asks, if it does. Returns the call in one line.
    pub(in crate::repl) fn refuse_question(&mut self, agent: AgentId) -> Option<String> {
        let PendingQuestion { number, question, .. } = self.roster.get(agent)?.question().cloned()?;
        self.with_agent(agent, |agent, context| agent.decide(number, Err(UNATTENDED), context));
        Some(question.title)
    }
}
