//! Tools that concern other agents: their calls are executed here, in order, and the result is returned to the caller.

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::commands;
use crate::domain::flow::{Origin, ToolRequest};
use crate::domain::mail::MailId;
use crate::domain::scrollback::LineKind;
use crate::repl::Repl;
use crate::repl::core::spawn::{Inherit, Spawn};

impl Repl {
    /// Executes a call and returns its result, except for a wait, which returns later.
    pub(super) fn on_tool_request(&mut self, agent_id: AgentId, call: String, request: ToolRequest) {
        if !self.core.roster.get(agent_id).is_some_and(|agent| agent.is_waiting_call(&call)) {
            return;
        }
        let answer = match request {
            ToolRequest::Wait { timeout, from } => match self.awaited_agents(agent_id, &from) {
                Ok(from) => return self.mail_waits.begin(&mut self.core, agent_id, &call, timeout, &from),
                Err(error) => Err(error),
            },
            other => self.execute_request(agent_id, other),
        };
        let answer = answer.map_err(|error| error.message);
        self.core.with_agent(agent_id, |agent, context| agent.answer_call(&call, answer, context));
    }

    fn awaited_agents(&self, agent_id: AgentId, names: &[String]) -> Result<Vec<AgentId>> {
        names.iter().map(|name| self.core.agent_once_named(agent_id, name)).collect()
    }

    fn execute_request(&mut self, agent_id: AgentId, request: ToolRequest) -> Result<String> {
        match request {
            ToolRequest::Fork { prompt, name, model } => {
                let child = self.fork_for(agent_id, prompt, name, model)?;
                Ok(serde_json::json!({"id": child.to_string(), "name": self.core.name_of(child)}).to_string())
            }
            ToolRequest::Kill { agent_id: victim, cascade } => {
                let victim = self.core.agent_named(agent_id, &victim)?;
                let label = self.label_of(victim);
                self.core.kill_for(agent_id, victim, cascade).map(|()| format!("killed {label}"))
            }
            ToolRequest::SendMail { to, body } => {
                let to = self.core.agent_named(agent_id, &to)?;
                self.core.send_mail(agent_id, to, &body).map(|_| format!("sent to {}", self.label_of(to)))
            }
            ToolRequest::CheckMail => self.list_mail(agent_id),
            ToolRequest::ReadMail(id) => self.read_mail(agent_id, id),
            ToolRequest::Agents => Ok(commands::agent_tree(&self.core.command_context(agent_id, Vec::new()))),
            ToolRequest::Wait { .. } => unreachable!("a wait is not answered at once"),
        }
    }

    pub(super) fn show_mail(&mut self, agent_id: AgentId, id: Option<MailId>) -> Result<()> {
        let text = self.read_mail(agent_id, id)?;
        self.core.note(agent_id, LineKind::Note, &text);
        Ok(())
    }

    fn read_mail(&mut self, agent_id: AgentId, id: Option<MailId>) -> Result<String> {
        Ok(match (self.core.read_mail(agent_id, id)?, id) {
            (Some(mail), _) => {
                format!("message {} from {}:\n{}", mail.id.0, self.core.name_of(mail.from), mail.body)
            }
            (None, Some(id)) => format!("no mail with id {}", id.0),
            (None, None) => "no unread mail".into(),
        })
    }

    /// An agent's mail, one line per message.
    pub(super) fn list_mail(&self, agent_id: AgentId) -> Result<String> {
        let mail = self.core.store.mail(agent_id, None)?;
        Ok(commands::mail_lines(&self.core.command_context(agent_id, Vec::new()), &mail))
    }

    /// Forks an agent for its model: the child starts at once, and no terminal follows it.
    fn fork_for(
        &mut self,
        agent_id: AgentId,
        prompt: String,
        name: Option<String>,
        model: Option<String>,
    ) -> Result<AgentId> {
        let name = name.map(|name| commands::checked_name(&name)).transpose()?;
        let spec =
            Spawn { prompt: Some(prompt), name, model, ..Spawn::new(agent_id, Origin::Internal, Inherit::BeforeTurn) };
        self.core.spawn(spec)
    }
}
