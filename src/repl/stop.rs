//! Stops the work of many agents at once. Queues stay, paused as after any interrupt.

use crate::agent::{Agent, State};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::repl::Repl;
use crate::repl::core::remove::{kill_stopped, next_victims};
use crate::repl::core::{Core, agent_gone, unsaved};
use crate::repl::event::Event;
use crate::repl::jobs::Jobs;
use crate::team::busy_in_tree;

impl Repl {
    /// Stops every agent, or one with all its descendants, in one transaction. Returns how many were at work. They
    /// stop even if the store cannot be written; their last messages are then in memory only.
    pub(super) fn stop_agents(&mut self, root: Option<AgentId>) -> Result<usize> {
        let among = match root {
            Some(root) if self.core.agent(root).is_none() => return Err(agent_gone()),
            Some(root) => self.core.roster().subtree(root),
            None => self.core.roster().ids(),
        };
        let working: Vec<AgentId> = among.into_iter().filter(|id| is_at_work(&self.core, &self.jobs, *id)).collect();
        if !working.is_empty() {
            self.core.emit(Event::Stopped);
        }
        self.stop_working(&working)
    }

    /// Stops victims of kills that take several turns, some more in each turn. Returns how many.
    pub(super) fn stop_victims(&mut self) -> Result<usize> {
        let Self { core, jobs, .. } = self;
        let working = next_victims(core, |core, id| is_at_work(core, jobs, id));
        self.stop_working(&working)
    }

    /// Goes on with kills that take several turns.
    pub(super) fn continue_kills(&mut self) {
        // What cannot be stored of those that were stopped is said at each of them.
        drop(self.stop_victims());
        kill_stopped(&mut self.core);
    }

    fn stop_working(&mut self, working: &[AgentId]) -> Result<usize> {
        if working.is_empty() {
            return Ok(0);
        }
        // Without a common transaction each end is stored by itself: the agents stop in any case.
        let is_common = unsaved::begin_shared(&mut self.core).is_ok();
        working.iter().for_each(|id| stop(&mut self.core, &mut self.jobs, *id));
        self.apply_effects();
        if is_common {
            unsaved::end_shared(&mut self.core, working)?;
        }
        Ok(working.len())
    }
}

/// Stops the tree of an agent: itself and the agents that models made below it. Other trees continue.
pub(super) fn stop_tree(core: &mut Core, jobs: &mut Jobs, top: AgentId) {
    busy_in_tree(core.roster(), top).into_iter().for_each(|id| stop(core, jobs, id));
}

fn is_at_work(core: &Core, jobs: &Jobs, id: AgentId) -> bool {
    let is_busy =
        |agent: &Agent| agent.state() != State::Idle || agent.has_background_work() || agent.background_commands() > 0;
    core.agent(id).is_some_and(is_busy) || jobs.is_pending(id)
}

/// Interrupts an agent, and the work that is done for it.
fn stop(core: &mut Core, jobs: &mut Jobs, id: AgentId) {
    jobs.cancel(core, id, true);
    core.emit(Event::Interrupted { agent: id, was_idle: true });
    core.with_agent(id, |agent, context| {
        agent.interrupt(context);
        agent.cancel_background();
    });
}
