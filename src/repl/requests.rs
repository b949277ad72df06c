//! Requests of the server's clients. Each does what a command would do, under the same rules. An error is a response, and
//! the connection goes on.

use std::time::Duration;

use serde_json::{Value, json};

use crate::agent::{Agent, PendingQuestion, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, ClientId, TerminalId};
use crate::commands::agent_called_by_script;
use crate::domain::chunk::Position;
use crate::domain::flow::{Change, Decision, Origin};
use crate::domain::wire::{Request, Response};
use crate::repl::core::agent_gone;
use crate::repl::{Repl, Turn};

enum Answer {
    Now(Value),
    /// With later responses, or not at all.
    Later,
    /// At once; then the program ends.
    Exit,
}

impl Repl {
    /// Handles the requests of all clients, a bounded number of each.
    pub(super) fn handle_requests(&mut self) -> Turn {
        while let Some((client, request)) = self.server.next_request(&mut self.core) {
            let answer = self.apply_request(client, request);
            // The next request finds all effects of this one applied.
            self.apply_effects();
            let (response, turn) = match answer {
                Ok(Answer::Later) => continue,
                Ok(Answer::Now(value)) => (Response::Done(value), Turn::Continue),
                Ok(Answer::Exit) => (Response::Done(Value::Null), Turn::Exit),
                Err(error) => (Response::from(&error), Turn::Continue),
            };
            self.server.respond(client, &response);
            if turn == Turn::Exit {
                return turn;
            }
        }
        self.read_attached();
        Turn::Continue
    }

    /// Sends clients what happened in this turn.
    pub(super) fn publish(&mut self) {
        self.send_frames();
        self.server.publish(&mut self.core);
        self.detach_released();
    }

    /// Sends clients what happened last, and that the server has ended.
    ///
    /// # Errors
    /// When the kernel refuses to poll.
    pub(super) fn shut_down_server(&mut self) -> Result<()> {
        self.publish();
        self.server.shutdown(&mut self.core)?;
        self.detach_released();
        Ok(())
    }

    fn apply_request(&mut self, client: ClientId, request: Request) -> Result<Answer> {
        let value = match request {
            Request::Stop => return Ok(Answer::Exit),
            Request::Attach { agent, is_read_only, terminal } => {
                return self.attach_client(client, agent.as_deref(), is_read_only, &terminal).map(|()| Answer::Later);
            }
            Request::Logs { agent, from, last, follows } => {
                return self.begin_client_logs(client, &agent, from.as_ref(), last, follows).map(|()| Answer::Later);
            }
            Request::Turn { agent, text, max_requests } => {
                return self.begin_client_turn(client, &agent, text, max_requests).map(|()| Answer::Later);
            }
            Request::Cut => return self.cancel_client_turn(client).map(|()| Answer::Later),
            Request::Wait { agent, seconds } => {
                return self.begin_client_wait(client, &agent, seconds).map(|()| Answer::Later);
            }
            Request::Agents => self.core.roster.iter().map(|agent| self.agent_as_json(agent)).collect(),
            Request::Sessions => self.terminals.ids().into_iter().map(|id| self.terminal_as_json(id)).collect(),
            Request::New { name, model } => {
                let id = self.create(name.as_deref(), model.as_deref())?;
                self.core.roster.get(id).map(|agent| self.agent_as_json(agent)).unwrap_or_default()
            }
            Request::Show { agent } => self.describe_named(agent.as_deref())?,
            Request::Model { agent, model } => self.change_named(&agent, |_| Change::Model(model))?,
            Request::Send { agent, text } => self.submit_named(&agent, text)?,
            Request::Kill { agent, cascade } => {
                self.change_named(&agent, |agent_id| Change::Kill { agent_id, cascade })?
            }
            Request::Interrupt { agent } => self.interrupt_named(&agent)?,
            Request::Approvals => self.approvals_as_json(),
            Request::Answer { id, allow, reason } => {
                self.answer_question(&id, if allow { Decision::Allow } else { Decision::Deny(reason) })?
            }
            Request::Keys { .. } | Request::Size { .. } | Request::Redraw => {
                unreachable!("the server hands these out for attached terminals only")
            }
        };
        Ok(Answer::Now(value))
    }

    fn agent_called(&self, agent: &str) -> Result<AgentId> {
        agent_called_by_script(&self.core.roster, agent)
    }

    fn change_named(&mut self, agent: &str, change: impl FnOnce(AgentId) -> Change) -> Result<Value> {
        let agent = self.agent_called(agent)?;
        self.apply_change(Origin::Internal, agent, change(agent)).map(|()| Value::Null)
    }

    /// Text for the model, and never a command: not even where it begins with a slash.
    fn submit_named(&mut self, agent: &str, text: String) -> Result<Value> {
        let agent = self.agent_called(agent)?;
        require_text(&text)?;
        self.apply_change(Origin::Internal, agent, Change::Submit(text))?;
        let queued = self.core.roster.get(agent).ok_or_else(agent_gone)?.queue.len();
        Ok(json!({"queued": queued}))
    }

    /// Like [`Repl::submit_named`]; the client also gets the chunks of the turn.
    fn begin_client_turn(
        &mut self,
        client: ClientId,
        agent: &str,
        text: String,
        max_requests: Option<u32>,
    ) -> Result<()> {
        let agent = self.agent_called(agent)?;
        require_text(&text)?;
        self.server.begin_turn(&mut self.core, client, agent, max_requests);
        let outcome = self.apply_change(Origin::Client(client), agent, Change::Submit(text));
        if outcome.is_err() {
            self.server.forget_turn(&mut self.core, client);
        }
        outcome
    }

