//! In which order members work, and on what: the rules of each strategy and of a workflow's layers, over a picture of
//! who is how far. Nothing is remembered here: the same picture gives the same next move.

use std::fmt::Write as _;
use std::rc::Rc;

use super::member::Member;
use super::result::MemberResult;
use super::settings::Strategy;
use crate::base::error::{Error, ErrorKind};

/// A task of fewer bytes is short: [`Strategy::Adaptive`] gives it to several members at once.
const SHORT_TASK: usize = 1000;
/// So many members are few: [`Strategy::Adaptive`] lets them work one after the other.
const FEW_MEMBERS: usize = 2;

/// The order of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Schedule {
    /// One after the other.
    InOrder,
    /// All together.
    AtOnce,
    /// One after the other, each on the answer of the one before.
    Pipeline,
    /// Layer by layer, those of one layer together.
    Layers(Vec<Link>),
}

/// How one member hangs on others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// From 0; all that it depends on are in lower ones.
    pub layer: usize,
    /// Members whose answers it is given.
    pub depends_on: Vec<usize>,
    /// Whether those who depend on it can do nothing without its answer.
    pub is_critical: bool,
}

/// How far a member is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Standing<'a> {
    /// It was not asked yet.
    Idle,
    /// It is at work, or waits to try again.
    Working,
    /// It is done.
    Over(&'a MemberResult),
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Move {
    /// This member is asked this.
    Start(usize, Rc<str>),
    /// This member is not to be asked, and why.
    Skip(usize, String),
    /// Nothing before somebody is done.
    Wait,
    /// Nothing any more; with an error, if the run as a whole has failed.
    Done(Option<Error>),
}

/// Who works on what, and how far everybody is.
pub(super) struct Picture<'a> {
    /// The task.
    pub task: &'a Rc<str>,
    /// The members.
    pub members: &'a [Member],
    /// How far each is.
    pub standings: Vec<Standing<'a>>,
}

impl Schedule {
    /// What a strategy means for so many members and this task.
    pub(super) fn of(strategy: Strategy, members: usize, task: &str) -> Self {
        let is_parallel = match strategy {
            Strategy::Parallel => members > 1,
            Strategy::Adaptive => members > FEW_MEMBERS && task.len() < SHORT_TASK,
            Strategy::Sequential => false,
            Strategy::Pipeline => return Self::Pipeline,
        };
        if is_parallel { Self::AtOnce } else { Self::InOrder }
    }

    /// A stable name.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::InOrder => "sequential",
            Self::AtOnce => "parallel",
            Self::Pipeline => "pipeline",
            Self::Layers(_) => "workflow",
        }
    }

    /// What is to be done next.
    pub(super) fn next(&self, picture: &Picture<'_>) -> Move {
        match self {
            Self::InOrder => picture.in_order(),
            Self::AtOnce => picture.at_once(0..picture.members.len()).unwrap_or(Move::Done(None)),
            Self::Pipeline => picture.pipeline(),
            Self::Layers(links) => picture.layers(links),
        }
    }

    /// Whether this member's answer is a part of the run's: in a workflow those on which nobody depends are.
    pub(super) fn counts(&self, member: usize) -> bool {
        match self {
            Self::Layers(links) => !links.iter().any(|link| link.depends_on.contains(&member)),
            Self::InOrder | Self::AtOnce | Self::Pipeline => true,
        }
    }
}

/// The failure of a run that comes from that of a member, in these words.
fn failure(result: &MemberResult, words: String) -> Error {
    Error::new(result.failure().unwrap_or(ErrorKind::System), words)
}

