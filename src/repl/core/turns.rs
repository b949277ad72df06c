//! The end of turns, and questions in turns without a user.

use crate::agent::{Agent, PendingQuestion, Role, State};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::repl::core::{Core, agent_gone};
use crate::repl::event::Event;

/// Stores that the question of an agent is answered: it is not asked again after a restart.
pub(in crate::repl) fn end_question(core: &mut Core, agent: AgentId) -> Result<()> {
    let is_stored = core.roster.get(agent).is_some_and(|agent| agent.role != Role::Summary);
    if is_stored {
        core.store.end_question(agent)?;
        core.unsaved.close_question(agent);
    }
    Ok(())
}

impl Core {
    /// Reports the end of a turn, unless the next one has begun already: then the chunks of the two cannot be separated.
    pub(in crate::repl) fn end_turn(&mut self, agent: AgentId) {
        if self.roster.get(agent).is_some_and(|agent| agent.state() == State::Idle) {
            let chunk = self.next_chunk(agent);
            self.emit(Event::TurnEnded { agent, chunk });
        }
    }

    /// Interrupts the work of an agent, and tells the components.
    pub(in crate::repl) fn interrupt(&mut self, agent: AgentId, was_idle: bool) -> Result<()> {
        self.emit(Event::Interrupted { agent, was_idle });
        self.with_agent(agent, Agent::interrupt).ok_or_else(agent_gone)
    }

    pub(in crate::repl) fn next_chunk(&self, agent: AgentId) -> u64 {
        self.roster.get(agent).map_or(0, |agent| agent.output.next())
    }
}

/// Refuses the call that waits for approval, if there is one. Returns its title.
pub(in crate::repl) fn refuse_question(core: &mut Core, agent: AgentId) -> Option<String> {
    let PendingQuestion { number, question, .. } = core.roster.get(agent)?.question().cloned()?;
    core.trees.note_unattended(agent);
    let remedy = question.ways.remedy("the user can allow it with");
    let why = question.reason().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let reason = format!("refused: it needs approval{why}, and this runs unattended{remedy}");
    core.with_agent(agent, |agent, context| agent.decide(number, Err(&reason), context));
    Some(question.title + &question.ways.remedy("to allow it:"))
}
