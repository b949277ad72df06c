//! Applies changes: what commands, keys, clients and components want to be different.

use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result, system_message};
use crate::base::file;
use crate::base::id::AgentId;
use crate::base::text::counted;
use crate::commands;
use crate::domain::flow::{Change, Decision, InputResult, Origin};
use crate::domain::scrollback::LineKind;
use crate::repl::core::{Core, agent_gone};
use crate::repl::dispatcher::Dispatcher;
use crate::repl::staged::stage;
use crate::repl::{Repl, Terminals, Turn, limits, queue_edits, rules, steer};

impl Repl {
    /// Applies the result of a command that was entered at a terminal or queued.
    ///
    /// # Errors
    /// The change cannot be applied; then nothing has changed.
    pub(super) fn apply_result(&mut self, origin: Origin, agent_id: AgentId, result: InputResult) -> Result<Turn> {
        let note = match result {
            InputResult::Exit => return Ok(self.terminals.leave(origin)),
            InputResult::Detach => self.terminals.detach_attached(origin).map(|()| None)?,
            InputResult::Help => self.show_help(origin, agent_id),
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
            Change::Fork { prompt, name, model } => self.jobs.fork(core, origin, agent_id, prompt, name, model),
            Change::Environment(spec) => self.jobs.enter_environment(core, origin, agent_id, spec),
            Change::Kill { agent_id: victim, cascade } => kill(core, agent_id, victim, cascade),
            Change::KillDescendants(ancestor) => {
                let killed = core.kill_descendants(ancestor)?;
                report(core, agent_id, ancestor, &format!("{} killed", counted(killed, "descendant", "descendants")));
                Ok(())
            }
            Change::Stop(root) => self.stop_agents(root).map(drop),
            Change::ShowLimits(limited) => self.show_limits(origin, agent_id, limited),
            Change::Limit { agent_id: limited, name, value } => limits::set_typed(core, limited, name, value),
            change @ (Change::Clear | Change::Mark(_) | Change::Rewind(_) | Change::Slice(_)) => {
                let staged = stage(core, origin, agent_id, &change)?;
                self.install(agent_id, staged)
            }
            #[cfg(feature = "coordinator")]
            Change::Team(line) => self.coordinator.begin_from_chat(core, origin, agent_id, &line),
            #[cfg(feature = "coordinator")]
            Change::ShowTeam => {
                let summary = self.coordinator.summary(core);
                self.show(origin, agent_id, |_| summary)
            }
            #[cfg(not(feature = "coordinator"))]
            Change::Team(_) | Change::ShowTeam => Err(Error::not_built_in("coordinator")),
            Change::Send { to, body } => core.send_mail(agent_id, to, &body).map(drop),
            Change::ReadMail(id) => self.show(origin, agent_id, |core| core.read_mail(agent_id, id)),
            Change::DeleteMail(id) => core.delete_mail(agent_id, id),
            Change::Switch(to) => self.terminals.switch(core, origin, to),
            Change::Submit(text) => self.submit(origin, agent_id, text),
            Change::Shell { command, is_shared } => self.shell.start(core, agent_id, &command, is_shared),
            Change::Instruct(text) => instruct(core, agent_id, &text),
            Change::Interrupt if self.shell.interrupt(agent_id) => Ok(()),
            Change::Interrupt => self.jobs.interrupt(core, agent_id),
            Change::Answer { question, decision } => answer(core, agent_id, question, &decision),
            Change::Enqueue(line) => self.enqueue(origin, agent_id, line, true),
            Change::Unqueue => queue_edits::take_back_newest(core, agent_id),
            Change::EditQueue(edit) => queue_edits::apply(core, agent_id, edit),
            Change::Resume => {
                self.resume_queue(agent_id);
                Ok(())
            }
            Change::TryNow => Dispatcher::retry_now(core, core.worker(agent_id)).ok_or_else(agent_gone),
            Change::Name(name) => steer::set_name(core, agent_id, name),
            Change::Model(full_name) => steer::set_model(core, agent_id, &full_name),
            Change::Thinking(thinking) => steer::set_thinking(core, agent_id, thinking),
            Change::ShowRules => self.show(origin, agent_id, |core| rules::describe(core, agent_id)),
            Change::Revoke(rule) => rules::revoke(core, agent_id, &rule),
            Change::Approval(policy) => steer::set_policy(core, origin, agent_id, policy),
            Change::System(system) => steer::set_system(core, agent_id, system),
            Change::Copy(text) => self.terminals.copy(origin, &text),
            Change::ToggleRaw => Terminals::toggle_raw(core, agent_id),
            Change::Export { path, text } => export(core, agent_id, &path, &text),
        }
    }

