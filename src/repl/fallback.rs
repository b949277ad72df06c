//! Finds the model that answers the rest of a turn when that of an agent cannot.

use crate::base::error::Error;
use crate::base::id::AgentId;
use crate::provider::credentials;
use crate::repl::core::Core;

/// Continues the turn with the next model of the list that has a key, or ends it with the error.
pub(super) fn fall_back(core: &mut Core, agent_id: AgentId, error: Error) {
    while let Some(name) = core.roster.with(agent_id, |agent| agent.next_fallback()).flatten() {
        let Ok(endpoint) = core.factory.endpoint(&name) else { continue };
        let has_key = endpoint.key_command.is_some() || credentials::require(&endpoint, endpoint.key.as_ref()).is_ok();
        let Some(agent) = core.agent(agent_id).filter(|_| has_key) else { continue };
        let thinking = core.factory.thinking(&endpoint, &agent.inputs.parameters);
        core.with_agent(agent_id, |agent, context| agent.continue_with(endpoint, thinking, &error, context));
        return;
    }
    core.with_agent(agent_id, |agent, context| agent.give_up(error, context));
}
