//! Applies changes: what commands, keys, clients and components want to be different.

use std::path::PathBuf;

use crate::agent::Agent;
use crate::base::error::{Error, Result, system_message};
use crate::base::file;
use crate::base::id::{AgentId, MessageId};
use crate::base::text::counted;
use crate::commands;
use crate::domain::change::{ArchiveAct, Change, Decision, MailAct, Setting, Shown, TeamStart};
use crate::domain::flow::{InputResult, Origin};
use crate::domain::scrollback::LineKind;
use crate::repl::core::archive::{self, archive_for_person, archive_when_idle, fork_ended};
use crate::repl::core::delete::delete;
use crate::repl::core::queue::retry_turn;
use crate::repl::core::remove::{Reach, is_killing};
use crate::repl::core::spawn::{Inherit, Spawn};
use crate::repl::core::turns::end_question;
use crate::repl::core::{Core, activity, agent_gone, drafts, limits, mail, rules};
use crate::repl::dispatcher::Dispatcher;
use crate::repl::event::{Event, JobResult};
use crate::repl::openings::NewHere;
use crate::repl::terminals::toggle_raw;
use crate::repl::{Repl, Terminals, Turn};
use crate::store::input_line;
use crate::team::instruction_file;

impl Repl {
    /// Applies the result of a command that was entered at a terminal or queued.
    pub(super) fn apply_result(&mut self, origin: Origin, agent_id: AgentId, result: InputResult) -> Result<Turn> {
        let note = match result {
            InputResult::Exit => return Ok(self.terminals.leave(origin)),
            InputResult::Detach => self.leave_to_background(origin).map(|()| None)?,
            InputResult::Help => show_help(&self.core, &mut self.terminals, origin, agent_id),
            InputResult::Continue(note) => note,
            InputResult::Data(data) => Some(data.to_string()),
            InputResult::ToolCall(..) => return Err(Error::usage("only clients call tools")),
            InputResult::NewState(change, note) => self.carry_out(origin, agent_id, change).map(|()| note)?,
            InputResult::NewStateAt(other, change, _) => self.carry_out(origin, other, change).map(|()| None)?,
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
    pub(super) fn apply_change(&mut self, origin: Origin, agent_id: AgentId, change: Change) -> Result<()> {
        let outcome = self.carry_out(origin, agent_id, change);
        self.apply_effects();
        outcome
    }

    /// Applies a change to one agent; the effects that follow from it stay in the outbox.
    pub(super) fn carry_out(&mut self, origin: Origin, agent_id: AgentId, change: Change) -> Result<()> {
        self.trace.change(origin, agent_id, &change);
        check_permission(&self.core, &self.terminals, origin, &change)?;
        let is_name = matches!(change, Change::Setting(Setting::Name(_)));
        self.make(origin, agent_id, change)?;
        if is_name {
            self.trace.write_name(agent_id, || self.core.roster().label_of(agent_id));
        }
        Ok(())
    }

    fn make(&mut self, origin: Origin, agent_id: AgentId, change: Change) -> Result<()> {
        let core = &mut self.core;
        match change {
            Change::Fork(fork) => self.jobs.fork(core, origin, agent_id, fork),
            Change::ForkAt { agent, message, text } => self.fork_at(origin, agent, message, text.as_deref()),
            Change::New { prompt, name, model } => self.begin_conversation(origin, NewHere { prompt, name, model }),
            Change::Tell { to, text } => self.submit(origin, to, text),
            Change::Compare(change) => self.compare(origin, agent_id, change),
            Change::Team(start) => self.begin_team(origin, agent_id, start),
            Change::Kill { agent_id: victim, cascade } => self.kill(agent_id, victim, Reach::of_kill(cascade)),
            Change::KillDescendants(ancestor) => self.kill(agent_id, ancestor, Reach::Descendants),
            Change::Archive(act) => archive(core, &self.terminals, agent_id, act),
            Change::Delete(deleted) => delete(core, agent_id, deleted),
            Change::Stop(root) => self.stop_for(origin, root),
            Change::Setting(setting) => self.set(origin, agent_id, setting),
            Change::EditHistory(edit) => self.edit_history(origin, agent_id, edit),
            Change::Mail(act) => self.use_mail(origin, agent_id, act),
            Change::Switch(to) => self.terminals.switch(core, origin, to),
            Change::Show(shown) => self.show(origin, agent_id, shown),
            Change::Submit(text) => self.submit(origin, agent_id, text),
            Change::Enqueue(line) => self.enqueue(origin, agent_id, line, true),
            Change::EditQueue(edit) => self.edit_queue(origin, agent_id, edit),
            Change::Copy(text) => self.terminals.copy(origin, &text),
            Change::Files(job) => self.jobs.begin(core, origin, agent_id, job),
            Change::Instruct(text) => instruct(core, agent_id, &text),
            Change::ToggleRaw => toggle_raw(core, agent_id),
            Change::Interrupt => self.interrupt_at(agent_id),
            Change::Answer { question, decision } => answer(core, agent_id, question, &decision),
            Change::Retry => retry_turn(core, origin, agent_id),
            Change::TryNow => Dispatcher::retry_now(core, activity::worker(core, agent_id)).ok_or_else(agent_gone),
            Change::ServerPrompt(_) | Change::Shell { .. } => self.offer(origin, agent_id, change),
        }
    }

    /// Lets the component to which the change belongs carry it out.
    fn offer(&mut self, origin: Origin, agent_id: AgentId, change: Change) -> Result<()> {
        let (core, mut components, _) = self.split();
        let left = components.try_fold(Some(change), |left, component| match left {
            Some(change) => component.on_change(core, origin, agent_id, change),
            None => Ok(None),
        })?;
        debug_assert!(left.is_none(), "a change of no component");
        Ok(())
    }

    /// Esc: ends what a component does for the person or, if there is nothing, the agent's work.
    fn interrupt_at(&mut self, agent_id: AgentId) -> Result<()> {
        let (core, features) = (&mut self.core, &mut self.features);
        let of_person = features.iter_mut().any(|it| it.interrupt(core, agent_id));
        if of_person { Ok(()) } else { self.jobs.interrupt_turn(&mut self.core, agent_id) }
    }

    /// Forks a child with the conversation up to a message. With a text, which becomes its draft, it is shown.
    fn fork_at(&mut self, origin: Origin, agent: AgentId, after: MessageId, text: Option<&str>) -> Result<()> {
        if self.core.agent(agent).is_none() {
            return fork_ended(&mut self.core, origin, agent, after);
        }
        let inherit = if after == MessageId(0) { Inherit::Nothing } else { Inherit::UpTo(after) };
        let child = self.core.spawn(Spawn::new(agent, origin, inherit))?;
        if let Some(text) = text {
            self.terminals.switch(&mut self.core, origin, child)?;
            drafts::return_text(&mut self.core, child, origin, &input_line(text));
        }
        Ok(())
    }

    /// Kills agents, and says so where this was asked for, if that is not the agent where a kill is noted.
    fn kill(&mut self, asked_at: AgentId, top: AgentId, reach: Reach) -> Result<()> {
        let core = &mut self.core;
        let worktree = core.agent(top).and_then(|agent| agent.inputs.environment.worktree.clone());
        let (noted_at, note) = core.kill(top, reach)?;
        if let Some(root) = worktree.filter(|_| core.agent(top).is_none() && core.agent(asked_at).is_some()) {
            // What becomes of it is said where this was asked for.
            self.jobs.release_worktree(root, asked_at);
        }
        if asked_at != noted_at {
            core.note(asked_at, LineKind::Mark, &note);
        }
        if is_killing(core) {
            core.emit(Event::Stopped);
        }
        self.stop_victims().map(drop)
    }

    /// Stops agents. A client is told how many.
    fn stop_for(&mut self, origin: Origin, root: Option<AgentId>) -> Result<()> {
        let stopped = self.stop_agents(root)?;
        if let Origin::Client(client) = origin {
            let outcome = Ok(format!("stopped {}", counted(stopped, "agent", "agents")).into());
            self.core.emit(Event::ClientJobEnded { client, outcome });
        }
        Ok(())
    }

    /// A client gets the mail as data.
    fn use_mail(&mut self, origin: Origin, agent_id: AgentId, act: MailAct) -> Result<()> {
        let is_of_client = matches!(origin, Origin::Client(_));
        match act {
            MailAct::Send { to, body } => self.core.send_mail(agent_id, to, &body).map(drop),
            MailAct::Read(id) if is_of_client => self.core.read_mail(agent_id, id).map(drop),
            MailAct::Read(id) => self.show_text(origin, agent_id, |repl| repl.core.read_mail(agent_id, id)),
            MailAct::Delete(id) => mail::delete_mail(&mut self.core, agent_id, id),
        }
    }

    #[cfg(feature = "coordinator")]
    fn begin_team(&mut self, origin: Origin, agent_id: AgentId, start: TeamStart) -> Result<()> {
        match start {
            TeamStart::Task(line) => self.coordinator.begin_from_chat(&mut self.core, origin, agent_id, &line),
            TeamStart::Review(base) => self.jobs.review(&self.core, origin, agent_id, base),
        }
    }

    #[cfg(feature = "coordinator")]
    fn show_team(&mut self, origin: Origin, agent_id: AgentId) -> Result<()> {
        self.show_text(origin, agent_id, |repl| repl.coordinator.summary(&repl.core))
    }

    #[cfg(not(feature = "coordinator"))]
    fn begin_team(&mut self, _: Origin, _: AgentId, _: TeamStart) -> Result<()> {
        Err(Error::not_built_in("coordinator"))
    }

    #[cfg(not(feature = "coordinator"))]
    fn show_team(&mut self, _: Origin, _: AgentId) -> Result<()> {
        Err(Error::not_built_in("coordinator"))
    }

    fn show_models(&mut self, origin: Origin, agent_id: AgentId) -> Result<()> {
        let text = self.dispatcher.show_models(&self.core, origin, agent_id);
        let Origin::Client(client) = origin else {
            let text = text.unwrap_or_else(|| "asking the servers for their models …".to_owned());
            return self.show_text(origin, agent_id, |_| Ok(text));
        };
        // Without a text it is told when the servers have answered.
        if let Some(text) = text {
            let data = commands::models(&self.core.command_context(agent_id, Vec::new())).into();
            self.core.emit(Event::ClientJobEnded { client, outcome: Ok(JobResult { text, data }) });
        }
        Ok(())
    }

    fn show_limits(&mut self, origin: Origin, agent_id: AgentId, limited: AgentId) -> Result<()> {
        let columns = origin.terminal().and_then(|id| self.terminals.text_columns(id));
        self.show_text(origin, agent_id, |repl| limits::describe(&repl.core, limited, columns))
    }

    fn show(&mut self, origin: Origin, agent_id: AgentId, shown: Shown) -> Result<()> {
        match shown {
            Shown::Limits(limited) => self.show_limits(origin, agent_id, limited),
            Shown::Team => self.show_team(origin, agent_id),
            Shown::Models => self.show_models(origin, agent_id),
            Shown::Rules => self.show_text(origin, agent_id, |repl| rules::describe(&repl.core, agent_id)),
            Shown::View(name) => self.terminals.show_view(&mut self.core, origin, name),
            Shown::Search(query) => self.terminals.show_search(&mut self.core, origin, &query),
            Shown::Message { agent, message } => self.terminals.show_message(&mut self.core, origin, agent, message),
            Shown::Diff(agent) => self.show_diff(origin, agent_id, agent),
        }
    }

    /// Shows the changes of an agent: to be reviewed at a terminal; elsewhere, and if it has ended, as a text.
    fn show_diff(&mut self, origin: Origin, shown_at: AgentId, agent: AgentId) -> Result<()> {
        let is_living = self.core.agent(agent).is_some();
        match is_living && self.terminals.show_review(&mut self.core, origin, agent) {
            true => Ok(()),
            false => self.jobs.diff(&mut self.core, origin, shown_at, agent),
        }
    }

    fn show_text(
        &mut self,
        origin: Origin,
        agent_id: AgentId,
        text: impl FnOnce(&mut Self) -> Result<String>,
    ) -> Result<()> {
        let text = text(self)?;
        self.terminals.show_result(&mut self.core, origin, agent_id, LineKind::Note, &text);
        Ok(())
    }
}

/// Fails if the store or the terminal from which a change comes is read-only.
fn check_permission(core: &Core, terminals: &Terminals, origin: Origin, change: &Change) -> Result<()> {
    if !change.is_read_only_change() {
        core.require_writable()?;
    }
    if origin.terminal().is_some_and(|id| terminals.is_read_only(id)) && !change.is_local_to_terminal() {
        return Err(Error::usage("this terminal is read-only: nothing can be sent or changed here"));
    }
    if core.config().replay.is_some() && change.reaches_outside() {
        return Err(Error::usage("not available in a replay, which reaches nothing outside of it"));
    }
    Ok(())
}

/// Opens the list of commands and keys at a terminal; elsewhere returns it as a text.
fn show_help(core: &Core, terminals: &mut Terminals, origin: Origin, agent_id: AgentId) -> Option<String> {
    match origin.terminal().filter(|id| !terminals.is_line_mode(*id)) {
        Some(id) => {
            terminals.show_help(core, id, false);
            None
        }
        None => Some(commands::help_text(&core.command_context(agent_id, Vec::new()))),
    }
}

/// Archives members of a task, except for those that a person looks at or has given something to do.
fn archive_members(core: &mut Core, terminals: &Terminals, members: &[AgentId]) -> Result<()> {
    for id in members.iter().filter(|id| terminals.showing(&[**id]).is_empty()) {
        if core.agent(*id).is_some() && mail::is_at_rest(core, *id) {
            core.archive(*id)?;
        }
    }
    Ok(())
}

fn archive(core: &mut Core, terminals: &Terminals, asked_at: AgentId, act: ArchiveAct) -> Result<()> {
    match act {
        ArchiveAct::Archive(archived) => archive_for_person(core, asked_at, archived),
        ArchiveAct::ArchiveWhenIdle(top) => {
            core.roster().subtree(top).into_iter().for_each(|id| archive_when_idle(core, id));
            Ok(())
        }
        ArchiveAct::ArchiveMembers(members) => archive_members(core, terminals, &members),
        ArchiveAct::Unarchive(archived) => unarchive(core, asked_at, archived),
    }
}

fn unarchive(core: &mut Core, asked_at: AgentId, archived: AgentId) -> Result<()> {
    archive::unarchive(core, archived, false)?;
    let note = format!("{} is back from the archive", core.roster().label_of(archived));
    core.note(asked_at, LineKind::Mark, &note);
    Ok(())
}

fn answer(core: &mut Core, agent_id: AgentId, question: u64, decision: &Decision) -> Result<()> {
    let is_open = core.agent(agent_id).and_then(Agent::question).is_some_and(|open| open.number == question);
    match decision {
        Decision::Always(scope) => rules::grant(core, agent_id, question, *scope, None)?,
        Decision::Rules(scope, rules) => rules::grant(core, agent_id, question, *scope, Some(rules))?,
        Decision::DenyAlways(_) => rules::refuse(core, agent_id, question)?,
        Decision::Edit(text) => {
            let edited = core.with_agent(agent_id, |agent, context| agent.edit_call(question, text, context));
            return edited.ok_or_else(agent_gone)?.map_err(Error::usage);
        }
        Decision::Allow | Decision::AllowUnread | Decision::Deny(_) => {}
    }
    if is_open && !matches!(decision, Decision::Deny(_) | Decision::DenyAlways(_)) {
        // A call that ran without this would be asked about again after a crash, and run twice.
        let rule =
            if matches!(decision, Decision::Always(_) | Decision::Rules(..)) { "the rule was saved, but " } else { "" };
        end_question(core, agent_id).map_err(|error| Error {
            message: format!("{rule}the answer was not saved, so nothing was run: {}", error.message),
            ..error
        })?;
    }
    let answered = core.with_agent(agent_id, |agent, context| agent.answer(question, decision, context));
    answered.map(drop).ok_or_else(agent_gone)
}

/// The file to which a person's instructions are added.
pub(super) fn instructions_file(core: &Core, agent_id: AgentId) -> Option<PathBuf> {
    Some(instruction_file(&core.agent(agent_id)?.inputs.environment.working_directory))
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
