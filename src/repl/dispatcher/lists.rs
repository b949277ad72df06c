//! The models that servers list: requested when they are needed, once for all agents, and kept for an hour.
//!
//! They are needed for `/model`, for an agent whose provider is named without a model, which waits for the list and
//! gets its first model, and for the first request to a model whose context is unknown. If the list lacks that model's
//! context, more is requested.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::agent::{Agent, Wait};
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::change::{Change, Shown};
use crate::domain::endpoint::{Credential, Endpoint};
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::net::{Fetch, Fetched};
use crate::provider::credentials;
use crate::provider::list::{self, ListRequest};
use crate::repl::component::Command;
use crate::repl::core::context_lengths::keep_listed;
use crate::repl::core::model::give_model;
use crate::repl::core::{Core, model};

/// How long a list is used.
const KEPT: Duration = Duration::from_secs(60 * 60);
/// How long a failure is.
const FAILURE_KEPT: Duration = Duration::from_secs(10);
/// How long to wait for a list: a person is waiting.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct ModelLists {
    /// By provider.
    lists: BTreeMap<String, List>,
    /// Where to show the models when all lists have arrived.
    shown_to: Vec<(Origin, AgentId)>,
    /// Agents that need a list to send their request.
    waiting: BTreeSet<AgentId>,
}

struct List {
    request: Option<ListRequest>,
    /// The request, while it is on its way.
    fetch: Option<Fetch>,
    /// The model for which the list was asked; empty for the first one.
    model: String,
    /// The running request for details of one model.
    details: Option<(String, Fetch)>,
    outcome: Result<()>,
    asked_at: Moment,
}

impl List {
    fn is_fresh(&self, now: Moment) -> bool {
        let kept = if self.outcome.is_ok() { KEPT } else { FAILURE_KEPT };
        self.fetch.is_some() || now < self.asked_at + kept
    }
}

impl List {
    /// Requests the details of a model that the list lacks.
    fn start_details(&mut self, core: &Core, fetched: &Result<Fetched>) {
        let (Some(request), Ok((200, body))) = (&self.request, fetched) else { return };
        let model = match self.model.as_str() {
            "" => list::read(200, body).ok().and_then(|models| Some(list::first_chat(&models)?.0.clone())),
            model => Some(model.to_owned()),
        };
        let details = model.and_then(|model| Some((list::details_request(request, body, &model)?, model)));
        self.details = details.and_then(|(request, model)| Some((model, fetch(core, &request).ok()?)));
    }

    fn take_details(&mut self, core: &mut Core, provider: &str) {
        let Some(fetched) = self.details.as_ref().and_then(|(_, fetch)| fetch.take_result()) else { return };
        let (Some((model, _)), Ok((status, body))) = (self.details.take(), fetched) else { return };
        let facts = list::read_details(status, &body);
        model::learn_details(core, provider, &model, facts);
    }
}

fn fetch(core: &Core, request: &ListRequest) -> Result<Fetch> {
    let ListRequest { url, headers, body } = request.clone();
    Fetch::start(url, headers, body, TIMEOUT, core.waker())
}

impl ModelLists {
    pub(super) fn is_any_running(&self) -> bool {
        self.lists.values().any(|list| list.fetch.is_some() || list.details.is_some())
    }

    fn is_any_list_running(&self) -> bool {
        self.lists.values().any(|list| list.fetch.is_some())
    }

    /// Asks a server for its models, unless they are known.
    pub(super) fn start(&mut self, core: &Core, endpoint: &Endpoint, key: Option<&Credential>) {
        let now = core.now();
        if self.lists.get(&endpoint.provider).is_some_and(|list| list.is_fresh(now)) {
            return;
        }
        let key = key.map(|key| &key.secret);
        let request = credentials::require(endpoint, key).and_then(|()| list::request(endpoint, key));
        let (model, asked_at, details) = (endpoint.model.clone(), now, None);
        let list = match request.and_then(|request| Ok((fetch(core, &request)?, request))) {
            Ok((fetch, request)) => {
                List { request: Some(request), fetch: Some(fetch), model, details, outcome: Ok(()), asked_at }
            }
            Err(error) => List { request: None, fetch: None, model, details, outcome: Err(error), asked_at },
        };
        self.lists.insert(endpoint.provider.clone(), list);
    }

