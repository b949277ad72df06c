//! One run of a task, as a state machine that does nothing itself: [`Task::step`] says what to do next, and is told
//! what became of it. Whoever drives it calls `step` until it says [`Step::Wait`] or [`Step::Finished`], and again
//! after every piece of news and at the moment that it named.
//!
//! ```text
//!            asked            answered in time
//!   idle -----------> asked ---------------------------------------> over
//!    |                 ^ | failed, and may be asked again             ^
//!    |                 | v                                            |
//!    |              retrying -- at its deadline, or others decided ---+
//!    +------- skipped: its breaker is open, nobody needs it ----------+
//! ```
//! A member's time counts from [`Task::on_begun`], over all its attempts and waits. What is heard of a member that is
//! over changes nothing.

mod finish;
mod flow;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use super::attempts::{Attempts, Phase};
use super::event::{Event, What};
use super::health::Health;
use super::judge;
use super::member::{self, Member};
use super::outcome::Outcome;
use super::result::Ending;
use super::schedule::Schedule;
use super::settings::{Aggregation, Settings};
use super::workflow::Workflow;
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};

/// What the judge is called where members have names; none of them can have this one.
pub const JUDGE: &str = "(judge)";

/// What a task needs of the world for one call.
pub struct Context<'a> {
    /// Now.
    pub now: Moment,
    /// A number from 0 to 1, for waits that are not to coincide.
    pub chance: f64,
    /// How the members have fared so far.
    pub health: &'a mut Health,
}

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// The member at this place.
    Member(usize),
    /// The judge.
    Judge,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Ask this one. When it is given a place to work: [`Task::on_begun`].
    Start {
        /// Whom; [`Task::member`] knows its model and its role.
        agent_id: Who,
        /// What.
        prompt: Rc<str>,
        /// For which time, from 1. Each time it is asked anew: nothing of a failed attempt is known to it.
        attempt: u32,
    },
    /// Stop at once whatever this one does. It is over, and nothing that is still heard of it counts. It may be waiting
    /// for a place, or between two attempts.
    Cancel {
        /// Whom.
        agent_id: Who,
    },
    /// Nothing before this moment, unless something is heard; `None`: nothing before something is heard.
    Wait(Option<Moment>),
    /// The run is over.
    Finished(Rc<Outcome>),
}

/// How far the whole run is.
#[derive(Debug, Clone, PartialEq)]
enum Stage {
    /// Members work.
    Working,
    /// All members are over, and the judge is asked. With an error, if the run as a whole has failed.
    Judging(Option<Error>),
    /// It is over.
    Over(Rc<Outcome>),
}

/// Why members are stopped that could go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Somebody has answered, and one answer is enough.
    Decided,
    /// A person interrupted.
    Interrupted,
}

/// One run of a task.
#[derive(Debug)]
pub struct Task {
    run: String,
    text: Rc<str>,
    settings: Settings,
    schedule: Schedule,
    members: Vec<Member>,
    judge: Member,
    /// One for each member, and at the end the judge's.
    efforts: Vec<Attempts>,
    stage: Stage,
    stop: Option<Stop>,
    began: Moment,
    steps: VecDeque<Step>,
    events: Vec<Event>,
    event_count: u64,
}

impl Task {
    /// A run of this task by these members. `run` tells it from every other run, also of the same task.
    ///
    /// # Errors
    /// There is no task, or two members of one name, or too many, or a setting is out of bounds.
    pub fn new(run: &str, text: &str, members: Vec<Member>, settings: Settings, now: Moment) -> Result<Self> {
        let schedule = Schedule::of(settings.strategy, members.len(), text);
        let strategy = settings.strategy.name();
        Self::on_course(run, text, members, settings, (strategy, schedule), now)
    }

    /// A run of a workflow on this task. The strategy of the settings does not matter: the workflow says who follows
    /// whom.
    ///
    /// # Errors
    /// As for [`Task::new`].
    pub fn of_workflow(run: &str, text: &str, workflow: &Workflow, settings: Settings, now: Moment) -> Result<Self> {
        let schedule = Schedule::Layers(workflow.links());
        Self::on_course(run, text, workflow.members(), settings, ("workflow", schedule), now)
    }

