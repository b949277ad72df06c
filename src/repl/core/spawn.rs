//! Creates children: every agent that has a parent for a person. `begin` creates the others.
//!
//! A child is staged first: one transaction writes its row, both fork events and everything that belongs to it. Then it
//! is installed in memory, which cannot fail. A failure leaves no trace in either. The cost does not depend on the
//! length of any history: a child shares what it inherits.

use std::path::Path;
use std::rc::Rc;

use crate::agent::{Agent, Role};
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, MessageId};
use crate::domain::approval::Policy;
use crate::domain::config::RetryPolicy;
use crate::domain::context_use::total_length;
use crate::domain::endpoint::Endpoint;
use crate::domain::environment::EnvironmentSpec;
use crate::domain::flow::Origin;
use crate::domain::history::History;
use crate::domain::limits::MadeBy;
use crate::domain::message::{Body, Message};
use crate::domain::parameters::{Parameter, ParameterName};
use crate::domain::scrollback::LineKind;
use crate::domain::thinking::Thinking;
use crate::repl::core::limits::{made_by, require_creation};
use crate::repl::core::log::load_before;
use crate::repl::core::remove::require_no_kill;
use crate::repl::core::{Core, agent_gone};
use crate::repl::event::Event;
use crate::store::{Forked, NewAgent, Store};
use crate::team::{AgentFactory, MIN_CACHED_BYTES, Resolution, ResolvedEnvironment, SET};

/// What a child inherits of its parent's own messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::repl) enum Inherit {
    All,
    /// The messages before the one that the parent is working on: no unfinished call ever reaches a provider, and the
    /// child does not repeat the work of its parent.
    BeforeTurn,
    UpTo(MessageId),
    /// Nothing, not even what the parent inherited.
    Nothing,
}

/// A new agent. What is missing is taken from its parent.
pub(in crate::repl) struct Spawn {
    pub parent: AgentId,
    pub origin: Origin,
    pub inherit: Inherit,
    pub id: Option<AgentId>,
    pub name: Option<String>,
    /// `provider/model`.
    pub model: Option<String>,
    pub environment: Option<ResolvedEnvironment>,
    pub system: Option<String>,
    /// The name of its definition.
    pub definition: Option<String>,
    /// The tools that its definition names and it does not get.
    pub missing_tools: Vec<String>,
    /// It is allowed no more than this without a question.
    pub policy: Option<Policy>,
    /// Its own messages; only if it inherits nothing.
    pub rows: Vec<Body>,
    /// Its first message, which it answers at once.
    pub prompt: Option<String>,
    pub role: Role,
    pub retry: Option<RetryPolicy>,
    pub has_tools: bool,
    /// The stored run whose member it is.
    pub run: Option<String>,
    /// A note at its parent announces it unless a terminal follows it.
    pub is_announced: bool,
    /// The terminal where it was asked for stays at the parent.
    pub stays: bool,
}

impl Spawn {
    pub(in crate::repl) fn new(parent: AgentId, origin: Origin, inherit: Inherit) -> Self {
        Self {
            parent,
            origin,
            inherit,
            id: None,
            name: None,
            model: None,
            environment: None,
            system: None,
            definition: None,
            missing_tools: Vec::new(),
            policy: None,
            rows: Vec::new(),
            prompt: None,
            role: Role::Normal,
            retry: None,
            has_tools: true,
            run: None,
            is_announced: false,
            stays: false,
        }
    }
}

/// A child that is in the store and not yet in memory.
pub(in crate::repl) struct StagedChild {
    spec: Spawn,
    forked: Forked,
    first: Option<Message>,
    endpoint: Rc<Endpoint>,
    thinking: Thinking,
    made_by: MadeBy,
}

impl Core {
    /// Creates an agent.
    pub(in crate::repl) fn spawn(&mut self, spec: Spawn) -> Result<AgentId> {
        let staged = self.stage_child(spec)?;
        self.install_child(staged)
    }

