//! Changes an agent's model, thinking, instructions and name. A running request is not affected; the next one uses the new
//! values. The endpoint is replaced as a whole, so that no key, base URL or header goes to another provider.

use std::rc::Rc;

use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::approval::Policy;
use crate::domain::flow::Origin;
use crate::domain::message::Body;
use crate::domain::thinking::Thinking;
use crate::provider::check_thinking;
use crate::repl::core::{Core, agent_gone};

const SYSTEM_BYTES: usize = 256 * 1024;

/// Sets the model. Thinking that the new model does not support is reset to default.
pub(super) fn set_model(core: &mut Core, agent_id: AgentId, full_name: &str) -> Result<()> {
    let endpoint = core.factory.endpoint(full_name)?;
    let before = core.roster.get(agent_id).ok_or_else(agent_gone)?.inputs.thinking;
    let is_kept = check_thinking(&endpoint, before).is_ok();
    let thinking = if is_kept { before } else { Thinking::default() };
    let mut line = format!("/model {}", endpoint.full_name());
    if !is_kept {
        line.push_str(&format!(" with thinking default: it does not support thinking {before}"));
    }
    let now = core.clock.unix_ms();
    let messages = core.store.transaction(|store| {
        store.set_endpoint(agent_id, &endpoint.full_name())?;
        if !is_kept {
            store.set_thinking(agent_id, Some(&thinking.to_string()))?;
        }
        store.append(agent_id, vec![Body::Command(line)], now)
    })?;
    core.with_agent(agent_id, |agent, context| {
        agent.set_endpoint(endpoint, context);
        agent.inputs.thinking = thinking;
    });
    if core.send_queue.provider_of(agent_id).is_some() {
        core.join_send_queue(agent_id);
    }
    core.remember(agent_id, messages);
    Ok(())
}

/// Sets the amount of thinking.
///
/// # Errors
/// The model does not support it, or the store refuses.
pub(super) fn set_thinking(core: &mut Core, agent_id: AgentId, thinking: Thinking) -> Result<()> {
    check_thinking(&core.roster.get(agent_id).ok_or_else(agent_gone)?.inputs.endpoint, thinking)?;
    let now = core.clock.unix_ms();
    let messages = core.store.transaction(|store| {
        // `default` too: where nothing is stored, the configuration decides.
        store.set_thinking(agent_id, Some(&thinking.to_string()))?;
        store.append(agent_id, vec![Body::Command(format!("/thinking {thinking}"))], now)
    })?;
    core.roster.with(agent_id, |agent| agent.inputs.thinking = thinking);
    core.remember(agent_id, messages);
    Ok(())
}

/// Sets what the agent may do without a question, which forks inherit.
///
/// # Errors
/// Only a person at a terminal or the program that hosts the loop may allow more than before. If the store cannot be
/// written, nothing more is allowed than before; less holds until the program exits.
pub(super) fn set_policy(core: &mut Core, origin: Origin, agent_id: AgentId, policy: Policy) -> Result<()> {
    let before = core.roster.get(agent_id).ok_or_else(agent_gone)?.policy;
    let is_person = matches!(origin, Origin::Terminal(_) | Origin::Library);
    if !is_person && policy > before {
        let message = format!("only a person at a terminal can set {policy}: this agent has {before}");
        return Err(Error::usage(message));
    }
    let is_stored = !core.store.is_read_only();
    let stored = if is_stored { core.store.set_policy(agent_id, Some(policy.name())) } else { Ok(()) };
    if policy > before && stored.is_err() {
        return stored;
    }
    core.roster.with(agent_id, |agent| {
        agent.policy = policy;
        agent.view.touch();
    });
    stored
}

/// Sets the instructions, which forks inherit; `None`: those of the environment.
pub(super) fn set_system(core: &mut Core, agent_id: AgentId, system: Option<String>) -> Result<()> {
    if system.as_ref().is_some_and(|text| text.len() > SYSTEM_BYTES) {
        return Err(Error::usage("the instructions are too long: 256 KiB at most"));
    }
    core.store.set_system(agent_id, system.as_deref())?;
    core.roster.with(agent_id, |agent| {
        let usual = || Rc::from(&*agent.inputs.environment.instructions);
        agent.inputs.system = system.map_or_else(usual, Rc::from);
    });
    Ok(())
}

/// Sets the name, which is unique among living agents, or removes it.
pub(super) fn set_name(core: &mut Core, agent_id: AgentId, name: Option<String>) -> Result<()> {
    core.store.set_name(agent_id, name.as_deref())?;
    core.roster.with(agent_id, |agent| {
        agent.identity.name = name;
        agent.view.touch();
    });
    Ok(())
}
