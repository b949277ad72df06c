//! Applies changes: what commands, keys, clients and components want to be different.

use std::path::Path;

use crate::agent::{Agent, State};
use crate::base::error::{Error, ErrorKind, Result, system_message};
use crate::base::file;
use crate::base::id::AgentId;
use crate::domain::flow::{Change, InputResult, Origin};
use crate::domain::scrollback::LineKind;
use crate::repl::core::agent_gone;
use crate::repl::core::spawn::{Inherit, Spawn};
use crate::repl::dispatcher::Dispatcher;
use crate::repl::event::Event;
use crate::repl::staged::stage;
use crate::repl::{Repl, Turn};

impl Repl {
    /// Applies the result of a command that was entered at a terminal or queued.
    ///
    /// # Errors
    /// The change cannot be applied; then nothing has changed.
    pub(super) fn apply_result(&mut self, origin: Origin, agent_id: AgentId, result: InputResult) -> Result<Turn> {
        let note = match result {
            InputResult::Exit => return Ok(self.terminals.leave(origin)),
            InputResult::Detach => self.terminals.detach_attached(origin).map(|()| None)?,
            InputResult::Continue(note) => note,
            InputResult::NewState(change, note) => self.carry_out(origin, agent_id, change).map(|()| note)?,
            InputResult::Message(text) => self.carry_out(origin, agent_id, Change::Submit(text)).map(|()| None)?,
        };
        if let Some(note) = note {
            self.terminals.show_result(&mut self.core, origin, agent_id, LineKind::Note, &note);
        }
        Ok(Turn::Continue)
    }

    /// Applies a change. Shows the error if that fails, and returns whether it succeeded.
    pub(super) fn apply_or_notify(&mut self, origin: Origin, agent_id: AgentId, change: Change) -> bool {
        let outcome = self.carry_out(origin, agent_id, change);
        if let Err(error) = &outcome {
            self.terminals.show_result(&mut self.core, origin, agent_id, LineKind::Error, &error.message);
        }
        outcome.is_ok()
    }

    /// Applies a change and all effects that follow from it.
    ///
    /// # Errors
    /// The change cannot be applied; then nothing has changed.
    pub(super) fn apply_change(&mut self, origin: Origin, agent_id: AgentId, change: Change) -> Result<()> {
        let outcome = self.carry_out(origin, agent_id, change);
        self.apply_effects();
        outcome
    }

    /// Applies a change to one agent; the effects that follow from it stay in the outbox.
    ///
    /// # Errors
    /// The change cannot be applied; then nothing has changed.
    pub(super) fn carry_out(&mut self, origin: Origin, agent_id: AgentId, change: Change) -> Result<()> {
        self.trace.change(origin, agent_id, &change);
        self.check_permission(origin, &change)?;
        let core = &mut self.core;
        match change {
            Change::Fork { prompt, name, model } => self.fork(origin, agent_id, prompt, name, model),
            Change::Environment(spec) => self.jobs.enter_environment(core, origin, agent_id, spec),
            Change::Kill { agent_id: victim, cascade } => core.kill(victim, cascade),
            Change::Name(name) => core.set_name(agent_id, name),
            change @ (Change::Clear | Change::Mark(_) | Change::Rewind(_) | Change::Slice(_)) => {
                let staged = stage(core, origin, agent_id, &change)?;
                self.install(agent_id, staged)
            }
            #[cfg(feature = "coordinator")]
            Change::Team(line) => self.coordinator.begin_from_chat(core, agent_id, &line),
            #[cfg(feature = "coordinator")]
            Change::ShowTeam => self.show_team(origin, agent_id),
            #[cfg(not(feature = "coordinator"))]
            Change::Team(_) | Change::ShowTeam => Err(Error::not_built_in("coordinator")),
            Change::Send { to, body } => core.send_mail(agent_id, to, &body).map(drop),
            Change::ReadMail(id) => self.show_mail(agent_id, id),
            Change::DeleteMail(id) => core.delete_mail(agent_id, id),
            Change::Switch(to) => self.switch(origin, to),
            Change::Submit(text) => self.submit(origin, agent_id, text),
            Change::Interrupt => self.interrupt_work(agent_id),
            Change::Answer { question, decision } => {
                core.with_agent(agent_id, |agent, context| agent.answer(question, &decision, context))
                    .ok_or_else(agent_gone)?;
                Ok(())
            }
            Change::Enqueue(line) => self.enqueue(origin, agent_id, line, true),
            Change::Unqueue => core.take_back_newest(agent_id),
            Change::EditQueue(edit) => core.edit_queue(agent_id, edit),
            Change::Resume => {
                self.resume_queue(agent_id);
                Ok(())
            }
            Change::TryNow => Dispatcher::retry_now(core, core.worker(agent_id)).ok_or_else(agent_gone),
            Change::Model(full_name) => core.set_model(agent_id, &full_name),
            Change::Thinking(thinking) => core.set_thinking(agent_id, thinking),
            Change::System(system) => core.set_system(agent_id, system),
            Change::Copy(text) => self.copy(origin, &text),
            Change::Export { path, text } => self.export(agent_id, &path, &text),
        }
    }

