//! One run of a task, as a state machine without side effects: [`Task::step`] says what to do next, and the `on_` methods
//! report the results. The caller repeats `step` until it returns [`Step::Wait`] or [`Step::Finished`], and calls it again
//! after every report and at the moment that `Wait` names.
//!
//! ```text
//!           started             answered in time
//!   idle -----------> running ------------------------------> done
//!    |                 ^ | failed, may be retried              ^
//!    |                 | v                                     |
//!    |               retrying -- deadline, or no longer needed-+
//!    +------- skipped: breaker open, or no longer needed ------+
//! ```
//! The time limit of a member counts from [`Task::on_started`], over all attempts and delays. Reports about a member that
//! is done change nothing.

mod finish;
mod flow;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use super::attempts::{Attempts, Phase};
use super::event::{Event, EventKind};
use super::health::Health;
use super::judge;
use super::member::{self, Member};
use super::outcome::Outcome;
use super::result::MemberOutcome;
use super::schedule::Schedule;
use super::settings::{Aggregation, Settings};
use super::workflow::Workflow;
use crate::base::clock::Moment;
use crate::base::error::{Error, Result};

/// The name of the judge in events; no member can have it.
pub const JUDGE: &str = "(judge)";

/// What a call needs from outside of the task.
pub struct Context<'a> {
    pub now: Moment,
    /// A random number from 0 to 1, for the jitter of retries.
    pub chance: f64,
    pub health: &'a mut Health,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberId {
    Member(usize),
    Judge,
}

/// The caller's next action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send this prompt. When the member gets a slot: [`Task::on_started`].
    Start {
        /// [`Task::member`] has its model and its role.
        member_id: MemberId,
        prompt: Rc<str>,
        /// From 1. Every attempt starts without any trace of the failed ones.
        attempt: u32,
    },
    /// Stop this member at once, whether it works, waits for a slot or for its next attempt. It is done already.
    Cancel {
        member_id: MemberId,
    },
    /// Do nothing until this moment or the next report; `None`: until the next report.
    Wait(Option<Moment>),
    Finished(Rc<Outcome>),
}

#[derive(Debug, Clone, PartialEq)]
enum Stage {
    Working,
    /// All members are done, and the judge may be working. With an error if the run as a whole failed.
    Judging(Option<Error>),
    Done(Rc<Outcome>),
}

/// Why members are stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// One answer is enough, and there is one.
    Decided,
    Interrupted,
}

#[derive(Debug)]
pub struct Task {
    run: String,
    text: Rc<str>,
    settings: Settings,
    schedule: Schedule,
    members: Vec<Member>,
    judge: Member,
    /// The model of members without one; empty if it is not known.
    usual_model: String,
    /// One for each member, then the judge's.
    attempts: Vec<Attempts>,
    stage: Stage,
    stop: Option<Stop>,
    started_at: Moment,
    steps: VecDeque<Step>,
    events: Vec<Event>,
    event_count: u64,
}

impl Task {
    /// `run` is the unique name of this run: the same task may run several times.
    pub fn new(run: &str, text: &str, members: Vec<Member>, settings: Settings, now: Moment) -> Result<Self> {
        let schedule = Schedule::of(settings.strategy, members.len(), text);
        let strategy = settings.strategy.name();
        Self::with_schedule(run, text, members, settings, (strategy, schedule), now)
    }

    /// A run of a workflow. The strategy of the settings is ignored: the dependencies give the order.
    pub fn of_workflow(run: &str, text: &str, workflow: &Workflow, settings: Settings, now: Moment) -> Result<Self> {
        let schedule = Schedule::Workflow(workflow.nodes());
        Self::with_schedule(run, text, workflow.members(), settings, ("workflow", schedule), now)
    }

