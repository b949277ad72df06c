//! Hooks around the calls of one reply, their questions, and at the end of a turn. They run on threads; the call waits for them.

use super::plan::Planned;
use super::questions::UNREAD;
use super::{Call, DENIED_BY_HOOK, Permission, Progress, Work, add_note, failure_result};
use crate::agent::{Agent, Context, Effect, Role, State};
use crate::base::job::Wake;
use crate::domain::approval::Policy;
use crate::domain::chunk::{Chunk, StopReason};
use crate::domain::flow::AgentOutcome;
use crate::domain::hook::HookEvent;
use crate::domain::limits::MadeBy;
use crate::domain::message::Body;
use crate::domain::tool::ToolResult;
use crate::tools::hooks::{HookDecision, HookOutcome, HookRun, Occasion, hooks_for};
use crate::tools::{Prepared, ToolSpec};

/// How often hooks may make a model continue at the end of one turn.
const MAX_ROUNDS: u32 = 5;
/// Of arguments that a hook has changed, in a result.
const LONGEST_CHANGE: usize = 4_000;

/// The outcome of the hooks before a call.
#[derive(Default)]
pub(super) struct Hooked {
    /// They have run.
    is_checked: bool,
    /// Those that may answer its question have run.
    is_question_checked: bool,
    decision: Option<HookDecision>,
    context: Vec<String>,
    has_changed: bool,
}

impl Hooked {
    /// Adds what the hooks say to the result of the call.
    pub(super) fn add_to(&self, result: &mut ToolResult) {
        self.context.iter().for_each(|text| add_note(&mut result.content, &format!("[hook: {text}]")));
    }
}

/// A result whose hooks were stopped before they finished.
pub(super) fn cut_off(mut result: ToolResult) -> ToolResult {
    add_note(&mut result.content, "[the hooks after this call were ended before they had finished]");
    result
}

/// The hooks at the end of a turn.
#[derive(Default)]
pub(super) struct TurnHooks {
    pub running: Option<HookRun>,
    rounds: u32,
}

impl Work {
    /// A turn begins.
    pub fn forget_rounds(&mut self) {
        self.turn_hooks.rounds = 0;
    }
}

impl Agent {
    /// Starts the hooks for an event, if there are any. `subject` is what their matchers are compared with; `describe` adds what
    /// they are told besides the agent.
    pub fn start_hooks(
        &self,
        event: HookEvent,
        subject: Option<&str>,
        wake: Wake,
        describe: impl FnOnce(&mut Occasion),
    ) -> Option<HookRun> {
        let environment = &self.inputs.environment;
        let hooks = hooks_for(environment, event, subject);
        if hooks.is_empty() {
            return None;
        }
        let policy = if self.is_unrestricted() { Policy::Yolo } else { self.policy() };
        let mut occasion = Occasion { agent: self.id().to_string(), policy, event, call: None, more: Vec::new() };
        describe(&mut occasion);
        Some(HookRun::start(hooks, occasion, environment.clone(), wake))
    }

    /// Whether hooks have to look at a call before it is asked about or started.
    pub(super) fn awaits_hooks(&self, at: usize) -> bool {
        self.hooks_before(at).is_some()
    }

    /// The event whose hooks have to look at a call next.
    fn hooks_before(&self, at: usize) -> Option<HookEvent> {
        let Call { call, progress, hooked, .. } = &self.work.calls[at];
        let Progress::Waiting(_, _, permission) = progress else { return None };
        let is_due = |event: &HookEvent| match event {
            HookEvent::PreTool => !hooked.is_checked,
            _ => *permission == Permission::Wanted && !hooked.is_question_checked,
        };
        let has_any = |event| !hooks_for(&self.inputs.environment, event, Some(&call.name)).is_empty();
        let events = [HookEvent::PreTool, HookEvent::PermissionRequest];
        events.into_iter().find(|event| is_due(event) && has_any(*event))
    }

    /// Starts the hooks before a call or its question.
    pub(super) fn check_call(&mut self, at: usize, context: &Context) {
        let Some(event) = self.hooks_before(at) else { return };
        let called = &self.work.calls[at].call;
        let describe = |occasion: &mut Occasion| occasion.call = Some(called.clone());
        let Some(run) = self.start_hooks(event, Some(&called.name), context.wake.clone(), describe) else { return };
        let call = &mut self.work.calls[at];
        match event {
            HookEvent::PermissionRequest => call.hooked.is_question_checked = true,
            _ => call.hooked.is_checked = true,
        }
        let empty = Progress::Answered(failure_result(&call.call, "the hooks before it are being started"));
        if let Progress::Waiting(spec, prepared, permission) = std::mem::replace(&mut call.progress, empty) {
            call.progress = Progress::Checking(run, spec, prepared, permission);
        }
    }

