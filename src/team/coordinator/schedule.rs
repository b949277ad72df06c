//! The order in which members work and the prompt of each: the rules of the strategies and of workflow layers, as
//! functions of a snapshot. They have no state: the same snapshot gives the same decision.

use std::fmt::Write as _;
use std::rc::Rc;

use super::member::Member;
use super::result::MemberResult;
use super::settings::Strategy;
use crate::base::error::{Error, ErrorKind};

/// [`Strategy::Adaptive`] is parallel for tasks of fewer bytes and for more members than this.
const SHORT_TASK: usize = 1000;
const FEW_MEMBERS: usize = 2;

/// The order of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Schedule {
    Sequential,
    Parallel,
    Pipeline,
    /// Layer by layer; the steps of one layer in parallel.
    Workflow(Vec<StepNode>),
}

/// A step of a workflow in the graph of dependencies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StepNode {
    /// From 0; higher than the layers of all dependencies.
    pub layer: usize,
    /// Indices of the steps whose answers it gets.
    pub depends_on: Vec<usize>,
    /// Whether dependent steps are skipped if it gives no answer.
    pub is_critical: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum MemberStatus<'a> {
    Idle,
    /// It works, or waits for a slot or its next attempt.
    Working,
    Done(&'a MemberResult),
}

/// The next event in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    Start(usize, Rc<str>),
    Skip(usize, String),
    /// Wait until a member is done.
    Wait,
    /// All members are done; with an error if the run as a whole failed.
    Done(Option<Error>),
}

/// The state of a run on which a decision is made.
pub(super) struct Snapshot<'a> {
    pub task: &'a Rc<str>,
    pub members: &'a [Member],
    pub statuses: Vec<MemberStatus<'a>>,
}

impl Schedule {
    /// Resolves a strategy for this number of members and this task.
    pub(super) fn of(strategy: Strategy, members: usize, task: &str) -> Self {
        let is_parallel = match strategy {
            Strategy::Parallel => members > 1,
            Strategy::Adaptive => members > FEW_MEMBERS && task.len() < SHORT_TASK,
            Strategy::Sequential => false,
            Strategy::Pipeline => return Self::Pipeline,
        };
        if is_parallel { Self::Parallel } else { Self::Sequential }
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Parallel => "parallel",
            Self::Pipeline => "pipeline",
            Self::Workflow(_) => "workflow",
        }
    }

    pub(super) fn decide(&self, snapshot: &Snapshot<'_>) -> Decision {
        match self {
            Self::Sequential => snapshot.sequential(),
            Self::Parallel => snapshot.parallel(0..snapshot.members.len()).unwrap_or(Decision::Done(None)),
            Self::Pipeline => snapshot.pipeline(),
            Self::Workflow(nodes) => snapshot.workflow(nodes),
        }
    }

    /// Whether this member's answer is part of the answer of the run: in a workflow, if no other step depends on it.
    pub(super) fn counts(&self, member: usize) -> bool {
        match self {
            Self::Workflow(nodes) => !nodes.iter().any(|node| node.depends_on.contains(&member)),
            Self::Sequential | Self::Parallel | Self::Pipeline => true,
        }
    }
}

/// The failure of a run because of the failure of a member.
fn failure(result: &MemberResult, message: String) -> Error {
    Error::new(result.failure().unwrap_or(ErrorKind::System), message)
}

