//! Requests of the server's clients. Each does what a command would do, under the same rules. An error is a response, and
//! the connection goes on.

use serde_json::{Value, json};

use crate::agent::{Agent, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, ClientId, TerminalId};
use crate::commands::agent_called_by_script;
use crate::domain::flow::{Change, Origin};
use crate::domain::wire::{Request, Response};
use crate::repl::core::{Core, agent_gone};
use crate::repl::{Repl, Terminal, Turn};

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
        self.attached().read();
        Turn::Continue
    }

    fn apply_request(&mut self, client: ClientId, request: Request) -> Result<Answer> {
        let value = match request {
            Request::Stop => return Ok(Answer::Exit),
            Request::Attach { agent, is_read_only, terminal } => {
                self.attached().attach(client, agent.as_deref(), is_read_only, &terminal)?;
                return Ok(Answer::Later);
            }
            Request::Logs { agent, from, last, follows } => {
                self.server.begin_logs(&mut self.core, client, &agent, (from.as_ref(), last), follows)?;
                return Ok(Answer::Later);
            }
            Request::Turn { agent, text, max_requests } => {
                return self.begin_client_turn(client, &agent, text, max_requests).map(|()| Answer::Later);
            }
            Request::Cut => {
                if let Some(agent) = self.server.cancel_turn(&mut self.core, client)? {
                    self.apply_change(Origin::Internal, agent, Change::Interrupt)?;
                }
                return Ok(Answer::Later);
            }
            Request::Wait { agent, seconds } => {
                self.server.begin_wait(&mut self.core, client, &agent, seconds)?;
                return Ok(Answer::Later);
            }
            Request::Agents => self.core.roster.iter().map(|agent| agent_as_json(&self.core, agent)).collect(),
            Request::Sessions => {
                let terminals = self.terminals.ids().into_iter().filter_map(|id| Some((id, self.terminals.get(id)?)));
                terminals.map(|(id, terminal)| terminal_as_json(&self.core, id, terminal)).collect()
            }
            Request::New { name, model } => {
                let id = self.create(name.as_deref(), model.as_deref())?;
                describe(&self.core, id)?
            }
            Request::Show { agent: Some(agent) } => {
                describe(&self.core, agent_called_by_script(&self.core.roster, &agent)?)?
            }
            Request::Show { agent: None } => describe(&self.core, self.core.last_addressed()?)?,
            Request::Model { agent, model } => self.change_named(&agent, |_| Change::Model(model))?,
            Request::Send { agent, text } => self.submit_named(&agent, text)?,
            Request::Kill { agent, cascade } => {
                self.change_named(&agent, |agent_id| Change::Kill { agent_id, cascade })?
            }
            Request::Interrupt { agent } => self.interrupt_named(&agent)?,
            Request::Keys { .. } | Request::Size { .. } | Request::Redraw => {
                unreachable!("the server hands these out for attached terminals only")
            }
        };
        Ok(Answer::Now(value))
    }

    fn change_named(&mut self, agent: &str, change: impl FnOnce(AgentId) -> Change) -> Result<Value> {
        let agent = agent_called_by_script(&self.core.roster, agent)?;
        self.apply_change(Origin::Internal, agent, change(agent)).map(|()| Value::Null)
    }

    /// Text for the model, and never a command: not even where it begins with a slash.
    fn submit_named(&mut self, agent: &str, text: String) -> Result<Value> {
        let agent = agent_called_by_script(&self.core.roster, agent)?;
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
        let agent = agent_called_by_script(&self.core.roster, agent)?;
        require_text(&text)?;
        self.server.begin_turn(&mut self.core, client, agent, max_requests);
        let outcome = self.apply_change(Origin::Client(client), agent, Change::Submit(text));
        if outcome.is_err() {
            self.server.forget_turn(&mut self.core, client);
        }
        outcome
    }

    fn interrupt_named(&mut self, agent: &str) -> Result<Value> {
        let agent = agent_called_by_script(&self.core.roster, agent)?;
        let is_busy = |agent: &Agent| agent.state() != State::Idle || agent.summaries() > 0;
        let is_interrupted = self.core.roster.get(agent).is_some_and(is_busy);
        self.apply_change(Origin::Internal, agent, Change::Interrupt)?;
        Ok(json!({"interrupted": is_interrupted}))
    }
}

/// An agent as clients see it.
fn describe(core: &Core, id: AgentId) -> Result<Value> {
    core.roster.get(id).map(|agent| agent_as_json(core, agent)).ok_or_else(agent_gone)
}

fn agent_as_json(core: &Core, agent: &Agent) -> Value {
    let id = agent.id();
    let age = core.clock.unix_ms() - agent.identity.created_at;
    json!({
        "id": id.to_string(),
        "number": agent.identity.ordinal,
        "name": agent.identity.name,
        "parent": core.roster.parent(id).map(|parent| parent.to_string()),
        "status": agent.status().name(),
        "activity": activity_as_json(core, agent),
        "model": agent.talk.endpoint.full_name(),
        "unread": agent.unread,
        "queued": agent.queue.len(),
        "tokens": agent.used.input + agent.used.output,
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

fn terminal_as_json(core: &Core, id: TerminalId, terminal: &Terminal) -> Value {
    json!({
        "number": id.0,
        "agent": terminal.focus.to_string(),
        "label": core.label_of(terminal.focus),
        "columns": terminal.size.0,
        "rows": terminal.size.1,
        "read_only": terminal.mode.is_read_only,
        "attached": terminal.mode.is_attached,
        "since": terminal.since,
    })
}

fn require_text(text: &str) -> Result<()> {
    if text.trim().is_empty() { Err(usage("nothing to send: the text is empty")) } else { Ok(()) }
}

fn usage(message: &str) -> Error {
    Error::new(ErrorKind::Usage, message)
}
