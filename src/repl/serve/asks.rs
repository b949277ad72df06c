//! What a request does to the house: the same as a command, with the same rules. An error is an answer, and the connection
//! goes on.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::Doing;
use crate::agent::{Agent, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::commands;
use crate::domain::flow::Change;
use crate::domain::wire::{Ask, Place, Told};
use crate::repl::apply::nobody;
use crate::repl::{Repl, SeatId, Turn};

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
        let answer = Ask::read(line).and_then(|ask| self.carry_out_ask(number, ask));
        // What one request asked for has happened before the next one is looked at.
        self.apply_outbox();
        let (told, turn) = match answer {
            Ok(Answer::Later) => return Turn::Continue,
            Ok(Answer::Now(value)) => (Told::Done(value), Turn::Continue),
            Ok(Answer::Leave) => (Told::Done(Value::Null), Turn::Exit),
            Err(error) => (Told::from(&error), Turn::Continue),
        };
        // A terminal speaks without waiting for answers: one that takes nothing is not told what it did wrong.
        if let Some(client) = self.serving.clients.get_mut(&number).filter(|client| client.connection.is_ready()) {
            client.tell(&told);
        }
        turn
    }

    fn carry_out_ask(&mut self, number: u64, ask: Ask) -> Result<Answer> {
        if let Some(at) = self.seat_of(number) {
            return self.on_terminal_line(at, ask).map(|()| Answer::Later);
        }
        if matches!(ask, Ask::Cut) {
            return self.cut_turn(number).map(|()| Answer::Later);
        }
        if self.has_turn(number) {
            return Err(usage("a turn is under way for this client: it can be cut, and nothing else"));
        }
        match ask {
            Ask::Keys(_) | Ask::Size(..) | Ask::Redraw => {
                Err(usage("no terminal is attached here: say \"attach\" first"))
            }
            Ask::Attach { who, is_read_only, terminal } => {
                let at = self.attach_terminal(who.as_deref(), is_read_only, &terminal)?;
                Ok(self.begin(number, Doing::Sitting(at)))
            }
            Ask::Logs { who, from, last, follows } => {
                let doing = self.begin_logs(&who, from.as_ref(), last, follows)?;
                Ok(self.begin(number, doing))
            }
            Ask::Turn { who, text, most } => {
                let doing = self.begin_turn_for_client(&who, text, most)?;
                Ok(self.begin(number, doing))
            }
            Ask::Wait { who, seconds } => {
                let doing = self.begin_client_wait(&who, seconds)?;
                Ok(self.begin(number, doing))
            }
            Ask::Stop => Ok(Answer::Leave),
            other => self.answer_at_once(other).map(Answer::Now),
        }
    }

    fn begin(&mut self, number: u64, doing: Doing) -> Answer {
        self.serving.clients.entry(number).and_modify(|client| client.doing = doing);
        Answer::Later
    }

    fn answer_at_once(&mut self, ask: Ask) -> Result<Value> {
        match ask {
            Ask::Agents => Ok(self.roster.iter().map(|agent| self.agent_as_json(agent)).collect()),
            Ask::Sessions => Ok(self.seats.ids().into_iter().map(|at| self.seat_as_json(at)).collect()),
            Ask::New { name, model } => {
                let id = self.create(name.as_deref(), model.as_deref())?;
                Ok(self.roster.get(id).map(|agent| self.agent_as_json(agent)).unwrap_or_default())
            }
            Ask::Show { who } => self.show_for_client(who.as_deref()),
            Ask::Model { who, model } => {
                let who = commands::agent_called(&self.roster, &who)?;
                self.apply_change(None, who, Change::Model(model)).map(|()| Value::Null)
            }
            Ask::Send { who, text } => self.send_for_client(&who, text),
            Ask::Kill { who, cascade } => {
                let who = commands::agent_called(&self.roster, &who)?;
                self.apply_change(None, who, Change::Kill { who, cascade }).map(|()| Value::Null)
            }
            Ask::Interrupt { who } => self.interrupt_for_client(&who),
            _ => unreachable!("everything else is not answered at once"),
        }
    }

    /// What typing it would do, but never a command: a text that begins with a slash is said as it stands.
    fn send_for_client(&mut self, who: &str, text: String) -> Result<Value> {
        let who = commands::agent_called(&self.roster, who)?;
        if text.trim().is_empty() {
            return Err(usage("there is nothing to send: the text is empty"));
        }
        self.apply_change(None, who, Change::Submit(text))?;
        let queued = self.roster.get(who).ok_or_else(nobody)?.queue.len();
        Ok(json!({"queued": queued}))
    }

    /// Without a name, who was spoken to last; agent 0 where nobody was.
    fn show_for_client(&self, who: Option<&str>) -> Result<Value> {
        let who = match who {
            Some(who) => commands::agent_called(&self.roster, who)?,
            None => self.last_spoken_to()?,
        };
        self.roster.get(who).map(|agent| self.agent_as_json(agent)).ok_or_else(nobody)
    }

    /// Told whether there was anything to interrupt.
    fn interrupt_for_client(&mut self, who: &str) -> Result<Value> {
        let who = commands::agent_called(&self.roster, who)?;
        let is_under_way = |agent: &Agent| agent.state() != State::Idle || agent.summaries() > 0;
        let is_interrupted = self.roster.get(who).is_some_and(is_under_way);
        self.apply_change(None, who, Change::Interrupt)?;
        Ok(json!({"interrupted": is_interrupted}))
    }

    fn begin_logs(&mut self, who: &str, from: Option<&Place>, last: Option<u64>, follows: bool) -> Result<Doing> {
        let who = commands::agent_called(&self.roster, who)?;
        let viewer = match (from, last) {
            (Some(_), Some(_)) => return Err(usage("\"last\" and a place (\"epoch\", \"n\") exclude each other")),
            (None, Some(count)) => self.attach_to_last(who, count)?,
            (from, None) => self.attach(who, from)?,
        };
        let newest = self.roster.get(who).map_or(0, |agent| agent.output.next());
        Ok(Doing::Reading { viewer, until: if follows { u64::MAX } else { newest } })
    }

    fn begin_client_wait(&mut self, who: &str, seconds: Option<f64>) -> Result<Doing> {
        let root = self.roster.nth(0).ok_or_else(nobody)?;
        let who = self.agent_once_named(root, who)?;
        // More seconds than can be counted are as good as for ever.
        let longest = seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        Ok(Doing::Waiting { who, until: longest.map(|longest| self.shared.clock.now() + longest) })
    }

    fn agent_as_json(&self, agent: &Agent) -> Value {
        let id = agent.id();
        let age = self.shared.clock.unix_ms() - agent.identity.created_at;
        json!({
            "id": id.to_string(),
            "number": agent.identity.ordinal,
            "name": agent.identity.name,
            "parent": self.roster.parent(id).map(|parent| parent.to_string()),
            "status": agent.status().name(),
            "doing": self.doing_as_json(agent),
            "model": agent.talk.endpoint.full_name(),
            "unread": agent.unread,
            "queued": agent.queue.len(),
            "tokens": agent.used.input + agent.used.output,
            "created_at": agent.identity.created_at,
            "age": age.max(0) / 1000,
        })
    }

    /// What it does, in the words of its screen but without its keys; none if it does nothing.
    fn doing_as_json(&self, agent: &Agent) -> Option<String> {
        match agent.question() {
            Some(asked) => Some(format!("asks: {}", asked.question.title)),
            None => agent.view.is_spinning().then(|| self.doing(agent.id(), false)),
        }
    }

    fn seat_as_json(&self, at: SeatId) -> Value {
        let Some(seat) = self.seats.get(at) else { return Value::Null };
        json!({
            "number": at.number(),
            "agent": seat.focus.to_string(),
            "label": self.label_of(seat.focus),
            "columns": seat.size.0,
            "rows": seat.size.1,
            "read_only": seat.manners.is_read_only,
            "attached": seat.manners.is_attached,
            "since": seat.since,
        })
    }
}

pub(super) fn usage(words: &str) -> Error {
    Error::new(ErrorKind::Usage, words)
}
