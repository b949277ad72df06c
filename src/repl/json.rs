//! Agents, terminals and questions as JSON for clients.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::agent::{Agent, PendingQuestion};
use crate::base::error::Result;
use crate::base::id::{AgentId, TerminalId};
use crate::base::process;
use crate::domain::mcp::McpPrompt;
use crate::domain::skill::Skill;
use crate::domain::title::title;
use crate::repl::Terminal;
use crate::repl::core::{Core, agent_gone};
use crate::repl::terminals::rule_file;
use crate::store::Conversation;

/// The process and its amount of work.
pub(super) fn status_as_json(core: &Core, clients: usize) -> Value {
    let usage = process::usage();
    json!({
        "process": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "memory": usage.memory,
        "descriptors": usage.descriptors,
        "threads": usage.threads,
        "agents": core.roster.len(),
        "clients": clients,
    })
}

/// An agent as clients see it, with what only one at a time is asked for.
pub(super) fn describe(core: &Core, id: AgentId) -> Result<Value> {
    let agent = core.roster.get(id).ok_or_else(agent_gone)?;
    let mut described = agent_as_json(core, agent);
    described["title"] = title(&core.store.conversation(id)?.0).into();
    described["directory"] = agent.inputs.environment.working_directory.to_string_lossy().into();
    described["policy"] = agent.policy.name().into();
    described["context"] = agent.context_tokens().map(|(tokens, _)| tokens).into();
    described["context_limit"] = agent.inputs.endpoint.facts.context.into();
    described["warnings"] = agent.warnings.clone().into();
    Ok(described)
}

/// The skills and prompts that a person can use by name at an agent.
pub(super) fn commands_as_json(core: &Core, agent: AgentId) -> Value {
    let Some(agent) = core.roster.get(agent) else { return json!([]) };
    let environment = &agent.inputs.environment;
    let skill =
        |skill: &Skill| json!({"name": skill.name, "description": skill.description, "hint": skill.argument_hint});
    let prompt =
        |prompt: &McpPrompt| json!({"name": prompt.full_name, "description": prompt.about, "hint": prompt.usage()});
    environment.skills.for_people().map(skill).chain(environment.mcp_prompts.iter().map(prompt)).collect()
}

/// The conversations that a person can resume, perhaps only those of one directory.
pub(super) fn conversations_as_json(core: &Core, directory: Option<&Path>) -> Result<Value> {
    let own = core.config.working_directory.canonicalize().ok();
    let place =
        |conversation: &Conversation| conversation.directory.as_ref().map(PathBuf::from).or_else(|| own.clone());
    let row = |conversation: Conversation| {
        let place = place(&conversation)?;
        let is_meant = !conversation.is_print_run && directory.is_none_or(|directory| directory == place);
        is_meant.then(|| {
            json!({
                "id": conversation.agent.to_string(),
                "title": title(&conversation.said),
                "directory": place.to_string_lossy(),
                "updated_at": conversation.last_at,
            })
        })
    };
    Ok(core.store.conversations()?.into_iter().filter_map(row).collect())
}

pub(super) fn agent_as_json(core: &Core, agent: &Agent) -> Value {
    let id = agent.id();
    let age = core.clock.unix_ms().saturating_sub(agent.identity.created_at);
    json!({
        "id": id.to_string(),
        "number": agent.identity.number(),
        "name": agent.identity.name,
        "title": agent.title,
        "directory": agent.inputs.environment.place().to_string_lossy(),
        "parent": core.roster.shown_parent(id).map(|parent| parent.to_string()),
        "status": agent.status().name(),
        "activity": activity_of(core, agent),
        "model": agent.inputs.endpoint.full_name(),
        "place": agent.inputs.environment.remote.as_ref().map(|remote| remote.place.to_string()),
        "unread": agent.unread,
        "queued": agent.queue.len(),
        "tokens": agent.used.tokens(),
        "cost": agent.used.cost,
        "print_run": agent.identity.is_print_run,
        "team_run": agent.identity.team_run.as_deref(),
        "created_at": agent.identity.created_at,
        "age": age.max(0) / 1000,
    })
}

/// The activity of the agent, as a terminal shows it; `None` if it is idle.
pub(super) fn activity_of(core: &Core, agent: &Agent) -> Option<String> {
    match agent.question() {
        Some(pending) => Some(format!("asks: {}", pending.question.title)),
        None => agent.view.is_spinning().then(|| core.activity(agent.id(), false)),
    }
}

pub(super) fn terminal_as_json(core: &Core, id: TerminalId, terminal: &Terminal) -> Value {
    json!({
        "number": id.0,
        "agent": terminal.focus.to_string(),
        "label": core.roster.label_of(terminal.focus),
        "columns": terminal.size.0,
        "rows": terminal.size.1,
        "read_only": terminal.mode.is_read_only,
        "attached": terminal.mode.is_attached,
        "since": terminal.since,
    })
}

/// The open questions of all agents, oldest first.
pub(super) fn approvals_as_json(core: &Core) -> Value {
    let now = core.clock.now();
    let mut asking: Vec<(&Agent, &PendingQuestion)> = core.roster.questions().collect();
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
    let above = std::iter::successors(core.roster.shown_parent(id), |parent| core.roster.shown_parent(*parent));
    above.map(|parent| parent.to_string()).collect()
}

/// The agent's number, or the beginning of its id, the number of the question, and the digest of its text.
pub(super) fn question_id(agent: &Agent, pending: &PendingQuestion) -> String {
    let called = agent.identity.number().map_or_else(|| agent.id().short(), |number| number.to_string());
    format!("{called}.{}-{}", pending.number, pending.digest())
}
