//! The end of a member and of a run. In a chat the origin gets mail and, when it is idle, the result as a message that its
//! model sees; members are archived when the run ends. Other members are removed.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::agent::{Agent, Role};
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::change::{ArchiveAct, Change};
use crate::domain::flow::Origin;
use crate::domain::message::{Body, TEAM_RESULT};
use crate::domain::scrollback::LineKind;
use crate::repl::component::Command;
use crate::repl::coordinator::{Coordinator, MAX_FINISHED, Run, RunId, TeamResult};
use crate::repl::core::Core;
use crate::repl::core::archive::archive_when_idle;
use crate::repl::event::Event;
use crate::team::coordinator::event::EventKind;
use crate::team::coordinator::outcome::Outcome;
use crate::team::coordinator::result::{MemberOutcome, MemberResult};
use crate::team::coordinator::task::{JUDGE, MemberId, Task};

/// Columns of the task in its outcome.
const TASK_COLUMNS: usize = 200;

/// An agent that no longer works on a run.
struct Released {
    agent: AgentId,
    origin: AgentId,
    /// The run belongs to a chat, and the agent is not its judge.
    is_in_chat: bool,
    is_interrupted: bool,
}

impl Coordinator {
    pub(super) fn open_runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.outcome.is_none())
    }

    /// Ends a run with the answers that there are.
    pub(super) fn interrupt(&mut self, run: &RunId, now: Moment) {
        if let Some(run) = self.run_mut(run) {
            run.is_interrupted = true;
        }
        self.with_task(run, now, Task::on_interrupt);
    }

    /// A member is done: its agent no longer works on the run.
    fn release(&mut self, run: &RunId, member: &str) -> Option<Released> {
        let run = self.run_mut(run)?;
        let index = run.task.members().iter().position(|other| other.name == member);
        run.done += usize::from(index.is_some());
        let member_id = if member == JUDGE { MemberId::Judge } else { MemberId::Member(index?) };
        let agent = run.agents.remove(&member_id)?;
        let is_in_chat = run.fork_point.is_some() && member_id != MemberId::Judge;
        let released = Released { agent, origin: run.origin, is_in_chat, is_interrupted: run.is_interrupted };
        self.assignments.remove(&agent);
        Some(released)
    }

    fn drop_oldest_finished(&mut self) {
        let ended = self.runs.iter().filter(|run| run.outcome.is_some()).count();
        if ended > MAX_FINISHED
            && let Some(oldest) = self.runs.iter().position(|run| run.outcome.is_some())
        {
            self.runs.remove(oldest);
        }
    }
}

impl Coordinator {
    /// Handles the new events of a run and keeps them for the caller.
    pub(super) fn handle_events(&mut self, core: &mut Core, run: &RunId, commands: &mut Vec<Command>) {
        let Some(events) = self.run_mut(run).map(|run| run.task.take_events()) else { return };
        for event in &events {
            match &event.kind {
                EventKind::AgentFinished(result) => {
                    self.finish_member(core, run, &result.member, Some(result), commands)
                }
                EventKind::AgentSkipped { member, .. } => self.finish_member(core, run, member, None, commands),
                _ => {}
            }
        }
        let Some(run) = self.run_mut(run) else { return };
        match run.wanted_by {
            Origin::Client(client) => {
                let events = events.iter().map(|event| event.json(run.id.as_str()));
                events.for_each(|event| core.emit(Event::ClientRunWent { client, event }));
            }
            _ => run.events.extend(events),
        }
    }

    /// Stops the agent of a member that is done, delivers its answer and has the agent killed unless it stays.
    fn finish_member(
        &mut self,
        core: &mut Core,
        run: &RunId,
        member: &str,
        result: Option<&MemberResult>,
        commands: &mut Vec<Command>,
    ) {
        let released = self.release(run, member);
        if let Some(origin) = self.run(run).map(|run| run.origin) {
            self.publish_progress(core, origin);
        }
        let Some(released) = released else { return };
        let (agent, ending) = (released.agent, result.map(|result| &result.outcome));
        core.edit(agent, |agent| (agent.role, agent.retry) = (Role::Normal, None));
        // An agent that answered or failed is idle already, or works for the user.
        if !matches!(ending, Some(MemberOutcome::Answered(_) | MemberOutcome::Failed(_))) {
            let stop = if self.is_shutting_down { Agent::exit } else { Agent::interrupt };
            core.with_agent(agent, stop);
        }
        if let Some(MemberOutcome::Answered(answer)) = ending {
            self.deliver_answer(core, run, &released, answer);
        }
        let stays = released.is_in_chat
            && match ending {
                Some(MemberOutcome::Answered(_) | MemberOutcome::Failed(_) | MemberOutcome::TimedOut(_)) => true,
                Some(MemberOutcome::Cancelled(_)) => released.is_interrupted,
                Some(MemberOutcome::Skipped(_)) | None => false,
            };
        if stays {
            self.run_mut(run).into_iter().for_each(|run| run.stayed.push(agent));
        } else {
            // By then the results of the interrupt are stored.
            let change = Change::Kill { agent_id: agent, cascade: true };
            commands.push(Command { origin: Origin::Internal, agent: released.origin, change });
        }
    }

    /// Sends an answer to the next stage or to the origin.
    fn deliver_answer(&mut self, core: &mut Core, run: &RunId, member: &Released, answer: &str) {
        if let Some(pipeline) = self.run_mut(run).and_then(|run| run.pipeline.as_mut()) {
            *pipeline = Some(member.agent);
        }
        let has_reader = core.agent(member.origin).is_some();
        if member.is_in_chat && has_reader && !answer.trim().is_empty() {
            match core.send_mail(member.agent, member.origin, answer) {
                Ok(mail) => self.run_mut(run).into_iter().for_each(|run| run.mail.push(mail)),
                Err(error) => core.note(member.origin, LineKind::Error, &error.message),
            }
        }
    }

