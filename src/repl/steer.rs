//! Changes an agent's model, thinking, instructions and name. A running request is not affected; the next one uses the new
//! values. The endpoint is replaced as a whole, so that no key, base URL or header goes to another provider.

use std::rc::Rc;

use serde_json::Value;

use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::approval::Policy;
use crate::domain::change::Setting;
use crate::domain::choices::Choices;
use crate::domain::flow::Origin;
use crate::domain::message::Body;
use crate::domain::parameters::{Parameter, ParameterName, Parameters};
use crate::domain::rule::Rules;
use crate::domain::scrollback::LineKind;
use crate::domain::thinking::Thinking;
use crate::provider::check_thinking;
use crate::provider::parameters::check;
use crate::repl::Repl;
use crate::repl::core::begin::rules_beyond;
use crate::repl::core::{Core, agent_gone, limits, model, rules};
use crate::team::{SCHEMA, SET};

impl Repl {
    pub(super) fn set(&mut self, origin: Origin, agent_id: AgentId, setting: Setting) -> Result<()> {
        let core = &mut self.core;
        match setting {
            Setting::Name(name) => set_name(core, agent_id, name),
            Setting::Model(full_name) => set_model(core, agent_id, &full_name),
            Setting::Thinking(thinking) => set_thinking(core, agent_id, thinking),
            Setting::Parameter(name, value) => set_parameter(core, agent_id, name, value),
            Setting::Approval(policy) => set_policy(core, origin, agent_id, policy),
            Setting::Revoke(rule) => rules::revoke(core, agent_id, &rule),
            Setting::System(system) => set_system(core, agent_id, system),
            Setting::Done(command) => set_done(core, agent_id, command),
            Setting::Choices(options) => self.choose(agent_id, &options),
            Setting::Limit { agent_id: limited, name, value } => {
                let note = limits::set_typed(core, limited, name, value)?;
                self.terminals.show_result(core, origin, agent_id, LineKind::Note, &note);
                Ok(())
            }
        }
    }
}

const THINKING: ParameterName = ParameterName::Known(Parameter::Thinking);
const SYSTEM_BYTES: usize = 256 * 1024;

/// Sets the model. Thinking that was set and that the new model does not support is reset to default; other parameters
/// stay set and are not sent.
fn set_model(core: &mut Core, agent_id: AgentId, full_name: &str) -> Result<()> {
    let endpoint = model::endpoint(core, full_name)?;
    let inputs = &core.agent(agent_id).ok_or_else(agent_gone)?.inputs;
    let mut parameters = inputs.parameters.clone();
    // A level that is only that of the model before says nothing about the next one.
    let usual = core.factory().thinking(&inputs.endpoint, &Parameters::default());
    let is_usual = parameters.thinking() == Some(usual);
    if is_usual {
        parameters.remove(&THINKING);
    }
    let own = parameters.thinking();
    let refused = own.filter(|level| check_thinking(&endpoint, *level).is_err());
    let is_kept = refused.is_none();
    let mut line = format!("/model {}", endpoint.full_name());
    if let Some(before) = refused {
        line.push_str(&format!(" with thinking default: it does not support thinking {before}"));
        parameters.set(THINKING, Thinking::default().to_string().into(), SET);
    }
    let unsent = parameters.iter().filter(|(name, set)| check(&endpoint, name, &set.value).is_err());
    let unsent: Vec<String> = unsent.map(|(name, _)| name.to_string()).collect();
    if !unsent.is_empty() {
        line.push_str(&format!(" without {}, which it does not have", unsent.join(", ")));
    }
    let thinking = core.factory().thinking(&endpoint, &parameters);
    let now = core.clock().unix_ms();
    let messages = core.store().transaction(|store| {
        store.set_endpoint(agent_id, &endpoint.full_name())?;
        if !is_kept || is_usual {
            let level = thinking.to_string();
            store.set_thinking(agent_id, Some(level.as_str()).filter(|_| !is_usual))?;
        }
        store.append(agent_id, vec![Body::Command(line)], now)
    })?;
    core.with_agent(agent_id, |agent, context| {
        agent.set_endpoint(endpoint, context);
        (agent.inputs.thinking, agent.inputs.parameters) = (thinking, parameters);
    });
    if core.send_queue().provider_of(agent_id).is_some() {
        core.join_send_queue(agent_id);
    }
    core.remember(agent_id, messages);
    Ok(())
}

/// Sets the amount of thinking.
fn set_thinking(core: &mut Core, agent_id: AgentId, thinking: Thinking) -> Result<()> {
    check_thinking(&core.agent(agent_id).ok_or_else(agent_gone)?.inputs.endpoint, thinking)?;
    let now = core.clock().unix_ms();
    let messages = core.store().transaction(|store| {
        // `default` too: where nothing is stored, the configuration decides.
        store.set_thinking(agent_id, Some(&thinking.to_string()))?;
        store.append(agent_id, vec![Body::Command(format!("/thinking {thinking}"))], now)
    })?;
    core.edit(agent_id, |agent| {
        agent.set_thinking(thinking);
        agent.inputs.parameters.set(THINKING, thinking.to_string().into(), SET);
        agent.view.touch();
    });
    core.remember(agent_id, messages);
    Ok(())
}

