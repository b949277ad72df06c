//! The question that was open when an earlier process ended is asked again. Every call is planned as if it were new,
//! and none runs before the person has answered, even if it would not need a question now.

use std::sync::Arc;

use super::{Call, Objection, Permission, Progress, failure_result, unrunnable};
use crate::agent::exchange::Exchange;
use crate::agent::{Agent, Context};
use crate::domain::approval::Policy;
use crate::domain::chunk::Chunk;
use crate::domain::flow::ToolRequest;
use crate::domain::tool::Reach;
use crate::store::{AskingTurn, NO_RESULT};
use crate::tools::file_versions::KnownFiles;
use crate::tools::{Prepared, Run};

/// The call about which the person is asked again.
#[derive(Debug)]
pub struct RestoredCall {
    pub id: String,
    /// What the loop is to carry out, for a tool of the loop.
    pub request: Option<ToolRequest>,
}

impl Agent {
    /// Restores the turn of an earlier process up to its question; [`Agent::ask_again`] asks it. `None`: the call can
    /// no longer be made, and nothing has changed.
    pub fn restore_turn(&mut self, turn: AskingTurn, context: &Context) -> Option<RestoredCall> {
        // A host has ended with the process that asked for it.
        if self.inputs.endpoint.is_host() {
            return None;
        }
        let policy = self.policy_of_restored();
        let before = std::mem::replace(&mut self.known_files, Arc::new(KnownFiles::learning()));
        let calls = turn.calls.into_iter().map(|(call, result)| {
            let is_stored = result.is_some();
            let planned = || self.plan_under(policy, &call, context).progress;
            let progress = result.map_or_else(planned, Progress::Answered);
            Call { is_stored, is_shown: true, ..Call::new(call, progress, context.now) }
        });
        let mut calls: Vec<Call> = calls.collect();
        answer_uncertain(&mut calls);
        let known_files = Arc::new(self.known_files.fork());
        let asked = calls.iter_mut().find(|call| !call.is_stored);
        let Some(Call { call, progress: Progress::Waiting(spec, prepared, permission), is_restored, .. }) = asked
        else {
            self.known_files = before;
            return None;
        };
        (*permission, *is_restored) = (Permission::Wanted, true);
        let request = match spec.run {
            Run::InEventLoop(request) => Some(request(&prepared.arguments)),
            Run::OnThread(_) => None,
        };
        let restored = RestoredCall { id: call.id.clone(), request };
        (self.work.calls, self.known_files) = (calls, known_files);
        let refused = self.work.calls.iter().filter(|call| !call.is_stored).flat_map(unrunnable);
        refused.collect::<Vec<Chunk>>().iter().for_each(|chunk| self.emit(chunk));
        self.exchange = Exchange::from_stored(context.now, turn.message, turn.rounds);
        Some(restored)
    }

    /// The policy for a call that an earlier process asked about. Without a terminal, the question waits until a chat
    /// shows it.
    pub(super) fn policy_of_restored(&self) -> Policy {
        Some(self.policy()).filter(|policy| *policy != Policy::Never).unwrap_or_default()
    }

    /// Asks the question of a restored turn, with the objection of the loop if it has one.
    pub fn ask_again(&mut self, objection: Option<Objection>, context: &mut Context) {
        let Some(at) = self.work.calls.iter().position(|call| !call.is_stored) else { return };
        if let (Some(objection), Progress::Waiting(spec, prepared, _)) = (objection, &self.work.calls[at].progress) {
            self.work.calls[at].progress = Progress::Objected(spec, Box::new((Prepared::clone(prepared), objection)));
        }
        self.put_question(at, true, context);
    }
}

/// Answers calls that the loop may already have carried out while its question was open. Calls that create agents were
/// not: they waited for the same answer, and continue with it.
fn answer_uncertain(calls: &mut [Call]) {
    let mut open = calls.iter_mut().filter(|call| !call.is_stored);
    let reads = |call: &Call| matches!(&call.progress, Progress::Waiting(spec, ..) if spec.reach == Reach::Reads);
    // Nothing runs while other questions are open.
    if !open.next().is_some_and(|asked| reads(asked) && requested(asked).is_some()) {
        return;
    }
    for call in open.take_while(|call| reads(call)) {
        if requested(call).is_some_and(|request| !matches!(request, ToolRequest::Fork { .. })) {
            call.progress = Progress::Answered(failure_result(&call.call, NO_RESULT));
        }
    }
}

/// What the loop is asked to carry out for a call that has not started.
fn requested(call: &Call) -> Option<ToolRequest> {
    let Progress::Waiting(spec, prepared, _) = &call.progress else { return None };
    let Run::InEventLoop(request) = spec.run else { return None };
    Some(request(&prepared.arguments))
}
