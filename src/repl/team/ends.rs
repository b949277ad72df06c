//! How a member's part ends, and how a run does. Outside of a chat nothing of either stays in memory but what became of it;
//! in a chat the asker is written to, and who may be of interest stays to be looked at and spoken to.

use std::rc::Rc;

use crate::agent::{Agent, Role};
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::message::Body;
use crate::domain::scrollback::LineKind;
use crate::repl::Repl;
use crate::repl::team::{REMEMBERED, Run, RunId, Team};
use crate::team::coordinator::event::What;
use crate::team::coordinator::outcome::Outcome;
use crate::team::coordinator::result::{Ending, MemberResult};
use crate::team::coordinator::task::{JUDGE, Task, Who};

/// One whose part is over.
struct Leaving {
    agent: AgentId,
    origin: AgentId,
    /// The run belongs to a chat, and this one is not its judge.
    is_in_chat: bool,
    /// The run was interrupted.
    is_interrupted: bool,
}

impl Team {
    /// Whether this agent plays a member of a run.
    pub(in crate::repl) fn plays(&self, agent: AgentId) -> bool {
        self.parts.contains_key(&agent)
    }

    /// Whether a run that goes on needs this agent in memory.
    pub(in crate::repl) fn needs(&self, agent: AgentId) -> bool {
        self.plays(agent) || self.open_runs().any(|run| run.origin == agent)
    }

    pub(super) fn open_runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.outcome.is_none())
    }

    /// A run is to end with what there is.
    pub(super) fn interrupt(&mut self, run: &RunId, now: Moment) {
        if let Some(run) = self.run_mut(run) {
            run.is_interrupted = true;
        }
        self.with_task(run, now, Task::on_interrupt);
    }

    /// A member, by its name, is over: the agent that has played it plays no more.
    fn let_go(&mut self, run: &RunId, member: &str) -> Option<Leaving> {
        let run = self.run_mut(run)?;
        let place = run.task.members().iter().position(|one| one.name == member);
        run.over += usize::from(place.is_some());
        let agent_id = if member == JUDGE { Who::Judge } else { Who::Member(place?) };
        let agent = run.agents.remove(&agent_id)?;
        let is_in_chat = run.knows.is_some() && agent_id != Who::Judge;
        let leaving = Leaving { agent, origin: run.origin, is_in_chat, is_interrupted: run.is_interrupted };
        self.parts.remove(&agent);
        Some(leaving)
    }

    /// Forgets the oldest of those that have ended.
    fn forget_oldest(&mut self) {
        let ended = self.runs.iter().filter(|run| run.outcome.is_some()).count();
        if ended > REMEMBERED
            && let Some(oldest) = self.runs.iter().position(|run| run.outcome.is_some())
        {
            self.runs.remove(oldest);
        }
    }
}

impl Repl {
    /// Does what follows from what has happened in a run, and keeps it for whoever asks.
    pub(super) fn heed_events(&mut self, run: &RunId) {
        let Some(events) = self.team.run_mut(run).map(|run| run.task.take_events()) else { return };
        for event in &events {
            match &event.what {
                What::AgentFinished(result) => self.dismiss(run, &result.member, Some(result)),
                What::AgentSkipped { member, .. } => self.dismiss(run, member, None),
                _ => {}
            }
        }
        if let Some(run) = self.team.run_mut(run) {
            run.events.extend(events);
        }
    }

    /// A member is over: what it does for the task is cut at once, and what it has said is kept.
    fn dismiss(&mut self, run: &RunId, member: &str, result: Option<&MemberResult>) {
        let Some(leaving) = self.team.let_go(run, member) else { return };
        let (agent, ending) = (leaving.agent, result.map(|result| &result.ending));
        self.core.roster.with(agent, |agent| (agent.role, agent.retry) = (Role::Normal, None));
        // Who has said all that it had to say may be at work for a person already.
        if !matches!(ending, Some(Ending::Answered(_) | Ending::Failed(_))) {
            self.core.with_agent(agent, Agent::interrupt);
            self.apply_effects();
        }
        if let Some(Ending::Answered(answer)) = ending {
            self.report(run, &leaving, answer);
        }
        let stays = leaving.is_in_chat
            && match ending {
                Some(Ending::Answered(_) | Ending::Failed(_) | Ending::TimedOut(_)) => true,
                Some(Ending::Cancelled(_)) => leaving.is_interrupted,
                Some(Ending::Skipped(_)) | None => false,
            };
        if !stays && let Err(error) = self.core.kill(agent, true) {
            self.core.note(leaving.origin, LineKind::Error, &error.message);
        }
    }