impl Picture<'_> {
    fn in_order(&self) -> Move {
        match self.standings.iter().position(|standing| !matches!(standing, Standing::Over(_))) {
            None => Move::Done(None),
            Some(at) if matches!(self.standings[at], Standing::Idle) => Move::Start(at, Rc::clone(self.task)),
            Some(_) => Move::Wait,
        }
    }

    /// `None`: all of these are done.
    fn at_once(&self, mut members: impl Iterator<Item = usize> + Clone) -> Option<Move> {
        let is_idle = |at: &usize| matches!(self.standings[*at], Standing::Idle);
        let is_working = |at: usize| matches!(self.standings[at], Standing::Working);
        match members.clone().find(is_idle) {
            Some(at) => Some(Move::Start(at, Rc::clone(self.task))),
            None => members.any(is_working).then_some(Move::Wait),
        }
    }

    /// A stage that was skipped hands on what it was given. One that failed, or said nothing, ends the run.
    fn pipeline(&self) -> Move {
        let mut input = Rc::clone(self.task);
        for (at, standing) in self.standings.iter().enumerate() {
            match standing {
                Standing::Idle => return Move::Start(at, input),
                Standing::Working => return Move::Wait,
                Standing::Over(result) => match (result.answer(), self.fault(at, result)) {
                    (_, Some(fault)) => return self.end_pipeline(at, fault),
                    (Some(answer), None) => input = answer.into(),
                    (None, None) => {}
                },
            }
        }
        Move::Done(None)
    }

    /// Why nothing can come after this stage.
    fn fault(&self, at: usize, result: &MemberResult) -> Option<Error> {
        let is_last = at + 1 == self.members.len();
        let words = match result.answer() {
            Some(answer) if answer.trim().is_empty() && !is_last => format!("stage {} answered nothing", result.member),
            Some(_) => return None,
            None if result.is_skipped() => return None,
            None => format!("stage {} failed: {}", result.member, result.error().unwrap_or_default()),
        };
        Some(failure(result, words))
    }

    fn end_pipeline(&self, at: usize, fault: Error) -> Move {
        let next = (at + 1..self.standings.len()).find(|next| matches!(self.standings[*next], Standing::Idle));
        match next {
            Some(next) => Move::Skip(next, format!("not reached: {} has handed nothing on", self.members[at].name)),
            None => Move::Done(Some(fault)),
        }
    }

    fn layers(&self, links: &[Link]) -> Move {
        let blockers = self.blockers(links);
        let is_open = |at: &usize| !matches!(self.standings[*at], Standing::Over(_));
        let Some(layer) = (0..links.len()).filter(is_open).map(|at| links[at].layer).min() else {
            return Move::Done(self.critical_failure(links, &blockers));
        };
        match self.at_once((0..links.len()).filter(|at| links[*at].layer == layer)) {
            Some(Move::Start(at, _)) => match blockers[at] {
                Some(blocker) => {
                    Move::Skip(at, format!("it depends on {}, which gave no answer", self.members[blocker].name))
                }
                None => Move::Start(at, self.step_prompt(&links[at])),
            },
            other => other.unwrap_or(Move::Wait),
        }
    }

    /// For each member the critical one without an answer that stands before it, at whatever distance.
    fn blockers(&self, links: &[Link]) -> Vec<Option<usize>> {
        let mut order: Vec<usize> = (0..links.len()).collect();
        order.sort_by_key(|at| links[*at].layer);
        let mut blockers = vec![None; links.len()];
        for at in order {
            let blocker = |before: &usize| match self.standings[*before] {
                Standing::Over(result) if result.is_success() => None,
                _ if links[*before].is_critical => Some(*before),
                _ => blockers[*before],
            };
            blockers[at] = links[at].depends_on.iter().find_map(blocker);
        }
        blockers
    }

    fn critical_failure(&self, links: &[Link], blockers: &[Option<usize>]) -> Option<Error> {
        let failed = |at: usize| match self.standings[at] {
            Standing::Over(result) if links[at].is_critical && !result.is_success() => Some(result),
            _ => None,
        };
        let result = (0..links.len()).find_map(failed)?;
        let skipped = (0..links.len()).filter(|at| blockers[*at].is_some()).map(|at| self.members[at].name.as_str());
        let skipped: Vec<&str> = skipped.collect();
        let behind = if skipped.is_empty() {
            String::new()
        } else {
            format!("; skipped for want of it: {}", skipped.join(", "))
        };
        let (name, error) = (&result.member, result.error().unwrap_or_default());
        Some(failure(result, format!("{name} is critical and gave no answer: {error}{behind}")))
    }

    /// The task, and below it what the steps have answered on which this one depends.
    fn step_prompt(&self, link: &Link) -> Rc<str> {
        if link.depends_on.is_empty() {
            return Rc::clone(self.task);
        }
        let mut prompt = format!("{}\n\nWhat was worked out before:\n", self.task);
        for before in &link.depends_on {
            let answer = match self.standings[*before] {
                Standing::Over(result) => result.answer(),
                Standing::Idle | Standing::Working => None,
            };
            let answer = answer.unwrap_or("(it gave no answer)");
            // Writing into a string cannot fail.
            let _ = write!(prompt, "\n<answer of=\"{}\">\n{answer}\n</answer>\n", self.members[*before].name);
        }
        prompt.into()
    }
}
