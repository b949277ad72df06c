//! Agents and questions as JSON for clients.

use serde_json::{Value, json};

use crate::agent::{Agent, PendingQuestion};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::commands::{agent_as_json, question_id};
use crate::domain::agent_host::HostCommand;
use crate::domain::mcp::McpPrompt;
use crate::domain::skill::Skill;
use crate::domain::title::title;
use crate::repl::core::{Core, agent_gone};
use crate::repl::terminals::rule_file;

/// An agent as clients see it, with what only one at a time is asked for.
pub(super) fn describe(core: &Core, id: AgentId) -> Result<Value> {
    let agent = core.agent(id).ok_or_else(agent_gone)?;
    let mut described = agent_as_json(&core.command_context(id, Vec::new()), agent);
    described["title"] = title(&core.store().conversation(id)?.0).into();
    described["directory"] = agent.inputs.environment.working_directory.to_string_lossy().into();
    described["policy"] = agent.policy.name().into();
    described["thinking"] = agent.inputs.thinking.to_string().into();
    described["context"] = agent.context_tokens().map(|(tokens, _)| tokens).into();
    described["context_limit"] = agent.inputs.endpoint.facts.context.into();
    described["warnings"] = agent.warnings.clone().into();
    Ok(described)
}

/// The skills, prompts and commands of a host that a person can use by name at an agent.
pub(super) fn commands_as_json(core: &Core, agent: AgentId) -> Value {
    let Some(agent) = core.agent(agent) else { return json!([]) };
    let environment = &agent.inputs.environment;
    let skill =
        |skill: &Skill| json!({"name": skill.name, "description": skill.description, "hint": skill.argument_hint});
    let prompt =
        |prompt: &McpPrompt| json!({"name": prompt.full_name, "description": prompt.about, "hint": prompt.usage()});
    let of_host =
        |command: &HostCommand| json!({"name": command.name, "description": command.about, "hint": command.hint});
    let own = environment.skills.for_people().map(skill).chain(environment.mcp_prompts.iter().map(prompt));
    let is_skill = |name: &str| environment.skills.for_people().any(|skill| skill.name == name);
    own.chain(agent.host_commands().filter(|command| !is_skill(&command.name)).map(of_host)).collect()
}

/// The open questions of all agents, oldest first.
pub(super) fn approvals_as_json(core: &Core) -> Value {
    let now = core.now();
    let mut asking: Vec<(&Agent, &PendingQuestion)> = core.roster().questions().collect();
    asking.sort_by_key(|(_, pending)| pending.since);
    let row = |(agent, pending): &(&Agent, &PendingQuestion)| {
        json!({
            "id": question_id(agent, pending),
            "agent": agent.id().to_string(),
            "label": agent.identity.label(),
            "directory": agent.inputs.environment.place().to_string_lossy(),
            "tool": pending.tool,
            "title": pending.question.title,
            "detail": pending.question.detail,
            "rules": pending.question.ways.rules.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "rule_file": rule_file(core, agent),
            "ancestors": ancestors(core, agent.id()),
            "call": agent.asking_call().map(|call| json!({"id": call.id, "name": call.name, "arguments": call.arguments})),
            "age": (now - pending.since).as_secs(),
        })
    };
    asking.iter().map(row).collect()
}

/// The agents above this one, its parent first.
fn ancestors(core: &Core, id: AgentId) -> Vec<String> {
    let above = std::iter::successors(core.roster().shown_parent(id), |parent| core.roster().shown_parent(*parent));
    above.map(|parent| parent.to_string()).collect()
}
