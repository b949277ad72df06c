//! What happens in a run by itself: deadlines, attempts that are due, who starts next, and what the end of one means
//! for the others.

use std::rc::Rc;

use super::{Context, Stage, Step, Stop, Task, Who};
use crate::base::clock::Moment;
use crate::team::coordinator::attempts::{Attempts, Phase};
use crate::team::coordinator::event::{Event, What};
use crate::team::coordinator::health::Admission;
use crate::team::coordinator::result::{Ending, MemberResult};
use crate::team::coordinator::schedule::{Move, Picture};

impl Task {
    /// Stops whose time has run out, and asks again whose wait is over.
    pub(super) fn keep_time(&mut self, context: &mut Context<'_>) {
        for at in 0..self.efforts.len() {
            let attempts = &self.efforts[at];
            if attempts.deadline(self.settings.agent_timeout).is_some_and(|deadline| deadline <= context.now) {
                let before =
                    attempts.last_error.as_ref().map_or_else(String::new, |error| format!("; before that: {error}"));
                self.end(at, Ending::TimedOut(format!("timed out after {}{before}", self.time())), context);
            } else if matches!(attempts.phase, Phase::Retrying(until) if until <= context.now) {
                self.ask(at);
            }
        }
    }

    /// Starts whoever can start, up to the end of the run.
    pub(super) fn advance(&mut self, context: &mut Context<'_>) {
        while self.stage == Stage::Working {
            match self.next_move() {
                Move::Start(at, prompt) => self.admit(at, prompt, context),
                Move::Skip(at, why) => self.end(at, Ending::Skipped(why), context),
                Move::Wait => return,
                Move::Done(failure) => self.conclude(failure),
            }
        }
        if let Stage::Judging(failure) = &self.stage
            && !self.efforts[self.members.len()].is_live()
        {
            self.finish(failure.clone(), context.now);
        }
    }

    fn next_move(&self) -> Move {
        if self.stop.is_some() {
            return Move::Done(None);
        }
        let efforts = &self.efforts[..self.members.len()];
        let standings = efforts.iter().map(Attempts::standing).collect();
        self.schedule.next(&Picture { task: &self.text, members: &self.members, standings })
    }

    fn admit(&mut self, at: usize, prompt: Rc<str>, context: &mut Context<'_>) {
        let admission = context.health.admit(&self.members[at].name, self.settings.breaker, context.now);
        if admission == Admission::Refused {
            let words = "it failed too often in a row and is left alone for a while".to_owned();
            return self.end(at, Ending::Skipped(words), context);
        }
        self.efforts[at].is_probe = admission == Admission::Probe;
        self.efforts[at].prompt = prompt;
        self.ask(at);
    }

    pub(super) fn ask(&mut self, at: usize) {
        let agent_id = self.agent_id(at);
        let attempts = &mut self.efforts[at];
        attempts.phase = Phase::Asked;
        attempts.attempts += 1;
        self.steps.push_back(Step::Start { agent_id, prompt: Rc::clone(&attempts.prompt), attempt: attempts.attempts });
    }

    /// Where news of somebody belong, if they are expected and in time. Who is heard of has begun.
    pub(super) fn heard_of(&mut self, agent_id: Who, context: &mut Context<'_>) -> Option<usize> {
        self.keep_time(context);
        let at = self.place(agent_id);
        self.efforts.get(at).filter(|attempts| attempts.phase == Phase::Asked)?;
        self.on_begun(agent_id, context.now);
        Some(at)
    }

    pub(super) fn stop_all(&mut self, stop: Stop, why: &str, context: &mut Context<'_>) {
        self.stop = Some(stop);
        for at in 0..self.efforts.len() {
            match self.efforts[at] {
                Attempts { phase: Phase::Over(_), .. } => {}
                Attempts { phase: Phase::Idle, .. } if self.agent_id(at) == Who::Judge => {}
                Attempts { begun: Some(_), .. } => self.end(at, Ending::Cancelled(format!("stopped: {why}")), context),
                Attempts { begun: None, .. } => self.end(at, Ending::Skipped(format!("not started: {why}")), context),
            }
        }
    }

    /// One is over: what was asked of it is taken back, its health learns of it, and so does whoever listens.
    pub(super) fn end(&mut self, at: usize, ending: Ending, context: &mut Context<'_>) {
        let agent_id = self.agent_id(at);
        let name = self.member(agent_id).name.clone();
        let (was_live, is_probe) = (self.efforts[at].is_live(), self.efforts[at].is_probe);
        if was_live && !matches!(ending, Ending::Answered(_) | Ending::Failed(_)) {
            self.take_back(agent_id);
        }
        let result = self.efforts[at].end(&name, ending, self.began, context.now);
        if agent_id != Who::Judge {
            match &result.ending {
                Ending::Answered(_) => context.health.on_success(&name),
                Ending::Failed(_) | Ending::TimedOut(_) => {
                    context.health.on_failure(&name, self.settings.breaker, context.now);
                }
                _ if is_probe => context.health.on_probe_cancelled(&name, context.now),
                Ending::Skipped(_) | Ending::Cancelled(_) => {}
            }
        }
        let what = match &result.ending {
            Ending::Skipped(reason) => What::AgentSkipped { member: name, reason: reason.clone() },
            _ => What::AgentFinished(result),
        };
        self.tell(what, context.now);
    }

    /// What was not even carried out is not asked any more; what was is cancelled.
    fn take_back(&mut self, agent_id: Who) {
        let asked = self.steps.len();
        self.steps.retain(|step| !matches!(step, Step::Start { agent_id: other, .. } if *other == agent_id));
        let is_known = self.efforts[self.place(agent_id)].attempts > 1;
        if self.steps.len() == asked || is_known {
            self.steps.push_back(Step::Cancel { agent_id });
        }
    }

    pub(super) fn tell(&mut self, what: What, now: Moment) {
        self.event_count += 1;
        self.events.push(Event { number: self.event_count, at: now - self.began, what });
    }

    pub(super) fn results(&self) -> Vec<MemberResult> {
        self.efforts[..self.members.len()].iter().filter_map(Attempts::result).cloned().collect()
    }

    /// The results of which the answer is made.
    pub(super) fn counted(&self) -> Vec<MemberResult> {
        let results = self.results().into_iter().enumerate();
        results.filter(|(at, _)| self.schedule.counts(*at)).map(|(_, result)| result).collect()
    }

    pub(super) fn place(&self, agent_id: Who) -> usize {
        match agent_id {
            // A place that there is not is behind everybody's, the judge's included.
            Who::Member(at) if at >= self.members.len() => usize::MAX,
            Who::Member(at) => at,
            Who::Judge => self.members.len(),
        }
    }

    const fn agent_id(&self, at: usize) -> Who {
        if at < self.members.len() { Who::Member(at) } else { Who::Judge }
    }

    /// How long a member may take, for a person.
    pub(super) fn time(&self) -> String {
        format!("{} s", self.settings.agent_timeout.as_secs_f64())
    }
}