/// Sets a parameter of requests, or removes it.
fn set_parameter(core: &mut Core, agent_id: AgentId, name: ParameterName, value: Option<Value>) -> Result<()> {
    let inputs = &core.agent(agent_id).ok_or_else(agent_gone)?.inputs;
    let mut parameters = inputs.parameters.clone();
    let shown = match &value {
        Some(value) => {
            check(&inputs.endpoint, &name, value)?;
            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
        }
        None => "default".to_owned(),
    };
    let line = format!("/set {name} {shown}");
    match value {
        Some(value) => parameters.set(name, value, SET),
        None => parameters.remove(&name),
    }
    let thinking = core.factory().thinking(&inputs.endpoint, &parameters);
    let level = parameters.thinking().map(|level| level.to_string());
    let now = core.clock().unix_ms();
    let messages = core.store().transaction(|store| {
        store.set_thinking(agent_id, level.as_deref())?;
        store.set_parameters(agent_id, parameters.to_stored().as_deref())?;
        store.append(agent_id, vec![Body::Command(line)], now)
    })?;
    core.edit(agent_id, |agent| {
        agent.set_thinking(thinking);
        agent.inputs.parameters = parameters;
        agent.view.touch();
    });
    core.remember(agent_id, messages);
    Ok(())
}

/// Has the agent answer as a JSON schema says, until the program ends. Returns whether its protocol can.
pub(super) fn set_schema(core: &mut Core, agent_id: AgentId, schema: &Value) -> Result<bool> {
    let name = ParameterName::Known(Parameter::ResponseFormat);
    let endpoint = &core.agent(agent_id).ok_or_else(agent_gone)?.inputs.endpoint;
    let is_possible = check(endpoint, &name, schema).is_ok();
    if is_possible {
        core.edit(agent_id, |agent| agent.inputs.parameters.set(name, schema.clone(), SCHEMA));
    }
    Ok(is_possible)
}

/// Sets what the agent may do without a question; forks inherit it. Only a person at a terminal or the program that hosts
/// the loop may allow more than before. If the store cannot be written, nothing more is allowed; less is, until the
/// program exits.
fn set_policy(core: &mut Core, origin: Origin, agent_id: AgentId, policy: Policy) -> Result<()> {
    let before = core.agent(agent_id).ok_or_else(agent_gone)?.policy;
    let is_person = matches!(origin, Origin::Terminal(_) | Origin::Library);
    if !is_person && policy > before {
        let message = format!("only a person at a terminal can set {policy}: this agent has {before}");
        return Err(Error::usage(message));
    }
    let is_stored = !core.store().is_read_only();
    let stored = if is_stored { core.store().set_policy(agent_id, Some(policy.name())) } else { Ok(()) };
    if policy > before && stored.is_err() {
        return stored;
    }
    core.edit(agent_id, |agent| {
        (agent.policy, agent.is_unrestricted) = (policy, false);
        agent.view.touch();
    });
    stored
}

/// Makes the changes that a person asks for on a command line.
pub(super) fn choose(core: &mut Core, agent_id: AgentId, options: &Choices) -> Result<()> {
    let agent = core.agent(agent_id).ok_or_else(agent_gone)?;
    let environment = agent.inputs.environment.clone();
    let endpoint = match &options.model {
        Some(model) => model::endpoint(core, model)?,
        None => agent.inputs.endpoint.clone(),
    };
    let policy: Option<Policy> = options.approval.as_ref().map(|policy| policy.parse()).transpose()?;
    let thinking: Option<Thinking> = options.thinking.as_ref().map(|level| level.parse()).transpose()?;
    thinking.map_or(Ok(()), |level| check_thinking(&endpoint, level))?;
    let known = &environment.rules;
    let [allow, ask, deny] = rules_beyond(options, [&known.allow, &known.ask, &known.deny])?;
    if core.agent(agent_id).is_some_and(|agent| agent.inputs.endpoint.full_name() != endpoint.full_name()) {
        set_model(core, agent_id, &endpoint.full_name())?;
    }
    for (name, value) in &options.parameters {
        set_parameter(core, agent_id, name.parse()?, Some(value.clone()))?;
    }
    thinking.map_or(Ok(()), |level| set_thinking(core, agent_id, level))?;
    rules::add_named(core, agent_id, Rules { allow, ask, deny })?;
    if options.no_tools {
        core.edit(agent_id, |agent| agent.inputs.has_tools = false);
    }
    policy.map_or(Ok(()), |policy| set_policy(core, Origin::Library, agent_id, policy))
}

/// Sets the instructions, which forks inherit; `None`: those of the environment.
fn set_system(core: &mut Core, agent_id: AgentId, system: Option<String>) -> Result<()> {
    if system.as_ref().is_some_and(|text| text.len() > SYSTEM_BYTES) {
        return Err(Error::usage("the instructions are too long: 256 KiB at most"));
    }
    core.store().set_system(agent_id, system.as_deref())?;
    core.edit(agent_id, |agent| {
        let usual = || Rc::from(&*agent.inputs.environment.instructions);
        (agent.inputs.system, agent.inputs.directory_note) = (system.map_or_else(usual, Rc::from), None);
    });
    Ok(())
}

/// Sets the command that says whether the agent is done, also for the agents below it that have inherited the one before.
fn set_done(core: &mut Core, agent_id: AgentId, command: Option<String>) -> Result<()> {
    let known = |core: &Core, id: AgentId| core.agent(id).and_then(|agent| agent.done.clone());
    let before = known(core, agent_id);
    let command: Option<Rc<str>> = command.map(Rc::from);
    let mut agents = vec![agent_id];
    while let Some(id) = agents.pop() {
        core.store().set_done(id, command.as_deref())?;
        core.edit(id, |agent| agent.done.clone_from(&command));
        agents.extend(core.roster().shown_below(Some(id)).into_iter().filter(|below| known(core, *below) == before));
    }
    Ok(())
}

/// Sets the name, which is unique among living agents, or removes it.
fn set_name(core: &mut Core, agent_id: AgentId, name: Option<String>) -> Result<()> {
    core.store().set_name(agent_id, name.as_deref())?;
    core.edit(agent_id, |agent| {
        agent.identity.name = name;
        agent.view.touch();
    });
    Ok(())
}
