//! What a request does to the house: the same as a command, with the same rules. An error is an answer, and the connection
//! goes on.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::ClientState;
use crate::agent::{Agent, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::TerminalId;
use crate::commands;
use crate::domain::chunk::Position;
use crate::domain::flow::{Change, Origin};
use crate::domain::wire::{Request, Response};
use crate::repl::core::agent_gone;
use crate::repl::{Repl, Turn};

/// How a request is answered.
pub(super) enum Answer {
    /// At once.
    Now(Value),
    /// By what comes; or not at all.
    Later,
    /// At once, and then the house is left.
    Leave,
}

impl Repl {
    /// A client has said this.
    pub(super) fn on_line(&mut self, number: u64, line: &[u8]) -> Turn {
        if line.trim_ascii().is_empty() {
            return Turn::Continue;
        }
        let answer = Request::read(line).and_then(|ask| self.carry_out_ask(number, ask));
        // What one request asked for has happened before the next one is looked at.
        self.apply_effects();
        let (told, turn) = match answer {
            Ok(Answer::Later) => return Turn::Continue,
            Ok(Answer::Now(value)) => (Response::Done(value), Turn::Continue),
            Ok(Answer::Leave) => (Response::Done(Value::Null), Turn::Exit),
            Err(error) => (Response::from(&error), Turn::Continue),
        };
        // A terminal speaks without waiting for answers: one that takes nothing is not told what it did wrong.
        if let Some(client) = self.serving.clients.get_mut(&number).filter(|client| client.connection.is_ready()) {
            client.tell(&told);
        }
        turn
    }

    fn carry_out_ask(&mut self, number: u64, ask: Request) -> Result<Answer> {
        if let Some(at) = self.terminal_of(number) {
            return self.on_terminal_line(at, ask).map(|()| Answer::Later);
        }
        if matches!(ask, Request::Cut) {
            return self.cut_turn(number).map(|()| Answer::Later);
        }
        if self.has_turn(number) {
            return Err(usage("a turn is under way for this client: it can be cut, and nothing else"));
        }
        match ask {
            Request::Keys { .. } | Request::Size { .. } | Request::Redraw => {
                Err(usage("no terminal is attached here: say \"attach\" first"))
            }
            Request::Attach { agent, is_read_only, terminal } => {
                let at = self.attach_terminal(agent.as_deref(), is_read_only, &terminal)?;
                Ok(self.begin(number, ClientState::Terminal(at)))
            }
            Request::Logs { agent, from, last, follows } => {
                let state = self.begin_logs(&agent, from.as_ref(), last, follows)?;
                Ok(self.begin(number, state))
            }
            Request::Turn { agent, text, max_requests } => {
                let state = self.begin_turn_for_client(number, &agent, text, max_requests)?;
                Ok(self.begin(number, state))
            }
            Request::Wait { agent, seconds } => {
                let state = self.begin_client_wait(&agent, seconds)?;
                Ok(self.begin(number, state))
            }
            Request::Stop => Ok(Answer::Leave),
            other => self.answer_at_once(other).map(Answer::Now),
        }
    }

    fn begin(&mut self, number: u64, state: ClientState) -> Answer {
        self.serving.clients.entry(number).and_modify(|client| client.state = state);
        Answer::Later
    }

    fn answer_at_once(&mut self, ask: Request) -> Result<Value> {
        match ask {
            Request::Agents => Ok(self.core.roster.iter().map(|agent| self.agent_as_json(agent)).collect()),
            Request::Sessions => Ok(self.terminals.ids().into_iter().map(|at| self.terminal_as_json(at)).collect()),
            Request::New { name, model } => {
                let id = self.create(name.as_deref(), model.as_deref())?;
                Ok(self.core.roster.get(id).map(|agent| self.agent_as_json(agent)).unwrap_or_default())
            }
            Request::Show { agent } => self.show_for_client(agent.as_deref()),
            Request::Model { agent, model } => {
                let agent_id = commands::agent_called(&self.core.roster, &agent)?;
                self.apply_change(Origin::Internal, agent_id, Change::Model(model)).map(|()| Value::Null)
            }
            Request::Send { agent, text } => self.send_for_client(&agent, text),
            Request::Kill { agent, cascade } => {
                let agent_id = commands::agent_called(&self.core.roster, &agent)?;
                self.apply_change(Origin::Internal, agent_id, Change::Kill { agent_id, cascade }).map(|()| Value::Null)
            }
            Request::Interrupt { agent } => self.interrupt_for_client(&agent),
            _ => unreachable!("everything else is not answered at once"),
        }
    }

    /// What typing it would do, but never a command: a text that begins with a slash is said as it stands.
    fn send_for_client(&mut self, agent: &str, text: String) -> Result<Value> {
        let agent_id = commands::agent_called(&self.core.roster, agent)?;
        if text.trim().is_empty() {
            return Err(usage("there is nothing to send: the text is empty"));
        }
        self.apply_change(Origin::Internal, agent_id, Change::Submit(text))?;
        let queued = self.core.roster.get(agent_id).ok_or_else(agent_gone)?.queue.len();
        Ok(json!({"queued": queued}))
    }

    /// Without a name, who was spoken to last; agent 0 where nobody was.
    fn show_for_client(&self, agent: Option<&str>) -> Result<Value> {
        let agent_id = match agent {
            Some(agent) => commands::agent_called(&self.core.roster, agent)?,
            None => self.last_spoken_to()?,
        };
        self.core.roster.get(agent_id).map(|agent| self.agent_as_json(agent)).ok_or_else(agent_gone)
    }

    /// Told whether there was anything to interrupt.
    fn interrupt_for_client(&mut self, agent_id: &str) -> Result<Value> {
        let agent_id = commands::agent_called(&self.core.roster, agent_id)?;
        let is_under_way = |agent: &Agent| agent.state() != State::Idle || agent.summaries() > 0;
        let is_interrupted = self.core.roster.get(agent_id).is_some_and(is_under_way);
        self.apply_change(Origin::Internal, agent_id, Change::Interrupt)?;
        Ok(json!({"interrupted": is_interrupted}))
    }

    fn begin_logs(
        &mut self,
        agent_id: &str,
        from: Option<&Position>,
        last: Option<u64>,
        follows: bool,
    ) -> Result<ClientState> {
        let agent_id = commands::agent_called(&self.core.roster, agent_id)?;
        let viewer = match (from, last) {
            (None, Some(count)) => self.attach_to_last(agent_id, count)?,
            (from, _) => self.attach(agent_id, from)?,
        };
        let newest = self.core.roster.get(agent_id).map_or(0, |agent| agent.output.next());
        Ok(ClientState::Reading { viewer, until: if follows { u64::MAX } else { newest } })
    }

    fn begin_client_wait(&mut self, agent_id: &str, seconds: Option<f64>) -> Result<ClientState> {
        let root = self.core.roster.nth(0).ok_or_else(agent_gone)?;
        let agent_id = self.core.agent_once_named(root, agent_id)?;
        // More seconds than can be counted are as good as for ever.
        let longest = seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        Ok(ClientState::Waiting { agent_id, until: longest.map(|longest| self.core.clock.now() + longest) })
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

    /// What it does, in the words of its screen but without its keys; none if it does nothing.
    fn activity_as_json(&self, agent: &Agent) -> Option<String> {
        match agent.question() {
            Some(asked) => Some(format!("asks: {}", asked.question.title)),
            None => agent.view.is_spinning().then(|| self.activity(agent.id(), false)),
        }
    }

    fn terminal_as_json(&self, at: TerminalId) -> Value {
        let Some(terminal) = self.terminals.get(at) else { return Value::Null };
        json!({
            "number": at.0,
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

pub(super) fn usage(words: &str) -> Error {
    Error::new(ErrorKind::Usage, words)
}
