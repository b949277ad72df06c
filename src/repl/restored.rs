//! Asks the questions again that were open when an earlier process ended.

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::repl::core::Core;
use crate::repl::objections::Objections;
use crate::repl::tool_requests::objection_to;
use crate::store::AskingTurn;

/// Takes up the turns that waited for an answer. Returns how many questions are asked again, and how many turns were
/// closed because their call can no longer be made. Nothing runs because of it, and nothing is sent.
///
/// # Errors
/// The store cannot be read or written.
pub(super) fn restore_questions(core: &mut Core, objections: &mut Objections) -> Result<(usize, usize)> {
    let (mut asked, mut closed) = (0, 0);
    if core.store.is_read_only() {
        return Ok((asked, closed));
    }
    for turn in core.store.asking_turns()? {
        let id = turn.as_ref().map_or_else(|id| *id, |turn| turn.agent);
        let is_asked = match turn {
            Ok(turn) => restore_question(core, objections, turn)?,
            Err(_) => false,
        };
        if is_asked {
            asked += 1;
        } else if core.roster.get(id).is_some() {
            closed += 1;
            close_turn(core, id)?;
        }
    }
    Ok((asked, closed))
}

fn restore_question(core: &mut Core, objections: &mut Objections, turn: AskingTurn) -> Result<bool> {
    let id = turn.agent;
    core.load(id)?;
    let restored = core.with_agent(id, |agent, context| agent.restore_turn(turn, context));
    let Some(call) = restored.flatten() else { return Ok(false) };
    // Without an objection the loop carries the call out once the person has allowed it.
    let objection = match &call.request {
        Some(request) => objection_to(core, objections, id, &call.id, request).ok().flatten(),
        None => None,
    };
    let objection = objection.map(|(subject, objection)| {
        objections.open(id, &call.id, subject);
        objection
    });
    core.with_agent(id, |agent, context| agent.ask_again(objection, context));
    Ok(true)
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