    fn on_course(
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
            return Err(Error::new(ErrorKind::Usage, "what is the task? it is empty"));
        }
        let started = What::TaskStarted {
            task: text.to_owned(),
            strategy,
            schedule: schedule.name(),
            aggregation: settings.aggregation.name(),
            members: members.iter().map(|member| member.name.clone()).collect(),
        };
        let judge = Member { name: JUDGE.into(), model: settings.judge.clone(), role: Some(judge::ROLE.into()) };
        let mut task = Self {
            run: run.to_owned(),
            text: text.into(),
            efforts: vec![Attempts::default(); members.len() + 1],
            settings,
            schedule,
            members,
            judge,
            stage: Stage::Working,
            stop: None,
            began: now,
            steps: VecDeque::new(),
            events: Vec::new(),
            event_count: 0,
        };
        task.tell(started, now);
        Ok(task)
    }

    /// What is to be done next. Keeps the deadlines, too: who drives the task needs no other call when one has come.
    pub fn step(&mut self, context: &mut Context<'_>) -> Step {
        self.keep_time(context);
        self.advance(context);
        if let Some(step) = self.steps.pop_front() {
            return step;
        }
        match &self.stage {
            Stage::Over(outcome) => Step::Finished(Rc::clone(outcome)),
            Stage::Working | Stage::Judging(_) => {
                Step::Wait(self.efforts.iter().filter_map(|attempts| attempts.due(self.settings.agent_timeout)).min())
            }
        }
    }

    /// This one was given a place to work: its time counts from here. Later places, for later attempts, change nothing.
    pub fn on_begun(&mut self, agent_id: Who, now: Moment) {
        let at = self.place(agent_id);
        if self.efforts.get(at).is_some_and(|attempts| attempts.begun.is_none() && attempts.is_live()) {
            self.efforts[at].begun = Some(now);
            let Member { name, model, .. } = self.member(agent_id).clone();
            self.tell(What::AgentStarted { member: name, model }, now);
        }
    }

    /// An attempt of this one has used so many tokens more, whatever becomes of it.
    pub fn on_tokens(&mut self, agent_id: Who, tokens: u64) {
        let at = self.place(agent_id);
        if let Some(attempts) = self.efforts.get_mut(at).filter(|attempts| attempts.is_live()) {
            attempts.tokens = attempts.tokens.saturating_add(tokens);
        }
    }

    /// This one has answered. Discarded if its time has run out, whether or not it was told so already.
    pub fn on_answer(&mut self, agent_id: Who, text: &str, context: &mut Context<'_>) {
        if let Some(at) = self.heard_of(agent_id, context) {
            self.end(at, Ending::Answered(text.to_owned()), context);
            // No judge is ever asked for this one.
            if self.settings.aggregation == Aggregation::FirstSuccess {
                let first = &self.members[at].name;
                self.stop_all(Stop::Decided, &format!("{first} has answered first"), context);
            }
        }
    }

    /// An attempt of this one has failed. `is_retryable`: the same may succeed later, and nothing of an answer was
    /// taken over already.
    pub fn on_failure(&mut self, agent_id: Who, error: &Error, is_retryable: bool, context: &mut Context<'_>) {
        let Some(at) = self.heard_of(agent_id, context) else { return };
        let attempts = &mut self.efforts[at];
        let retry_at = context.now + wait_before(error, attempts.attempts, context.chance, &self.settings);
        let has_time = attempts.deadline(self.settings.agent_timeout).is_none_or(|deadline| retry_at < deadline);
        let is_to_retry = is_retryable && attempts.attempts <= self.settings.retry.retries;
        if is_to_retry && has_time {
            attempts.phase = Phase::Retrying(retry_at);
            attempts.last_error = Some(error.message.clone());
            return;
        }
        let mut words = error.message.clone();
        if attempts.attempts > 1 {
            words = format!("{words} - tried {} times", attempts.attempts);
        }
        if is_to_retry {
            words = format!("{words} - its time of {} would end before it could be tried again", self.time());
        }
        self.end(at, Ending::Failed(Error::new(error.kind, words)), context);
    }

    /// A person wants no more of it: everybody is stopped, and the run ends with what there is.
    pub fn on_interrupt(&mut self, context: &mut Context<'_>) {
        if !matches!(self.stage, Stage::Over(_)) {
            self.stop_all(Stop::Interrupted, "interrupted", context);
        }
    }

    /// Which run this is.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Who works on it, in order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Name, model and role of somebody that is asked.
    pub fn member(&self, agent_id: Who) -> &Member {
        match agent_id {
            Who::Member(at) => &self.members[at],
            Who::Judge => &self.judge,
        }
    }

    /// What has happened since this was last asked.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}

/// As long as the other side asks; where it does not, as long as the policy says.
fn wait_before(error: &Error, attempts: u32, chance: f64, settings: &Settings) -> Duration {
    let asked = error.retry_after.filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds.into()));
    asked.unwrap_or_else(|| settings.retry.wait(attempts.saturating_sub(1), chance))
}

#[cfg(test)]
mod tests;
