//! Runs the `notify` hooks: when an agent asks, has finished or failed. Nothing waits for them, except the end of the
//! program, for a moment.

use std::collections::BTreeSet;

use crate::agent::Role;
use crate::base::id::AgentId;
use crate::domain::chunk::Status;
use crate::domain::flow::TurnEnd;
use crate::domain::hook::HookEvent;
use crate::domain::scrollback::LineKind;
use crate::features::Feature;
use crate::repl::component::{Command, Component};
use crate::repl::core::Core;
use crate::repl::event::Event;
use crate::tools::hooks::HookRun;

pub const FEATURE: Feature =
    Feature { component: Some(|| Box::<NotifyHooks>::default()), ..Feature::new("notify-hooks") };

/// No further hook is started while this many run.
const MOST: usize = 8;

/// The hooks that run.
#[derive(Default)]
struct NotifyHooks {
    asking: BTreeSet<AgentId>,
    running: Vec<(AgentId, HookRun)>,
}

impl NotifyHooks {
    fn start(&mut self, core: &Core, agent: AgentId, kind: &'static str, message: String) {
        let Some(known) = core.agent(agent).filter(|known| known.role == Role::Normal) else { return };
        if self.running.len() >= MOST {
            return;
        }
        let started = known.start_hooks(HookEvent::Notify, Some(kind), core.waker(), |occasion| {
            occasion.more =
                vec![("message", message.into()), ("title", "polylogue".into()), ("notification_type", kind.into())];
        });
        self.running.extend(started.map(|run| (agent, run)));
    }

    fn on_turn_ended(&mut self, core: &Core, id: AgentId) {
        let Some(agent) = core.agent(id).filter(|agent| matches!(agent.status(), Status::Idle | Status::Failed)) else {
            return;
        };
        let (kind, how) = match agent.last_end() {
            // The person knows, or the program ends.
            Some(TurnEnd::Interrupted) => return,
            Some(TurnEnd::Failed) => ("error", "failed"),
            _ => ("idle_prompt", "finished"),
        };
        let message = format!("{} {how}", agent.identity.label());
        self.start(core, id, kind, message);
    }

    /// Starts those for questions that were not there before.
    fn on_questions(&mut self, core: &Core) {
        if *core.roster().asking() == self.asking {
            return;
        }
        let new: Vec<AgentId> = core.roster().asking().difference(&self.asking).copied().collect();
        for id in new {
            let asked = core.agent(id).and_then(|agent| Some((agent.identity.label(), agent.question()?)));
            let message = asked.map(|(label, pending)| format!("{label} asks: {}", pending.question.title));
            message.into_iter().for_each(|message| self.start(core, id, "permission_prompt", message));
        }
        self.asking.clone_from(core.roster().asking());
    }

    fn collect(&mut self, core: &mut Core) {
        for (agent, run) in self.running.extract_if(.., |(_, run)| run.is_complete()) {
            run.collect().notes.iter().for_each(|note| core.note(agent, LineKind::Note, note));
        }
    }
}

impl Component for NotifyHooks {
    fn on_event(&mut self, event: &Event, core: &mut Core) {
        if let Event::TurnEnded { agent, .. } = event
            && !core.config().hooks.is_empty()
        {
            self.on_turn_ended(core, *agent);
        }
    }

    fn step(&mut self, core: &mut Core, _: &mut Vec<Command>) {
        if !core.config().hooks.is_empty() {
            self.on_questions(core);
            self.collect(core);
        }
    }

    /// Questions may come after its step.
    fn has_work(&self, core: &Core) -> bool {
        !core.config().hooks.is_empty() && *core.roster().asking() != self.asking
    }

    fn has_to_end(&self) -> bool {
        !self.running.is_empty()
    }

    fn end(&mut self, core: &mut Core) -> Vec<String> {
        let end = |(agent, run): (AgentId, HookRun)| {
            let note = "a notify hook has not finished: it is ended with polylogue";
            run.cancel();
            core.note(agent, LineKind::Error, note);
            note.to_owned()
        };
        self.running.drain(..).map(end).collect()
    }
}