impl Snapshot<'_> {
    fn sequential(&self) -> Decision {
        match self.statuses.iter().position(|status| !matches!(status, MemberStatus::Done(_))) {
            None => Decision::Done(None),
            Some(at) if matches!(self.statuses[at], MemberStatus::Idle) => Decision::Start(at, Rc::clone(self.task)),
            Some(_) => Decision::Wait,
        }
    }

    /// `None` if all of these members are done.
    fn parallel(&self, mut members: impl Iterator<Item = usize> + Clone) -> Option<Decision> {
        let is_idle = |at: &usize| matches!(self.statuses[*at], MemberStatus::Idle);
        let is_working = |at: usize| matches!(self.statuses[at], MemberStatus::Working);
        match members.clone().find(is_idle) {
            Some(at) => Some(Decision::Start(at, Rc::clone(self.task))),
            None => members.any(is_working).then_some(Decision::Wait),
        }
    }

    /// A skipped stage passes on its own input. A stage that fails or answers nothing ends the run.
    fn pipeline(&self) -> Decision {
        let mut input = Rc::clone(self.task);
        for (at, status) in self.statuses.iter().enumerate() {
            match status {
                MemberStatus::Idle => return Decision::Start(at, input),
                MemberStatus::Working => return Decision::Wait,
                MemberStatus::Done(result) => match (result.answer(), self.stage_error(at, result)) {
                    (_, Some(error)) => return self.end_pipeline(at, error),
                    (Some(answer), None) => input = answer.into(),
                    (None, None) => {}
                },
            }
        }
        Decision::Done(None)
    }

    /// Why no stage can follow this one.
    fn stage_error(&self, at: usize, result: &MemberResult) -> Option<Error> {
        let is_last = at + 1 == self.members.len();
        let message = match result.answer() {
            Some(answer) if answer.trim().is_empty() && !is_last => {
                format!("stage {} returned an empty answer", result.member)
            }
            Some(_) => return None,
            None if result.is_skipped() => return None,
            None => format!("stage {} failed: {}", result.member, result.error().unwrap_or_default()),
        };
        Some(failure(result, message))
    }

    fn end_pipeline(&self, at: usize, error: Error) -> Decision {
        let next = (at + 1..self.statuses.len()).find(|next| matches!(self.statuses[*next], MemberStatus::Idle));
        match next {
            Some(next) => Decision::Skip(next, format!("not started: stage {} gave no answer", self.members[at].name)),
            None => Decision::Done(Some(error)),
        }
    }

    fn workflow(&self, nodes: &[StepNode]) -> Decision {
        let blockers = self.blockers(nodes);
        let is_open = |at: &usize| !matches!(self.statuses[*at], MemberStatus::Done(_));
        let Some(layer) = (0..nodes.len()).filter(is_open).map(|at| nodes[at].layer).min() else {
            return Decision::Done(self.critical_failure(nodes, &blockers));
        };
        match self.parallel((0..nodes.len()).filter(|at| nodes[*at].layer == layer)) {
            Some(Decision::Start(at, _)) => match blockers[at] {
                Some(blocker) => {
                    Decision::Skip(at, format!("depends on {}, which gave no answer", self.members[blocker].name))
                }
                None => Decision::Start(at, self.step_prompt(&nodes[at])),
            },
            other => other.unwrap_or(Decision::Wait),
        }
    }

    /// For each step the critical step without an answer on which it depends, directly or not.
    fn blockers(&self, nodes: &[StepNode]) -> Vec<Option<usize>> {
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by_key(|at| nodes[*at].layer);
        let mut blockers = vec![None; nodes.len()];
        for at in order {
            let blocker = |before: &usize| match self.statuses[*before] {
                MemberStatus::Done(result) if result.is_success() => None,
                _ if nodes[*before].is_critical => Some(*before),
                _ => blockers[*before],
            };
            blockers[at] = nodes[at].depends_on.iter().find_map(blocker);
        }
        blockers
    }

    fn critical_failure(&self, nodes: &[StepNode], blockers: &[Option<usize>]) -> Option<Error> {
        let failed = |at: usize| match self.statuses[at] {
            MemberStatus::Done(result) if nodes[at].is_critical && !result.is_success() => Some(result),
            _ => None,
        };
        let result = (0..nodes.len()).find_map(failed)?;
        let skipped = (0..nodes.len()).filter(|at| blockers[*at].is_some()).map(|at| self.members[at].name.as_str());
        let skipped: Vec<&str> = skipped.collect();
        let consequence =
            if skipped.is_empty() { String::new() } else { format!("; skipped because of it: {}", skipped.join(", ")) };
        let (name, error) = (&result.member, result.error().unwrap_or_default());
        Some(failure(result, format!("critical step {name} failed: {error}{consequence}")))
    }

    /// The task, followed by the answers of the steps on which this one depends.
    fn step_prompt(&self, node: &StepNode) -> Rc<str> {
        if node.depends_on.is_empty() {
            return Rc::clone(self.task);
        }
        let mut prompt = format!("{}\n\nAnswers of the previous steps:\n", self.task);
        for before in &node.depends_on {
            let answer = match self.statuses[*before] {
                MemberStatus::Done(result) => result.answer(),
                MemberStatus::Idle | MemberStatus::Working => None,
            };
            let answer = answer.unwrap_or("(no answer)");
            // Writing into a string cannot fail.
            let _ = write!(prompt, "\n<answer step=\"{}\">\n{answer}\n</answer>\n", self.members[*before].name);
        }
        prompt.into()
    }
}