    pub(in crate::repl) fn stage_child(&mut self, mut spec: Spawn) -> Result<StagedChild> {
        require_no_kill(self, spec.parent)?;
        if spec.prompt.is_some() {
            // The child answers at once, so it needs its parent's conversation.
            self.load(spec.parent)?;
        }
        self.save_unsaved(spec.parent)?;
        apply_definition(self, &mut spec)?;
        let parent = self.roster.get(spec.parent).ok_or_else(agent_gone)?;
        let endpoint = match &spec.model {
            Some(model) => self.factory.endpoint(&self.config.catalog, model)?,
            None => parent.usual_endpoint().clone(),
        };
        // The settings of the parent are passed on rather than read from its row, which may name something that was
        // unavailable at the start.
        let made_by = made_by(spec.origin, spec.run.is_some());
        require_creation(self, spec.parent, made_by, &endpoint)?;
        let environment =
            spec.environment.as_ref().map_or(&parent.inputs.environment, |resolved| &resolved.environment);
        let new = NewAgent {
            id: spec.id.unwrap_or_else(AgentId::random),
            name: spec.name.clone(),
            parent: spec.parent,
            fork_point: fork_point(&self.store, parent, spec.inherit)?,
            endpoint: Some(endpoint.full_name()),
            environment: Some(environment.spec.clone()),
        };
        // A child with another model keeps the thinking that was set for the parent only if that model takes it.
        let own = parent.inputs.parameters.thinking();
        let thinking = self.factory.thinking(&endpoint, &parent.inputs.parameters);
        let now = self.clock.unix_ms();
        let (rows, prompt) = (std::mem::take(&mut spec.rows), spec.prompt.take());
        let (forked, first) = self.store.transaction(|store| {
            let staged = store_child(store, &new, spec.inherit, rows, prompt, now)?;
            if own.is_some_and(|own| own != thinking) {
                store.set_thinking(new.id, Some(&thinking.to_string()))?;
            }
            if !made_by.is_top() {
                store.set_made_by(new.id, made_by)?;
            }
            store.set_directory(new.id, project_directory(&environment.working_directory).as_deref())?;
            store_settings(store, new.id, &spec, parent)?;
            Ok(staged)
        })?;
        Ok(StagedChild { spec, forked, first, endpoint, thinking, made_by })
    }

    /// Puts a stored child into memory, and lets it answer its prompt.
    pub(in crate::repl) fn install_child(&mut self, staged: StagedChild) -> Result<AgentId> {
        let StagedChild { mut spec, forked, first, endpoint, thinking, made_by } = staged;
        let id = forked.row.id;
        let has_own_instructions = forked.row.system.is_some();
        let child = self.roster.with(spec.parent, |parent| {
            let history = match spec.inherit {
                Inherit::All => parent.inputs.history.as_mut().map(History::fork),
                Inherit::BeforeTurn => parent.fork_history_before_turn(),
                // Read from the store when it is first needed, as after a restart.
                Inherit::UpTo(_) | Inherit::Nothing => None,
            };
            let mut child = AgentFactory::fork(parent, &forked.row, endpoint, history);
            child.context_use = parent.context_use.clone().filter(|_| spec.inherit == Inherit::All);
            parent.emit_logged(&forked.in_parent.body);
            parent.remember(vec![forked.in_parent]);
            if matches!(spec.inherit, Inherit::All | Inherit::BeforeTurn) {
                child.emit_logged(&forked.in_child.body);
                child.remember(vec![forked.in_child]);
            }
            child
        });
        let mut child = child.ok_or_else(agent_gone)?;
        child.identity.made_by = made_by;
        child.identity.team_run = spec.run.as_deref().map(Rc::from);
        child.inputs.thinking = thinking;
        if child.inputs.parameters.thinking().is_some() {
            let name = ParameterName::Known(Parameter::Thinking);
            child.inputs.parameters.set(name, thinking.to_string().into(), SET);
        }
        (child.role, child.retry) = (spec.role, spec.retry);
        give_settings(&mut child, &mut spec, has_own_instructions);
        self.roster.add(child, Some(spec.parent));
        if !spec.missing_tools.is_empty() {
            let note = format!("tools of the definition that are not available: {}", spec.missing_tools.join(", "));
            self.note(id, LineKind::Note, &note);
        }
        if made_by == MadeBy::Model {
            self.trees.on_created(&self.roster, spec.parent, self.clock.steady_ms());
        }
        self.emit(Event::Spawned {
            parent: spec.parent,
            child: id,
            origin: spec.origin,
            is_announced: spec.is_announced,
            stays: spec.stays,
        });
        if let Some(first) = first {
            // The child's history must not include the prompt, which begins its turn.
            load_before(self, id, first.id)?;
            self.start_turn(spec.origin, id, |child, context| child.begin(first, context));
        }
        Ok(id)
    }
}

