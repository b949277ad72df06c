//! One member at its part of a task: asked, begun, waiting to be asked again, over. How long it has, and what ended it,
//! is decided in [`super::task`].

use std::rc::Rc;
use std::time::Duration;

use super::result::{Ending, MemberResult};
use super::schedule::Standing;
use crate::base::clock::Moment;

/// How far a member is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Phase {
    /// It was not asked yet.
    #[default]
    Idle,
    /// It was asked and has not answered.
    Asked,
    /// Its last attempt failed; it is asked again at this moment.
    Retrying(Moment),
    /// It is done.
    Over(MemberResult),
}

/// A member's part of a task.
#[derive(Debug, Clone, Default)]
pub(super) struct Attempts {
    pub phase: Phase,
    /// What it is asked, each time.
    pub prompt: Rc<str>,
    /// How often it was asked.
    pub attempts: u32,
    /// When it was first given a place to work.
    pub begun: Option<Moment>,
    /// Of all attempts.
    pub tokens: u64,
    /// What it does decides whether its breaker closes.
    pub is_probe: bool,
    /// Why the attempt before this one failed.
    pub last_error: Option<String>,
}

impl Attempts {
    /// Whether something may be under way for it.
    pub(super) const fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Asked | Phase::Retrying(_))
    }

    /// What became of it, if it is over.
    pub(super) const fn result(&self) -> Option<&MemberResult> {
        match &self.phase {
            Phase::Over(result) => Some(result),
            Phase::Idle | Phase::Asked | Phase::Retrying(_) => None,
        }
    }

    pub(super) const fn standing(&self) -> Standing<'_> {
        match &self.phase {
            Phase::Idle => Standing::Idle,
            Phase::Asked | Phase::Retrying(_) => Standing::Working,
            Phase::Over(result) => Standing::Over(result),
        }
    }

    /// When its time runs out: it counts from when it was given a place.
    pub(super) fn deadline(&self, timeout: Duration) -> Option<Moment> {
        self.begun.filter(|_| self.is_live()).map(|begun| begun + timeout)
    }

    /// When it has to be looked at although nothing was heard of it.
    pub(super) fn due(&self, timeout: Duration) -> Option<Moment> {
        match self.phase {
            Phase::Retrying(at) => Some(self.deadline(timeout).map_or(at, |deadline| deadline.min(at))),
            _ => self.deadline(timeout),
        }
    }

    /// It is over. Returns what is now known of it.
    pub(super) fn end(&mut self, member: &str, ending: Ending, began: Moment, now: Moment) -> MemberResult {
        let result = MemberResult {
            member: member.to_owned(),
            ending,
            attempts: if self.begun.is_some() { self.attempts } else { 0 },
            duration: self.begun.map_or(Duration::ZERO, |begun| now - begun),
            ended_at: now - began,
            tokens: self.tokens,
        };
        self.phase = Phase::Over(result.clone());
        result
    }
}
