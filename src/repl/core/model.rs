//! The model of an agent whose model was not chosen.

use crate::agent::Role;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::repl::core::Core;

/// Gives the agent this model. If it cannot be stored, the agent has it until the program ends.
pub(in crate::repl) fn give_model(core: &mut Core, agent_id: AgentId, full_name: &str) -> Result<()> {
    let endpoint = core.factory.endpoint(full_name)?;
    // Internal agents are not stored.
    let is_normal = core.roster.get(agent_id).is_some_and(|agent| agent.role == Role::Normal);
    let is_stored = is_normal && !core.store.is_read_only();
    let stored = if is_stored { core.store.set_endpoint(agent_id, full_name) } else { Ok(()) };
    core.with_agent(agent_id, |agent, context| agent.set_endpoint(endpoint, context));
    stored
}
