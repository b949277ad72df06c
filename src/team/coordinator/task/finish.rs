//! The end of a run: the judge works, the answers are combined, and the last events are recorded.

use std::rc::Rc;

use super::{Stage, Stop, Task};
use crate::base::clock::Moment;
use crate::base::error::Error;
use crate::team::coordinator::aggregate::{Aggregated, aggregate, answers};
use crate::team::coordinator::event::EventKind;
use crate::team::coordinator::judge;
use crate::team::coordinator::outcome::{Outcome, RunStatus};
use crate::team::coordinator::result::{MemberResult, failures};

impl Task {
    /// All members are done: the judge starts if there is one and it has a choice.
    pub(super) fn start_judging(&mut self, failure: Option<Error>) {
        self.stage = Stage::Judging(failure);
        if self.settings.judge.is_none() || self.stop == Some(Stop::Interrupted) {
            return;
        }
        let counted = self.counted_results();
        if answers(&counted).len() > 1 {
            let judge = self.members.len();
            self.attempts[judge].prompt = judge::prompt(&self.text, &counted).into();
            self.start_attempt(judge);
        }
    }

    pub(super) fn finish(&mut self, failure: Option<Error>, now: Moment) {
        let (results, counted) = (self.results(), self.counted_results());
        let aggregation = self.settings.aggregation;
        let (aggregated, source, error) = match aggregate(aggregation, &counted) {
            Ok(aggregated) => (Some(self.with_choice_of_judge(aggregated, &counted)), &counted, failure),
            // The run has failed, but the answers of intermediate steps are better than none.
            Err(error) => (aggregate(aggregation, &results).ok(), &results, Some(failure.unwrap_or(error))),
        };
        let status = match (self.stop, error) {
            (Some(Stop::Interrupted), _) => RunStatus::Interrupted,
            (_, Some(error)) => RunStatus::Failed(error),
            (_, None) => RunStatus::Completed,
        };
        let chosen = aggregated.as_ref().and_then(|aggregated| source.get(aggregated.chosen?));
        let chosen = chosen.map(|result| result.member.clone());
        let (answer, notes) =
            aggregated.map_or((None, Vec::new()), |aggregated| (Some(aggregated.text), aggregated.notes));
        let tokens = self.attempts.iter().fold(0_u64, |sum, attempts| sum.saturating_add(attempts.tokens));
        let run = self.run.clone();
        let outcome = Outcome { run, results, answer, chosen, status, notes, duration: now - self.started_at, tokens };
        self.record_end(&outcome, now);
        self.stage = Stage::Done(Rc::new(outcome));
    }

    /// Replaces the answer with the highest score by the choice of the judge, and adds a note about it.
    fn with_choice_of_judge(&self, mut aggregated: Aggregated, counted: &[MemberResult]) -> Aggregated {
        let Some(result) = self.attempts[self.members.len()].result() else { return aggregated };
        let model = self.judge.model.as_deref().unwrap_or_default();
        let choice = result.answer().and_then(|reply| judge::choice(reply, counted));
        let note = match (choice, result.error()) {
            (Some(at), _) => {
                aggregated.text = counted[at].answer().unwrap_or_default().to_owned();
                aggregated.chosen = Some(at);
                format!("chosen by the judge {model}")
            }
            (None, Some(error)) => format!("chosen by score: the judge {model} failed: {error}"),
            (None, None) => format!("chosen by score: the judge {model} named no answer"),
        };
        aggregated.notes.push(note);
        aggregated
    }

    fn record_end(&mut self, outcome: &Outcome, now: Moment) {
        let (failures, tokens) = (failures(&outcome.results), outcome.tokens);
        if outcome.answer.is_some() {
            let aggregation = self.settings.aggregation.name();
            let answers = answers(&outcome.results).len();
            let (chosen, notes) = (outcome.chosen.clone(), outcome.notes.clone());
            self.record(EventKind::AggregationCompleted { aggregation, answers, chosen, notes }, now);
        }
        let event = match (outcome.error(), outcome.answer.clone()) {
            (None, answer) => EventKind::TaskCompleted { answer: answer.unwrap_or_default(), failures, tokens },
            (Some(error), answer) => EventKind::TaskFailed {
                error: error.to_owned(),
                kind: outcome.kind(),
                interrupted: outcome.status == RunStatus::Interrupted,
                answer,
                failures,
                tokens,
            },
        };
        self.record(event, now);
    }
}
