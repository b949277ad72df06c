//! The only writer of the roster and the store: carries out what agents, commands and tools asked for.

use crate::agent::{Agent, Effect, Role, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::flow::{AgentOutcome, Change, InputResult, Origin};
use crate::domain::scrollback::LineKind;
use crate::repl::core::agent_gone;
use crate::repl::core::spawn::{Inherit, Spawn};
use crate::repl::dispatcher::Dispatcher;
use crate::repl::event::Event;
use crate::repl::staged::stage;
use crate::repl::{Repl, Turn};
use crate::store::{Store, input_line};

impl Repl {
    /// Leaves nothing: what is asked for next, by a key perhaps, comes behind all of it.
    pub(super) fn apply_effects(&mut self) {
        loop {
            self.deliver_events();
            let Some((agent_id, effect)) = self.core.outbox.pop() else { return };
            self.trace.effect(agent_id, &effect);
            self.apply_effect(agent_id, effect);
        }
    }

    fn deliver_events(&mut self) {
        while let Some(event) = self.core.events.pop_front() {
            let (core, components) = self.split();
            components.into_iter().for_each(|component| component.on_event(&event, core));
        }
    }

    fn apply_effect(&mut self, agent_id: AgentId, effect: Effect) {
        if matches!(effect, Effect::Settled(_)) {
            self.core.end_turn(agent_id);
        }
        let role = self.core.roster.get(agent_id).map_or(Role::Normal, |agent| agent.role);
        let effect = match role {
            Role::Normal => Some(effect),
            Role::Summary => self.apply_summary_effect(agent_id, effect),
            #[cfg(feature = "coordinator")]
            Role::Member => self.coordinator.on_effect(&self.core, agent_id, effect),
            #[cfg(not(feature = "coordinator"))]
            Role::Member => Some(effect),
        };
        let Some(effect) = effect else { return };
        match effect {
            Effect::Persist(bodies) => self.core.record(agent_id, bodies, Store::append),
            Effect::Settle(bodies) => self.core.record(agent_id, bodies, Store::settle_reply),
            Effect::Finish(bodies) => self.core.record(agent_id, bodies, Store::finish_turn),
            Effect::Checkpoint { text, thinking } => self.record_checkpoints((agent_id, text, thinking)),
            Effect::Request => self.core.roster.queue_for_slot(agent_id),
            Effect::Limited { provider, until, reason } => self.core.limiter.pause(&provider, until, &reason),
            Effect::Accepted(provider) => self.core.limiter.on_answered(&provider, agent_id),
            Effect::KeyRefused { provider, run } => {
                self.dispatcher.on_key_refused(&mut self.core, agent_id, &provider, run)
            }
            // The question is part of the agent, and its change of state has been noticed already.
            Effect::Question => {}
            Effect::ToolRequest(call, request) => self.on_request(agent_id, call, request),
            Effect::WaitOver(call) => self.mail_waits.on_timeout(&mut self.core, agent_id, &call),
            Effect::ReturnText(text) => self.core.return_text(agent_id, &input_line(&text)),
            Effect::StateChanged(_, to) => self.on_moved(agent_id, to),
            Effect::Settled(outcome) => self.on_settled(agent_id, &outcome),
        }
    }

    /// What a summary agent would store goes to its slice; other effects are carried out as for every agent.
    fn apply_summary_effect(&mut self, writer: AgentId, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Persist(bodies) | Effect::Settle(bodies) | Effect::Finish(bodies) => {
                self.jobs.on_summary_text(writer, bodies);
            }
            Effect::Settled(outcome) => self.jobs.on_summary_ended(&mut self.core, writer, outcome),
            Effect::Checkpoint { .. } | Effect::ReturnText(_) => {}
            other => return Some(other),
        }
        None
    }

    /// The tools of this agent are done: what was parked until then happens, before the next queued text.
    fn carry_out_parked(&mut self, agent_id: AgentId) {
        if let Some(parked) = self.jobs.take_parked(agent_id)
            && !self.apply_or_notify(parked.origin, agent_id, parked.change.clone())
        {
            self.jobs.on_parked_failed(&mut self.core, &parked);
        }
    }

    /// `/fork`: a busy agent is forked when its tools are done.
    fn fork(
        &mut self,
        origin: Origin,
        agent_id: AgentId,
        prompt: Option<String>,
        name: Option<String>,
        model: Option<String>,
    ) -> Result<()> {
        let parent = self.core.roster.get(agent_id).ok_or_else(agent_gone)?;
        if matches!(parent.state(), State::ExecutingTool | State::AwaitingApproval) {
            return self.jobs.park(&mut self.core, origin, agent_id, Change::Fork { prompt, name, model });
        }
        let spec = Spawn { prompt, name, model, ..Spawn::new(agent_id, origin, Inherit::All) };
        self.core.spawn(spec).map(drop)
    }

    /// Keeps a piece of a reply, and in the same transaction those of other agents that come right behind it.
    fn record_checkpoints(&mut self, first: (AgentId, String, String)) {
        let mut pieces = vec![first];
        while let Some((agent_id, effect)) = self.core.outbox.pop_checkpoint() {
            self.trace.effect(agent_id, &effect);
            if let Effect::Checkpoint { text, thinking } = effect {
                pieces.push((agent_id, text, thinking));
            }
        }
        let is_stored = |id: &AgentId| self.core.roster.get(*id).is_some_and(|agent| agent.role != Role::Summary);
        pieces.retain(|(agent_id, ..)| is_stored(agent_id));
        let store = &self.core.store;
        let all = pieces.iter().map(|(agent_id, text, thinking)| (*agent_id, text.as_str(), thinking.as_str()));
        if store.append_partials(all).is_err() {
            // One that cannot be kept must not take the others with it.
            for (agent_id, text, thinking) in pieces {
                self.core.record_checkpoint(agent_id, &text, &thinking);
            }
        }
    }

    fn on_moved(&mut self, agent_id: AgentId, to: State) {
        if to == State::Idle {
            self.core.roster.leave_send_queue(agent_id);
        }
        if matches!(to, State::Idle | State::WaitingForLlm) {
            self.carry_out_parked(agent_id);
        }
    }

    fn on_settled(&mut self, agent_id: AgentId, outcome: &AgentOutcome) {
        self.dispatcher.keep_connection(&mut self.core, agent_id);
        // After a cut or an error the person decides whether the queue goes on.
        if *outcome == AgentOutcome::Completed {
            self.resume(agent_id);
        }
    }

    /// What a line came to that was entered at this terminal.
    ///
    /// # Errors
    /// It cannot be carried out; the house is as it was, and the line is the person's again.
    pub(super) fn apply_result(&mut self, origin: Origin, agent_id: AgentId, result: InputResult) -> Result<Turn> {
        let note = match result {
            InputResult::Exit => return Ok(self.terminals.leave(origin)),
            InputResult::Detach => self.terminals.detach_attached(origin).map(|()| None)?,
            InputResult::Continue(note) => note,
            InputResult::NewState(change, note) => self.carry_out(origin, agent_id, change).map(|()| note)?,
            InputResult::Message(text) => self.carry_out(origin, agent_id, Change::Submit(text)).map(|()| None)?,
        };
        if let Some(note) = note {
            self.terminals.tell(&mut self.core, origin, agent_id, LineKind::Note, &note);
        }
        Ok(Turn::Continue)
    }

    pub(super) fn apply_or_notify(&mut self, origin: Origin, agent_id: AgentId, change: Change) -> bool {
        let outcome = self.carry_out(origin, agent_id, change);
        if let Err(error) = &outcome {
            self.terminals.tell(&mut self.core, origin, agent_id, LineKind::Error, &error.message);
        }
        outcome.is_ok()
    }

    /// Carries a change out, then everything that follows from it, so that whatever is asked for next comes after.
    ///
    /// # Errors
    /// The change cannot be carried out; nothing has changed then.
    pub(super) fn apply_change(&mut self, origin: Origin, agent_id: AgentId, change: Change) -> Result<()> {
        let done = self.carry_out(origin, agent_id, change);
        self.apply_effects();
        done
    }

    /// Carries a change out, or leaves everything as it was and says why. It concerns one agent, and of the terminals only
    /// the one from which it was asked for, if that is still there.
    pub(super) fn carry_out(&mut self, origin: Origin, agent_id: AgentId, change: Change) -> Result<()> {
        self.trace.change(origin, agent_id, &change);
        if !change.is_read_only_change() {
            self.core.require_writable()?;
        }
        if origin.terminal().is_some_and(|at| self.terminals.is_read_only(at)) && !change.is_local_to_terminal() {
            return Err(Error::new(
                ErrorKind::Usage,
                "this terminal is read-only: nothing can be sent or changed here",
            ));
        }
        match change {
            Change::Fork { prompt, name, model } => self.fork(origin, agent_id, prompt, name, model),
            Change::Environment(spec) => self.jobs.enter_environment(&mut self.core, origin, agent_id, spec),
            Change::Kill { agent_id: victim, cascade } => self.core.kill(victim, cascade),
            Change::Name(name) => self.core.set_name(agent_id, name),
            change @ (Change::Clear | Change::Mark(_) | Change::Rewind(_) | Change::Slice(_)) => {
                let staged = stage(&mut self.core, origin, agent_id, &change)?;
                self.install(agent_id, staged)
            }
            #[cfg(feature = "coordinator")]
            Change::Team(line) => self.coordinator.begin_from_chat(&mut self.core, agent_id, &line),
            #[cfg(feature = "coordinator")]
            Change::ShowTeam => {
                let summary = self.coordinator.summary(&self.core)?;
                self.terminals.tell(&mut self.core, origin, agent_id, LineKind::Note, &summary);
                Ok(())
            }
            #[cfg(not(feature = "coordinator"))]
            Change::Team(_) | Change::ShowTeam => Err(Error::not_built_in("coordinator")),
            Change::Send { to, body } => self.core.send_mail(agent_id, to, &body).map(drop),
            Change::ReadMail(id) => self.show_mail(agent_id, id),
            Change::DeleteMail(id) => self.core.delete_mail(agent_id, id),
            Change::Switch(to) => self.switch(origin, to),
            Change::Submit(text) => self.submit(origin, agent_id, text),
            Change::Interrupt => {
                let agent = self.core.roster.get(agent_id).ok_or_else(agent_gone)?;
                let is_idle = agent.state() == State::Idle;
                self.jobs.cancel(&mut self.core, agent_id, is_idle);
                self.core.events.push_back(Event::Interrupted { agent: agent_id, was_idle: is_idle });
                self.core.with_agent(agent_id, Agent::interrupt).ok_or_else(agent_gone)
            }
            Change::Answer { question, allowed } => {
                self.core
                    .with_agent(agent_id, |agent, context| agent.answer(question, allowed, context))
                    .ok_or_else(agent_gone)?;
                Ok(())
            }
            Change::Enqueue(line) => self.enqueue(origin, agent_id, line, true),
            Change::Unqueue => self.core.take_back_newest(agent_id),
            Change::EditQueue(edit) => self.core.edit_queue(agent_id, edit),
            Change::Resume => {
                self.resume(agent_id);
                Ok(())
            }
            Change::TryNow => {
                let worker = self.core.worker(agent_id);
                Dispatcher::retry_now(&mut self.core, worker).ok_or_else(agent_gone)
            }
            Change::Model(full_name) => self.core.set_model(agent_id, &full_name),
            Change::Thinking(thinking) => self.core.set_thinking(agent_id, thinking),
            Change::System(system) => self.core.set_system(agent_id, system),
            Change::Copy(text) => self.copy(origin, &text),
            Change::Export { path, text } => self.export(agent_id, &path, &text),
        }
    }

    fn switch(&mut self, origin: Origin, to: AgentId) -> Result<()> {
        if self.core.roster.get(to).is_none() {
            return Err(agent_gone());
        }
        if let Some(at) = origin.terminal() {
            self.terminals.show(&mut self.core, at, to);
        }
        Ok(())
    }
}
