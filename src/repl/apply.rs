//! The only writer of the roster and the store: carries out what agents, commands and tools asked for.

use crate::agent::{Agent, Effect, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, MessageId};
use crate::domain::chunk::Chunk;
use crate::domain::flow::{AgentOutcome, Change, InputResult};
use crate::domain::history::History;
use crate::domain::message::{Body, Message};
use crate::domain::scrollback::LineKind;
use crate::repl::{IDLE_CONNECTIONS, Repl, TerminalId, Turn};
use crate::store::{Store, as_typed};

/// A way to write to the log: adding to it, ending a reply, ending a turn.
pub(super) type Write = fn(&Store, AgentId, Vec<Body>, i64) -> Result<Vec<Message>>;

impl Repl {
    /// Leaves nothing: what is asked for next, by a key perhaps, comes behind all of it.
    pub(super) fn apply_effects(&mut self) {
        while let Some((agent_id, effect)) = self.outbox.pop() {
            self.shared.trace.effect(agent_id, &effect);
            self.apply_effect(agent_id, effect);
        }
    }

    fn apply_effect(&mut self, agent_id: AgentId, effect: Effect) {
        if matches!(effect, Effect::Settled(_)) {
            self.on_turn_ended(agent_id);
        }
        let Some(effect) = self.divert_to_slice(agent_id, effect) else { return };
        let Some(effect) = self.divert_to_team(agent_id, effect) else { return };
        match effect {
            Effect::Persist(bodies) => self.persist(agent_id, bodies, Store::append),
            Effect::Settle(bodies) => self.persist(agent_id, bodies, Store::settle_reply),
            Effect::Finish(bodies) => self.persist(agent_id, bodies, Store::finish_turn),
            Effect::Checkpoint { text, thinking } => self.keep_checkpoints((agent_id, text, thinking)),
            Effect::Request => self.roster.queue_for_slot(agent_id),
            Effect::Limited { provider, until, reason } => self.limiter.pause(&provider, until, &reason),
            Effect::Answered(provider) => self.limiter.on_answered(&provider, agent_id),
            Effect::KeyRefused { provider, run } => self.on_key_refused(agent_id, &provider, run),
            // The question is part of the agent, and its change of state has been noticed already.
            Effect::Question => {}
            Effect::ToolRequest(call, request) => self.on_request(agent_id, call, request),
            Effect::WaitOver(call) => self.end_wait(agent_id, &call),
            Effect::ReturnText(text) => self.return_text(agent_id, &as_typed(&text)),
            Effect::Moved(_, to) => self.on_moved(agent_id, to),
            Effect::Settled(outcome) => self.on_settled(agent_id, &outcome),
        }
    }

    /// Keeps a piece of a reply, and in the same transaction those of other agents that come right behind it.
    fn keep_checkpoints(&mut self, first: (AgentId, String, String)) {
        let mut pieces = vec![first];
        while let Some((agent_id, effect)) = self.outbox.pop_checkpoint() {
            self.shared.trace.effect(agent_id, &effect);
            if let Effect::Checkpoint { text, thinking } = effect {
                pieces.push((agent_id, text, thinking));
            }
        }
        pieces.retain(|(agent_id, ..)| !self.is_summary_job(*agent_id));
        let store = &self.shared.store;
        let all = pieces.iter().map(|(agent_id, text, thinking)| (*agent_id, text.as_str(), thinking.as_str()));
        if store.append_partials(all).is_err() {
            // One that cannot be kept must not take the others with it.
            for (agent_id, text, thinking) in pieces {
                self.keep_checkpoint(agent_id, &text, &thinking);
            }
        }
    }

    /// Writes to the log and tells the agent. What cannot be written stays in memory, and the person is told.
    pub(super) fn persist(&mut self, agent_id: AgentId, bodies: Vec<Body>, write: Write) {
        let now = self.shared.clock.unix_ms();
        let messages = write(&self.shared.store, agent_id, bodies.clone(), now).unwrap_or_else(|error| {
            self.unsaved += bodies.len();
            self.note(agent_id, LineKind::Error, &format!("not saved, only in memory: {error}"));
            let last = self.roster.get(agent_id).and_then(|agent| Some(agent.talk.history.as_ref()?.last_id()));
            let unsaved = |body| Message { id: last.unwrap_or_default(), body, created_at: now };
            bodies.into_iter().map(unsaved).collect()
        });
        self.roster.with(agent_id, |agent| agent.remember(messages));
    }