    fn check_permission(&self, origin: Origin, change: &Change) -> Result<()> {
        if !change.is_read_only_change() {
            self.core.require_writable()?;
        }
        if origin.terminal().is_some_and(|id| self.terminals.is_read_only(id)) && !change.is_local_to_terminal() {
            return Err(usage("this terminal is read-only: nothing can be sent or changed here"));
        }
        Ok(())
    }

    /// `/fork`: an agent whose tools are running is forked when they are done.
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

    #[cfg(feature = "coordinator")]
    fn show_team(&mut self, origin: Origin, agent_id: AgentId) -> Result<()> {
        let summary = self.coordinator.summary(&self.core)?;
        self.terminals.show_result(&mut self.core, origin, agent_id, LineKind::Note, &summary);
        Ok(())
    }

    fn switch(&mut self, origin: Origin, to: AgentId) -> Result<()> {
        if self.core.roster.get(to).is_none() {
            return Err(agent_gone());
        }
        if let Some(id) = origin.terminal() {
            self.terminals.show(&mut self.core, id, to);
        }
        Ok(())
    }

    /// Stops what the agent does, and what is done for it.
    fn interrupt_work(&mut self, agent_id: AgentId) -> Result<()> {
        let agent = self.core.roster.get(agent_id).ok_or_else(agent_gone)?;
        let was_idle = agent.state() == State::Idle;
        self.jobs.cancel(&mut self.core, agent_id, was_idle);
        self.core.events.push_back(Event::Interrupted { agent: agent_id, was_idle });
        self.core.with_agent(agent_id, Agent::interrupt).ok_or_else(agent_gone)
    }

    /// Puts a text into the clipboard of the terminal at which the command was entered.
    fn copy(&mut self, origin: Origin, text: &str) -> Result<()> {
        let terminal = origin.terminal().and_then(|id| self.terminals.get_mut(id));
        terminal.ok_or_else(|| usage("/copy needs a terminal: /export writes a file instead"))?.copy(text)
    }

    /// Writes a new file that only the user can read.
    fn export(&mut self, agent_id: AgentId, path: &Path, text: &str) -> Result<()> {
        let agent = self.core.roster.get(agent_id).ok_or_else(agent_gone)?;
        let path = agent.talk.environment.working_directory.join(path);
        file::create_private(&path, text.as_bytes()).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => usage(&format!("{} exists: choose another file", path.display())),
            _ => usage(&format!("cannot write {}: {}", path.display(), system_message(&error))),
        })
    }
}

fn usage(message: &str) -> Error {
    Error::new(ErrorKind::Usage, message)
}
