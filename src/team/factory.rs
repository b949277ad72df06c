//! Creates agents from their rows in the store, by forking, and for summaries.

use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

use crate::agent::{Agent, Identity, RequestInputs, Role};
use crate::base::error::Result;
use crate::base::id::{AgentId, MessageId};
use crate::domain::approval::Policy;
use crate::domain::attachment::Files;
use crate::domain::config::Config;
use crate::domain::endpoint::{Catalog, Endpoint, ModelFacts};
use crate::domain::history::History;
use crate::domain::parameters::{Parameter, ParameterName, Parameters};
use crate::domain::rule::AgentRules;
use crate::domain::scrollback::LineKind;
use crate::domain::thinking::Thinking;
use crate::domain::title::title;
use crate::provider::{thinking_for, unavailable};
use crate::proxy::Calls;
use crate::store::AgentRow;
use crate::team::Environments;

/// Where the parameters of an agent were set.
pub const SET: &str = "/set";
/// Where the schema of one run was set, which no other agent has.
pub const SCHEMA: &str = "--schema";
/// The ordinal of an agent that is not in the store.
const NO_ORDINAL: i64 = -1;

/// Creates agents with the configured defaults.
pub struct AgentFactory {
    /// The default, then those that were requested; agents share them.
    endpoints: Vec<Rc<Endpoint>>,
    thinking: Thinking,
    /// The policy of agents without a parent, and of restored ones.
    policy: Policy,
    policy_ceiling: Policy,
    /// A person is there, and the agents are not those of one run.
    is_interactive: bool,
    pub environments: Environments,
}

impl AgentFactory {
    /// `calls` reaches the proxy of the loop.
    pub fn new(config: &Config, calls: Calls) -> Self {
        Self {
            endpoints: vec![Rc::new(config.endpoint.clone())],
            thinking: config.thinking,
            policy: config.policy,
            environments: Environments::new(config, Some(calls)),
            policy_ceiling: config.policy_ceiling,
            is_interactive: config.settings.is_interactive,
        }
    }

    /// The policy of an agent that a person creates beside the others.
    pub fn new_policy(&self) -> Policy {
        Policy::narrow(self.policy, self.policy_ceiling)
    }

    /// The endpoint of new agents.
    pub fn usual_endpoint(&self) -> Rc<Endpoint> {
        self.endpoints[0].clone()
    }

    /// Finds an endpoint by its full name.
    pub fn endpoint(&mut self, catalog: &Catalog, full_name: &str) -> Result<Rc<Endpoint>> {
        if let Some(known) = self.endpoints.iter().find(|endpoint| endpoint.full_name() == full_name) {
            return Ok(known.clone());
        }
        let found = Rc::new(catalog.find(full_name)?);
        self.endpoints.push(found.clone());
        Ok(found)
    }

    /// New agents have this model, of a provider that is new or has changed.
    pub fn set_usual(&mut self, endpoint: Endpoint) {
        let provider = endpoint.provider.clone();
        self.endpoints.retain(|known| known.provider != provider && !known.is_none());
        self.endpoints.insert(0, Rc::new(endpoint));
    }

    /// Takes what the catalog has learned about the models of a provider.
    pub fn update_facts(&mut self, catalog: &Catalog, provider: &str) {
        for endpoint in self.endpoints.iter_mut().filter(|endpoint| endpoint.provider == provider) {
            let Ok(found) = catalog.find(&endpoint.full_name()) else { continue };
            let has_refused = endpoint.facts.tools == Some(false);
            let facts = ModelFacts { tools: if has_refused { Some(false) } else { found.facts.tools }, ..found.facts };
            Rc::make_mut(endpoint).facts = facts;
        }
    }

    /// Sends no more tools to a model that refused them.
    pub fn refuse_tools(&mut self, model: &str) {
        for endpoint in self.endpoints.iter_mut().filter(|endpoint| endpoint.full_name() == model) {
            Rc::make_mut(endpoint).facts.tools = Some(false);
        }
    }

    /// The thinking level of a model: as set for the agent, or else configured. A level that the model does not support
    /// does not count: it may come from another model.
    pub fn thinking(&self, endpoint: &Endpoint, own: &Parameters) -> Thinking {
        let wanted = own.thinking().or(endpoint.parameters.thinking()).unwrap_or(self.thinking);
        thinking_for(endpoint, wanted)
    }