    /// Opens the list of commands and keys at a terminal; elsewhere returns it as a text.
    fn show_help(&mut self, origin: Origin, agent_id: AgentId) -> Option<String> {
        match origin.terminal().filter(|id| !self.terminals.is_line_mode(*id)) {
            Some(id) => {
                self.terminals.show_help(&self.core, id, false);
                None
            }
            None => Some(commands::help_text(&self.core.command_context(agent_id, Vec::new()))),
        }
    }

    fn show_limits(&mut self, origin: Origin, agent_id: AgentId, limited: AgentId) -> Result<()> {
        let columns = origin.terminal().and_then(|id| self.terminals.text_columns(id));
        self.show(origin, agent_id, |core| limits::describe(core, limited, columns))
    }

    fn show(
        &mut self,
        origin: Origin,
        agent_id: AgentId,
        text: impl FnOnce(&mut Core) -> Result<String>,
    ) -> Result<()> {
        let text = text(&mut self.core)?;
        self.terminals.show_result(&mut self.core, origin, agent_id, LineKind::Note, &text);
        Ok(())
    }

    fn check_permission(&self, origin: Origin, change: &Change) -> Result<()> {
        if !change.is_read_only_change() {
            self.core.require_writable()?;
        }
        if origin.terminal().is_some_and(|id| self.terminals.is_read_only(id)) && !change.is_local_to_terminal() {
            return Err(Error::usage("this terminal is read-only: nothing can be sent or changed here"));
        }
        Ok(())
    }
}

/// Kills an agent, and says so where this was asked for, if that is not the agent that adopts its children.
fn kill(core: &mut Core, asked_at: AgentId, victim: AgentId, cascade: bool) -> Result<()> {
    let (label, adopter) = (core.roster.label_of(victim), core.roster.parent(victim));
    core.kill(victim, cascade)?;
    report(core, asked_at, adopter.unwrap_or(asked_at), &format!("{label} killed"));
    Ok(())
}

/// Shows a text at the agent at which something was asked for, if it is not the one at which it was shown already.
fn report(core: &mut Core, asked_at: AgentId, shown_at: AgentId, text: &str) {
    if asked_at != shown_at {
        core.note(asked_at, LineKind::Mark, text);
    }
}

fn answer(core: &mut Core, agent_id: AgentId, question: u64, decision: &Decision) -> Result<()> {
    if let Decision::Always(scope) = decision {
        rules::grant(core, agent_id, question, *scope)?;
    }
    let answered = core.with_agent(agent_id, |agent, context| agent.answer(question, decision, context));
    answered.map(drop).ok_or_else(agent_gone)
}

/// The file to which a person's instructions are added.
pub(super) fn instructions_file(core: &Core, agent_id: AgentId) -> Option<PathBuf> {
    Some(core.roster.get(agent_id)?.inputs.environment.working_directory.join("AGENTS.md"))
}

/// Appends a line to the instructions of the project.
fn instruct(core: &mut Core, agent_id: AgentId, text: &str) -> Result<()> {
    let path = instructions_file(core, agent_id).ok_or_else(agent_gone)?;
    file::append_line(&path, text)
        .map_err(|error| Error::usage(format!("cannot write {}: {}", path.display(), system_message(&error))))?;
    let note = format!("added to {}; new agents get it after polylogue config trust", path.display());
    core.note(agent_id, LineKind::Note, &note);
    Ok(())
}

/// Writes a new file that only the user can read.
fn export(core: &Core, agent_id: AgentId, path: &Path, text: &str) -> Result<()> {
    let agent = core.roster.get(agent_id).ok_or_else(agent_gone)?;
    let path = agent.inputs.environment.working_directory.join(path);
    file::create_private(&path, text.as_bytes()).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::usage(format!("{} exists: choose another file", path.display())),
        _ => Error::usage(format!("cannot write {}: {}", path.display(), system_message(&error))),
    })
}