    fn keep_checkpoint(&mut self, agent_id: AgentId, text: &str, thinking: &str) {
        if let Err(error) = self.shared.store.append_partial(agent_id, text, thinking) {
            self.note(agent_id, LineKind::Error, &error.message);
            self.roster.with(agent_id, |agent| agent.unkeep(text.len(), thinking.len()));
        }
    }

    fn on_moved(&mut self, agent_id: AgentId, to: State) {
        if to == State::Idle {
            self.roster.leave_send_queue(agent_id);
        }
        if matches!(to, State::Idle | State::WaitingForLlm) {
            self.unpark(agent_id);
        }
    }

    fn on_settled(&mut self, agent_id: AgentId, outcome: &AgentOutcome) {
        self.keep_connection(agent_id);
        // After a cut or an error the person decides whether the queue goes on.
        if *outcome == AgentOutcome::Completed {
            self.resume(agent_id);
        }
        self.check_mail_waits();
    }

    /// Keeps the connections of the agents that became idle last, and closes the others.
    fn keep_connection(&mut self, agent_id: AgentId) {
        self.idle_connections.retain(|one| *one != agent_id);
        self.idle_connections.push_back(agent_id);
        let now = self.shared.clock.now();
        while self.idle_connections.len() > IDLE_CONNECTIONS {
            let Some(longest) = self.idle_connections.pop_front() else { return };
            self.with_agent(longest, |agent, _| {
                if agent.state() == State::Idle {
                    agent.connection().close(now);
                }
            });
        }
    }

    /// What a line came to that was entered at this terminal.
    ///
    /// # Errors
    /// It cannot be carried out; the house is as it was, and the line is the person's again.
    pub(super) fn carry_out(
        &mut self,
        origin: Option<TerminalId>,
        agent_id: AgentId,
        result: InputResult,
    ) -> Result<Turn> {
        let note = match result {
            InputResult::Exit => return Ok(self.leave_at(origin)),
            InputResult::Detach => self.detach_at(origin).map(|()| None)?,
            InputResult::Continue(note) => note,
            InputResult::NewState(change, note) => self.apply_change(origin, agent_id, change).map(|()| note)?,
            InputResult::Message(text) => self.apply_change(origin, agent_id, Change::Submit(text)).map(|()| None)?,
        };
        if let Some(note) = note {
            self.after_commit(move |repl| repl.tell(origin, agent_id, LineKind::Note, &note));
        }
        Ok(Turn::Continue)
    }

    pub(super) fn apply_or_say(&mut self, origin: Option<TerminalId>, agent_id: AgentId, change: Change) -> bool {
        let outcome = self.apply_change(origin, agent_id, change);
        if let Err(error) = &outcome {
            self.tell(origin, agent_id, LineKind::Error, &error.message);
        }
        outcome.is_ok()
    }

