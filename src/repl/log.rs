//! Writing to an agent's log: what happened to a conversation apart from what was said in it.

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::message::Body;
use crate::repl::Repl;

impl Repl {
    /// Enters an event into an idle agent's conversation: in the middle of a turn it would cut calls from their results.
    pub(super) fn log_event(&mut self, agent_id: AgentId, body: Body) -> Result<()> {
        self.core.require_idle(agent_id)?;
        let stored = self.core.store.append(agent_id, vec![body], self.core.clock.unix_ms())?;
        self.after_commit(move |repl| repl.core.remember(agent_id, stored));
        Ok(())
    }
}
