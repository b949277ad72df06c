//! The end of a member and of a run. In a chat the origin gets mail and a note, and members stay; other members are
//! removed.

use std::rc::Rc;

use crate::agent::Agent;
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::message::Body;
use crate::domain::scrollback::LineKind;
use crate::repl::Repl;
use crate::repl::team::{MAX_FINISHED, Run, RunId, Team};
use crate::team::coordinator::event::EventKind;
use crate::team::coordinator::outcome::Outcome;
use crate::team::coordinator::result::{MemberOutcome, MemberResult};
use crate::team::coordinator::task::{JUDGE, MemberId, Task};

/// An agent that no longer works on a run.
struct Released {
    agent: AgentId,
    origin: AgentId,
    /// The run belongs to a chat, and the agent is not its judge.
    is_in_chat: bool,
    is_interrupted: bool,
}

impl Team {
    /// Whether this agent works on a run.
    pub(in crate::repl) fn is_member(&self, agent: AgentId) -> bool {
        self.assignments.contains_key(&agent)
    }

    /// Whether an unfinished run needs this agent in memory.
    pub(in crate::repl) fn needs(&self, agent: AgentId) -> bool {
        self.is_member(agent) || self.open_runs().any(|run| run.origin == agent)
    }

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
        let place = run.task.members().iter().position(|one| one.name == member);
        run.done += usize::from(place.is_some());
        let member_id = if member == JUDGE { MemberId::Judge } else { MemberId::Member(place?) };
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

impl Repl {
    /// Handles the new events of a run and keeps them for the caller.
    pub(super) fn handle_events(&mut self, run: &RunId) {
        let Some(events) = self.team.run_mut(run).map(|run| run.task.take_events()) else { return };
        for event in &events {
            match &event.kind {
                EventKind::AgentFinished(result) => self.finish_member(run, &result.member, Some(result)),
                EventKind::AgentSkipped { member, .. } => self.finish_member(run, member, None),
                _ => {}
            }
        }
        if let Some(run) = self.team.run_mut(run) {
            run.events.extend(events);
        }
    }

    /// Stops the agent of a member that is done, delivers its answer and removes the agent unless it stays.
    fn finish_member(&mut self, run: &RunId, member: &str, result: Option<&MemberResult>) {
        let Some(released) = self.team.release(run, member) else { return };
        let (agent, ending) = (released.agent, result.map(|result| &result.outcome));
        // An agent that answered or failed is idle already, or works for the user.
        if !matches!(ending, Some(MemberOutcome::Answered(_) | MemberOutcome::Failed(_))) {
            self.with_agent(agent, Agent::interrupt);
            self.apply_effects();
        }
        if let Some(MemberOutcome::Answered(answer)) = ending {
            self.deliver_answer(run, &released, answer);
        }
        let stays = released.is_in_chat
            && match ending {
                Some(MemberOutcome::Answered(_) | MemberOutcome::Failed(_) | MemberOutcome::TimedOut(_)) => true,
                Some(MemberOutcome::Cancelled(_)) => released.is_interrupted,
                Some(MemberOutcome::Skipped(_)) | None => false,
            };
        if !stays && let Err(error) = self.kill(agent, true) {
            self.note(released.origin, LineKind::Error, &error.message);
        }
    }

    /// Sends an answer to the next stage or to the origin.
    fn deliver_answer(&mut self, run: &RunId, member: &Released, answer: &str) {
        if let Some(pipeline) = self.team.run_mut(run).and_then(|run| run.pipeline.as_mut()) {
            *pipeline = Some(member.agent);
        }
        let has_reader = self.roster.get(member.origin).is_some();
        if member.is_in_chat
            && has_reader
            && !answer.trim().is_empty()
            && let Err(error) = self.send_mail(member.agent, member.origin, answer)
        {
            self.note(member.origin, LineKind::Error, &error.message);
        }
    }

    pub(super) fn end_run(&mut self, run: &RunId, outcome: Rc<Outcome>) {
        let stored = self.shared.store.end_run(run.as_str(), &outcome.json(), self.shared.clock.unix_ms());
        let Some(ended) = self.team.run_mut(run) else { return };
        let (origin, is_in_chat) = (ended.origin, ended.fork_point.is_some());
        (ended.is_ready, ended.wait) = (false, None);
        ended.outcome = Some(Rc::clone(&outcome));
        self.team.drop_oldest_finished();
        self.count_tasks(origin);
        if let Err(error) = stored {
            self.note(origin, LineKind::Error, &format!("cannot store the outcome of the task: {error}"));
        }
        if is_in_chat && self.roster.get(origin).is_some() {
            self.log_outcome(origin, outcome_text(&outcome));
        }
    }

    /// Shows the outcome to the origin and logs it.
    fn log_outcome(&mut self, origin: AgentId, text: String) {
        let now = self.shared.clock.unix_ms();
        match self.shared.store.append(origin, vec![Body::Command(text.clone())], now) {
            Ok(stored) => self.show_logged(origin, stored),
            Err(_) => self.note(origin, LineKind::Note, &text),
        }
    }

    /// Tells an agent how many runs it has open, for its status.
    pub(super) fn count_tasks(&mut self, origin: AgentId) {
        let open = self.team.open_runs().filter(|run| run.origin == origin).count();
        self.roster.with(origin, |agent| agent.set_tasks(open));
    }

    /// Ends all runs when the program ends.
    pub(in crate::repl) fn end_all_runs(&mut self) {
        let now = self.shared.clock.now();
        let open: Vec<RunId> = self.team.open_runs().map(|run| run.id.clone()).collect();
        open.iter().for_each(|run| self.team.interrupt(run, now));
        // Every turn of an interrupted run brings it nearer to its end; 100 members take two turns.
        while self.team.has_news() {
            self.play_runs();
        }
    }

    /// The progress of the open runs of this agent, for the status line.
    pub(in crate::repl) fn team_words(&self, origin: AgentId) -> Option<String> {
        let open = self.team.open_runs().filter(|run| run.origin == origin);
        let (over, all) = open.fold((0, 0), |(over, all), run| (over + run.done, all + run.task.members().len()));
        (all > 0).then(|| format!("team: {over} of {all} done (Esc stops it)"))
    }
}

/// The outcome for the user: what there is to say about it, then the answer.
fn outcome_text(outcome: &Outcome) -> String {
    let answered = outcome.results.iter().filter(|result| result.is_success()).count();
    let mut text = format!(
        "team {}: {answered} of {} in {:.1} s, {}",
        outcome.run,
        text::counted(outcome.results.len(), "member answered", "members answered"),
        outcome.duration.as_secs_f64(),
        text::counted(usize::try_from(outcome.tokens).unwrap_or(usize::MAX), "token", "tokens"),
    );
    let chosen = outcome.chosen.as_ref().map(|chosen| format!("answer of {chosen}"));
    let error = outcome.error().map(|error| format!("not completed: {error}"));
    for line in chosen.into_iter().chain(outcome.notes.iter().cloned()).chain(outcome.failures()).chain(error) {
        text.push_str(&format!("\n- {line}"));
    }
    if let Some(answer) = &outcome.answer {
        text.push_str(&format!("\n\n{answer}"));
    }
    text
}