    /// Collects the hooks that have ended. Returns whether there were any for a call.
    pub(super) fn poll_hooks(&mut self, context: &mut Context) -> bool {
        let mut is_any = false;
        for at in 0..self.work.calls.len() {
            let call = &mut self.work.calls[at];
            let is_complete = match &call.progress {
                Progress::Checking(run, ..) | Progress::Following(run, _) => run.is_complete(),
                _ => false,
            };
            if !is_complete {
                continue;
            }
            is_any = true;
            let empty = Progress::Answered(failure_result(&call.call, "the hooks are being collected"));
            match std::mem::replace(&mut call.progress, empty) {
                Progress::Checking(run, spec, prepared, permission) => {
                    self.after_check(at, run.collect(), (spec, prepared, permission), context);
                }
                Progress::Following(run, result) => self.after_following(at, run.collect(), *result),
                progress => call.progress = progress,
            }
        }
        if self.work.turn_hooks.running.as_ref().is_some_and(HookRun::is_complete)
            && let Some(run) = self.work.turn_hooks.running.take()
        {
            self.after_turn_hooks(run.collect(), context);
        }
        is_any
    }

    fn note_hooks(&mut self, notes: Vec<String>) {
        notes.into_iter().for_each(|note| self.emit(&Chunk::Note(note)));
    }

