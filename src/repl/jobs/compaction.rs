//! `/compact`, and the same before a request that would not fit: the older part of a conversation is summarised, and
//! the model gets the summary instead.
//!
//! Hooks may refuse it. The summary is written by summary agents, one after the other if the part is larger than the context of
//! the model. The log gets one entry when everything is written; before that, and after a failure, nothing has changed.

use crate::agent::{Agent, State, Wait};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::base::text::with_commas;
use crate::domain::compaction::Plan;
use crate::domain::flow::{AgentOutcome, Origin};
use crate::domain::hook::HookEvent;
use crate::domain::message::Body;
use crate::domain::scrollback::LineKind;
use crate::domain::stream::Usage;
use crate::repl::core::Core;
use crate::repl::core::drafts::{return_line, return_refused};
use crate::repl::core::unsaved::Write;
use crate::repl::jobs::Jobs;
use crate::repl::jobs::slice::{count_usage, spawn_summary};
use crate::tools::hooks::{HookDecision, HookOutcome, HookRun};

/// A compaction whose summary is being written.
pub(super) struct CompactionJob {
    agent: AgentId,
    /// Where `/compact` was typed; `None`: a request waits for it.
    typed: Option<(Origin, String)>,
    plan: Plan,
    /// The most bytes that are summarised at once.
    piece: usize,
    step: Step,
    text: Option<String>,
    /// The usage of the summaries so far.
    pub(super) costs: Vec<Usage>,
}

enum Step {
    /// Hooks run before it.
    Hooks(HookRun),
    /// Nothing runs for it.
    Resting,
    /// This agent writes a summary.
    Writing(AgentId),
}

impl CompactionJob {
    fn is_written_by(&self, writer: AgentId) -> bool {
        matches!(self.step, Step::Writing(known) if known == writer)
    }
}

impl Jobs {
    /// Starts `/compact` for an idle agent.
    pub(in crate::repl) fn compact(
        &mut self,
        core: &mut Core,
        origin: Origin,
        agent: AgentId,
        goal: Option<String>,
    ) -> Result<()> {
        core.require_idle(agent)?;
        core.load(agent)?;
        let line = goal.as_ref().map_or_else(|| "/compact".to_owned(), |goal| format!("/compact {goal}"));
        if self.start_compaction(core, agent, Some((origin, line)), goal) {
            return Ok(());
        }
        Err(Error::usage("nothing to compact: the conversation is too short"))
    }

    /// Whether the request of an agent has to wait for a compaction that was started, or has failed for lack of one.
    pub(super) fn compacts_first(&mut self, core: &mut Core, agent: AgentId) -> bool {
        if core.with_agent(agent, |agent, context| agent.needs_compaction(context.settings)) != Some(true) {
            return false;
        }
        if self.start_compaction(core, agent, None, None) {
            core.edit(agent, Agent::await_compaction);
        } else {
            core.with_agent(agent, |agent, context| agent.on_compaction_ended(false, context));
        }
        true
    }

    fn start_compaction(
        &mut self,
        core: &mut Core,
        agent: AgentId,
        typed: Option<(Origin, String)>,
        goal: Option<String>,
    ) -> bool {
        let is_automatic = typed.is_none();
        let settings = core.config().settings;
        let planned = core.edit(agent, |agent| {
            Some((agent.plan_compaction(goal.clone(), is_automatic, &settings)?, agent.summary_piece()))
        });
        let Some((mut plan, piece)) = planned.flatten() else { return false };
        let hooks = start_hooks(core, agent, is_automatic, goal).map(Step::Hooks);
        let step = hooks.or_else(|| next_writer(core, agent, &mut plan, piece).map(Step::Writing));
        let Some(step) = step else { return false };
        let keys = if is_automatic { "" } else { " (Esc cancels it)" };
        core.note(agent, LineKind::Note, &format!("compacting the older messages{keys}"));
        self.compactions.push(CompactionJob { agent, typed, plan, piece, step, text: None, costs: Vec::new() });
        true
    }

