//! The progress of a run: deadlines, retries, which member starts next, and what happens when a member ends.

use std::rc::Rc;

use super::{Context, MemberId, Stage, Step, Stop, Task};
use crate::base::clock::Moment;
use crate::team::coordinator::attempts::{Attempts, Phase};
use crate::team::coordinator::event::{Event, EventKind};
use crate::team::coordinator::health::{self, Admission};
use crate::team::coordinator::member::Member;
use crate::team::coordinator::result::{MemberOutcome, MemberResult};
use crate::team::coordinator::schedule::{Decision, Snapshot};

impl Task {
    /// Cancels members whose time is over and starts retries that are due.
    pub(super) fn check_deadlines(&mut self, context: &mut Context<'_>) {
        for at in 0..self.attempts.len() {
            let attempts = &self.attempts[at];
            if attempts.deadline(self.settings.agent_timeout).is_some_and(|deadline| deadline <= context.now) {
                let previous = attempts
                    .last_error
                    .as_ref()
                    .map_or_else(String::new, |error| format!(" (previous attempt: {error})"));
                let reason = format!("timed out after {}{previous}", self.timeout());
                self.finish_member(at, MemberOutcome::TimedOut(reason), context);
            } else if matches!(attempts.phase, Phase::Retrying(until) if until <= context.now) {
                self.start_attempt(at);
            }
        }
    }

    /// Starts and skips members until the run has to wait or ends.
    pub(super) fn advance(&mut self, context: &mut Context<'_>) {
        while self.stage == Stage::Working {
            match self.decide() {
                Decision::Start(at, prompt) => self.start_member(at, prompt, context),
                Decision::Skip(at, reason) => self.finish_member(at, MemberOutcome::Skipped(reason), context),
                Decision::Wait => return,
                Decision::Done(failure) => self.start_judging(failure),
            }
        }
        if let Stage::Judging(failure) = &self.stage
            && !self.attempts[self.members.len()].is_live()
        {
            self.finish(failure.clone(), context.now);
        }
    }

    fn decide(&self) -> Decision {
        if self.stop.is_some() {
            return Decision::Done(None);
        }
        let statuses = self.attempts[..self.members.len()].iter().map(Attempts::status).collect();
        self.schedule.decide(&Snapshot { task: &self.text, members: &self.members, statuses })
    }

    fn start_member(&mut self, at: usize, prompt: Rc<str>, context: &mut Context<'_>) {
        let admission = context.health.admit(&self.health_key(at), self.settings.breaker, context.now);
        if admission == Admission::Refused {
            let reason = "circuit breaker open after too many failures in a row".to_owned();
            return self.finish_member(at, MemberOutcome::Skipped(reason), context);
        }
        self.attempts[at].is_probe = admission == Admission::Probe;
        self.attempts[at].prompt = prompt;
        self.start_attempt(at);
    }

    fn health_key(&self, at: usize) -> String {
        let Member { name, model, .. } = &self.members[at];
        health::key(name, model.as_deref().unwrap_or(&self.usual_model))
    }

    pub(super) fn start_attempt(&mut self, at: usize) {
        let member_id = self.member_id(at);
        let attempts = &mut self.attempts[at];
        attempts.phase = Phase::Running;
        attempts.count += 1;
        self.steps.push_back(Step::Start { member_id, prompt: Rc::clone(&attempts.prompt), attempt: attempts.count });
    }

    /// The index of a member from which a response arrives, if it is running and in time. A response implies a start.
    pub(super) fn running_member(&mut self, member_id: MemberId, context: &mut Context<'_>) -> Option<usize> {
        self.check_deadlines(context);
        let at = self.index(member_id);
        self.attempts.get(at).filter(|attempts| attempts.phase == Phase::Running)?;
        self.on_started(member_id, context.now);
        Some(at)
    }

    pub(super) fn stop_all(&mut self, stop: Stop, reason: &str, context: &mut Context<'_>) {
        self.stop = Some(stop);
        for at in 0..self.attempts.len() {
            let outcome = match self.attempts[at] {
                Attempts { phase: Phase::Done(_), .. } => continue,
                Attempts { phase: Phase::Idle, .. } if self.member_id(at) == MemberId::Judge => continue,
                Attempts { started_at: Some(_), .. } => MemberOutcome::Cancelled(format!("stopped: {reason}")),
                Attempts { started_at: None, .. } => MemberOutcome::Skipped(format!("not started: {reason}")),
            };
            self.finish_member(at, outcome, context);
        }
    }

    /// Ends one member: cancels its running work, updates its health and records the event.
    pub(super) fn finish_member(&mut self, at: usize, outcome: MemberOutcome, context: &mut Context<'_>) {
        let member_id = self.member_id(at);
        let name = self.member(member_id).name.clone();
        let (was_live, is_probe) = (self.attempts[at].is_live(), self.attempts[at].is_probe);
        if was_live && !matches!(outcome, MemberOutcome::Answered(_) | MemberOutcome::Failed(_)) {
            self.cancel_attempt(member_id);
        }
        let result = self.attempts[at].finish(&name, outcome, self.started_at, context.now);
        if member_id != MemberId::Judge {
            let key = self.health_key(at);
            match &result.outcome {
                MemberOutcome::Answered(_) => context.health.on_success(&key),
                MemberOutcome::Failed(_) | MemberOutcome::TimedOut(_) => {
                    context.health.on_failure(&key, self.settings.breaker, context.now);
                }
                _ if is_probe => context.health.on_probe_cancelled(&key, context.now),
                MemberOutcome::Skipped(_) | MemberOutcome::Cancelled(_) => {}
            }
        }
        let event = match &result.outcome {
            MemberOutcome::Skipped(reason) => EventKind::AgentSkipped { member: name, reason: reason.clone() },
            _ => EventKind::AgentFinished(result),
        };
        self.record(event, context.now);
    }

    /// Removes a start that the caller has not seen yet; cancels every other attempt.
    fn cancel_attempt(&mut self, member_id: MemberId) {
        let count = self.steps.len();
        self.steps.retain(|step| !matches!(step, Step::Start { member_id: other, .. } if *other == member_id));
        let has_earlier_attempts = self.attempts[self.index(member_id)].count > 1;
        if self.steps.len() == count || has_earlier_attempts {
            self.steps.push_back(Step::Cancel { member_id });
        }
    }

    pub(super) fn record(&mut self, kind: EventKind, now: Moment) {
        self.event_count += 1;
        self.events.push(Event { number: self.event_count, at: now - self.started_at, kind });
    }

    pub(super) fn results(&self) -> Vec<MemberResult> {
        self.attempts[..self.members.len()].iter().filter_map(Attempts::result).cloned().collect()
    }

    /// The results that make up the answer of the run.
    pub(super) fn counted_results(&self) -> Vec<MemberResult> {
        let results = self.results().into_iter().enumerate();
        results.filter(|(at, _)| self.schedule.counts(*at)).map(|(_, result)| result).collect()
    }

    pub(super) fn index(&self, member_id: MemberId) -> usize {
        match member_id {
            // Out of range, also past the judge.
            MemberId::Member(at) if at >= self.members.len() => usize::MAX,
            MemberId::Member(at) => at,
            MemberId::Judge => self.members.len(),
        }
    }

    const fn member_id(&self, at: usize) -> MemberId {
        if at < self.members.len() { MemberId::Member(at) } else { MemberId::Judge }
    }

    pub(super) fn timeout(&self) -> String {
        format!("{} s", self.settings.agent_timeout.as_secs_f64())
    }
}
