//! The models of agents: a model for one without, the next one of a list, and what providers say about models.

use std::rc::Rc;

use crate::agent::Role;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::endpoint::{Endpoint, ModelFacts, ProviderEntry};
use crate::provider::credentials;
use crate::repl::core::Core;
use crate::repl::core::context_lengths::keep_listed;

/// Finds a model by its full name.
pub(in crate::repl) fn endpoint(core: &mut Core, full_name: &str) -> Result<Rc<Endpoint>> {
    core.factory.endpoint(&core.config.catalog, full_name)
}

/// Gives the agent this model. If it cannot be stored, the agent has it until the program ends.
pub(in crate::repl) fn give_model(core: &mut Core, agent_id: AgentId, full_name: &str) -> Result<()> {
    let endpoint = endpoint(core, full_name)?;
    // Internal agents are not stored.
    let is_normal = core.roster.get(agent_id).is_some_and(|agent| agent.role == Role::Normal);
    let is_stored = is_normal && !core.store.is_read_only();
    let stored = if is_stored { core.store.set_endpoint(agent_id, full_name) } else { Ok(()) };
    core.with_agent(agent_id, |agent, context| agent.set_endpoint(endpoint, context));
    stored
}

/// Continues the turn with the next model of the list that has a key, or ends it with the error.
pub(in crate::repl) fn fall_back(core: &mut Core, agent_id: AgentId, error: Error) {
    while let Some(name) = core.roster.with(agent_id, |agent| agent.next_fallback()).flatten() {
        let Ok(endpoint) = endpoint(core, &name) else { continue };
        let has_key = endpoint.key_command.is_some() || credentials::require(&endpoint, endpoint.key.as_ref()).is_ok();
        let Some(agent) = core.agent(agent_id).filter(|_| has_key) else { continue };
        let thinking = core.factory.thinking(&endpoint, &agent.inputs.parameters);
        core.with_agent(agent_id, |agent, context| agent.continue_with(endpoint, thinking, &error, context));
        return;
    }
    core.with_agent(agent_id, |agent, context| agent.give_up(error, context));
}

/// A provider takes no tools with this model.
pub(in crate::repl) fn refuse_tools(core: &mut Core, model: &str) {
    core.factory.refuse_tools(model);
    for id in core.roster.ids() {
        core.roster.with(id, |agent| agent.refuse_tools(model));
    }
}

/// A provider has listed its models.
pub(in crate::repl) fn learn_listed(core: &mut Core, provider: &str, models: Vec<(String, ModelFacts)>) {
    core.config.catalog.learn(provider, models);
    core.factory.update_facts(&core.config.catalog, provider);
    learn_facts(core);
    keep_listed(core, provider);
}

/// A provider has told more about a model that it lists.
pub(in crate::repl) fn learn_details(core: &mut Core, provider: &str, model: &str, facts: ModelFacts) {
    core.config.catalog.learn_details(provider, model, facts);
    core.factory.update_facts(&core.config.catalog, provider);
    learn_facts(core);
    keep_listed(core, provider);
}

/// New agents have this model from now on; `entry` is its provider, if that is new.
pub(in crate::repl) fn set_usual(core: &mut Core, entry: Option<ProviderEntry>, endpoint: Endpoint) {
    entry.into_iter().for_each(|entry| core.config.catalog.put(entry));
    core.config.endpoint = endpoint.clone();
    core.config.hint = None;
    core.factory.set_usual(endpoint);
}

/// Gives all agents the current facts about their models.
pub(super) fn learn_facts(core: &mut Core) {
    for id in core.roster.ids() {
        let catalog = &core.config.catalog;
        core.roster.with(id, |agent| agent.learn_facts(catalog));
    }
}