    fn with_schedule(
        run: &str,
        text: &str,
        members: Vec<Member>,
        settings: Settings,
        (strategy, schedule): (&'static str, Schedule),
        now: Moment,
    ) -> Result<Self> {
        settings.check()?;
        member::check(&members)?;
        if text.trim().is_empty() {
            return Err(Error::usage("the task is empty"));
        }
        let started = EventKind::TaskStarted {
            task: text.to_owned(),
            strategy,
            schedule: schedule.name(),
            aggregation: settings.aggregation.name(),
            members: members.iter().map(|member| member.name.clone()).collect(),
        };
        let judge =
            Member { name: JUDGE.into(), model: settings.judge.clone(), role: Some(judge::ROLE.into()), agent: None };
        let mut task = Self {
            run: run.to_owned(),
            text: text.into(),
            attempts: vec![Attempts::default(); members.len() + 1],
            settings,
            schedule,
            members,
            judge,
            usual_model: String::new(),
            stage: Stage::Working,
            stop: None,
            started_at: now,
            steps: VecDeque::new(),
            events: Vec::new(),
            event_count: 0,
        };
        task.record(started, now);
        Ok(task)
    }

    /// Sets the model of members without one, for their health.
    pub fn with_usual_model(self, usual_model: String) -> Self {
        Self { usual_model, ..self }
    }

    /// What to do next. Also enforces deadlines: no other call is needed when one passes.
    pub fn step(&mut self, context: &mut Context<'_>) -> Step {
        self.check_deadlines(context);
        self.advance(context);
        if let Some(step) = self.steps.pop_front() {
            return step;
        }
        match &self.stage {
            Stage::Done(outcome) => Step::Finished(Rc::clone(outcome)),
            Stage::Working | Stage::Judging(_) => {
                Step::Wait(self.attempts.iter().filter_map(|attempts| attempts.due(self.settings.agent_timeout)).min())
            }
        }
    }

    /// This member got a slot: its time limit counts from here. Slots of later attempts change nothing.
    pub fn on_started(&mut self, member_id: MemberId, now: Moment) {
        let index = self.index(member_id);
        let attempts = self.attempts.get_mut(index).filter(|attempts| attempts.started_at.is_none());
        if let Some(attempts) = attempts.filter(|attempts| attempts.is_live()) {
            attempts.started_at = Some(now);
            let Member { name, model, .. } = self.member(member_id).clone();
            self.record(EventKind::AgentStarted { member: name, model }, now);
        }
    }

    /// An attempt of this member used tokens, whatever its outcome.
    pub fn on_tokens(&mut self, member_id: MemberId, tokens: u64) {
        let index = self.index(member_id);
        if let Some(attempts) = self.attempts.get_mut(index).filter(|attempts| attempts.is_live()) {
            attempts.tokens = attempts.tokens.saturating_add(tokens);
        }
    }

    /// This member answered. An answer after the deadline is discarded, even if the deadline was not noticed yet.
    pub fn on_answer(&mut self, member_id: MemberId, text: &str, context: &mut Context<'_>) {
        if let Some(at) = self.running_member(member_id, context) {
            self.finish_member(at, MemberOutcome::Answered(text.to_owned()), context);
            // This aggregation has no judge, so `at` is a member.
            if self.settings.aggregation == Aggregation::FirstSuccess {
                let first = &self.members[at].name;
                self.stop_all(Stop::Decided, &format!("{first} answered first"), context);
            }
        }
    }

    /// An attempt of this member failed. `is_retryable`: the error may be temporary, and no part of an answer was used.
    pub fn on_failure(&mut self, member_id: MemberId, error: &Error, is_retryable: bool, context: &mut Context<'_>) {
        let Some(at) = self.running_member(member_id, context) else { return };
        let attempts = &mut self.attempts[at];
        let retry_at = context.now + retry_delay(error, attempts.count, context.chance, &self.settings);
        let has_time = attempts.deadline(self.settings.agent_timeout).is_none_or(|deadline| retry_at < deadline);
        let retries = is_retryable && attempts.count <= self.settings.retry.number();
        if retries && has_time {
            attempts.phase = Phase::Retrying(retry_at);
            attempts.last_error = Some(error.message.clone());
            return;
        }
        let mut message = error.message.clone();
        if attempts.count > 1 {
            message = format!("{message} ({} attempts)", attempts.count);
        }
        if retries {
            message = format!("{message}; not retried: the timeout of {} would pass first", self.timeout());
        }
        self.finish_member(at, MemberOutcome::Failed(Error::new(error.kind, message)), context);
    }

    /// Stops all members; the run ends with the answers that there are.
    pub fn on_interrupt(&mut self, context: &mut Context<'_>) {
        if !matches!(self.stage, Stage::Done(_)) {
            self.stop_all(Stop::Interrupted, "interrupted", context);
        }
    }

    pub fn text(&self) -> Rc<str> {
        Rc::clone(&self.text)
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn member(&self, member_id: MemberId) -> &Member {
        match member_id {
            MemberId::Member(at) => &self.members[at],
            MemberId::Judge => &self.judge,
        }
    }

    /// The events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}

/// The delay that the server asks for, otherwise that of the retry policy.
fn retry_delay(error: &Error, attempts: u32, chance: f64, settings: &Settings) -> Duration {
    let requested = error.retry_after.filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds.into()));
    requested.unwrap_or_else(|| settings.retry.wait(attempts.saturating_sub(1), chance))
}

#[cfg(test)]
mod tests;