    /// Begins the summaries of those whose hooks have ended.
    pub(super) fn take_compaction_hooks(&mut self, core: &mut Core) {
        let is_over = |job: &mut CompactionJob| matches!(&job.step, Step::Hooks(run) if run.is_complete());
        let over: Vec<CompactionJob> = self.compactions.extract_if(.., is_over).collect();
        for mut job in over {
            let Step::Hooks(run) = std::mem::replace(&mut job.step, Step::Resting) else { continue };
            let HookOutcome { decision, notes, .. } = run.collect();
            notes.iter().for_each(|note| core.note(job.agent, LineKind::Note, note));
            if let Some(HookDecision::Deny(reason)) = decision {
                self.fail_compaction(core, job, &format!("a hook refused it: {reason}"));
                continue;
            }
            match next_writer(core, job.agent, &mut job.plan, job.piece) {
                Some(writer) => self.compactions.push(CompactionJob { step: Step::Writing(writer), ..job }),
                None => self.fail_compaction(core, job, "the summary could not be started"),
            }
        }
    }

    pub(super) fn is_compacting(&self, agent: AgentId) -> bool {
        self.compactions.iter().any(|job| job.agent == agent)
    }

    /// Takes the output of a summary agent. A reply that was cut off is not a summary.
    pub(super) fn on_compaction_text(&mut self, writer: AgentId, bodies: &[Body]) {
        let Some(job) = self.compactions.iter_mut().find(|job| job.is_written_by(writer)) else { return };
        for body in bodies {
            match body {
                Body::Assistant(reply) if !reply.is_partial && !reply.text.trim().is_empty() => {
                    job.text = Some(reply.text.clone());
                }
                Body::Usage(usage) => job.costs.push(usage.clone()),
                _ => {}
            }
        }
    }

    pub(super) fn on_compaction_ended(&mut self, core: &mut Core, writer: AgentId, outcome: &AgentOutcome) {
        let Some(index) = self.compactions.iter().position(|job| job.is_written_by(writer)) else { return };
        core.remove(writer, None);
        let mut job = self.compactions.remove(index);
        let failure = match (outcome, job.text.take()) {
            (AgentOutcome::Completed, Some(text)) => {
                job.plan.on_summary(&text);
                None
            }
            // The bytes of its tokens are less than estimated.
            (AgentOutcome::Error(error), _)
                if error.kind == ErrorKind::ContextTooLong && Plan::can_shrink(job.piece) =>
            {
                job.piece /= 2;
                None
            }
            (AgentOutcome::Error(error), _) => Some(error.message.clone()),
            _ => Some("the summary is empty or was cut at the length limit".to_owned()),
        };
        if let Some(reason) = failure {
            return self.fail_compaction(core, job, &reason);
        }
        match next_writer(core, job.agent, &mut job.plan, job.piece) {
            Some(writer) => self.compactions.push(CompactionJob { step: Step::Writing(writer), ..job }),
            None => self.finish_compaction(core, job),
        }
    }

    /// Stores the compaction in one transaction, and sends the request that waits for it.
    fn finish_compaction(&mut self, core: &mut Core, job: CompactionJob) {
        let Some(agent) = core.agent(job.agent) else { return };
        let compaction = match agent.measured(job.plan.clone().into_compaction()) {
            Ok(compaction) => compaction,
            Err(longer) => {
                let (before, after) = (with_commas(longer.before), with_commas(longer.after));
                let reason = format!("the summary is not shorter than the messages (about {before} -> {after} tokens)");
                return self.fail_compaction(core, job, &reason);
            }
        };
        let costs = job.costs.iter().cloned().map(Body::Usage);
        let rows = [Body::Compaction(Box::new(compaction))].into_iter().chain(costs).collect();
        let now = core.clock().unix_ms();
        match core.save_unsaved(job.agent).and_then(|()| core.store().append(job.agent, rows, now)) {
            Ok(messages) => {
                count_usage(core, job.agent, &job.costs);
                core.remember(job.agent, messages);
                self.end_compaction(core, job, true);
            }
            Err(error) => self.fail_compaction(core, CompactionJob { costs: Vec::new(), ..job }, &error.message),
        }
    }

