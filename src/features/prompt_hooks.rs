//! Runs the hooks before a turn that a person begins: for the start of a session, and for the message. The first request of the
//! turn waits for them.

use std::collections::{BTreeMap, BTreeSet};

use crate::agent::{Agent, Role};
use crate::base::id::AgentId;
use crate::base::job::Wake;
use crate::domain::flow::Origin;
use crate::domain::hook::HookEvent;
use crate::domain::message::Body;
use crate::domain::scrollback::LineKind;
use crate::features::Feature;
use crate::repl::component::{Command, Component};
use crate::repl::core::Core;
use crate::repl::core::remove::drain;
use crate::repl::event::Event;
use crate::tools::hooks::{HookDecision, HookOutcome, HookRun, Occasion};

pub const FEATURE: Feature =
    Feature { component: Some(|| Box::<PromptHooks>::default()), ..Feature::new("prompt-hooks") };

#[derive(Default)]
struct PromptHooks {
    /// The agents whose turn has begun for a person and has sent no request yet.
    beginning: BTreeSet<AgentId>,
    running: BTreeMap<AgentId, Checking>,
    /// The agents whose session has started: a message to them has passed.
    started: BTreeSet<AgentId>,
}

/// Hooks that run before the request of an agent.
struct Checking {
    event: HookEvent,
    run: HookRun,
    /// What those before it have added.
    context: Vec<String>,
}

impl PromptHooks {
    /// Starts the hooks for the start of a session, if it starts, or else those for the message. Returns whether there are any.
    fn start(&mut self, core: &Core, id: AgentId) -> bool {
        let Some(agent) = core.agent(id).filter(|agent| agent.role == Role::Normal) else { return false };
        let run = if self.started.contains(&id) { None } else { start_session(agent, core.waker()) };
        match run {
            Some(run) => {
                let event = HookEvent::SessionStart;
                self.running.insert(id, Checking { event, run, context: Vec::new() });
                true
            }
            None => self.start_prompt(agent, core.waker(), Vec::new()).is_none(),
        }
    }

    /// Starts the hooks for the message. Returns the context if there are none.
    fn start_prompt(&mut self, agent: &Agent, wake: Wake, context: Vec<String>) -> Option<Vec<String>> {
        let Some((_, text)) = agent.unchecked_messages() else { return Some(context) };
        let describe = |occasion: &mut Occasion| occasion.more.push(("prompt", text.into()));
        let Some(run) = agent.start_hooks(HookEvent::UserPrompt, None, wake, describe) else { return Some(context) };
        self.running.insert(agent.id(), Checking { event: HookEvent::UserPrompt, run, context });
        None
    }

    fn finish(&mut self, core: &mut Core, id: AgentId, checking: Checking) {
        let Checking { event, run, mut context } = checking;
        let HookOutcome { decision, context: added, notes, .. } = run.collect();
        notes.iter().for_each(|note| core.note(id, LineKind::Note, note));
        context.extend(added);
        let denied = if let Some(HookDecision::Deny(reason)) = decision { Some(reason) } else { None };
        if event == HookEvent::UserPrompt {
            return self.end(core, id, denied.map_or(Ok(context), Err));
        }
        if let Some(reason) = denied {
            core.note(id, LineKind::Note, &format!("a {} hook objects: {reason}", event.name()));
        }
        let Some(agent) = core.agent(id) else { return };
        if let Some(context) = self.start_prompt(agent, core.waker(), context) {
            self.end(core, id, Ok(context));
        }
    }

    fn end(&mut self, core: &mut Core, id: AgentId, outcome: Result<Vec<String>, String>) {
        if outcome.is_ok() {
            self.started.insert(id);
        }
        let as_body = |text: &String| Body::System(format!("A hook adds this: {text}"));
        let outcome = outcome.map(|context| context.iter().map(as_body).collect());
        core.with_agent(id, |agent, context| agent.on_hooks_ended(outcome, context));
    }

    fn stop(&mut self, core: &mut Core, agent: AgentId) {
        self.beginning.remove(&agent);
        if let Some(Checking { run, .. }) = self.running.remove(&agent) {
            run.cancel();
            drain(core, run.into_running());
        }
    }
}

impl Component for PromptHooks {
    fn on_event(&mut self, event: &Event, core: &mut Core) {
        match event {
            Event::TurnStarted { agent, origin, .. }
                if !matches!(origin, Origin::Agent(_)) && !core.config().hooks.is_empty() =>
            {
                self.beginning.insert(*agent);
            }
            Event::TurnEnded { agent, .. } => self.stop(core, *agent),
            Event::Removed { agent, .. } => {
                self.stop(core, *agent);
                self.started.remove(agent);
            }
            _ => {}
        }
    }

    fn holds_request(&mut self, core: &mut Core, agent: AgentId) -> bool {
        if self.beginning.remove(&agent) {
            if self.start(core, agent) {
                core.edit(agent, Agent::await_hooks);
            } else {
                self.started.insert(agent);
            }
        }
        self.running.contains_key(&agent)
    }

    fn step(&mut self, core: &mut Core, _: &mut Vec<Command>) {
        let ended: Vec<_> = self.running.extract_if(.., |_, checking| checking.run.is_complete()).collect();
        ended.into_iter().for_each(|(agent, checking)| self.finish(core, agent, checking));
    }
}

/// Starts the hooks for the start of a session.
fn start_session(agent: &Agent, wake: Wake) -> Option<HookRun> {
    let is_new = agent.inputs.history.as_ref().is_some_and(|history| history.conversation().len() <= 1);
    let source = if is_new { "startup" } else { "resume" };
    agent.start_hooks(HookEvent::SessionStart, Some(source), wake, |occasion| {
        occasion.more = vec![("source", source.into()), ("model", agent.inputs.endpoint.full_name().into())];
    })
}
