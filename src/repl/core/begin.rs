//! Begins conversations. A new conversation is stored below the root and inherits nothing: neither from the root nor
//! from the agent that was shown last. It begins with [`Choices`], and otherwise with the configuration.

use std::path::Path;
use std::rc::Rc;

use crate::agent::{Agent, State};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::approval::Policy;
use crate::domain::choices::Choices;
use crate::domain::endpoint::Endpoint;
use crate::domain::flow::Origin;
use crate::domain::parameters::{Parameter, ParameterName, Parameters};
use crate::domain::rule::{AgentRules, Grant, Rule};
use crate::domain::thinking::Thinking;
use crate::provider::check_thinking;
use crate::provider::parameters::check;
use crate::repl::core::delete::delete_unwritten;
use crate::repl::core::spawn::project_directory;
use crate::repl::core::{Core, agent_gone};
use crate::repl::event::Event;
use crate::store::NewConversation;
use crate::team::{ResolvedEnvironment, SET};

/// Where a rule comes from that a client named.
const CLIENT: &str = "the command line";

pub(in crate::repl) struct Beginning<'a> {
    /// By default a random one.
    pub id: Option<AgentId>,
    pub name: Option<String>,
    /// Where it works; by default where the program was started.
    pub directory: Option<&'a Path>,
    pub choices: &'a Choices,
    /// It is for one `--print` run, and may do what each run that continues it may.
    pub is_print_run: bool,
    /// It may be the root, if that has no messages.
    pub may_be_root: bool,
}

/// The resolved choices of a conversation.
struct Settled {
    endpoint: Rc<Endpoint>,
    /// The stored choices, so that a conversation continues as it began.
    thinking: Option<Thinking>,
    parameters: Parameters,
    resolved: ResolvedEnvironment,
    /// If it is not that of the environment.
    system: Option<String>,
    policy: Policy,
    rules: AgentRules,
}

pub(in crate::repl) fn begin(core: &mut Core, new: Beginning) -> Result<AgentId> {
    core.require_writable()?;
    let root = core.roster.nth(0).ok_or_else(agent_gone)?;
    if let Some(id) = new.id
        && core.store.agent(id)?.is_some()
    {
        let id = id.to_uuid();
        return Err(Error::usage(format!(
            "the id {id} is taken: --resume {id} continues its agent, if that was not deleted"
        )));
    }
    let settled = resolve_choices(core, &new)?;
    let is_root = new.may_be_root && new.name.is_none() && is_unwritten(core, root)?;
    let id = if is_root { root } else { new.id.unwrap_or_else(AgentId::random) };
    let environment = &settled.resolved.environment;
    let row = NewConversation {
        id,
        name: new.name,
        parent: Some(root).filter(|_| !is_root),
        endpoint: settled.endpoint.full_name(),
        thinking: settled.thinking.map(|level| level.to_string()),
        environment: environment.spec.clone(),
        system: settled.system,
        policy: (!new.is_print_run).then(|| settled.policy.name().to_owned()),
        rules: settled.rules.to_stored(),
        parameters: settled.parameters.to_stored(),
        directory: project_directory(&environment.working_directory),
        is_print_run: new.is_print_run,
    };
    let row = core.store.begin_conversation(&row, core.clock.unix_ms())?;
    let mut agent = core.factory.restore(&core.config.catalog, &row);
    agent.rules = settled.rules;
    agent.inputs.has_tools = !new.choices.no_tools;
    if is_root {
        core.roster.with(root, |root| root.begin_as(agent));
    } else {
        core.roster.add(agent, Some(root));
        let origin = Origin::Internal;
        core.emit(Event::Spawned { parent: root, child: id, origin, is_announced: false, stays: true });
    }
    Ok(id)
}

/// Whether a conversation has no messages and no work in progress.
fn is_unwritten(core: &Core, id: AgentId) -> Result<bool> {
    let is_at_rest = |agent: &Agent| agent.state() == State::Idle && agent.queue.is_empty();
    Ok(core.roster.get(id).is_some_and(is_at_rest) && core.store.is_unwritten(id)?)
}

/// Forgets conversations in which nothing was written, except for the root. Where that fails they stay.
pub(in crate::repl) fn forget_unwritten(core: &mut Core, begun: &[AgentId]) {
    for id in begun {
        if core.roster.parent(*id).is_some() && is_unwritten(core, *id).unwrap_or(false) {
            drop(delete_unwritten(core, *id));
        }
    }
}

fn resolve_choices(core: &mut Core, new: &Beginning) -> Result<Settled> {
    let choices = new.choices;
    let endpoint = match &choices.model {
        Some(model) => core.factory.endpoint(&core.config.catalog, model)?,
        None => core.factory.usual_endpoint(),
    };
    let resolved = core.factory.environments.beginning_in(choices.environment.as_deref(), new.directory)?;
    let policy = match &choices.approval {
        Some(policy) => policy.parse()?,
        None => core.factory.new_policy(),
    };
    let usual = core.factory.thinking(&endpoint, &Parameters::default());
    let thinking: Option<Thinking> = choices.thinking.as_ref().map(|level| level.parse()).transpose()?;
    Ok(Settled {
        thinking: match thinking.filter(|level| check_thinking(&endpoint, *level).is_ok()) {
            // The thinking level of a run applies to that run only.
            None if new.is_print_run => None,
            level => Some(level.unwrap_or(usual)),
        },
        parameters: parameters_of(choices, &endpoint)?,
        system: choices.system.clone().filter(|system| **system != *resolved.system),
        rules: rules_of(choices, &resolved)?,
        endpoint,
        resolved,
        policy,
    })
}

/// The parameters that are not configured like this.
pub(in crate::repl) fn parameters_of(choices: &Choices, endpoint: &Endpoint) -> Result<Parameters> {
    let mut parameters = Parameters::default();
    for (name, value) in &choices.parameters {
        let name: ParameterName = name.parse()?;
        let is_usual = endpoint.parameters.iter().any(|(other, set)| *other == name && set.value == *value);
        if is_usual || name == ParameterName::Known(Parameter::Thinking) {
            continue;
        }
        let value = name.check(value).map_err(|expected| Error::usage(format!("{name}: {expected}")))?;
        check(endpoint, &name, &value)?;
        parameters.set(name, value, SET);
    }
    Ok(parameters)
}

/// The rules that this environment does not already have. Those that allow are not stored: they last as long as the
/// process.
fn rules_of(choices: &Choices, resolved: &ResolvedEnvironment) -> Result<AgentRules> {
    let (known, workspace) = (&resolved.environment.rules, resolved.environment.workspace());
    let [allow, ask, deny] = rules_beyond(choices, [&known.allow, &known.ask, &known.deny])?;
    let own = allow.into_iter().map(|rule| Grant { rule, workspace: workspace.to_path_buf() }).collect();
    Ok(AgentRules { own, ask, deny })
}

/// The rules of choices that are not among these: those that allow, ask and refuse.
pub(in crate::repl) fn rules_beyond(choices: &Choices, known: [&[Rule]; 3]) -> Result<[Vec<Rule>; 3]> {
    let beyond = |texts: &[String], known: &[Rule]| -> Result<Vec<Rule>> {
        let rules = texts.iter().map(|text| text.parse().map(|rule: Rule| rule.from_source(&CLIENT)));
        let rules: Vec<Rule> = rules.collect::<Result<_>>()?;
        Ok(rules.into_iter().filter(|rule| !known.contains(rule)).collect())
    };
    let [allow, ask, deny] = known;
    Ok([beyond(&choices.allow, allow)?, beyond(&choices.ask, ask)?, beyond(&choices.deny, deny)?])
}