    /// Nothing changes, but the cost of the summaries is counted.
    fn fail_compaction(&mut self, core: &mut Core, job: CompactionJob, reason: &str) {
        let message = format!("not compacted, the conversation is as it was: {reason}");
        core.note(job.agent, LineKind::Error, &message);
        self.record_costs(core, &job);
        if let Some((origin, line)) = &job.typed {
            return_refused(core, job.agent, *origin, line);
        }
        self.end_compaction(core, job, false);
    }

    fn record_costs(&mut self, core: &mut Core, job: &CompactionJob) {
        if !job.costs.is_empty() {
            count_usage(core, job.agent, &job.costs);
            core.record(job.agent, job.costs.iter().cloned().map(Body::Usage).collect(), Write::Append);
        }
    }

    fn end_compaction(&mut self, core: &mut Core, job: CompactionJob, is_stored: bool) {
        let waits = |agent: &Agent| agent.state() == State::WaitingForLlm && matches!(agent.wait(), Wait::Compaction);
        core.edit(job.agent, |agent| agent.set_compacting(false, None));
        if job.typed.is_some() {
            self.compacted.push(job.agent);
        } else if core.agent(job.agent).is_some_and(waits) {
            core.with_agent(job.agent, |agent, context| agent.on_compaction_ended(is_stored, context));
        }
    }

    /// Stops a compaction; everything stays as it was.
    pub(super) fn cancel_compaction(&mut self, core: &mut Core, agent: AgentId) {
        if let Some(job) = self.drop_compaction(core, agent) {
            core.note(agent, LineKind::Mark, "not compacted: cancelled, the conversation is as it was");
            self.record_costs(core, &job);
            if let Some((origin, line)) = &job.typed {
                return_line(core, agent, *origin, line);
            }
        }
    }

    /// Removes a compaction and its summary agent.
    pub(super) fn drop_compaction(&mut self, core: &mut Core, agent: AgentId) -> Option<CompactionJob> {
        let index = self.compactions.iter().position(|job| job.agent == agent)?;
        let mut job = self.compactions.remove(index);
        match &job.step {
            Step::Hooks(run) => run.cancel(),
            Step::Resting => {}
            Step::Writing(writer) => {
                let writer = core.remove(*writer, None);
                job.costs.extend(writer.and_then(|writer| writer.usage_so_far()));
            }
        }
        core.edit(agent, |agent| agent.set_compacting(false, None));
        Some(job)
    }

    /// A turn began that is not from the queue: the situation for which a person typed `/compact` has changed.
    pub(super) fn on_turn_started(&mut self, core: &mut Core, agent: AgentId) {
        if self.compactions.iter().any(|job| job.agent == agent && job.typed.is_some()) {
            self.cancel_compaction(core, agent);
        }
    }

    /// The agents whose queue goes on after `/compact`.
    pub(in crate::repl) fn take_compacted(&mut self) -> Vec<AgentId> {
        std::mem::take(&mut self.compacted)
    }
}

/// Starts the hooks before a compaction; `None` if there are none.
fn start_hooks(core: &mut Core, id: AgentId, is_automatic: bool, goal: Option<String>) -> Option<HookRun> {
    let agent = core.agent(id)?;
    let trigger = if is_automatic { "auto" } else { "manual" };
    let run = agent.start_hooks(HookEvent::PreCompact, Some(trigger), core.waker(), |occasion| {
        occasion.more = vec![("trigger", trigger.into()), ("custom_instructions", goal.unwrap_or_default().into())];
    })?;
    core.edit(id, |agent| agent.set_compacting(true, None));
    Some(run)
}

/// Starts a summary agent for the next piece; `None` if all is summarised.
fn next_writer(core: &mut Core, agent: AgentId, plan: &mut Plan, piece: usize) -> Option<AgentId> {
    let request = plan.request(piece)?;
    let writer = spawn_summary(core, agent, request)?;
    core.edit(agent, |agent| agent.set_compacting(true, Some(writer)));
    Some(writer)
}
