//! How a run ends: the judge is asked, the answers become one, and whoever listens is told.

use std::rc::Rc;

use super::{Stage, Stop, Task};
use crate::base::clock::Moment;
use crate::base::error::Error;
use crate::team::coordinator::aggregate::{Aggregated, aggregate, answers};
use crate::team::coordinator::event::What;
use crate::team::coordinator::judge;
use crate::team::coordinator::outcome::{Outcome, RunEnding};
use crate::team::coordinator::result::{MemberResult, failures};

impl Task {
    /// All members are over: a judge is asked, if there is one and something to judge.
    pub(super) fn conclude(&mut self, failure: Option<Error>) {
        self.stage = Stage::Judging(failure);
        if self.settings.judge.is_none() || self.stop == Some(Stop::Interrupted) {
            return;
        }
        let counted = self.counted();
        if answers(&counted).len() > 1 {
            let judge = self.members.len();
            self.efforts[judge].prompt = judge::prompt(&self.text, &counted).into();
            self.ask(judge);
        }
    }

    pub(super) fn finish(&mut self, failure: Option<Error>, now: Moment) {
        let (results, counted) = (self.results(), self.counted());
        let how = self.settings.aggregation;
        let (made, of, error) = match aggregate(how, &counted) {
            Ok(made) => (Some(self.judged(made, &counted)), &counted, failure),
            // What was not to be the answer is better than none, beside the words that the run has failed.
            Err(error) => (aggregate(how, &results).ok(), &results, Some(failure.unwrap_or(error))),
        };
        let ending = match (self.stop, error) {
            (Some(Stop::Interrupted), _) => RunEnding::Interrupted,
            (_, Some(error)) => RunEnding::Failed(error),
            (_, None) => RunEnding::Completed,
        };
        let chosen = made.as_ref().and_then(|made| made.chosen.and_then(|at| of.get(at))).map(|one| one.member.clone());
        let (answer, notes) = made.map_or((None, Vec::new()), |made| (Some(made.text), made.notes));
        let tokens = self.efforts.iter().fold(0_u64, |sum, attempts| sum.saturating_add(attempts.tokens));
        let run = self.run.clone();
        let outcome = Outcome { run, results, answer, chosen, ending, notes, duration: now - self.began, tokens };
        self.tell_end(&outcome, now);
        self.stage = Stage::Over(Rc::new(outcome));
    }

    /// The judge's choice, where there is one; else what the formula chose, and a note that says why.
    fn judged(&self, made: Aggregated, counted: &[MemberResult]) -> Aggregated {
        let Some(said) = self.efforts[self.members.len()].result() else { return made };
        let model = self.judge.model.as_deref().unwrap_or_default();
        match (said.answer().and_then(|reply| judge::pick(reply, counted)), said.error()) {
            (Some(at), _) => {
                let text = counted[at].answer().unwrap_or_default().to_owned();
                Aggregated { text, chosen: Some(at), notes: vec![format!("picked by the judge, {model}")] }
            }
            (None, Some(error)) => {
                with_note(made, format!("picked by the formula: the judge, {model}, failed: {error}"))
            }
            (None, None) => with_note(made, format!("picked by the formula: the judge, {model}, named no answer")),
        }
    }

    fn tell_end(&mut self, outcome: &Outcome, now: Moment) {
        let (failures, tokens) = (failures(&outcome.results), outcome.tokens);
        if outcome.answer.is_some() {
            let aggregation = self.settings.aggregation.name();
            let answers = answers(&outcome.results).len();
            let (chosen, notes) = (outcome.chosen.clone(), outcome.notes.clone());
            self.tell(What::AggregationCompleted { aggregation, answers, chosen, notes }, now);
        }
        let what = match (outcome.error(), outcome.answer.clone()) {
            (None, answer) => What::TaskCompleted { answer: answer.unwrap_or_default(), failures, tokens },
            (Some(error), answer) => {
                let interrupted = outcome.ending == RunEnding::Interrupted;
                What::TaskFailed {
                    error: error.to_owned(),
                    kind: outcome.kind(),
                    interrupted,
                    answer,
                    failures,
                    tokens,
                }
            }
        };
        self.tell(what, now);
    }
}

fn with_note(mut made: Aggregated, note: String) -> Aggregated {
    made.notes.push(note);
    made
}
