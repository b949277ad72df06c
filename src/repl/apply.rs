//! The only writer of the roster and the store: carries out what agents, commands and tools asked for.

use crate::agent::{Agent, Effect, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, MessageId};
use crate::domain::chunk::Chunk;
use crate::domain::flow::{AgentOutcome, Change, InputResult};
use crate::domain::history::History;
use crate::domain::message::{Body, Message};
use crate::domain::scrollback::LineKind;
use crate::repl::{RESTING_CONNECTIONS, Repl, SeatId, Turn};
use crate::store::{Store, as_typed};

/// A way to write to the log: adding to it, ending a reply, ending a turn.
pub(super) type Write = fn(&Store, AgentId, Vec<Body>, i64) -> Result<Vec<Message>>;

impl Repl {
    /// Leaves nothing: what is asked for next, by a key perhaps, comes behind all of it.
    pub(super) fn apply_effects(&mut self) {
        while let Some((who, effect)) = self.outbox.pop() {
            self.shared.trace.effect(who, &effect);
            self.apply_effect(who, effect);
        }
    }

    fn apply_effect(&mut self, who: AgentId, effect: Effect) {
        if matches!(effect, Effect::Settled(_)) {
            self.on_turn_ended(who);
        }
        let Some(effect) = self.divert_to_slice(who, effect) else { return };
        let Some(effect) = self.divert_to_team(who, effect) else { return };
        match effect {
            Effect::Persist(bodies) => self.persist(who, bodies, Store::append),
            Effect::Settle(bodies) => self.persist(who, bodies, Store::settle_reply),
            Effect::Finish(bodies) => self.persist(who, bodies, Store::finish_turn),
            Effect::Checkpoint { text, thinking } => self.keep_checkpoints((who, text, thinking)),
            Effect::Request => self.roster.queue_for_place(who),
            Effect::Limited { provider, until, reason } => self.limiter.pause(&provider, until, &reason),
            Effect::Answered(provider) => self.limiter.on_answered(&provider, who),
            Effect::KeyRefused { provider, run } => self.on_key_refused(who, &provider, run),
            // The question is part of the agent, and its change of state has been noticed already.
            Effect::Question => {}
            Effect::Ask(call, request) => self.on_request(who, call, request),
            Effect::WaitOver(call) => self.end_wait(who, &call),
            Effect::ReturnText(text) => self.return_text(who, &as_typed(&text)),
            Effect::Moved(_, to) => self.on_moved(who, to),
            Effect::Settled(outcome) => self.on_settled(who, &outcome),
        }
    }

    /// Keeps a piece of a reply, and in the same transaction those of other agents that come right behind it.
    fn keep_checkpoints(&mut self, first: (AgentId, String, String)) {
        let mut pieces = vec![first];
        while let Some((who, effect)) = self.outbox.pop_checkpoint() {
            self.shared.trace.effect(who, &effect);
            if let Effect::Checkpoint { text, thinking } = effect {
                pieces.push((who, text, thinking));
            }
        }
        pieces.retain(|(who, ..)| !self.is_errand(*who));
        let store = &self.shared.store;
        let all = pieces.iter().map(|(who, text, thinking)| (*who, text.as_str(), thinking.as_str()));
        if store.append_partials(all).is_err() {
            // One that cannot be kept must not take the others with it.
            for (who, text, thinking) in pieces {
                self.keep_checkpoint(who, &text, &thinking);
            }
        }
    }

    /// Writes to the log and tells the agent. What cannot be written stays in memory, and the person is told.
    pub(super) fn persist(&mut self, who: AgentId, bodies: Vec<Body>, write: Write) {
        let now = self.shared.clock.unix_ms();
        let messages = write(&self.shared.store, who, bodies.clone(), now).unwrap_or_else(|error| {
            self.unsaved += bodies.len();
            self.note(who, LineKind::Error, &format!("not saved, only in memory: {error}"));
            let last = self.roster.get(who).and_then(|agent| Some(agent.talk.history.as_ref()?.last_id()));
            let unsaved = |body| Message { id: last.unwrap_or_default(), body, created_at: now };
            bodies.into_iter().map(unsaved).collect()
        });
        self.roster.with(who, |agent| agent.remember(messages));
    }

    fn keep_checkpoint(&mut self, who: AgentId, text: &str, thinking: &str) {
        if let Err(error) = self.shared.store.append_partial(who, text, thinking) {
            self.note(who, LineKind::Error, &error.message);
            self.roster.with(who, |agent| agent.unkeep(text.len(), thinking.len()));
        }
    }

    fn on_moved(&mut self, who: AgentId, to: State) {
        if to == State::Idle {
            self.roster.leave_line(who);
        }
        if matches!(to, State::Idle | State::WaitingForLlm) {
            self.unpark(who);
        }
    }

    fn on_settled(&mut self, who: AgentId, outcome: &AgentOutcome) {
        self.rest(who);
        // After a cut or an error the person decides whether the queue goes on.
        if *outcome == AgentOutcome::Completed {
            self.resume(who);
        }
        self.look_at_waits();
    }

