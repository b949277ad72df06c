//! How a member's part ends, and how a run does.

use std::rc::Rc;

use crate::agent::Agent;
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::domain::scrollback::LineKind;
use crate::repl::Repl;
use crate::repl::team::{REMEMBERED, Run, RunId, Team};
use crate::team::coordinator::event::What;
use crate::team::coordinator::outcome::Outcome;
use crate::team::coordinator::task::{JUDGE, Task, Who};

impl Team {
    /// Whether this agent plays a member of a run.
    pub(in crate::repl) fn plays(&self, agent: AgentId) -> bool {
        self.parts.contains_key(&agent)
    }

    /// Whether a run that goes on needs this agent in memory.
    pub(in crate::repl) fn needs(&self, agent: AgentId) -> bool {
        self.plays(agent) || self.open_runs().any(|run| run.asker == agent)
    }

    pub(super) fn open_runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.outcome.is_none())
    }

    /// A run is to end with what there is.
    pub(super) fn interrupt(&mut self, run: &RunId, now: Moment) {
        self.with_task(run, now, Task::on_interrupt);
    }

    /// A member, by its name, is over: the agent that has played it, if one has.
    fn take_player(&mut self, run: &RunId, member: &str) -> Option<AgentId> {
        let run = self.run_mut(run)?;
        let who = if member == JUDGE {
            Who::Judge
        } else {
            Who::Member(run.task.members().iter().position(|one| one.name == member)?)
        };
        let agent = run.agents.remove(&who)?;
        self.parts.remove(&agent);
        Some(agent)
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
                What::AgentFinished(result) => self.dismiss(run, &result.member),
                What::AgentSkipped { member, .. } => self.dismiss(run, member),
                _ => {}
            }
        }
        if let Some(run) = self.team.run_mut(run) {
            run.events.extend(events);
        }
    }

    /// A member is over: whatever it does is cut at once, what it has said is kept, and its agent dies.
    fn dismiss(&mut self, run: &RunId, member: &str) {
        let Some(agent) = self.team.take_player(run, member) else { return };
        self.with_agent(agent, Agent::interrupt);
        self.apply_effects();
        if let Err(error) = self.kill(agent, true) {
            self.note(agent, LineKind::Error, &error.message);
        }
    }

    /// The run is over.
    pub(super) fn end_run(&mut self, run: &RunId, outcome: Rc<Outcome>) {
        if let Some(run) = self.team.run_mut(run) {
            (run.outcome, run.has_news, run.wait) = (Some(outcome), false, None);
        }
        self.team.forget_oldest();
    }
}
