//! Applies the effects that agents requested while they were served, and the events that follow from them.

use crate::agent::{Effect, State};
use crate::base::clock::Moment;
use crate::base::error::Error;
use crate::base::id::AgentId;
use crate::domain::flow::AgentOutcome;
use crate::domain::scrollback::LineKind;
use crate::domain::stream::StreamEvent;
use crate::repl::Repl;
use crate::repl::component::Component;
use crate::repl::core::log::record_checkpoints;
use crate::repl::core::turns::end_question;
use crate::repl::core::unsaved::Write;
use crate::repl::core::{context_lengths, drafts, file_steps, limits, model, rules};
use crate::repl::offers::offer_auto;
use crate::store::input_line;
use crate::team::Refusal;

impl Repl {
    /// Delivers all events and applies all effects. Whatever happens next, a key perhaps, finds nothing pending.
    pub(super) fn apply_effects(&mut self) {
        loop {
            self.deliver_events();
            let (traced, recorded) = self.core.take_delivered();
            self.trace.on_delivered(traced, recorded);
            self.jobs.take_compacted().into_iter().for_each(|agent| self.resume_queue(agent));
            let Some((agent_id, effect)) = self.core.take_effect() else { break };
            self.trace.effect(agent_id, &effect);
            self.apply_effect(agent_id, effect);
        }
        self.trace.focus(self.terminals.focus_by_terminal());
    }

    fn deliver_events(&mut self) {
        while let Some(event) = self.core.take_event() {
            self.trace.event(&event, |agent| self.core.roster().label_of(agent));
            let (core, components, _) = self.split();
            components.for_each(|component| component.on_event(&event, core));
        }
    }

    fn apply_effect(&mut self, agent_id: AgentId, effect: Effect) {
        if matches!(effect, Effect::Settled(_)) {
            self.core.end_turn(agent_id);
        }
        if let Effect::Persist(bodies) | Effect::Settle(bodies) | Effect::Finish(bodies) = &effect {
            limits::count_spent(&mut self.core, agent_id, bodies);
        }
        if let Some(effect) = self.offer_effect(agent_id, effect) {
            self.apply_core_effect(agent_id, effect);
        }
    }

    /// Lets the component to which the effect belongs carry it out. Returns any other.
    fn offer_effect(&mut self, agent_id: AgentId, effect: Effect) -> Option<Effect> {
        let (core, mut components, _) = self.split();
        components.try_fold(effect, |effect, component| component.on_effect(core, agent_id, effect))
    }

    fn apply_core_effect(&mut self, agent_id: AgentId, effect: Effect) {
        match effect {
            Effect::Persist(bodies) => self.core.record(agent_id, bodies, Write::Append),
            Effect::Settle(bodies) => self.core.record(agent_id, bodies, Write::Settle),
            Effect::Finish(bodies) => self.core.record(agent_id, bodies, Write::Finish),
            Effect::Checkpoint(piece) => {
                let trace = &mut self.trace;
                record_checkpoints(&mut self.core, (agent_id, piece), |agent, effect| trace.effect(agent, effect));
            }
            Effect::Request => self.on_request(agent_id),
            Effect::Limited { provider, until, spread, reason } => {
                let refusal = Refusal { at: self.core.now(), until, spread };
                self.core.send_queue_mut().on_refused(&provider, agent_id, refusal, &reason);
            }
            Effect::Accepted { provider, exhausted_until } => self.on_accepted(agent_id, &provider, exhausted_until),
            Effect::ContextLearned { model, limit } => {
                context_lengths::learn_context(&mut self.core, agent_id, model, limit)
            }
            Effect::ToolsRefused(model) => model::refuse_tools(&mut self.core, &model),
            Effect::KeyRefused { provider, run } => {
                self.dispatcher.on_key_refused(&mut self.core, agent_id, &provider, run)
            }
            // The question itself is part of the agent's state, which the terminals show.
            Effect::Question(results) => {
                self.core.record(agent_id, results, Write::Question);
                offer_auto(&mut self.core, &self.terminals, agent_id);
            }
            Effect::Refused(message) => rules::note_refused(&mut self.core, agent_id, message),
            Effect::FilesChanged(step) => file_steps::keep_step(&mut self.core, &step, None),
            Effect::Decided { call, allowed } => self.on_decided(agent_id, call, allowed),
            Effect::ToolRequest(call, request) => self.on_tool_request(agent_id, call, request),
            Effect::WaitOver(call) => {
                self.core.with_agent(agent_id, |agent, context| agent.end_background_wait(&call, context));
            }
            // Only MCP servers and hosts ask or call, and their components have taken the answer.
            Effect::Elicited { .. } | Effect::HostAnswered { .. } | Effect::OurToolResult(_) => {}
            Effect::Prompt(_) => {
                let events = vec![StreamEvent::Error(Error::not_built_in("hosts"))];
                self.core.with_agent(agent_id, |agent, context| agent.on_host_events(events, context));
            }
            Effect::FallBack(error) => model::fall_back(&mut self.core, agent_id, error),
            Effect::ReturnText(text) => drafts::return_message(&mut self.core, agent_id, &input_line(&text)),
            Effect::StateChanged(from, to) => self.on_state_changed(agent_id, from, to),
            Effect::Settled(outcome) => self.on_settled(agent_id, &outcome),
        }
    }

    fn on_request(&mut self, agent_id: AgentId) {
        let Self { core, features, jobs, .. } = self;
        // Hooks may refuse a message for which the conversation would be compacted.
        let is_held = features.iter_mut().any(|feature| feature.holds_request(core, agent_id));
        if !is_held && !jobs.holds_request(core, agent_id) {
            core.join_send_queue(agent_id);
        }
    }

    fn on_accepted(&mut self, agent_id: AgentId, provider: &str, exhausted_until: Option<Moment>) {
        let now = self.core.now();
        self.core.send_queue_mut().on_accepted(provider, agent_id, now);
        if let Some(until) = exhausted_until {
            self.core.send_queue_mut().hold_until(provider, (now, until), "the limit of requests is used up");
        }
    }

    fn on_state_changed(&mut self, agent_id: AgentId, from: State, to: State) {
        limits::count_work(&mut self.core, agent_id, from, to);
        // An answer that lets a call run was stored before.
        if from == State::AwaitingApproval
            && to == State::ExecutingTool
            && let Err(error) = end_question(&mut self.core, agent_id)
        {
            self.core.note(agent_id, LineKind::Error, &format!("the end of the question was not saved: {error}"));
        }
        if to == State::Idle {
            self.core.send_queue_mut().leave(agent_id);
        }
        // A change that was parked until the tools are done comes before the next queued text.
        if matches!(to, State::Idle | State::WaitingForLlm)
            && let Some(parked) = self.jobs.take_parked(&self.core, agent_id)
            && !self.apply_or_notify(parked.origin, agent_id, parked.change.clone())
        {
            self.jobs.on_parked_failed(&mut self.core, &parked);
        }
    }

    fn on_settled(&mut self, agent_id: AgentId, outcome: &AgentOutcome) {
        self.dispatcher.keep_connection(&mut self.core, agent_id);
        // After an interrupt or an error the user decides whether the queue is resumed.
        if *outcome == AgentOutcome::Completed {
            self.resume_queue(agent_id);
        }
    }
}
