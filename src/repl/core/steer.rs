//! Another model, another amount of thinking, other instructions. A request that is under way is not touched; the next one
//! uses what holds then. A key, a base URL or a header never goes from one provider to another: the endpoint is replaced as
//! a whole.

use std::rc::Rc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::message::Body;
use crate::domain::thinking::Thinking;
use crate::provider::check_thinking;
use crate::repl::core::{Core, agent_gone};

/// The most bytes of instructions that an agent may be given.
const SYSTEM_BYTES: usize = 256 * 1024;

impl Core {
    /// Another model. What the new one does not accept of thinking is left to it again, and that is said.
    pub(in crate::repl) fn set_model(&mut self, agent_id: AgentId, full_name: &str) -> Result<()> {
        let endpoint = self.factory.endpoint(full_name)?;
        let before = self.roster.get(agent_id).ok_or_else(agent_gone)?.talk.thinking;
        let is_kept = check_thinking(&endpoint, before).is_ok();
        let thinking = if is_kept { before } else { Thinking::default() };
        let mut words = format!("/model {}", endpoint.full_name());
        if !is_kept {
            words.push_str(&format!(": it does not take thinking {before}, which is back to default"));
        }
        let now = self.clock.unix_ms();
        let messages = self.store.transaction(|store| {
            store.set_endpoint(agent_id, &endpoint.full_name())?;
            if !is_kept {
                store.set_thinking(agent_id, Some(&thinking.to_string()))?;
            }
            store.append(agent_id, vec![Body::Command(words)], now)
        })?;
        self.with_agent(agent_id, |agent, context| {
            agent.set_endpoint(endpoint, context);
            agent.talk.thinking = thinking;
        });
        self.remember(agent_id, messages);
        Ok(())
    }

    /// Another amount of thinking; what the model would reject is refused.
    pub(in crate::repl) fn set_thinking(&mut self, agent_id: AgentId, thinking: Thinking) -> Result<()> {
        check_thinking(&self.roster.get(agent_id).ok_or_else(agent_gone)?.talk.endpoint, thinking)?;
        let now = self.clock.unix_ms();
        let messages = self.store.transaction(|store| {
            // `default` too: where nothing is stored, the configuration decides.
            store.set_thinking(agent_id, Some(&thinking.to_string()))?;
            let words = format!("/thinking {thinking}");
            store.append(agent_id, vec![Body::Command(words)], now)
        })?;
        self.roster.with(agent_id, |agent| agent.talk.thinking = thinking);
        self.remember(agent_id, messages);
        Ok(())
    }

    /// Instructions of the agent's own, which its forks inherit; `None`: those of its environment.
    pub(in crate::repl) fn set_system(&mut self, agent_id: AgentId, system: Option<String>) -> Result<()> {
        if let Some(text) = system.as_ref().filter(|text| text.len() > SYSTEM_BYTES) {
            let words = format!("instructions of {} KiB are too long: 256 KiB at most", text.len() / 1024);
            return Err(Error::new(ErrorKind::Usage, words));
        }
        self.store.set_system(agent_id, system.as_deref())?;
        self.roster.with(agent_id, |agent| {
            let usual = || Rc::from(&*agent.talk.environment.instructions);
            agent.talk.system = system.map_or_else(usual, Rc::from);
        });
        Ok(())
    }

    /// Another name, unique among running agents; `None`: none.
    pub(in crate::repl) fn set_name(&mut self, agent_id: AgentId, name: Option<String>) -> Result<()> {
        self.store.set_name(agent_id, name.as_deref())?;
        self.roster.with(agent_id, |agent| {
            agent.identity.name = name;
            agent.view.touch();
        });
        Ok(())
    }
}