    fn after_check(
        &mut self,
        at: usize,
        outcome: HookOutcome,
        (spec, prepared, permission): (&'static ToolSpec, Box<Prepared>, Permission),
        context: &mut Context,
    ) {
        let HookOutcome { decision, updated, context: more, notes } = outcome;
        self.note_hooks(notes);
        let title = prepared.question.title.clone();
        let call = &mut self.work.calls[at];
        let actor = if self.is_exiting { "polylogue exited" } else { "the user interrupted" };
        let refusal = match &decision {
            _ if self.work.stopping.is_some() => Some(format!("not run: {actor}")),
            Some(HookDecision::Deny(reason)) => Some(format!("{DENIED_BY_HOOK}: {reason}")),
            _ => None,
        };
        call.hooked.context.extend(more);
        if let Some(refusal) = refusal {
            let result = call.unfinished_result(&refusal);
            self.show_call(at, &title);
            return self.show_result(at, result);
        }
        let has_changed = updated.is_some();
        if let Some(updated) = updated {
            call.call.arguments = updated.to_string();
        }
        let must_ask = has_changed || matches!(decision, Some(HookDecision::Ask(_)));
        call.hooked.has_changed |= has_changed;
        // What a hook wants to be asked, no other one answers.
        let before = call.hooked.decision.take();
        call.hooked.decision = match before {
            Some(HookDecision::Ask(_)) => before,
            _ => decision.or(before),
        };
        call.progress = Progress::Waiting(spec, prepared, permission);
        if must_ask || permission != Permission::Given {
            self.plan_again(at, permission, context);
        }
    }

    /// Applies the decisions of the hooks to the plan of a call. `relaxed` is the plan in which only rules ask.
    pub(super) fn after_hooks(
        &self,
        call: &Call,
        planned: Planned,
        policy: Policy,
        relaxed: impl FnOnce() -> Planned,
    ) -> Planned {
        match (&call.hooked.decision, planned.progress) {
            (Some(HookDecision::Ask(reason)), Progress::Waiting(spec, mut prepared, Permission::NotNeeded))
                if !self.is_unrestricted() =>
            {
                if policy == Policy::Never {
                    let message = format!("refused: a hook asks ({reason}), and no question is asked (policy never)");
                    return Progress::Answered(failure_result(&call.call, &message)).into();
                }
                prepared.question.add_reason(&format!("a hook: {reason}"));
                Progress::Waiting(spec, prepared, Permission::Wanted).into()
            }
            (Some(HookDecision::Allow), progress @ Progress::Waiting(_, _, Permission::Wanted))
                if policy != Policy::Plan && self.is_held() =>
            {
                let relaxed = relaxed();
                let is_free = matches!(relaxed.progress, Progress::Waiting(_, _, Permission::NotNeeded));
                if is_free { relaxed } else { Planned { progress, ..planned } }
            }
            (_, progress) => Planned { progress, ..planned },
        }
    }

    /// Whether calls run on this machine or in a container. Hooks do not run elsewhere, and allow nothing there.
    fn is_held(&self) -> bool {
        self.inputs.environment.remote.as_ref().is_none_or(|remote| remote.is_contained())
    }

    /// Takes the result of a call that was carried out; hooks may add to it before the model gets it.
    pub(super) fn conclude(&mut self, at: usize, mut result: ToolResult, context: &Context) {
        let Call { call, hooked, is_unread, .. } = &mut self.work.calls[at];
        if *is_unread {
            add_note(&mut result.content, &format!("[{UNREAD}]"));
        }
        if hooked.has_changed {
            let ran = crate::base::text::shortened(&call.arguments, LONGEST_CHANGE).into_owned();
            add_note(
                &mut result.content,
                &format!("[a hook of the user changed this call before it ran; it ran as: {ran}]"),
            );
        }
        std::mem::take(hooked).add_to(&mut result);
        if self.work.stopping.is_some() {
            return self.show_result(at, result);
        }
        let call = &self.work.calls[at].call;
        let describe = |occasion: &mut Occasion| {
            let response = serde_json::json!({"content": result.content, "is_error": result.is_error});
            occasion.call = Some(call.clone());
            occasion.more.push(("tool_response", response));
        };
        match self.start_hooks(HookEvent::PostTool, Some(&call.name), context.wake.clone(), describe) {
            Some(run) => self.work.calls[at].progress = Progress::Following(run, Box::new(result)),
            None => self.show_result(at, result),
        }
    }

    fn after_following(&mut self, at: usize, outcome: HookOutcome, mut result: ToolResult) {
        self.note_hooks(outcome.notes);
        if self.work.stopping.is_some() {
            result = cut_off(result);
        }
        if let Some(HookDecision::Deny(reason)) = &outcome.decision {
            add_note(&mut result.content, &format!("[a hook objects to this result: {reason}]"));
        }
        outcome.context.iter().for_each(|text| add_note(&mut result.content, &format!("[hook: {text}]")));
        self.show_result(at, result);
    }

    pub(super) fn show_result(&mut self, at: usize, result: ToolResult) {
        self.work.calls[at].progress = Progress::Answered(result.clone());
        self.emit(&Chunk::ToolResult(result));
    }

    /// Starts the hooks for the end of a turn. Returns the bodies if the turn ends without them.
    pub(in crate::agent) fn begin_turn_hooks(&mut self, bodies: Vec<Body>, context: &mut Context) -> Option<Vec<Body>> {
        let is_subagent = self.identity.made_by == MadeBy::Model;
        let event = if is_subagent { HookEvent::SubagentStop } else { HookEvent::Stop };
        if self.role != Role::Normal {
            return Some(bodies);
        }
        let rounds = self.work.turn_hooks.rounds;
        if rounds >= MAX_ROUNDS {
            let note = format!("the stop hooks are not run again: they made the model continue {MAX_ROUNDS} times");
            self.emit(&Chunk::Note(note));
            return Some(bodies);
        }
        let describe = |occasion: &mut Occasion| occasion.more.push(("stop_hook_active", (rounds > 0).into()));
        let Some(run) = self.start_hooks(event, None, context.wake.clone(), describe) else { return Some(bodies) };
        self.work.turn_hooks.running = Some(run);
        context.outbox.push(self.id(), Effect::Settle(bodies));
        self.work.stopping = None;
        self.enter(State::ExecutingTool, context);
        None
    }

    fn after_turn_hooks(&mut self, outcome: HookOutcome, context: &mut Context) {
        self.note_hooks(outcome.notes);
        match outcome.decision {
            _ if self.work.stopping.is_some() => self.finish_tools(context),
            Some(HookDecision::Deny(reason)) => {
                self.work.turn_hooks.rounds += 1;
                let first = reason.lines().next().unwrap_or_default();
                self.emit(&Chunk::Note(format!("a stop hook makes the model continue: {first}")));
                let more: String = outcome.context.iter().map(|text| format!("\n{text}")).collect();
                let text = format!("A hook of the user does not let you stop yet: {reason}{more}");
                context.outbox.push(self.id(), Effect::Persist(vec![Body::System(text)]));
                self.request_again(context);
            }
            _ => {
                self.emit(&Chunk::Finish { stop_reason: StopReason::Stop });
                self.finish_turn(Vec::new(), AgentOutcome::Completed, context);
            }
        }
    }
}
