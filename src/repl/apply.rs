//! The only writer of the roster and the store: carries out what agents, commands and tools asked for.

use crate::agent::{Agent, Effect, Queued, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, MessageId};
use crate::domain::flow::{AgentOutcome, Change, InputResult};
use crate::domain::history::History;
use crate::domain::message::{Body, Message};
use crate::domain::scrollback::LineKind;
use crate::repl::{Parked, RESTING_CONNECTIONS, Repl, Turn};
use crate::store::{NewAgent, Store};
use crate::team::Nursery;

impl Repl {
    /// Carries out all that was asked for in this turn, in order.
    pub(super) fn apply_outbox(&mut self) {
        loop {
            while let Some((who, effect)) = self.outbox.pop() {
                self.shared.trace.effect(who, &effect);
                self.apply_effect(who, effect);
            }
            // Also when nothing was asked for: an agent that waits to send again has left its place without a word.
            self.fill_places();
            if self.outbox.is_empty() {
                return;
            }
        }
    }

    fn apply_effect(&mut self, who: AgentId, effect: Effect) {
        match effect {
            Effect::Persist(bodies) => self.persist(who, bodies, false),
            Effect::Settle(bodies) => self.persist(who, bodies, true),
            Effect::Checkpoint { text, thinking } => {
                let kept = self.shared.store.append_partial(who, &text, &thinking);
                self.say_if_not_kept(who, kept);
            }
            Effect::Request => self.roster.queue_for_place(who),
            Effect::Ask => self.roster.with(who, |agent| agent.view.touch()).unwrap_or_default(),
            Effect::ReturnText(text) => self.return_text(who, &text),
            Effect::Moved(from, to) => self.on_moved(who, from, to),
            Effect::Settled(outcome) => self.on_settled(who, &outcome),
        }
    }

    /// Writes to the log and tells the agent. What cannot be written stays in memory, and the person is told.
    fn persist(&mut self, who: AgentId, bodies: Vec<Body>, supersedes_checkpoints: bool) {
        let now = self.shared.clock.unix_ms();
        let store = &self.shared.store;
        let written = match supersedes_checkpoints {
            true => store.settle_reply(who, bodies.clone(), now),
            false => store.append(who, bodies.clone(), now),
        };
        let messages = written.unwrap_or_else(|error| {
            self.note(who, LineKind::Error, &format!("not saved, only in memory: {error}"));
            let unsaved = |body| Message { id: MessageId(i64::MAX), body, created_at: now };
            bodies.into_iter().map(unsaved).collect()
        });
        self.roster.with(who, |agent| agent.remember(messages));
    }

    fn say_if_not_kept<T>(&mut self, who: AgentId, outcome: Result<T>) {
        if let Err(error) = outcome {
            self.note(who, LineKind::Error, &error.message);
        }
    }

    fn fill_places(&mut self) {
        while let Some(who) = self.roster.take_next_in_line(self.places()) {
            self.with_agent(who, |agent, context| {
                if matches!(agent.wait(), crate::agent::Wait::Place) {
                    agent.send_request(context);
                }
            });
        }
    }

    /// How many agents may be at work; 0 is no limit.
    fn places(&self) -> usize {
        let limit = self.shared.config.working_limit;
        match crate::net::HAS_POLL {
            true => limit,
            false if limit == 0 => crate::net::AGENTS_WITHOUT_POLL,
            false => limit.min(crate::net::AGENTS_WITHOUT_POLL),
        }
    }

    fn on_moved(&mut self, who: AgentId, from: State, to: State) {
        if from == State::Idle || to == State::Idle {
            let kept = self.shared.store.set_busy(who, to != State::Idle);
            self.say_if_not_kept(who, kept);
        }
        if to == State::Idle {
            self.roster.leave_line(who);
        }
        let tools_are_done = matches!(to, State::Idle | State::WaitingForLlm);
        if tools_are_done && let Some(at) = self.parked.iter().position(|parked| parked.who == who) {
            let parked = self.parked.remove(at);
            self.apply_or_say(who, parked.change);
        }
    }

