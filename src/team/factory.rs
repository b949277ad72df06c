//! Creates agents from their rows in the store, by forking, and for summaries.

use std::rc::Rc;
use std::sync::Arc;

use crate::agent::{Agent, Identity, RequestInputs, Role};
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::domain::approval::Policy;
use crate::domain::chunk::Chunk;
use crate::domain::config::Config;
use crate::domain::endpoint::{Catalog, Endpoint};
use crate::domain::history::History;
use crate::domain::rule::AgentRules;
use crate::domain::thinking::Thinking;
use crate::provider::thinking_for;
use crate::proxy::Calls;
use crate::store::AgentRow;
use crate::team::Environments;

/// The ordinal of an agent that is not in the store.
const NO_ORDINAL: i64 = -1;

/// Creates agents with the configured defaults.
pub struct AgentFactory {
    catalog: Catalog,
    /// The default, then those that were requested; agents share them.
    endpoints: Vec<Rc<Endpoint>>,
    thinking: Thinking,
    /// The policy of agents without a parent, and of restored ones.
    policy: Policy,
    policy_ceiling: Policy,
    pub environments: Environments,
}

impl AgentFactory {
    /// `calls` reaches the proxy of the loop.
    pub fn new(config: &Config, calls: Calls) -> Self {
        Self {
            catalog: config.catalog.clone(),
            endpoints: vec![Rc::new(config.endpoint.clone())],
            thinking: config.thinking,
            policy: config.policy,
            environments: Environments::new(config, Some(calls)),
            policy_ceiling: config.policy_ceiling,
        }
    }

    /// What an agent may do without a question that a person creates beside the others.
    pub fn new_policy(&self) -> Policy {
        Policy::narrow(self.policy, self.policy_ceiling)
    }

    /// Finds an endpoint by its full name.
    ///
    /// # Errors
    /// It is not configured.
    pub fn endpoint(&mut self, full_name: &str) -> Result<Rc<Endpoint>> {
        if let Some(known) = self.endpoints.iter().find(|endpoint| endpoint.full_name() == full_name) {
            return Ok(known.clone());
        }
        let found = Rc::new(self.catalog.find(full_name)?);
        self.endpoints.push(found.clone());
        Ok(found)
    }

    /// Creates an agent from the store; its conversation is loaded when it is first needed. An endpoint or environment that
    /// no longer exists is replaced by the default; a warning names a replaced environment.
    pub fn restore(&mut self, row: &AgentRow) -> Agent {
        let (resolved, warning) = self.environments.restore(row.environment.as_deref());
        let stored = row.endpoint.as_deref().and_then(|name| self.endpoint(name).ok());
        let endpoint = stored.unwrap_or_else(|| self.endpoints[0].clone());
        // Other versions may have stored values that this one does not know.
        let thinking = row.thinking.as_deref().and_then(|level| level.parse().ok()).unwrap_or(self.thinking);
        let inputs = RequestInputs {
            // The level may come from another model: the default, or one that is no longer configured.
            thinking: thinking_for(&endpoint, thinking),
            endpoint,
            system: row.system.as_deref().map_or(resolved.system, Rc::from),
            environment: resolved.environment,
            has_tools: true,
            history: None,
        };
        let mut agent = Agent::new(identity_of(row), inputs);
        let stored = row.policy.as_deref().and_then(|name| name.parse().ok());
        agent.policy = Policy::narrow(stored.unwrap_or(self.policy), self.policy_ceiling);
        match AgentRules::of_stored(row.rules.as_deref()) {
            Some(rules) => agent.rules = rules,
            // It may be refused something of which nothing is known.
            None => agent.policy = Policy::narrow(agent.policy, Policy::Ask),
        }
        if let Some(message) = warning {
            agent.emit_aside(&Chunk::Error { kind: "internal".into(), message });
        }
        agent
    }

    /// Creates a child that was just stored; it shares what it inherits. Without `history`, the conversation is loaded when
    /// it is first needed.
    pub fn fork(parent: &Agent, row: &AgentRow, endpoint: Rc<Endpoint>, history: Option<History>) -> Agent {
        let inputs = RequestInputs {
            endpoint,
            thinking: parent.inputs.thinking,
            system: parent.inputs.system.clone(),
            environment: parent.inputs.environment.clone(),
            has_tools: true,
            history,
        };
        let mut child = Agent::new(identity_of(row), inputs);
        child.known_files = Arc::new(parent.known_files.fork());
        child.policy = parent.policy();
        child.rules = parent.rules.clone();
        child
    }

    /// Creates an agent without tools that answers one question with the endpoint of `origin`. It is not stored.
    pub fn summary_agent(origin: &Agent, what: &str, system: &str) -> Agent {
        let identity = Identity {
            id: AgentId::random(),
            ordinal: NO_ORDINAL,
            name: Some(format!("{what} for {}", origin.identity.label())),
            parent: Some(origin.id()),
            fork_point: MessageId(0),
            created_at: origin.identity.created_at,
            made_by: origin.identity.made_by,
        };
        let inputs = RequestInputs {
            endpoint: origin.inputs.endpoint.clone(),
            thinking: origin.inputs.thinking,
            system: system.into(),
            environment: origin.inputs.environment.clone(),
            has_tools: false,
            history: Some(History::default()),
        };
        let mut agent = Agent::new(identity, inputs);
        agent.role = Role::Summary;
        agent.policy = origin.policy();
        agent
    }
}

fn identity_of(row: &AgentRow) -> Identity {
    Identity {
        id: row.id,
        ordinal: row.ordinal,
        name: row.name.clone(),
        parent: row.parent,
        fork_point: row.fork_point,
        created_at: row.created_at,
        made_by: row.made_by,
    }
}