    /// Asks every provider that can be asked for its models, unless they are known.
    pub(super) fn start_all(&mut self, core: &Core) {
        let used = core.config().endpoint.provider.as_str();
        let entries = core.config().catalog.0.iter().filter(|entry| !entry.is_assumed || entry.name == used);
        for entry in entries.filter(|entry| entry.key_command.is_none() && entry.has_server()) {
            let key = entry.key.clone().map(|secret| Credential { secret, run: 0 });
            self.start(core, &entry.endpoint("any"), key.as_ref());
        }
    }

    /// Requests all lists. True if they are known; else the models are shown when they arrive.
    pub(super) fn are_known(&mut self, core: &Core, origin: Origin, agent: AgentId) -> bool {
        self.start_all(core);
        let is_running = self.is_any_list_running();
        if is_running {
            self.shown_to.push((origin, agent));
        }
        !is_running
    }

    /// The providers whose lists are unavailable, with the reasons.
    pub(super) fn failures(&self) -> impl Iterator<Item = (&str, &Error)> {
        self.lists.iter().filter_map(|(provider, list)| Some((provider.as_str(), list.outcome.as_ref().err()?)))
    }

    /// Gives an agent without a model the first model of its server, whose list is requested if it is unknown.
    pub(super) fn find_model(&mut self, core: &mut Core, agent: AgentId, key: Option<&Credential>) {
        let Some(endpoint) = core.agent(agent).map(|agent| agent.inputs.endpoint.clone()) else { return };
        self.start(core, &endpoint, key);
        match self.lists.get(&endpoint.provider) {
            Some(List { fetch: None, outcome: Err(error), .. }) => {
                let error = error.clone();
                self.lists.remove(&endpoint.provider);
                fail(core, agent, &endpoint, error);
            }
            Some(List { fetch: None, .. }) => match first_model(core, &endpoint.provider) {
                Some((model, of)) => {
                    use_model(core, agent, &model, of);
                    keep_listed(core, &endpoint.provider);
                    core.join_send_queue(agent);
                }
                None => fail(core, agent, &endpoint, Error::new(ErrorKind::Usage, "the server lists no models")),
            },
            _ => drop(self.waiting.insert(agent)),
        }
    }

    /// Takes the lists that have come.
    pub(super) fn poll(&mut self, core: &mut Core, commands: &mut Vec<Command>) {
        for (provider, entry) in &mut self.lists {
            entry.take_details(core, provider);
            let Some(fetched) = entry.fetch.as_ref().and_then(Fetch::take_result) else { continue };
            entry.fetch = None;
            entry.start_details(core, &fetched);
            entry.outcome = learn(core, provider, fetched);
            // A failure is kept from now on: its request may have taken longer.
            entry.asked_at = core.now();
            // Agents of other providers find theirs on the way and wait again.
            for agent in std::mem::take(&mut self.waiting) {
                if core.agent(agent).is_some_and(|agent| matches!(agent.wait(), Wait::Slot)) {
                    core.join_send_queue(agent);
                }
            }
        }
        if !self.is_any_list_running() {
            let change = || Change::Show(Shown::Models);
            let shown = self.shown_to.drain(..);
            commands.extend(shown.map(|(origin, agent)| Command { origin, agent, change: change() }));
        }
    }
}

fn learn(core: &mut Core, provider: &str, fetched: Result<Fetched>) -> Result<()> {
    let (status, body) = fetched?;
    let models = list::read(status, &body)?;
    model::learn_listed(core, provider, models);
    Ok(())
}

/// The first model of a server, and how many it has.
fn first_model(core: &Core, provider: &str) -> Option<(String, usize)> {
    let entry = core.config().catalog.0.iter().find(|entry| entry.name == provider)?;
    let (model, _) = list::first_chat(&entry.listed)?;
    Some((format!("{provider}/{model}"), entry.listed.len()))
}

fn use_model(core: &mut Core, agent: AgentId, model: &str, of: usize) {
    if let Err(error) = give_model(core, agent, model) {
        core.note(agent, LineKind::Error, &format!("the model was not saved: {error}"));
    }
    let others = if of == 1 { "the only model".to_owned() } else { format!("the first of {of} models") };
    core.note(agent, LineKind::Note, &format!("using {model}, {others} of the server; /model chooses another"));
}

fn fail(core: &mut Core, agent: AgentId, endpoint: &Endpoint, error: Error) {
    let name = &endpoint.provider;
    let message = format!("no model of {name} is chosen, and its list of models failed: {error}; use -m {name}/MODEL");
    core.with_agent(agent, |agent, context| {
        Agent::await_key(agent);
        agent.on_key(Err(Error { message, ..error }), context);
    });
}
