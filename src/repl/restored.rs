//! Asks the questions again that were open when an earlier process ended.

use crate::agent::Role;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::scrollback::LineKind;
use crate::repl::Repl;
use crate::repl::core::Core;
use crate::store::AskingTurn;

impl Repl {
    /// Takes up the turns that waited for an answer. Returns how many questions are asked again, and how many turns were
    /// closed because their call can no longer be made. Nothing runs because of it, and nothing is sent.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub(super) fn restore_questions(&mut self) -> Result<(usize, usize)> {
        let (mut asked, mut closed) = (0, 0);
        if self.core.store.is_read_only() {
            return Ok((asked, closed));
        }
        for turn in self.core.store.asking_turns()? {
            let id = turn.as_ref().map_or_else(|id| *id, |turn| turn.agent);
            let is_asked = match turn {
                Ok(turn) => self.restore_question(turn)?,
                Err(_) => false,
            };
            if is_asked {
                asked += 1;
            } else if self.core.roster.get(id).is_some() {
                closed += 1;
                close_turn(&mut self.core, id)?;
            }
        }
        self.apply_effects();
        Ok((asked, closed))
    }

    fn restore_question(&mut self, turn: AskingTurn) -> Result<bool> {
        let id = turn.agent;
        self.core.load(id)?;
        let restored = self.core.with_agent(id, |agent, context| agent.restore_turn(turn, context));
        let Some(call) = restored.flatten() else { return Ok(false) };
        // Without an objection the loop carries the call out once the person has allowed it.
        let objection = match &call.request {
            Some(request) => self.objection_to(id, &call.id, request).ok().flatten(),
            None => None,
        };
        let objection = objection.map(|(subject, objection)| {
            self.objections.open(id, &call.id, subject);
            objection
        });
        self.core.with_agent(id, |agent, context| agent.ask_again(objection, context));
        Ok(true)
    }
}

/// Stores that an agent's question was answered.
pub(super) fn end_question(core: &mut Core, agent_id: AgentId) {
    let is_stored = core.roster.get(agent_id).is_some_and(|agent| agent.role != Role::Summary);
    if is_stored && let Err(error) = core.store.end_question(agent_id) {
        core.note(agent_id, LineKind::Error, &format!("the answer was not saved: {error}"));
    }
}

fn close_turn(core: &mut Core, agent: AgentId) -> Result<()> {
    core.store.close_asking_turn(agent, core.clock.unix_ms())?;
    core.roster.with(agent, |agent| {
        // What was closed is read from the store when it is needed.
        agent.inputs.history = None;
        agent.note_interrupted();
    });
    Ok(())
}