    /// Keeps the connections of the agents that became idle last, and closes the others.
    fn rest(&mut self, who: AgentId) {
        self.resting.retain(|one| *one != who);
        self.resting.push_back(who);
        let now = self.shared.clock.now();
        while self.resting.len() > RESTING_CONNECTIONS {
            let Some(longest) = self.resting.pop_front() else { return };
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
    pub(super) fn carry_out(&mut self, asker: Option<SeatId>, who: AgentId, result: InputResult) -> Result<Turn> {
        let note = match result {
            InputResult::Exit => return Ok(self.leave_at(asker)),
            InputResult::Detach => self.detach_at(asker).map(|()| None)?,
            InputResult::Continue(note) => note,
            InputResult::NewState(change, note) => self.apply_change(asker, who, change).map(|()| note)?,
            InputResult::Message(text) => self.apply_change(asker, who, Change::Submit(text)).map(|()| None)?,
        };
        if let Some(note) = note {
            self.once_kept(move |repl| repl.tell(asker, who, LineKind::Note, &note));
        }
        Ok(Turn::Continue)
    }

    pub(super) fn apply_or_say(&mut self, asker: Option<SeatId>, who: AgentId, change: Change) -> bool {
        let outcome = self.apply_change(asker, who, change);
        if let Err(error) = &outcome {
            self.tell(asker, who, LineKind::Error, &error.message);
        }
        outcome.is_ok()
    }

    /// Carries a change out, or leaves everything as it was and says why. It concerns one agent, and of the terminals only
    /// the one from which it was asked for, if that is still there.
    pub(super) fn apply_change(&mut self, asker: Option<SeatId>, who: AgentId, change: Change) -> Result<()> {
        self.shared.trace.change(asker, who, &change);
        if !change.only_looks() {
            self.require_writing()?;
        }
        if asker.is_some_and(|at| self.is_watcher(at)) && !change.concerns_nobody_else() {
            return Err(Error::new(
                ErrorKind::Usage,
                "this terminal is read-only: nothing can be sent or changed here",
            ));
        }
        match change {
            Change::Fork { prompt, name, model } => self.fork_by_person(asker, who, prompt, name, model),
            Change::Environment(spec) => self.environment_by_person(asker, who, spec),
            Change::Kill { who: victim, cascade } => self.kill(victim, cascade),
            Change::Name(name) => self.name(who, name),
            Change::Clear => self.log_event(who, Body::Clear),
            Change::Mark(label) => self.log_event(who, Body::Mark(label)),
            Change::Rewind(label) => self.rewind(who, label.as_deref()),
            Change::Slice(spec) => self.slice(asker, who, &spec),
            Change::Team(line) => self.team_by_person(who, &line),
            Change::ShowTeam => self.show_team(asker, who),
            Change::Send { to, body } => self.send_mail(who, to, &body).map(drop),
            Change::ReadMail(id) => self.show_mail(who, id),
            Change::DeleteMail(id) => self.delete_mail(who, id),
            Change::Switch(to) => self.switch(asker, to),
            Change::Submit(text) => self.submit(asker, who, text),
            Change::Interrupt => {
                self.drop_parked(who);
                if self.roster.get(who).is_some_and(|agent| agent.state() == State::Idle) {
                    self.cancel_slice(who);
                    self.team.interrupt_runs_of(who, self.shared.clock.now());
                }
                self.with_agent(who, Agent::interrupt).ok_or_else(nobody)
            }
            Change::Answer { question, allowed } => {
                self.with_agent(who, |agent, context| agent.answer(question, allowed, context)).ok_or_else(nobody)?;
                Ok(())
            }
            Change::Enqueue(line) => self.enqueue(asker, who, line, true),
            Change::Unqueue => self.take_back_newest(who),
            Change::EditQueue(edit) => self.edit_queue(who, edit),
            Change::Resume => {
                self.resume(who);
                Ok(())
            }
            Change::TryNow => self.try_now(self.worker(who)).ok_or_else(nobody),
            Change::Model(full_name) => self.set_model(who, &full_name),
            Change::Thinking(thinking) => self.set_thinking(who, thinking),
            Change::System(system) => self.set_system(who, system),
            Change::Copy(text) => self.copy(asker, &text),
            Change::Export { path, text } => self.export(who, &path, &text),
        }
    }

    /// Text is the person's again: in front of what they have typed meanwhile.
    pub(super) fn return_text(&mut self, who: AgentId, text: &str) {
        self.roster.with(who, |agent| {
            let typed = agent.view.draft.take();
            let between = if typed.is_empty() { "" } else { "\n" };
            agent.view.draft.set(&format!("{text}{between}{typed}"));
            agent.view.touch();
        });
        self.keep_draft(who);
    }

    fn switch(&mut self, asker: Option<SeatId>, to: AgentId) -> Result<()> {
        if self.roster.get(to).is_none() {
            return Err(nobody());
        }
        if let Some(at) = asker {
            self.bring_to_screen(at, to);
        }
        Ok(())
    }

    /// Reads an agent's conversation from the store, if that was not done yet.
    pub(super) fn load(&mut self, who: AgentId) -> Result<()> {
        self.load_before(who, MessageId(i64::MAX))
    }

    /// The same without this message and what came after it: it is about to be told.
    pub(super) fn load_before(&mut self, who: AgentId, first: MessageId) -> Result<()> {
        if self.roster.get(who).is_none_or(|agent| agent.talk.history.is_some()) {
            return Ok(());
        }
        let (mut messages, damaged) = self.shared.store.replay(who)?;
        messages.retain(|message| message.id < first);
        self.roster.with(who, |agent| {
            agent.talk.history = Some(History::from_messages(messages));
            for words in damaged {
                agent.emit_aside(&Chunk::Error { kind: ErrorKind::Store.name().into(), message: words });
            }
        });
        Ok(())
    }
}

pub(super) fn nobody() -> Error {
    Error::new(ErrorKind::Usage, "this agent is gone: /agents lists those that are there")
}
