//! What the loop sends: answers to requests, conversations, questions.

use std::path::Path;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::editor::{Editor, server_lost};
use super::methods::canonical;
use super::purpose::Purpose;
use super::session::{Prompt, Session, text_of};
use crate::base::clock::utc_time;
use crate::base::error::Result;
use crate::base::json_rpc::{Fault, NOT_FOUND};
use crate::cli::links::News;
use crate::domain::chunk::{Chunk, Position};
use crate::domain::mcp::ClientServer;
use crate::domain::wire::{Followed, Request, Response};

/// Conversations in one answer.
const PAGE: usize = 100;

impl Editor<'_> {
    /// Handles what arrived on a connection.
    pub(super) fn handle_news(&mut self, number: u64, news: News) -> Result<()> {
        let Some(purpose) = self.peer.links.purpose(number).cloned() else { return Ok(()) };
        let outcome = match news {
            News::Response(Response::Chunk(line), _) => {
                self.on_chunk(&purpose, &line);
                return Ok(());
            }
            News::Response(Response::Missed(count), _) => {
                if !matches!(purpose, Purpose::Turn { .. }) {
                    self.note(&format!("{count} updates were dropped because the editor reads slowly"));
                }
                return Ok(());
            }
            News::Response(Response::Questions(questions), _) => {
                self.on_questions(questions);
                return Ok(());
            }
            News::Response(Response::Commands(commands), _) => {
                if let Purpose::Commands { session } = &purpose {
                    self.on_commands(session, &commands);
                }
                return Ok(());
            }
            // The connection ends when the store is free.
            News::Response(..) if purpose == Purpose::Questions => return Ok(()),
            News::Response(Response::Done(value), _) => Ok(value),
            News::Response(Response::Refused { kind, message }, _) => Err(Fault::of_kind(&kind, message)),
            News::Response(..) => return Ok(()),
            News::Lost => {
                self.is_lost |=
                    matches!(purpose, Purpose::Follow { .. } | Purpose::Commands { .. } | Purpose::Questions);
                Err(server_lost())
            }
        };
        self.peer.links.close(&mut self.peer.host, number)?;
        self.on_outcome(purpose, outcome);
        Ok(())
    }

    /// A request has been carried out, or not.
    fn on_outcome(&mut self, purpose: Purpose, outcome: std::result::Result<Value, Fault>) {
        match purpose {
            Purpose::New { id, servers } => {
                self.answer(&id.clone(), outcome, |editor, agent| editor.on_created(id, agent, servers));
            }
            Purpose::Models { id, agent, servers } => {
                self.learn_models(&agent, &outcome.unwrap_or_default()["data"]);
                self.begin(&id, &agent, servers);
            }
            Purpose::TakeUp { id, session, cwd, is_replayed, servers } => {
                self.answer(&id.clone(), outcome, |editor, agent| {
                    editor.on_taken_up(&id, (&session, &cwd), (&agent, servers), is_replayed)
                });
            }
            Purpose::Replay { id, session } => self.answer(&id, outcome, |editor, position| {
                if let Some(known) = editor.sessions.get_mut(&session) {
                    known.next_chunk = position["n"].as_u64().unwrap_or_default();
                }
                editor.follow(&session, Position::deserialize(&position).ok());
                Ok(editor.on_opened(&session))
            }),
            Purpose::SetOption { id, session, is_mode } => self.answer(&id.clone(), outcome, |editor, _| {
                let purpose = Purpose::ReadOptions { id, session: session.clone(), is_mode };
                editor.send(&Request::show(&session), purpose).map(|_| None)
            }),
            Purpose::ReadOptions { id, session, is_mode } => self.answer(&id, outcome, |editor, agent| {
                let known = editor.sessions.get_mut(&session).ok_or_else(|| Fault::params("the session was closed"))?;
                known.options = known.options.refreshed(&agent);
                let options = known.options.to_json();
                Ok(Some(if is_mode { json!({}) } else { json!({ "configOptions": options }) }))
            }),
            Purpose::Delete { id, session, step } => {
                let answered = self.on_deletion(&id, (session, step), outcome);
                self.answer(&id, answered.map(Value::from), |_, answer| Ok(Some(answer).filter(|it| !it.is_null())));
            }
            Purpose::List { id, directory, start } => self.answer(&id, outcome, |_, mut response| {
                let mut conversations = response["data"].take();
                if let (Some(directory), Some(all)) = (directory, conversations.as_array_mut()) {
                    all.retain(|row| Path::new(&text_of(row, "directory")) == directory);
                }
                Ok(Some(conversations_page(&conversations, start)))
            }),
            Purpose::Follow { session } => {
                if let Some(known) = self.sessions.get_mut(&session) {
                    (known.follow, known.next_chunk) = (None, 0);
                    self.finish_prompt(&session);
                }
            }
            Purpose::Commands { session } => {
                if let Some(known) = self.sessions.get_mut(&session) {
                    known.offer = None;
                }
                if let Err(fault) = outcome {
                    self.note(&fault.message);
                }
            }
            Purpose::Image { session } => self.on_image(&session, outcome),
            Purpose::Turn { session } => self.on_turn_ended(&session, outcome),
            Purpose::Refresh { session } => self.on_refreshed(&session, outcome),
            Purpose::Questions => self.questions = None,
            Purpose::Answer { question } => self.on_answered(question, outcome),
            Purpose::Aside => {}
        }
    }

    /// Answers a request of the editor.
    fn answer(
        &mut self,
        id: &Value,
        outcome: std::result::Result<Value, Fault>,
        take: impl FnOnce(&mut Self, Value) -> std::result::Result<Option<Value>, Fault>,
    ) {
        match outcome.and_then(|value| take(self, value)) {
            Ok(Some(result)) => self.respond(id, result),
            Ok(None) => {}
            Err(fault) => self.fail(id, &fault),
        }
    }

    /// An agent is there for a new session. Without a model it gets the first of its server, whose list is asked for so that
    /// another can be chosen.
    fn on_created(
        &mut self,
        id: Value,
        agent: Value,
        servers: Vec<ClientServer>,
    ) -> std::result::Result<Option<Value>, Fault> {
        let model = text_of(&agent, "model");
        if !model.ends_with('/') || self.models.iter().any(|known| known.starts_with(&model)) {
            self.begin(&id, &agent, servers);
            return Ok(None);
        }
        let request = Request::run_at(&text_of(&agent, "id"), ["model"]);
        self.send(&request, Purpose::Models { id, agent, servers }).map(|_| None)
    }

    /// Adds what the server of an agent without a model lists.
    fn learn_models(&mut self, agent: &Value, listed: &Value) {
        let provider = text_of(agent, "model");
        let listed = listed.as_array().into_iter().flatten().filter_map(Value::as_str);
        let new = listed.filter(|model| model.starts_with(&provider)).map(str::to_owned);
        self.models = self.models.iter().cloned().chain(new).collect();
    }

    /// A session was created. Its answer comes before the first update.
    fn begin(&mut self, id: &Value, agent: &Value, servers: Vec<ClientServer>) {
        let session = text_of(agent, "id");
        let mut known = Session::new(agent, servers, self.models.clone());
        known.is_unused = true;
        let (modes, options) = (known.options.modes(), known.options.to_json());
        self.sessions.insert(session.clone(), known);
        self.follow(&session, None);
        self.offer(&session);
        self.respond(id, json!({"sessionId": session, "modes": modes, "configOptions": options}));
        self.announce_commands(&session);
    }

    fn announce_commands(&mut self, session: &str) {
        if !self.commands.is_empty() {
            let update = self.commands_update(session);
            self.update(session, vec![update]);
        }
    }

    /// The skills and prompts of a session are these from now on.
    fn on_commands(&mut self, session: &str, commands: &Value) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        let commands = commands.as_array().cloned().unwrap_or_default();
        if std::mem::replace(&mut known.commands, commands.clone()) != commands {
            let update = self.commands_update(session);
            self.update(session, vec![update]);
        }
    }

    fn on_taken_up(
        &mut self,
        id: &Value,
        (session, cwd): (&str, &str),
        (agent, servers): (&Value, Vec<ClientServer>),
        is_replayed: bool,
    ) -> std::result::Result<Option<Value>, Fault> {
        if text_of(agent, "id") != session {
            return Err(Fault::new(NOT_FOUND, format!("no conversation {session:?}: session/list lists them")));
        }
        let directory = text_of(agent, "directory");
        if canonical(Path::new(&directory)) != Path::new(cwd) {
            return Err(Fault::params(format!("this conversation works in {directory}: open it there")));
        }
        let known = Session::new(agent, servers, self.models.clone());
        let before = self.sessions.insert(session.to_owned(), known).unwrap_or_default();
        before.follow.into_iter().for_each(|follow| self.peer.links.set_purpose(follow, Purpose::Aside));
        before.offer.map_or(Ok(()), |offer| self.peer.links.close(&mut self.peer.host, offer))?;
        self.offer(session);
        if !is_replayed {
            self.follow(session, None);
            return Ok(self.on_opened(session));
        }
        let agent = session.to_owned();
        let request = Request::Follow(Followed::Chunks { agent, from: None, last: None, goes_on: false });
        self.send(&request, Purpose::Replay { id: id.clone(), session: session.to_owned() }).map(|_| None)
    }

    /// A session was loaded: answers with its options; its questions follow.
    fn on_opened(&mut self, session: &str) -> Option<Value> {
        self.announce_commands(session);
        self.ask();
        let options = &self.sessions.get(session)?.options;
        Some(json!({"modes": options.modes(), "configOptions": options.to_json()}))
    }

    fn on_chunk(&mut self, purpose: &Purpose, line: &Value) {
        let number = line["n"].as_u64().unwrap_or_default();
        let chunk = Chunk::deserialize(line).ok();
        match purpose {
            Purpose::Replay { session, .. } => {
                let known = self.sessions.get_mut(session).zip(chunk);
                let updates = known.map(|(known, chunk)| known.updates(&chunk, true));
                self.update(session, updates.unwrap_or_default());
            }
            Purpose::Follow { session } => {
                let Some(known) = self.sessions.get_mut(session) else { return };
                known.next_chunk = number + 1;
                let updates = chunk.as_ref().map(|chunk| known.updates(chunk, false));
                self.update(session, updates.unwrap_or_default());
                if let Some(Chunk::Error { message, .. } | Chunk::Note(message)) = &chunk {
                    self.note(message);
                }
                self.finish_prompt(session);
            }
            Purpose::Turn { session } => {
                if line["type"] == "wait" {
                    let seconds = line["ms"].as_f64().unwrap_or_default() / 1e3;
                    self.note(&format!("waiting {seconds:.1} s: {}", text_of(line, "text")));
                } else if let Some(prompt) = self.sessions.get_mut(session).and_then(|known| known.prompt.as_mut()) {
                    prompt.end = number + 1;
                    chunk.iter().for_each(|chunk| drop(prompt.summary.on_chunk(chunk)));
                }
            }
            _ => {}
        }
    }

    fn on_image(&mut self, session: &str, outcome: std::result::Result<Value, Fault>) {
        let Some(prompt) = self.sessions.get_mut(session).and_then(|known| known.prompt.as_mut()) else { return };
        match outcome {
            Ok(stored) => {
                prompt.text.push_str(&format!("\n{}", text_of(&stored, "marker")));
                self.advance_prompt(session);
            }
            Err(fault) => self.fail_prompt(session, &fault),
        }
    }

    fn on_turn_ended(&mut self, session: &str, outcome: std::result::Result<Value, Fault>) {
        let Some(prompt) = self.sessions.get_mut(session).and_then(|known| known.prompt.as_mut()) else { return };
        prompt.link = None;
        prompt.outcome = Some(outcome.map(|result| result["limited"] == true));
        self.finish_prompt(session);
    }

    /// Asks for the agent again when everything that happened in the prompt was sent to the editor.
    fn finish_prompt(&mut self, session: &str) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        let (next, is_cut_off) = (known.next_chunk, known.follow.is_none());
        let is_over = |prompt: &&mut Prompt| {
            prompt.outcome.is_some() && prompt.link.is_none() && (is_cut_off || next >= prompt.end)
        };
        let Some(prompt) = known.prompt.as_mut().filter(is_over) else { return };
        // It is not over twice.
        prompt.link = Some(0);
        if self.send(&Request::show(session), Purpose::Refresh { session: session.to_owned() }).is_err() {
            self.end_prompt(session);
        }
    }

    fn on_refreshed(&mut self, session: &str, outcome: std::result::Result<Value, Fault>) {
        if let Some((known, agent)) = self.sessions.get_mut(session).zip(outcome.ok()) {
            let updates = known.refresh(&agent);
            self.update(session, updates);
        }
        self.end_prompt(session);
    }

    fn end_prompt(&mut self, session: &str) {
        let Some(prompt) = self.sessions.get_mut(session).and_then(|known| known.prompt.take()) else { return };
        match prompt.stop_reason() {
            Ok(reason) => self.respond(&prompt.id, prompt.response(reason)),
            Err(fault) => self.fail(&prompt.id, &fault),
        }
    }

    fn on_questions(&mut self, questions: Value) {
        for number in self.permissions.on_listed(questions) {
            self.notify("$/cancel_request", json!({ "requestId": number }));
        }
        self.ask();
    }

    /// Sends the editor the questions of its sessions that it does not have yet.
    fn ask(&mut self) {
        let sessions = &self.sessions;
        let unasked = self.permissions.unasked_questions(&|id| sessions.contains_key(id));
        for asked in unasked {
            let updates = match self.sessions.get_mut(&asked.session) {
                Some(known) => known.announce(&asked.call_id, asked.call, "pending"),
                None => Vec::new(),
            };
            self.update(&asked.session, updates);
            self.request(asked.number, "session/request_permission", asked.params);
        }
    }

    /// The editor has answered a question.
    pub(super) fn on_permission(&mut self, id: &Value, outcome: std::result::Result<Value, Fault>) -> Result<()> {
        let Some(answer) = self.permissions.answer(id, outcome) else { return Ok(()) };
        let has_prompt = self.sessions.get(&answer.session).is_some_and(|known| known.prompt.is_some());
        if answer.is_cancelled && has_prompt {
            return self.cancel(&answer.session);
        }
        if let Err(fault) = self.send(&answer.request, Purpose::Answer { question: answer.question }) {
            self.note(&fault.message);
        }
        Ok(())
    }

    /// An answer that cannot be carried out is a refusal. If the question was closed meanwhile, nothing happens.
    fn on_answered(&mut self, question: String, outcome: std::result::Result<Value, Fault>) {
        let Err(fault) = outcome else { return };
        self.note(&format!("the answer to {question} was not taken: {}", fault.message));
        let reason = format!("--reason=the user's answer could not be taken: {}", fault.message);
        let _ = self.send(&Request::run(["deny", &reason, "--", &question]), Purpose::Aside);
    }

    /// Drops the requests that were running in a server that has ended.
    pub(super) fn abandon_links(&mut self) -> Result<()> {
        for (number, purpose) in self.peer.links.all() {
            self.peer.links.close(&mut self.peer.host, number)?;
            self.on_outcome(purpose, Err(server_lost()));
        }
        Ok(())
    }
}

/// One page of the conversations.
fn conversations_page(conversations: &Value, start: usize) -> Value {
    let all = conversations.as_array().map(Vec::as_slice).unwrap_or_default();
    let page = all.iter().skip(start).take(PAGE);
    let row = |conversation: &Value| {
        json!({
            "sessionId": conversation["id"],
            "cwd": conversation["directory"],
            "title": conversation["title"],
            "updatedAt": conversation["updated_at"].as_i64().and_then(utc_time),
        })
    };
    let sessions: Vec<Value> = page.map(row).collect();
    let next = start.saturating_add(PAGE);
    match next < all.len() {
        true => json!({"sessions": sessions, "nextCursor": next.to_string()}),
        false => json!({ "sessions": sessions }),
    }
}
