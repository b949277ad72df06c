//! What models ask of the house through their tools: carried out here, in the order in which it was asked, and answered to
//! the agent that asked.

use std::time::Duration;

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::commands;
use crate::domain::flow::ToolRequest;
use crate::repl::Repl;
use crate::repl::mail::MailWait;

impl Repl {
    /// Carries a call out. A wait is answered when it is over; everything else at once.
    pub(super) fn on_request(&mut self, agent_id: AgentId, call: String, request: ToolRequest) {
        if !self.core.roster.get(agent_id).is_some_and(|agent| agent.is_waiting_call(&call)) {
            return;
        }
        let answer = match request {
            ToolRequest::Wait { timeout, from } => match self.begin_wait(agent_id, &call, timeout, &from) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            other => self.carry_out_request(agent_id, other),
        };
        let answer = answer.map_err(|error| error.message);
        self.core.with_agent(agent_id, |agent, context| agent.answer_call(&call, answer, context));
    }

    fn carry_out_request(&mut self, agent_id: AgentId, request: ToolRequest) -> Result<String> {
        match request {
            ToolRequest::Fork { prompt, name, model } => {
                let child = self.fork_by_model(agent_id, prompt, name, model.as_deref())?;
                Ok(serde_json::json!({"id": child.to_string(), "name": self.command_context(agent_id).name_of(child)})
                    .to_string())
            }
            ToolRequest::Kill { agent_id: victim, cascade } => {
                let victim = self.agent_named(agent_id, &victim)?;
                self.kill_by_model(agent_id, victim, cascade).map(|()| "killed".into())
            }
            ToolRequest::SendMail { to, body } => {
                let to = self.agent_named(agent_id, &to)?;
                self.send_mail(agent_id, to, &body).map(|id| format!("letter {} is in the box", id.0))
            }
            ToolRequest::CheckMail => self.list_mail(agent_id),
            ToolRequest::ReadMail(id) => Ok(match self.take_mail(agent_id, id)? {
                Some(mail) => {
                    format!(
                        "Letter {} from {}:\n{}",
                        mail.id.0,
                        self.command_context(agent_id).name_of(mail.from),
                        mail.body
                    )
                }
                None => "there is no such letter, or no unread one".into(),
            }),
            ToolRequest::Agents => Ok(commands::agent_tree(&self.command_context(agent_id))),
            ToolRequest::Wait { .. } => unreachable!("a wait is not answered at once"),
        }
    }

    fn begin_wait(&mut self, agent_id: AgentId, call: &str, timeout: Duration, from: &[String]) -> Result<()> {
        let named: Vec<AgentId> =
            from.iter().map(|name| self.agent_once_named(agent_id, name)).collect::<Result<_>>()?;
        let mut from = Vec::new();
        for one in named {
            // MailWait for oneself would never end: one is not idle while one waits.
            if one != agent_id && !from.contains(&one) {
                from.push(one);
            }
        }
        let waiting = MailWait { agent_id, call: call.to_owned(), from };
        let until = self.core.clock.now() + timeout;
        self.core.roster.with(agent_id, |agent| agent.park_call(call, until));
        if self.is_over(&waiting) {
            self.answer_wait(agent_id, call, &waiting.from, "");
        } else {
            self.mail_waits.push(waiting);
        }
        Ok(())
    }
}
