//! Reports of member agents to their task.

use serde_json::json;

use crate::agent::Effect;
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind};
use crate::base::id::AgentId;
use crate::domain::flow::{AgentOutcome, Origin};
use crate::domain::message::Body;
use crate::repl::coordinator::{Coordinator, RunId};
use crate::repl::core::{Core, activity};
use crate::repl::event::Event;

/// The output of one attempt so far.
#[derive(Default)]
pub(super) struct AttemptOutput {
    /// The text of the final reply.
    answer: String,
    /// Why the final reply is incomplete.
    cut: Option<String>,
    /// The final reply is incomplete, but a part of it was received.
    is_partial: bool,
}

impl AttemptOutput {
    fn add(&mut self, bodies: &[Body], is_end: bool) {
        for body in bodies {
            match body {
                Body::Assistant(reply) if is_end => {
                    self.answer.clone_from(&reply.text);
                    self.is_partial = reply.is_partial;
                }
                Body::Interrupted(why) if is_end => self.cut = Some(why.clone()),
                _ => {}
            }
        }
    }

    /// A reply that broke off before any text is a failure.
    fn answer(&self) -> Result<&str, Error> {
        match &self.cut {
            Some(why) if self.answer.trim().is_empty() => Err(Error::new(ErrorKind::Protocol, why.clone())),
            _ => Ok(&self.answer),
        }
    }
}

impl Coordinator {
    fn on_messages(&mut self, agent: AgentId, bodies: &[Body], is_end: bool, now: Moment) {
        let Some(assignment) = self.assignments.get_mut(&agent) else { return };
        assignment.output.add(bodies, is_end);
        let tokens = |body: &Body| if let Body::Usage(usage) = body { usage.tokens() } else { 0 };
        let (run, member_id, tokens) = (assignment.run.clone(), assignment.member_id, bodies.iter().map(tokens).sum());
        if tokens > 0 {
            self.with_task(&run, now, |task, _| task.on_tokens(member_id, tokens));
        }
    }

    pub(super) fn on_started(&mut self, agent: AgentId, now: Moment) {
        let Some(assignment) = self.assignments.get(&agent) else { return };
        let (run, member_id) = (assignment.run.clone(), assignment.member_id);
        self.with_task(&run, now, |task, _| task.on_started(member_id, now));
    }

    fn on_settled(&mut self, core: &Core, agent: AgentId, outcome: &AgentOutcome, now: Moment) {
        let Some(assignment) = self.assignments.get(&agent) else { return };
        let (run, member_id) = (assignment.run.clone(), assignment.member_id);
        // A reply that a person has read is not replaced.
        let is_seen = assignment.output.is_partial && activity::is_watched(core, agent);
        let response = match outcome {
            AgentOutcome::Completed => assignment.output.answer().map(str::to_owned),
            AgentOutcome::Error(error) => Err(error.clone()),
            AgentOutcome::Interrupted { .. } => Err(Error::new(ErrorKind::System, "interrupted by the user")),
            AgentOutcome::Exited => return,
        };
        self.with_task(&run, now, |task, context| match response {
            Ok(answer) => task.on_answer(member_id, &answer, context),
            Err(error) => task.on_failure(member_id, &error, error.kind.is_transient() && !is_seen, context),
        });
    }

    /// This agent was removed: it has failed as a member, and its own runs end.
    pub(super) fn on_removed(&mut self, agent: AgentId, now: Moment) {
        if let Some(assignment) = self.assignments.remove(&agent) {
            if let Some(run) = self.run_mut(&assignment.run) {
                run.agents.remove(&assignment.member_id);
            }
            let error = Error::new(ErrorKind::System, "killed");
            self.with_task(&assignment.run, now, |task, context| {
                task.on_failure(assignment.member_id, &error, false, context)
            });
        }
        self.interrupt_runs_of(agent, now);
    }

    pub(super) fn interrupt_runs_of(&mut self, origin: AgentId, now: Moment) {
        let open: Vec<RunId> = self.open_runs().filter(|run| run.origin == origin).map(|run| run.id.clone()).collect();
        open.iter().for_each(|run| self.interrupt(run, now));
    }
}

impl Coordinator {
    /// Reports an effect of a member to its task, and returns it to be applied. Text that would return to its author is
    /// dropped: the task has it.
    pub(super) fn on_member_effect(&mut self, core: &mut Core, agent: AgentId, effect: Effect) -> Option<Effect> {
        let now = core.now();
        match &effect {
            Effect::Persist(bodies) | Effect::Settle(bodies) => self.on_messages(agent, bodies, false, now),
            Effect::Finish(bodies) => self.on_messages(agent, bodies, true, now),
            // The next entry of the user's queue for the agent is not part of the task.
            Effect::Settled(outcome) => {
                self.on_settled(core, agent, outcome, now);
                self.end_at_limit(core, agent);
            }
            Effect::ReturnText(_) => return None,
            _ => {}
        }
        Some(effect)
    }

    /// Interrupts the run of a member whose turn ended at a limit that no person can raise: the next member would reach
    /// it as well. The client of the run is told before it ends.
    fn end_at_limit(&mut self, core: &mut Core, member: AgentId) {
        let Some(reached) = core.trees().reached(|other| other == member) else { return };
        let Some(run) = self.assignments.get(&member).map(|assignment| assignment.run.clone()) else { return };
        if let Some(Origin::Client(client)) = self.run(&run).map(|run| run.wanted_by) {
            let event = json!({"v": 1, "type": "limit", "text": reached.message(core.roster())});
            core.emit(Event::ClientRunWent { client, event });
        }
        self.interrupt(&run, core.now());
    }
}