    /// Carries a change out, or leaves everything as it was and says why. It concerns one agent, and of the terminals only
    /// the one from which it was asked for, if that is still there.
    pub(super) fn apply_change(&mut self, origin: Option<TerminalId>, agent_id: AgentId, change: Change) -> Result<()> {
        self.shared.trace.change(origin, agent_id, &change);
        if !change.only_looks() {
            self.require_writing()?;
        }
        if origin.is_some_and(|at| self.is_watcher(at)) && !change.concerns_nobody_else() {
            return Err(Error::new(
                ErrorKind::Usage,
                "this terminal is read-only: nothing can be sent or changed here",
            ));
        }
        match change {
            Change::Fork { prompt, name, model } => self.fork_by_person(origin, agent_id, prompt, name, model),
            Change::Environment(spec) => self.environment_by_person(origin, agent_id, spec),
            Change::Kill { agent_id: victim, cascade } => self.kill(victim, cascade),
            Change::Name(name) => self.name(agent_id, name),
            Change::Clear => self.log_event(agent_id, Body::Clear),
            Change::Mark(label) => self.log_event(agent_id, Body::Mark(label)),
            Change::Rewind(label) => self.rewind(agent_id, label.as_deref()),
            Change::Slice(spec) => self.slice(origin, agent_id, &spec),
            #[cfg(feature = "coordinator")]
            Change::Team(line) => self.team_by_person(agent_id, &line),
            #[cfg(feature = "coordinator")]
            Change::ShowTeam => self.show_team(origin, agent_id),
            #[cfg(not(feature = "coordinator"))]
            Change::Team(_) | Change::ShowTeam => Err(Error::left_out("coordinator")),
            Change::Send { to, body } => self.send_mail(agent_id, to, &body).map(drop),
            Change::ReadMail(id) => self.show_mail(agent_id, id),
            Change::DeleteMail(id) => self.delete_mail(agent_id, id),
            Change::Switch(to) => self.switch(origin, to),
            Change::Submit(text) => self.submit(origin, agent_id, text),
            Change::Interrupt => {
                self.drop_parked(agent_id);
                if self.roster.get(agent_id).is_some_and(|agent| agent.state() == State::Idle) {
                    self.cancel_slice(agent_id);
                    self.team.interrupt_runs_of(agent_id, self.shared.clock.now());
                }
                self.with_agent(agent_id, Agent::interrupt).ok_or_else(agent_gone)
            }
            Change::Answer { question, allowed } => {
                self.with_agent(agent_id, |agent, context| agent.answer(question, allowed, context))
                    .ok_or_else(agent_gone)?;
                Ok(())
            }
            Change::Enqueue(line) => self.enqueue(origin, agent_id, line, true),
            Change::Unqueue => self.take_back_newest(agent_id),
            Change::EditQueue(edit) => self.edit_queue(agent_id, edit),
            Change::Resume => {
                self.resume(agent_id);
                Ok(())
            }
            Change::TryNow => self.try_now(self.worker(agent_id)).ok_or_else(agent_gone),
            Change::Model(full_name) => self.set_model(agent_id, &full_name),
            Change::Thinking(thinking) => self.set_thinking(agent_id, thinking),
            Change::System(system) => self.set_system(agent_id, system),
            Change::Copy(text) => self.copy(origin, &text),
            Change::Export { path, text } => self.export(agent_id, &path, &text),
        }
    }

    /// Text is the person's again: in front of what they have typed meanwhile.
    pub(super) fn return_text(&mut self, agent_id: AgentId, text: &str) {
        self.roster.with(agent_id, |agent| {
            let typed = agent.view.draft.take();
            let between = if typed.is_empty() { "" } else { "\n" };
            agent.view.draft.set(&format!("{text}{between}{typed}"));
            agent.view.touch();
        });
        self.keep_draft(agent_id);
    }

    fn switch(&mut self, origin: Option<TerminalId>, to: AgentId) -> Result<()> {
        if self.roster.get(to).is_none() {
            return Err(agent_gone());
        }
        if let Some(at) = origin {
            self.bring_to_screen(at, to);
        }
        Ok(())
    }

    /// Reads an agent's conversation from the store, if that was not done yet.
    pub(super) fn load(&mut self, agent_id: AgentId) -> Result<()> {
        self.load_before(agent_id, MessageId(i64::MAX))
    }

    /// The same without this message and what came after it: it is about to be told.
    pub(super) fn load_before(&mut self, agent_id: AgentId, first: MessageId) -> Result<()> {
        if self.roster.get(agent_id).is_none_or(|agent| agent.talk.history.is_some()) {
            return Ok(());
        }
        let (mut messages, damaged) = self.shared.store.replay(agent_id)?;
        messages.retain(|message| message.id < first);
        self.roster.with(agent_id, |agent| {
            agent.talk.history = Some(History::from_messages(messages));
            for words in damaged {
                agent.emit_aside(&Chunk::Error { kind: ErrorKind::Store.name().into(), message: words });
            }
        });
        Ok(())
    }
}

pub(super) fn agent_gone() -> Error {
    Error::new(ErrorKind::Usage, "this agent is gone: /agents lists those that are there")
}