    pub(super) fn end_run(&mut self, core: &mut Core, run: &RunId, outcome: Rc<Outcome>, commands: &mut Vec<Command>) {
        let stored = core.store().end_run(run.as_str(), &outcome.json(), core.clock().unix_ms());
        let Some(ended) = self.run_mut(run) else { return };
        let (origin, wanted_by, is_in_chat) = (ended.origin, ended.wanted_by, ended.fork_point.is_some());
        (ended.is_ready, ended.wait) = (false, None);
        let (names, stayed) = (std::mem::take(&mut ended.names), std::mem::take(&mut ended.stayed));
        let mail = std::mem::take(&mut ended.mail);
        let task = ended.task.text();
        ended.outcome = Some(Rc::clone(&outcome));
        self.drop_oldest_finished();
        self.publish_progress(core, origin);
        if let Err(error) = stored {
            core.note(origin, LineKind::Error, &format!("cannot store the outcome of the task: {error}"));
        }
        if is_in_chat && core.agent(origin).is_some() {
            self.results.push(TeamResult { origin, text: outcome_text(&outcome, &task, &names), mail });
        }
        if let Origin::Client(client) = wanted_by {
            core.emit(Event::ClientRunEnded { client, outcome: outcome.json() });
            // It was made for this run.
            core.roster().subtree(origin).into_iter().for_each(|agent| archive_when_idle(core, agent));
        }
        if !stayed.is_empty() && !self.is_shutting_down {
            commands.push(Command {
                origin: Origin::Internal,
                agent: origin,
                change: Change::Archive(ArchiveAct::ArchiveMembers(stayed)),
            });
        }
    }

    /// Adds results to the conversations of the agents that the runs were for, where those agents are idle: within a turn
    /// a message would separate calls from their results.
    pub(super) fn deliver_results(&mut self, core: &mut Core) {
        let is_exiting = self.is_shutting_down;
        self.results.retain(|TeamResult { origin, text, mail }| {
            if core.agent(*origin).is_none() {
                return false;
            }
            match core.append_event(*origin, Body::System(text.clone())) {
                Ok(stored) => core.remember(*origin, stored),
                Err(_) if core.require_idle(*origin).is_err() && !is_exiting => return true,
                // The person knows it at least.
                Err(_) => log_outcome(core, *origin, text.clone()),
            }
            // One that was deleted meanwhile cannot be read.
            mail.iter().for_each(|mail| drop(core.read_mail(*origin, Some(*mail))));
            false
        });
    }

    /// Shows an agent the progress of the members that work for it.
    pub(super) fn publish_progress(&self, core: &mut Core, origin: AgentId) {
        let open: Vec<&Run> = self.open_runs().filter(|run| run.origin == origin).collect();
        let done = open.iter().map(|run| run.done).sum();
        let all = open.iter().map(|run| run.task.members().len()).sum();
        core.edit(origin, |agent| agent.set_tasks(open.len(), (done, all)));
    }

    /// Ends all runs with the answers that there are, when the program ends.
    pub(in crate::repl) fn shutdown(&mut self, now: Moment) {
        self.is_shutting_down = true;
        let open: Vec<RunId> = self.open_runs().map(|run| run.id.clone()).collect();
        open.iter().for_each(|run| self.interrupt(run, now));
    }
}

/// Shows the outcome of a run, which the model does not see.
fn log_outcome(core: &mut Core, origin: AgentId, text: String) {
    let now = core.clock().unix_ms();
    let saved = core.save_unsaved(origin);
    match saved.and_then(|()| core.store().append(origin, vec![Body::Command(text.clone())], now)) {
        Ok(stored) => core.remember(origin, stored),
        Err(_) => core.note(origin, LineKind::Note, &text),
    }
}

/// The outcome for the user: statistics and problems, then the answer. Members are called by the names of their agents.
fn outcome_text(outcome: &Outcome, task: &str, names: &BTreeMap<String, String>) -> String {
    let name_of = |member: &str| names.get(member).map_or(member, String::as_str).to_owned();
    let answered = outcome.results.iter().filter(|result| result.is_success()).count();
    let mut text = format!(
        "{TEAM_RESULT}{}: {answered} of {} in {:.1} s, {}",
        outcome.run,
        text::counted(outcome.results.len(), "member answered", "members answered"),
        outcome.duration.as_secs_f64(),
        text::counted(usize::try_from(outcome.tokens).unwrap_or(usize::MAX), "token", "tokens"),
    );
    let task = task.lines().next().unwrap_or_default();
    text.push_str(&format!("\n- task: {}", text::shortened(&text::sanitise(task), TASK_COLUMNS)));
    let chosen = outcome.chosen.as_ref().map(|chosen| format!("answer of {}", name_of(chosen)));
    let failed = outcome.results.iter().filter(|result| result.failure().is_some());
    let failures = failed.map(|result| format!("{}: {}", name_of(&result.member), result.error().unwrap_or_default()));
    let error = outcome.error().map(|error| format!("not completed: {error}"));
    for line in chosen.into_iter().chain(outcome.notes.iter().cloned()).chain(failures).chain(error) {
        text.push_str(&format!("\n- {line}"));
    }
    if let Some(answer) = &outcome.answer {
        text.push_str(&format!("\n\n{answer}"));
    }
    text
}