    /// Creates an agent from the store; its conversation is loaded when it is first needed. Requests to a model whose provider
    /// is not configured any more fail. An environment that no longer exists is replaced by the default, with a warning.
    pub fn restore(&mut self, catalog: &Catalog, row: &AgentRow) -> Agent {
        let (resolved, warning) = self.environments.restore(row.environment.as_deref(), row.directory.as_deref());
        let endpoint = match row.endpoint.as_deref() {
            // Never another model: it would get a conversation that was not meant for it.
            Some(name) => {
                let found = self.endpoint(catalog, name).unwrap_or_else(|_| Rc::new(unavailable(name)));
                // It began where no model was configured.
                if found.is_none() { self.usual_endpoint() } else { found }
            }
            None => self.usual_endpoint(),
        };
        let mut parameters =
            row.parameters.as_deref().map(|stored| Parameters::of_stored(stored, SET)).unwrap_or_default();
        // Other versions may have stored values that this one does not know.
        if let Some(level) = row.thinking.as_deref().and_then(|level| level.parse::<Thinking>().ok()) {
            parameters.set(ParameterName::Known(Parameter::Thinking), level.to_string().into(), SET);
        }
        let inputs = RequestInputs {
            thinking: self.thinking(&endpoint, &parameters),
            parameters,
            endpoint,
            system: row.system.as_deref().map_or(resolved.system, Rc::from),
            environment: resolved.environment,
            has_tools: true,
            files: Files::default(),
            history: None,
            directory_note: None,
        };
        let mut agent = Agent::new(identity_of(row), inputs);
        agent.restore_end(row.last_end.filter(|_| !row.was_busy));
        agent.used = row.used.clone();
        agent.title = title(&row.said);
        let stored = row.policy.as_deref().and_then(|name| name.parse().ok());
        // The permissions on the command line of a chat apply to the conversation that it begins.
        let most = if self.is_interactive { Policy::Auto } else { Policy::Yolo };
        let usual = || Policy::narrow(self.policy, most);
        agent.policy = Policy::narrow(stored.unwrap_or_else(usual), self.policy_ceiling);
        match AgentRules::of_stored(row.rules.as_deref()) {
            Some(rules) => agent.rules = rules,
            // Unreadable rules may contain refusals.
            None => agent.policy = Policy::narrow(agent.policy, Policy::Ask),
        }
        agent.done = row.done.as_deref().map(Rc::from);
        if let Some(message) = warning {
            agent.emit_note(LineKind::Error, &message);
            agent.warnings.push(message);
        }
        agent
    }

    /// Creates a child that was just stored; it shares what it inherits. Without `history`, the conversation is loaded when
    /// it is first needed.
    pub fn fork(parent: &Agent, row: &AgentRow, endpoint: Rc<Endpoint>, history: Option<History>) -> Agent {
        let inputs = RequestInputs {
            endpoint,
            thinking: parent.inputs.thinking,
            parameters: parent.inputs.parameters.without_source(SCHEMA),
            system: parent.inputs.system.clone(),
            environment: parent.inputs.environment.clone(),
            has_tools: true,
            files: Files::default(),
            history,
            directory_note: parent.inputs.directory_note.clone(),
        };
        let mut child = Agent::new(identity_of(row), inputs);
        child.known_files = Arc::new(parent.known_files.fork());
        child.policy = parent.policy();
        child.is_unrestricted = parent.is_unrestricted();
        child.rules = parent.rules.clone();
        child.done = parent.done.clone();
        child
    }

    /// Creates an agent without tools that answers one question with the endpoint of `origin`. It is not stored.
    pub fn summary_agent(origin: &Agent, what: &str, system: &str) -> Agent {
        let identity = Identity {
            id: AgentId::random(),
            ordinal: NO_ORDINAL,
            number: None,
            name: Some(format!("{what} for {}", origin.identity.label())),
            parent: Some(origin.id()),
            fork_point: MessageId(0),
            is_begun: false,
            created_at: origin.identity.created_at,
            made_by: origin.identity.made_by,
            is_print_run: false,
            team_run: None,
        };
        // The form of the answers to the person is not that of a summary.
        let is_usable = |name: &ParameterName, _: &Value| {
            !matches!(name, ParameterName::Known(Parameter::ResponseFormat | Parameter::Stop))
        };
        let (mut endpoint, mut parameters) = (origin.inputs.endpoint.clone(), origin.inputs.parameters.clone());
        parameters.retain(is_usable);
        Rc::make_mut(&mut endpoint).parameters.retain(is_usable);
        let inputs = RequestInputs {
            endpoint,
            thinking: origin.inputs.thinking,
            parameters,
            system: system.into(),
            environment: origin.inputs.environment.clone(),
            has_tools: false,
            files: Files::default(),
            history: Some(History::default()),
            directory_note: None,
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
        number: row.number,
        name: row.name.clone(),
        parent: row.parent,
        fork_point: row.fork_point,
        is_begun: row.is_begun,
        created_at: row.created_at,
        made_by: row.made_by,
        is_print_run: row.is_print_run,
        team_run: row.team_run.as_deref().map(Rc::from),
    }
}