    /// An answer goes to the next stage, and in a chat to the asker.
    fn report(&mut self, run: &RunId, member: &Leaving, answer: &str) {
        if let Some(pipeline) = self.team.run_mut(run).and_then(|run| run.pipeline.as_mut()) {
            *pipeline = Some(member.agent);
        }
        let has_reader = self.core.roster.get(member.origin).is_some();
        if member.is_in_chat
            && has_reader
            && !answer.trim().is_empty()
            && let Err(error) = self.core.send_mail(member.agent, member.origin, answer)
        {
            self.core.note(member.origin, LineKind::Error, &error.message);
        }
    }

    /// The run is over.
    pub(super) fn end_run(&mut self, run: &RunId, outcome: Rc<Outcome>) {
        let stored = self.core.store.end_run(run.as_str(), &outcome.json(), self.core.clock.unix_ms());
        let Some(ended) = self.team.run_mut(run) else { return };
        let (origin, is_in_chat) = (ended.origin, ended.knows.is_some());
        (ended.has_news, ended.wait) = (false, None);
        ended.outcome = Some(Rc::clone(&outcome));
        self.team.forget_oldest();
        self.count_tasks(origin);
        if let Err(error) = stored {
            self.core.note(origin, LineKind::Error, &format!("what became of the task is only in memory: {error}"));
        }
        if is_in_chat && self.core.roster.get(origin).is_some() {
            self.tell_outcome(origin, words(&outcome));
        }
    }

    /// The asker is told, and its log has it.
    fn tell_outcome(&mut self, origin: AgentId, words: String) {
        let now = self.core.clock.unix_ms();
        match self.core.store.append(origin, vec![Body::Command(words.clone())], now) {
            Ok(stored) => self.core.remember(origin, stored),
            Err(_) => self.core.note(origin, LineKind::Note, &words),
        }
    }

    /// An agent for which others work shows that something is under way.
    pub(super) fn count_tasks(&mut self, origin: AgentId) {
        let open = self.team.open_runs().filter(|run| run.origin == origin).count();
        self.core.roster.with(origin, |agent| agent.set_tasks(open));
    }

    /// The end of the program: every run ends with what there is.
    pub(in crate::repl) fn end_all_runs(&mut self) {
        let now = self.core.clock.now();
        let open: Vec<RunId> = self.team.open_runs().map(|run| run.id.clone()).collect();
        open.iter().for_each(|run| self.team.interrupt(run, now));
        // Each turn of a run that was interrupted takes it nearer to its end, and 100 members take two.
        while self.team.has_news() {
            self.play_runs();
        }
    }

    /// How far the work for this agent is, for a person; none if nobody works for it.
    pub(in crate::repl) fn team_words(&self, origin: AgentId) -> Option<String> {
        let open = self.team.open_runs().filter(|run| run.origin == origin);
        let (over, all) = open.fold((0, 0), |(over, all), run| (over + run.over, all + run.task.members().len()));
        (all > 0).then(|| format!("team: {over} of {all} are done (Esc stops it)"))
    }
}

/// What became of a run, for a person: the answer behind all that is to be said about it.
fn words(outcome: &Outcome) -> String {
    let answered = outcome.results.iter().filter(|result| result.is_success()).count();
    let mut words = format!(
        "team {}: {answered} of {} in {:.1} s, {}",
        outcome.run,
        text::counted(outcome.results.len(), "member has answered", "members have answered"),
        outcome.duration.as_secs_f64(),
        text::counted(usize::try_from(outcome.tokens).unwrap_or(usize::MAX), "token", "tokens"),
    );
    let chosen = outcome.chosen.as_ref().map(|chosen| format!("the answer of {chosen}"));
    let error = outcome.error().map(|error| format!("not completed: {error}"));
    for line in chosen.into_iter().chain(outcome.notes.iter().cloned()).chain(outcome.failures()).chain(error) {
        words.push_str(&format!("\n- {line}"));
    }
    if let Some(answer) = &outcome.answer {
        words.push_str(&format!("\n\n{answer}"));
    }
    words
}
