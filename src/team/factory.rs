//! How agents come to be: from their row in the store, or by a fork. Both give the same agent.

use std::rc::Rc;

use crate::agent::{Agent, Identity, Role, Talk};
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::domain::chunk::Chunk;
use crate::domain::config::Config;
use crate::domain::endpoint::{Catalog, Endpoint};
use crate::domain::history::History;
use crate::domain::thinking::Thinking;
use crate::provider::thinking_for;
use crate::store::AgentRow;
use crate::team::Environments;

/// The ordinal of who was never born.
const NO_ORDINAL: i64 = -1;

/// What all agents are born with.
pub struct AgentFactory {
    catalog: Catalog,
    /// The usual one, and those that were asked for: agents share them.
    endpoints: Vec<Rc<Endpoint>>,
    thinking: Thinking,
    /// The environments.
    pub environments: Environments,
}

impl AgentFactory {
    /// What the configuration says.
    pub fn new(config: &Config) -> Self {
        Self {
            catalog: config.catalog.clone(),
            endpoints: vec![Rc::new(config.endpoint.clone())],
            thinking: config.thinking,
            environments: Environments::new(config),
        }
    }

    /// The endpoint of this name.
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

    /// An agent that the store knows; its conversation is read when it is first needed. One whose endpoint is not
    /// configured any more gets the usual one; the same goes for its environment, and the person is told.
    pub fn from_row(&mut self, row: &AgentRow) -> Agent {
        let (resolved, complaint) = self.environments.restore(row.environment.as_deref());
        let stored = row.endpoint.as_deref().and_then(|name| self.endpoint(name).ok());
        let endpoint = stored.unwrap_or_else(|| self.endpoints[0].clone());
        // What an older or newer program wrote there and this one does not know, is as if nothing stood there.
        let thinking = row.thinking.as_deref().and_then(|words| words.parse().ok()).unwrap_or(self.thinking);
        let talk = Talk {
            // The usual amount is that of the usual model, and a model may be gone.
            thinking: thinking_for(&endpoint, thinking),
            endpoint,
            system: row.system.as_deref().map_or(resolved.system, Rc::from),
            environment: resolved.environment,
            has_tools: true,
            history: None,
        };
        let mut agent = Agent::new(identity_of(row), talk);
        if let Some(words) = complaint {
            agent.emit_aside(&Chunk::Error { kind: "internal".into(), message: words });
        }
        agent
    }

    /// A child that was just entered into the store: everything it inherits is shared.
    /// `history` is what it inherits; `None`: it is read from the store when it is first needed.
    pub fn fork(parent: &Agent, row: &AgentRow, endpoint: Rc<Endpoint>, history: Option<History>) -> Agent {
        let talk = Talk {
            endpoint,
            thinking: parent.talk.thinking,
            system: parent.talk.system.clone(),
            environment: parent.talk.environment.clone(),
            has_tools: true,
            history,
        };
        Agent::new(identity_of(row), talk)
    }

    /// An agent that answers one request of polylogue itself, with the model of `origin` and without tools. It is not
    /// stored.
    pub fn summary_agent(origin: &Agent, what: &str, system: &str) -> Agent {
        let identity = Identity {
            id: AgentId::random(),
            ordinal: NO_ORDINAL,
            name: Some(format!("{what} for {}", origin.identity.label())),
            parent: Some(origin.id()),
            fork_point: MessageId(0),
            created_at: origin.identity.created_at,
        };
        let talk = Talk {
            endpoint: origin.talk.endpoint.clone(),
            thinking: origin.talk.thinking,
            system: system.into(),
            environment: origin.talk.environment.clone(),
            has_tools: false,
            history: Some(History::default()),
        };
        let mut agent = Agent::new(identity, talk);
        agent.role = Role::Summary;
        agent
    }
}

/// Who a row of the store is.
fn identity_of(row: &AgentRow) -> Identity {
    Identity {
        id: row.id,
        ordinal: row.ordinal,
        name: row.name.clone(),
        parent: row.parent,
        fork_point: row.fork_point,
        created_at: row.created_at,
    }
}