/// Takes from the definition of a child what was not given otherwise.
fn apply_definition(core: &Core, spec: &mut Spawn) -> Result<()> {
    let Some(name) = spec.definition.take() else { return Ok(()) };
    let parent = core.roster.get(spec.parent).ok_or_else(agent_gone)?;
    let entered = spec.environment.clone();
    let here = entered.as_ref().map_or(&parent.inputs.environment, |resolved| &resolved.environment);
    let definition = here.definition(&name).map_err(Error::usage)?;
    if spec.model.is_none() {
        spec.model = definition.model_beside(&parent.usual_endpoint().provider).map(str::to_owned);
    }
    let is_person = matches!(spec.origin, Origin::Terminal(_) | Origin::Library);
    let environments = &core.factory.environments;
    let tools = here.spec_for(definition, is_person);
    let found = match &here.remote {
        // It is reached already.
        Some(remote) => {
            let there: EnvironmentSpec = format!("{tools}+{}", remote.place).parse()?;
            Some(environments.remote_environment(&there, here.working_directory.clone())?)
        }
        None => match environments.find(&tools, here)? {
            Resolution::Ready(resolved) => Some(resolved),
            Resolution::Worktree(..) | Resolution::Remote(..) => None,
        },
    };
    if let Some(resolved) = found {
        let has = |name: &&String| resolved.environment.tools.iter().any(|tool| tool.declaration.name == **name);
        let named = definition.tools.iter().flatten();
        spec.missing_tools = named.filter(|name| !has(name)).cloned().collect();
        let role = spec.system.take().map(|role| format!("{role}\n\n")).unwrap_or_default();
        spec.system = Some(format!("{}\n\n{role}{}", definition.prompt, resolved.system));
        spec.environment = Some(resolved);
    }
    spec.policy = definition.policy;
    Ok(())
}

/// Gives a child what differs from its parent.
fn give_settings(child: &mut Agent, spec: &mut Spawn, has_own_instructions: bool) {
    if let Some(most) = spec.policy {
        child.policy = Policy::narrow(child.policy, most);
        child.is_unrestricted = false;
    }
    child.inputs.has_tools = spec.has_tools;
    if let Some(resolved) = spec.environment.take() {
        let may_keep_prompt = !has_own_instructions && spec.system.is_none();
        if !(may_keep_prompt && try_to_keep_prompt(child, &resolved)) {
            child.inputs.move_to(resolved.environment, resolved.system, has_own_instructions);
        }
    }
    if let Some(system) = spec.system.take() {
        child.inputs.system = system.into();
    }
}

/// Moves a child that has a long conversation of its parent, if it can keep the system prompt. Returns whether it did. Only this
/// reads the history, once for a child in another environment.
fn try_to_keep_prompt(child: &mut Agent, resolved: &ResolvedEnvironment) -> bool {
    let inherited = child.inputs.history.as_ref().map(History::conversation).unwrap_or_default();
    let (is_long, after) = (total_length(&inherited) >= MIN_CACHED_BYTES, child.identity.fork_point);
    is_long && child.inputs.move_keeping_prompt(&resolved.environment, &resolved.system, after)
}

/// Stores a child with its inheritance, and with its first message if there is a prompt.
fn store_child(
    store: &Store,
    new: &NewAgent,
    inherit: Inherit,
    rows: Vec<Body>,
    prompt: Option<String>,
    now: i64,
) -> Result<(Forked, Option<Message>)> {
    match (inherit, prompt) {
        (Inherit::Nothing, prompt) => {
            let forked = store.slice(new, rows, now)?;
            let first = prompt.map(|prompt| store.begin_turn(new.id, prompt, None, now)).transpose()?;
            Ok((forked, first))
        }
        (_, None) => Ok((store.fork(new, now)?, None)),
        (_, Some(prompt)) => store.fork_and_begin(new, prompt, now).map(|(forked, first)| (forked, Some(first))),
    }
}

/// Stores what differs from the parent's row, which the row of the child was copied from.
fn store_settings(store: &Store, id: AgentId, spec: &Spawn, parent: &Agent) -> Result<()> {
    if let Some(system) = &spec.system {
        store.set_system(id, Some(system))?;
    }
    if let Some(run) = &spec.run {
        store.join_run(id, run)?;
    }
    if parent.policy() != parent.policy || spec.policy.is_some() {
        // The row has the stored policy of the parent, which may be allowed less in this turn.
        let most = spec.policy.unwrap_or_else(|| parent.policy());
        store.set_policy(id, Some(Policy::narrow(parent.policy(), most).name()))?;
    }
    Ok(())
}

/// The directory of an agent in stored form. A program that was started in `/` gives agents none.
pub(in crate::repl) fn project_directory(working_directory: &Path) -> Option<String> {
    // A path that is not UTF-8 cannot be part of a specification.
    working_directory.to_str().filter(|path| *path != "/").map(str::to_owned)
}

/// The same of a directory that may be named in another way.
pub(in crate::repl) fn stored_place(directory: &Path) -> Option<String> {
    project_directory(&directory.canonicalize().ok()?)
}

fn fork_point(store: &Store, parent: &Agent, inherit: Inherit) -> Result<MessageId> {
    Ok(match (inherit, parent.turn_message()) {
        (Inherit::Nothing, _) => MessageId(0),
        (Inherit::UpTo(message), _) => message,
        (Inherit::BeforeTurn, Some(turn)) => MessageId(turn.0 - 1),
        _ => store.last_own_message(parent.id())?,
    })
}

/// Adds an agent that works for another, and is in no list.
pub(in crate::repl) fn add_unlisted(core: &mut Core, agent: Agent) {
    core.roster.add_unlisted(agent);
}
