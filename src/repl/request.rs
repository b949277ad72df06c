//! What models ask of the house through their tools: carried out here, in the order in which it was asked, and answered to
//! the agent that asked.

use std::time::Duration;

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::commands;
use crate::domain::flow::Request;
use crate::repl::Repl;
use crate::repl::mail::Waiting;

impl Repl {
    /// Carries a call out. A wait is answered when it is over; everything else at once.
    pub(super) fn on_request(&mut self, who: AgentId, call: String, request: Request) {
        if !self.roster.get(who).is_some_and(|agent| agent.is_waiting_call(&call)) {
            return;
        }
        let answer = match request {
            Request::Wait { timeout, from } => match self.begin_wait(who, &call, timeout, &from) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            other => self.carry_out_request(who, other),
        };
        let answer = answer.map_err(|error| error.message);
        self.with_agent(who, |agent, context| agent.answer_call(&call, answer, context));
    }

    fn carry_out_request(&mut self, who: AgentId, request: Request) -> Result<String> {
        match request {
            Request::Fork { prompt, name, model } => {
                let child = self.fork_by_model(who, prompt, name, model.as_deref())?;
                Ok(serde_json::json!({"id": child.to_string(), "name": self.house(who).name_of(child)}).to_string())
            }
            Request::Kill { who: victim, cascade } => {
                let victim = self.agent_named(who, &victim)?;
                self.kill_by_model(who, victim, cascade).map(|()| "killed".into())
            }
            Request::SendMail { to, body } => {
                let to = self.agent_named(who, &to)?;
                self.send_mail(who, to, &body).map(|id| format!("letter {} is in the box", id.0))
            }
            Request::CheckMail => self.list_mail(who),
            Request::ReadMail(id) => Ok(match self.take_mail(who, id)? {
                Some(mail) => {
                    format!("Letter {} from {}:\n{}", mail.id.0, self.house(who).name_of(mail.from), mail.body)
                }
                None => "there is no such letter, or no unread one".into(),
            }),
            Request::Agents => Ok(commands::agent_tree(&self.house(who))),
            Request::Wait { .. } => unreachable!("a wait is not answered at once"),
        }
    }

    fn begin_wait(&mut self, who: AgentId, call: &str, timeout: Duration, from: &[String]) -> Result<()> {
        let named: Vec<AgentId> = from.iter().map(|name| self.agent_once_named(who, name)).collect::<Result<_>>()?;
        let mut from = Vec::new();
        for one in named {
            // Waiting for oneself would never end: one is not idle while one waits.
            if one != who && !from.contains(&one) {
                from.push(one);
            }
        }
        let waiting = Waiting { who, call: call.to_owned(), from };
        let until = self.shared.clock.now() + timeout;
        self.roster.with(who, |agent| agent.park_call(call, until));
        if self.is_over(&waiting) {
            self.answer_wait(who, call, &waiting.from, "");
        } else {
            self.waits.push(waiting);
        }
        Ok(())
    }
}
