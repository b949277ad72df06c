//! Calls of the `wait` tool that are parked until mail arrives or the named agents are done.

use std::time::Duration;

use crate::agent::Effect;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::commands;
use crate::domain::flow::ToolRequest;
use crate::repl::component::{Command, Component};
use crate::repl::core::{Core, agent_named, mail};
use crate::repl::event::Event;

struct MailWait {
    agent: AgentId,
    call: String,
    /// Until each of these has sent mail, is idle or has ended; empty: until any mail arrives.
    from: Vec<AgentId>,
}

#[derive(Default)]
pub(super) struct MailWaits {
    waits: Vec<MailWait>,
    /// Something happened that may end a wait.
    is_due: bool,
}

impl MailWaits {
    /// Parks a call of the `wait` tool, or answers it at once if its condition is met.
    fn begin(&mut self, core: &mut Core, agent: AgentId, call: &str, timeout: Duration, from: &[AgentId]) {
        // A waiting agent is never idle: waiting for itself would not end.
        let mut others = Vec::new();
        for id in from.iter().filter(|id| **id != agent) {
            if !others.contains(id) {
                others.push(*id);
            }
        }
        let wait = MailWait { agent, call: call.to_owned(), from: others };
        let until = core.now() + timeout;
        core.edit(agent, |agent| agent.park_call(call, until));
        if wait.is_over(core) {
            wait.answer(core, "");
        } else if let Some(other) = wait.from.iter().find(|other| self.is_waiting_for(core, **other, agent)) {
            wait.answer(core, &format!("Not waited: {} waits for you. ", core.name_of(*other)));
        } else {
            self.waits.push(wait);
        }
    }

    /// Whether an agent waits for another one, or for one that waits for it: neither would go on before its time is over.
    fn is_waiting_for(&self, core: &Core, agent: AgentId, other: AgentId) -> bool {
        let (mut seen, mut next) = (vec![agent], vec![agent]);
        while let Some(one) = next.pop() {
            let is_open = |wait: &&MailWait| wait.agent == one && wait.is_open(core) && !wait.is_over(core);
            let calls = self.waits.iter().filter(is_open);
            for awaited in calls.flat_map(|wait| &wait.from) {
                if *awaited == other {
                    return true;
                }
                if !seen.contains(awaited) {
                    seen.push(*awaited);
                    next.push(*awaited);
                }
            }
        }
        false
    }

    fn on_timeout(&mut self, core: &mut Core, agent: AgentId, call: &str) {
        if let Some(index) = self.waits.iter().position(|wait| wait.agent == agent && wait.call == call) {
            self.waits.remove(index).answer(core, "Timed out. ");
        }
    }
}

impl Component for MailWaits {
    fn on_event(&mut self, event: &Event, _: &mut Core) {
        match event {
            Event::MailArrived { .. } | Event::QueueChanged { .. } | Event::TurnEnded { .. } => self.is_due = true,
            Event::Removed { agent, .. } => {
                self.waits.retain(|wait| wait.agent != *agent);
                self.is_due = true;
            }
            _ => {}
        }
    }

    fn on_effect(&mut self, core: &mut Core, agent: AgentId, effect: Effect) -> Option<Effect> {
        if let Effect::WaitOver(call) = &effect {
            self.on_timeout(core, agent, call);
        }
        Some(effect)
    }

    fn on_call(&mut self, core: &mut Core, agent: AgentId, call: &str, request: ToolRequest) -> Option<ToolRequest> {
        let ToolRequest::Wait { timeout, from } = request else { return Some(request) };
        match awaited_agents(core, agent, &from) {
            Ok(from) => self.begin(core, agent, call, timeout, &from),
            Err(error) => core.answer_call(agent, call, Err(error.message)),
        }
        None
    }

    fn step(&mut self, core: &mut Core, _: &mut Vec<Command>) {
        if !std::mem::take(&mut self.is_due) {
            return;
        }
        self.waits.retain(|wait| wait.is_open(core));
        let over: Vec<MailWait> = self.waits.extract_if(.., |wait| wait.is_over(core)).collect();
        over.iter().for_each(|wait| wait.answer(core, ""));
    }

    fn has_work(&self, _: &Core) -> bool {
        self.is_due && !self.waits.is_empty()
    }
}

/// The agents with these names.
pub(super) fn awaited_agents(core: &Core, agent: AgentId, names: &[String]) -> Result<Vec<AgentId>> {
    names.iter().map(|name| commands::or_ended(core.store(), agent_named(core, agent, name), name)).collect()
}

impl MailWait {
    /// Whether the call was not answered otherwise, as by an interrupt.
    fn is_open(&self, core: &Core) -> bool {
        core.agent(self.agent).is_some_and(|agent| agent.is_waiting_call(&self.call))
    }

    fn is_over(&self, core: &Core) -> bool {
        mail::is_wait_over(core, self.agent, &self.from)
    }

    fn answer(&self, core: &mut Core, before: &str) {
        let answer = format!("{before}{}", mail::describe(core, self.agent, &self.from));
        core.answer_call(self.agent, &self.call, Ok(answer));
    }
}
