//! The attempts of one member at its part of a task. [`super::task`] decides how long they may take and what ends them.

use std::rc::Rc;
use std::time::Duration;

use super::result::{MemberOutcome, MemberResult};
use super::schedule::MemberStatus;
use crate::base::clock::Moment;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Phase {
    #[default]
    Idle,
    /// An attempt was requested and has not ended; it may still wait for a slot.
    Running,
    /// The last attempt failed; the next one starts at this moment.
    Retrying(Moment),
    Done(MemberResult),
}

#[derive(Debug, Clone, Default)]
pub(super) struct Attempts {
    pub phase: Phase,
    pub prompt: Rc<str>,
    pub count: u32,
    /// When the first attempt got a slot.
    pub started_at: Option<Moment>,
    pub tokens: u64,
    /// Whether the outcome decides if the member's circuit breaker closes.
    pub is_probe: bool,
    pub last_error: Option<String>,
}

impl Attempts {
    pub(super) const fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Retrying(_))
    }

    pub(super) const fn result(&self) -> Option<&MemberResult> {
        match &self.phase {
            Phase::Done(result) => Some(result),
            Phase::Idle | Phase::Running | Phase::Retrying(_) => None,
        }
    }

    pub(super) const fn status(&self) -> MemberStatus<'_> {
        match &self.phase {
            Phase::Idle => MemberStatus::Idle,
            Phase::Running | Phase::Retrying(_) => MemberStatus::Working,
            Phase::Done(result) => MemberStatus::Done(result),
        }
    }

    /// The time limit counts from the first slot, not from the request.
    pub(super) fn deadline(&self, timeout: Duration) -> Option<Moment> {
        self.started_at.filter(|_| self.is_live()).map(|started| started + timeout)
    }

    /// When this member needs attention even if no response arrives.
    pub(super) fn due(&self, timeout: Duration) -> Option<Moment> {
        match self.phase {
            Phase::Retrying(at) => Some(self.deadline(timeout).map_or(at, |deadline| deadline.min(at))),
            _ => self.deadline(timeout),
        }
    }

    /// Ends the member's part. `task_start` is when the run began.
    pub(super) fn finish(
        &mut self,
        member: &str,
        outcome: MemberOutcome,
        task_start: Moment,
        now: Moment,
    ) -> MemberResult {
        let result = MemberResult {
            member: member.to_owned(),
            outcome,
            attempts: if self.started_at.is_some() { self.count } else { 0 },
            duration: self.started_at.map_or(Duration::ZERO, |started| now - started),
            ended_at: now - task_start,
            tokens: self.tokens,
        };
        self.phase = Phase::Done(result.clone());
        result
    }
}