    fn on_settled(&mut self, who: AgentId, outcome: &AgentOutcome) {
        self.rest(who);
        // After a cut or an error the person decides whether the queue goes on.
        if *outcome == AgentOutcome::Completed {
            self.resume(who);
        }
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

    /// What a line came to.
    pub(super) fn carry_out(&mut self, who: AgentId, result: InputResult) -> Turn {
        match result {
            InputResult::Exit => return Turn::Exit,
            InputResult::Continue(note) => self.note_if_any(who, note),
            InputResult::NewState(change, note) => {
                if self.apply_or_say(who, change) {
                    self.note_if_any(who, note);
                }
            }
            InputResult::Message(text) => {
                self.apply_or_say(who, Change::Submit(text));
            }
        }
        Turn::Continue
    }

    fn note_if_any(&mut self, who: AgentId, note: Option<String>) {
        if let Some(note) = note {
            self.note(who, LineKind::Note, &note);
        }
    }

    pub(super) fn apply_or_say(&mut self, who: AgentId, change: Change) -> bool {
        match self.apply_change(who, change) {
            Ok(()) => true,
            Err(error) => {
                self.note(who, LineKind::Error, &error.message);
                false
            }
        }
    }

    /// Carries a change out, or leaves everything as it was and says why.
    pub(super) fn apply_change(&mut self, who: AgentId, change: Change) -> Result<()> {
        self.shared.trace.change(who, &change);
        match change {
            Change::Fork { prompt, name } => self.fork(who, prompt, name),
            Change::Switch(to) => self.switch(to),
            Change::Submit(text) => self.submit(who, text),
            Change::Interrupt => {
                self.drop_parked(who);
                self.with_agent(who, Agent::interrupt).ok_or_else(nobody)
            }
            Change::Answer { question, allowed } => {
                self.with_agent(who, |agent, context| agent.answer(question, allowed, context)).ok_or_else(nobody)?;
                Ok(())
            }
            Change::Unqueue => self.unqueue(who),
            Change::Resume => {
                self.resume(who);
                Ok(())
            }
        }
    }

    /// An interrupt takes back what waited for the tools.
    fn drop_parked(&mut self, who: AgentId) {
        if let Some(at) = self.parked.iter().position(|parked| parked.who == who) {
            let parked = self.parked.remove(at);
            self.note(who, LineKind::Note, &format!("the waiting /{} is cancelled", parked.change.name()));
        }
    }

    /// Stores a person's text, then sends it: at once, or behind what the agent is doing.
    fn submit(&mut self, who: AgentId, text: String) -> Result<()> {
        let agent = self.roster.get(who).ok_or_else(nobody)?;
        let now = self.shared.clock.unix_ms();
        if agent.state() != State::Idle || !agent.queue.is_empty() {
            let id = self.give_back(who, &text, |store| store.enqueue(who, &text, now))?;
            let queued = Queued { id, text };
            let is_idle = self.roster.with(who, |agent| {
                agent.queue.push_back(queued);
                agent.view.touch();
                agent.state() == State::Idle
            });
            if is_idle == Some(true) {
                self.resume(who);
            }
            return Ok(());
        }
        self.load(who)?;
        let bodies = vec![Body::User(text.clone())];
        let mut stored = self.give_back(who, &text, |store| store.append(who, bodies, now))?;
        let message = stored.pop().expect("one row gives one message");
        self.with_agent(who, |agent, context| agent.begin(message, context));
        Ok(())
    }

    /// Writes text of a person; if that fails the text is theirs again.
    fn give_back<T>(&mut self, who: AgentId, text: &str, write: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
        write(&self.shared.store).map_err(|error| {
            self.return_text(who, text);
            error.context("not sent, because it cannot be saved")
        })
    }

    /// Puts text that was not sent in front of what was typed since.
    fn return_text(&mut self, who: AgentId, text: &str) {
        self.roster.with(who, |agent| {
            let draft = &mut agent.view.draft;
            let typed_since = draft.expanded();
            let separator = if typed_since.is_empty() { "" } else { "\n" };
            draft.set(&format!("{text}{separator}{typed_since}"));
            agent.view.touch();
        });
    }

    /// Sends the oldest queued text of an idle agent.
    fn resume(&mut self, who: AgentId) {
        let Some(agent) = self.roster.get(who).filter(|agent| agent.state() == State::Idle) else { return };
        let Some(id) = agent.queue.front().map(|queued| queued.id) else { return };
        let now = self.shared.clock.unix_ms();
        let promoted = self.load(who).and_then(|()| self.shared.store.promote(who, id, now));
        match promoted {
            Ok(message) => {
                self.with_agent(who, |agent, context| {
                    agent.queue.pop_front();
                    agent.begin(message, context);
                });
            }
            Err(error) => self.note(who, LineKind::Error, &format!("the queued text waits: {error}")),
        }
    }

    /// The newest queued text becomes the draft again.
    fn unqueue(&mut self, who: AgentId) -> Result<()> {
        let agent = self.roster.get(who).ok_or_else(nobody)?;
        let Some(last) = agent.queue.back().cloned() else { return Ok(()) };
        self.shared.store.unqueue(last.id)?;
        self.roster.with(who, |agent| {
            agent.queue.pop_back();
            agent.view.draft.set(&last.text);
            agent.view.touch();
        });
        Ok(())
    }

    fn switch(&mut self, to: AgentId) -> Result<()> {
        if self.roster.get(to).is_none() {
            return Err(nobody());
        }
        self.bring_to_screen(to);
        Ok(())
    }

    /// One transaction in the store, then the child in memory; a failure leaves no trace in either.
    fn fork(&mut self, who: AgentId, prompt: Option<String>, name: Option<String>) -> Result<()> {
        let parent = self.roster.get(who).ok_or_else(nobody)?;
        if matches!(parent.state(), State::ExecutingTool | State::AwaitingApproval) {
            return self.park(who, Change::Fork { prompt, name });
        }
        self.load(who)?;
        let now = self.shared.clock.unix_ms();
        let new = NewAgent {
            id: AgentId::random(),
            name,
            parent: who,
            fork_point: self.shared.store.last_own_message(who)?,
            endpoint: self.roster.get(who).map(|parent| parent.talk.endpoint.full_name()),
            environment: Some(self.shared.config.working_directory.display().to_string()),
        };
        let forked = self.shared.store.fork(&new, now)?;
        let child = self.roster.with(who, |parent| {
            let mut child = Nursery::fork(parent, &forked.row);
            parent.view.show(&forked.in_parent.body);
            parent.remember(vec![forked.in_parent]);
            child.view.show(&forked.in_child.body);
            child.remember(vec![forked.in_child]);
            child
        });
        let child = child.ok_or_else(nobody)?;
        let id = child.id();
        self.roster.add(child);
        self.bring_to_screen(id);
        if let Some(prompt) = prompt {
            self.apply_or_say(id, Change::Submit(prompt));
        }
        Ok(())
    }

    /// The change waits until the tools of this reply are done, and the loop goes on.
    fn park(&mut self, who: AgentId, change: Change) -> Result<()> {
        if self.parked.iter().any(|parked| parked.who == who) {
            return Err(Error::new(ErrorKind::Usage, format!("{} already in progress", change.name())));
        }
        self.note(who, LineKind::Note, &format!("/{} waits until the tools are done", change.name()));
        self.parked.push(Parked { who, change });
        Ok(())
    }

    /// Reads an agent's conversation from the store, if that was not done yet.
    fn load(&mut self, who: AgentId) -> Result<()> {
        if self.roster.get(who).is_none_or(|agent| agent.talk.history.is_some()) {
            return Ok(());
        }
        let (messages, damaged) = self.shared.store.replay(who)?;
        self.roster.with(who, |agent| {
            agent.talk.history = Some(History::from_messages(messages));
            for words in damaged {
                agent.view.push(LineKind::Error, &words);
            }
        });
        Ok(())
    }

    /// Text that was queued before the program ended is queued again.
    pub(super) fn read_queues(&mut self) -> Result<()> {
        for id in self.shared.store.agents_with_queue()? {
            let queued = self.shared.store.queued(id)?;
            self.roster.with(id, |agent| {
                agent.queue.extend(queued.into_iter().map(|(id, text)| Queued { id, text }));
            });
        }
        Ok(())
    }
}

fn nobody() -> Error {
    Error::new(ErrorKind::Usage, "this agent is gone: /agents lists those that are there")
}
