//! Changes an agent's model, thinking, instructions and name. A running request is not affected; the next one uses the new
//! values. The endpoint is replaced as a whole, so that no key, base URL or header goes to another provider.

use std::rc::Rc;

use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::approval::Policy;
use crate::domain::flow::Origin;
use crate::domain::message::Body;
use crate::domain::thinking::Thinking;
use crate::provider::check_thinking;
use crate::repl::core::{Core, agent_gone};

const SYSTEM_BYTES: usize = 256 * 1024;

impl Core {
    /// Sets the model. Thinking that the new model does not support is reset to default.
    pub(in crate::repl) fn set_model(&mut self, agent_id: AgentId, full_name: &str) -> Result<()> {
        let endpoint = self.factory.endpoint(full_name)?;
        let before = self.roster.get(agent_id).ok_or_else(agent_gone)?.talk.thinking;
        let is_kept = check_thinking(&endpoint, before).is_ok();
        let thinking = if is_kept { before } else { Thinking::default() };
        let mut line = format!("/model {}", endpoint.full_name());
        if !is_kept {
            line.push_str(&format!(" with thinking default: it does not support thinking {before}"));
        }
        let now = self.clock.unix_ms();
        let messages = self.store.transaction(|store| {
            store.set_endpoint(agent_id, &endpoint.full_name())?;
            if !is_kept {
                store.set_thinking(agent_id, Some(&thinking.to_string()))?;
            }
            store.append(agent_id, vec![Body::Command(line)], now)
        })?;
        self.with_agent(agent_id, |agent, context| {
            agent.set_endpoint(endpoint, context);
            agent.talk.thinking = thinking;
        });
        self.remember(agent_id, messages);
        Ok(())
    }

    /// Sets the amount of thinking.
    ///
    /// # Errors
    /// The model does not support it, or the store refuses.
    pub(in crate::repl) fn set_thinking(&mut self, agent_id: AgentId, thinking: Thinking) -> Result<()> {
        check_thinking(&self.roster.get(agent_id).ok_or_else(agent_gone)?.talk.endpoint, thinking)?;
        let now = self.clock.unix_ms();
        let messages = self.store.transaction(|store| {
            // `default` too: where nothing is stored, the configuration decides.
            store.set_thinking(agent_id, Some(&thinking.to_string()))?;
            store.append(agent_id, vec![Body::Command(format!("/thinking {thinking}"))], now)
        })?;
        self.roster.with(agent_id, |agent| agent.talk.thinking = thinking);
        self.remember(agent_id, messages);
        Ok(())
    }

    /// Sets what the agent may do without a question, which forks inherit.
    ///
    /// # Errors
    /// Only a person at a terminal or the program that hosts the loop may allow more than before. If the store cannot be
    /// written, nothing more is allowed than before; less holds until the program exits.
    pub(in crate::repl) fn set_policy(&mut self, origin: Origin, agent_id: AgentId, policy: Policy) -> Result<()> {
        let before = self.roster.get(agent_id).ok_or_else(agent_gone)?.policy;
        let is_person = matches!(origin, Origin::Terminal(_) | Origin::Library);
        if !is_person && policy > before {
            let message = format!("only a person at a terminal can set {policy}: this agent has {before}");
            return Err(Error::usage(message));
        }
        let is_stored = !self.store.is_read_only();
        let stored = if is_stored { self.store.set_policy(agent_id, Some(policy.name())) } else { Ok(()) };
        if policy > before && stored.is_err() {
            return stored;
        }
        self.roster.with(agent_id, |agent| {
            agent.policy = policy;
            agent.view.touch();
        });
        stored
    }

    /// Sets the instructions, which forks inherit; `None`: those of the environment.
    pub(in crate::repl) fn set_system(&mut self, agent_id: AgentId, system: Option<String>) -> Result<()> {
        if system.as_ref().is_some_and(|text| text.len() > SYSTEM_BYTES) {
            return Err(Error::usage("the instructions are too long: 256 KiB at most"));
        }
        self.store.set_system(agent_id, system.as_deref())?;
        self.roster.with(agent_id, |agent| {
            let usual = || Rc::from(&*agent.talk.environment.instructions);
            agent.talk.system = system.map_or_else(usual, Rc::from);
        });
        Ok(())
    }

    /// Sets the name, which is unique among living agents, or removes it.
    pub(in crate::repl) fn set_name(&mut self, agent_id: AgentId, name: Option<String>) -> Result<()> {
        self.store.set_name(agent_id, name.as_deref())?;
        self.roster.with(agent_id, |agent| {
            agent.identity.name = name;
            agent.view.touch();
        });
        Ok(())
    }
}