    fn cancel_client_turn(&mut self, client: ClientId) -> Result<()> {
        match self.server.cancel_turn(&mut self.core, client)? {
            Some(agent) => self.apply_change(Origin::Internal, agent, Change::Interrupt),
            None => Ok(()),
        }
    }

    /// This agent, or the one to which a text was sent last.
    fn describe_named(&self, agent: Option<&str>) -> Result<Value> {
        let agent = agent.map_or_else(|| self.last_spoken_to(), |agent| self.agent_called(agent))?;
        self.core.roster.get(agent).map(|agent| self.agent_as_json(agent)).ok_or_else(agent_gone)
    }

    fn interrupt_named(&mut self, agent: &str) -> Result<Value> {
        let agent = self.agent_called(agent)?;
        let is_busy = |agent: &Agent| agent.state() != State::Idle || agent.summaries() > 0;
        let is_interrupted = self.core.roster.get(agent).is_some_and(is_busy);
        self.apply_change(Origin::Internal, agent, Change::Interrupt)?;
        Ok(json!({"interrupted": is_interrupted}))
    }

    fn approvals_as_json(&self) -> Value {
        let now = self.core.clock.now();
        let mut asking: Vec<(&Agent, &PendingQuestion)> = self.core.roster.questions().collect();
        asking.sort_by_key(|(_, pending)| pending.since);
        let row = |(agent, pending): &(&Agent, &PendingQuestion)| {
            json!({
                "id": question_id(agent, pending),
                "agent": agent.id().to_string(),
                "label": agent.identity.label(),
                "directory": agent.talk.environment.working_directory.to_string_lossy(),
                "tool": pending.tool,
                "title": pending.question.title,
                "detail": pending.question.detail,
                "age": (now - pending.since).as_secs(),
            })
        };
        asking.iter().map(row).collect()
    }

    /// An error if no question with this id is open: it was answered, or never asked, or its text was another one.
    fn answer_question(&mut self, id: &str, decision: Decision) -> Result<Value> {
        let found = self.core.roster.questions().find(|(agent, pending)| question_id(agent, pending) == id);
        let Some((agent, question)) = found.map(|(agent, pending)| (agent.id(), pending.number)) else {
            return Err(usage(&format!("no open question {id:?}: polylogue approvals lists those that are open")));
        };
        self.apply_change(Origin::Internal, agent, Change::Answer { question, decision }).map(|()| Value::Null)
    }

    fn begin_client_logs(
        &mut self,
        client: ClientId,
        agent: &str,
        from: Option<&Position>,
        last: Option<u64>,
        follows: bool,
    ) -> Result<()> {
        let agent = self.agent_called(agent)?;
        let viewer = match (from, last) {
            (None, Some(count)) => self.core.attach_to_last(agent, count)?,
            (from, _) => self.core.attach(agent, from)?,
        };
        let next = self.core.roster.get(agent).map_or(0, |agent| agent.output.next());
        self.server.begin_logs(&mut self.core, client, viewer, if follows { u64::MAX } else { next });
        Ok(())
    }

    fn begin_client_wait(&mut self, client: ClientId, agent: &str, seconds: Option<f64>) -> Result<()> {
        let root = self.core.roster.nth(0).ok_or_else(agent_gone)?;
        let agent = self.core.agent_once_named(root, agent)?;
        // More seconds than a duration can hold are no limit.
        let longest = seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        let until = longest.map(|longest| self.core.clock.now() + longest);
        self.server.begin_wait(&mut self.core, client, agent, until);
        Ok(())
    }

    fn agent_as_json(&self, agent: &Agent) -> Value {
        let id = agent.id();
        let age = self.core.clock.unix_ms() - agent.identity.created_at;
        json!({
            "id": id.to_string(),
            "number": agent.identity.ordinal,
            "name": agent.identity.name,
            "parent": self.core.roster.parent(id).map(|parent| parent.to_string()),
            "status": agent.status().name(),
            "activity": self.activity_as_json(agent),
            "model": agent.talk.endpoint.full_name(),
            "unread": agent.unread,
            "queued": agent.queue.len(),
            "tokens": agent.used.input + agent.used.output,
            "created_at": agent.identity.created_at,
            "age": age.max(0) / 1000,
        })
    }

    /// What the agent is doing, as a terminal shows it; none if it is idle.
    fn activity_as_json(&self, agent: &Agent) -> Option<String> {
        match agent.question() {
            Some(pending) => Some(format!("asks: {}", pending.question.title)),
            None => agent.view.is_spinning().then(|| self.core.activity(agent.id(), false)),
        }
    }

    fn terminal_as_json(&self, id: TerminalId) -> Value {
        let Some(terminal) = self.terminals.get(id) else { return Value::Null };
        json!({
            "number": id.0,
            "agent": terminal.focus.to_string(),
            "label": self.label_of(terminal.focus),
            "columns": terminal.size.0,
            "rows": terminal.size.1,
            "read_only": terminal.mode.is_read_only,
            "attached": terminal.mode.is_attached,
            "since": terminal.since,
        })
    }
}

/// The agent's number, that of the question, and the digest of its text.
fn question_id(agent: &Agent, pending: &PendingQuestion) -> String {
    format!("{}.{}-{}", agent.identity.ordinal, pending.number, pending.digest())
}

fn require_text(text: &str) -> Result<()> {
    if text.trim().is_empty() { Err(usage("nothing to send: the text is empty")) } else { Ok(()) }
}

fn usage(message: &str) -> Error {
    Error::new(ErrorKind::Usage, message)
}
