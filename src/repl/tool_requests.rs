//! Tools that concern other agents: their calls are executed here, in order, and the result is returned to the caller.

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::commands;
use crate::domain::flow::{Origin, ToolRequest};
use crate::repl::Repl;
use crate::repl::core::Core;
use crate::repl::core::spawn::{Inherit, Spawn};

impl Repl {
    /// Executes a call and returns its result, except for a wait, which returns later.
    pub(super) fn on_tool_request(&mut self, agent_id: AgentId, call: String, request: ToolRequest) {
        if !self.core.roster.get(agent_id).is_some_and(|agent| agent.is_waiting_call(&call)) {
            return;
        }
        let answer = match request {
            ToolRequest::Wait { timeout, from } => match awaited_agents(&self.core, agent_id, &from) {
                Ok(from) => return self.mail_waits.begin(&mut self.core, agent_id, &call, timeout, &from),
                Err(error) => Err(error),
            },
            other => execute(&mut self.core, agent_id, other),
        };
        let answer = answer.map_err(|error| error.message);
        self.core.with_agent(agent_id, |agent, context| agent.answer_call(&call, answer, context));
    }
}

fn awaited_agents(core: &Core, agent_id: AgentId, names: &[String]) -> Result<Vec<AgentId>> {
    names.iter().map(|name| core.or_ended(core.agent_named(agent_id, name), name)).collect()
}

fn execute(core: &mut Core, agent_id: AgentId, request: ToolRequest) -> Result<String> {
    match request {
        ToolRequest::Fork { prompt, name, model } => {
            let child = fork(core, agent_id, prompt, name, model)?;
            Ok(serde_json::json!({"id": child.to_string(), "name": core.name_of(child)}).to_string())
        }
        ToolRequest::Kill { agent_id: victim, cascade } => {
            let victim = core.agent_named(agent_id, &victim)?;
            let label = core.label_of(victim);
            core.kill_for(agent_id, victim, cascade).map(|()| format!("killed {label}"))
        }
        ToolRequest::SendMail { to, body } => {
            let to = core.agent_named(agent_id, &to)?;
            core.send_mail(agent_id, to, &body).map(|_| format!("sent to {}", core.label_of(to)))
        }
        ToolRequest::CheckMail => {
            let mail = core.store.mail(agent_id, None)?;
            Ok(commands::mail_lines(&core.command_context(agent_id, Vec::new()), &mail))
        }
        ToolRequest::ReadMail(id) => core.mail_text(agent_id, id),
        ToolRequest::Agents => Ok(commands::agent_tree(&core.command_context(agent_id, Vec::new()))),
        ToolRequest::Wait { .. } => unreachable!("a wait is not answered at once"),
    }
}

/// Forks an agent for its model: the child starts at once, and no terminal follows it.
fn fork(
    core: &mut Core,
    agent_id: AgentId,
    prompt: String,
    name: Option<String>,
    model: Option<String>,
) -> Result<AgentId> {
    let name = name.map(|name| commands::checked_name(&name)).transpose()?;
    let spec =
        Spawn { prompt: Some(prompt), name, model, ..Spawn::new(agent_id, Origin::Internal, Inherit::BeforeTurn) };
    core.spawn(spec)
}
