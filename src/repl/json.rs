//! Agents, terminals and questions as JSON for clients.

use serde_json::{Value, json};

use crate::agent::{Agent, PendingQuestion};
use crate::base::error::Result;
use crate::base::id::{AgentId, TerminalId};
use crate::base::process;
use crate::repl::Terminal;
use crate::repl::core::{Core, agent_gone};
use crate::repl::terminals::rule_file;

/// The process and how much it has to do.
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

/// An agent as clients see it.
pub(super) fn describe(core: &Core, id: AgentId) -> Result<Value> {
    core.roster.get(id).map(|agent| agent_as_json(core, agent)).ok_or_else(agent_gone)
}

pub(super) fn agent_as_json(core: &Core, agent: &Agent) -> Value {
    let id = agent.id();
    let age = core.clock.unix_ms().saturating_sub(agent.identity.created_at);
    json!({
        "id": id.to_string(),
        "number": agent.identity.ordinal,
        "name": agent.identity.name,
        "parent": core.roster.parent(id).map(|parent| parent.to_string()),
        "status": agent.status().name(),
        "activity": activity_as_json(core, agent),
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

/// What the agent is doing, as a terminal shows it; none if it is idle.
fn activity_as_json(core: &Core, agent: &Agent) -> Option<String> {
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
            "age": (now - pending.since).as_secs(),
        })
    };
    asking.iter().map(row).collect()
}

/// The agent's number, that of the question, and the digest of its text.
pub(super) fn question_id(agent: &Agent, pending: &PendingQuestion) -> String {
    format!("{}.{}-{}", agent.identity.ordinal, pending.number, pending.digest())
}
