//! Fork: the only way to make an agent. One transaction in the store, then the child in memory; a failure leaves no trace
//! in either. The cost does not depend on the length of any history.

use std::rc::Rc;

use crate::agent::State;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, MessageId};
use crate::commands;
use crate::domain::endpoint::Endpoint;
use crate::domain::flow::{Change, Origin};
use crate::domain::history::History;
use crate::domain::message::Body;
use crate::domain::scrollback::LineKind;
use crate::provider::thinking_for;
use crate::repl::core::agent_gone;
use crate::repl::{Parked, Repl};
use crate::store::{Forked, NewAgent};
use crate::team::{AgentFactory, ResolvedEnvironment};

/// What the child inherits of its parent's own messages.
enum Inherited {
    /// Everything that is stored.
    All,
    /// What came before the message that the parent is working on: no unfinished call ever reaches a provider, and the
    /// child does not carry out its parent's order again.
    BeforeTurn,
}

impl Repl {
    /// `/fork`: while the agent's tools run it waits for them, as a value.
    pub(super) fn fork_by_person(
        &mut self,
        origin: Origin,
        agent_id: AgentId,
        prompt: Option<String>,
        name: Option<String>,
        model: Option<String>,
    ) -> Result<()> {
        let parent = self.core.roster.get(agent_id).ok_or_else(agent_gone)?;
        if matches!(parent.state(), State::ExecutingTool | State::AwaitingApproval) {
            return self.park(origin, agent_id, Change::Fork { prompt, name, model });
        }
        let child = self.fork(agent_id, prompt, name, model.as_deref(), Inherited::All, None)?;
        self.follow(origin, agent_id, child);
        Ok(())
    }

    /// Whoever asked for the child and still looks at its parent looks at the child from now on, unless they want to
    /// stay. Whether it came to a screen.
    pub(super) fn follow(&mut self, origin: Origin, agent_id: AgentId, child: AgentId) -> bool {
        let moved = self.terminals.still_at(origin, agent_id).filter(|_| self.core.config.follows_forks);
        if let Some(at) = moved {
            self.bring_to_screen(at, child);
        }
        moved.is_some()
    }

    /// A child with all of the parent's history in another environment.
    pub(super) fn fork_into(
        &mut self,
        origin: Origin,
        agent_id: AgentId,
        id: AgentId,
        resolved: ResolvedEnvironment,
    ) -> Result<AgentId> {
        let child = self.fork(agent_id, None, None, None, Inherited::All, Some((id, resolved)))?;
        self.follow(origin, agent_id, child);
        Ok(child)
    }

    /// The `fork` tool: never touches a screen, and the child starts at once.
    pub(super) fn fork_by_model(
        &mut self,
        agent_id: AgentId,
        prompt: String,
        name: Option<String>,
        model: Option<&str>,
    ) -> Result<AgentId> {
        let name = name.map(|name| commands::checked_name(&name)).transpose()?;
        self.fork(agent_id, Some(prompt), name, model, Inherited::BeforeTurn, None)
    }

    fn fork(
        &mut self,
        agent_id: AgentId,
        prompt: Option<String>,
        name: Option<String>,
        model: Option<&str>,
        inherited: Inherited,
        elsewhere: Option<(AgentId, ResolvedEnvironment)>,
    ) -> Result<AgentId> {
        if prompt.is_some() {
            // The child is to speak at once: it must know what its parent knows.
            self.core.load(agent_id)?;
        }
        let parent = self.core.roster.get(agent_id).ok_or_else(agent_gone)?;
        let endpoint = match model {
            Some(model) => self.core.factory.endpoint(model)?,
            None => parent.talk.endpoint.clone(),
        };
        // What the parent has is said, not left to its row, which may name what could not be had at the start.
        let (id, resolved) = elsewhere.map_or_else(|| (AgentId::random(), None), |(id, resolved)| (id, Some(resolved)));
        let environment = resolved.as_ref().map_or(&parent.talk.environment, |resolved| &resolved.environment);
        let new = NewAgent {
            id,
            name,
            parent: agent_id,
            fork_point: self.fork_point(agent_id, &inherited)?,
            endpoint: Some(endpoint.full_name()),
            environment: Some(environment.spec.clone()),
        };
        // A child that is given another model keeps the parent's thinking only if that model takes it.
        let before = parent.talk.thinking;
        let thinking = thinking_for(&endpoint, before);
        let (forked, first) = self.together(|repl| {
            let (store, now) = (&repl.core.store, repl.core.clock.unix_ms());
            let made = match prompt {
                Some(prompt) => store.fork_and_begin(&new, prompt, now).map(|(forked, first)| (forked, Some(first)))?,
                None => (store.fork(&new, now)?, None),
            };
            if thinking != before {
                store.set_thinking(new.id, Some(&thinking.to_string()))?;
            }
            Ok(made)
        })?;
        let has_own_instructions = forked.row.system.is_some();
        self.create_child(agent_id, endpoint, inherited, forked)?;
        self.core.roster.with(new.id, |child| {
            child.talk.thinking = thinking;
            if let Some(resolved) = resolved {
                child.talk.move_to(resolved.environment, resolved.system, has_own_instructions);
            }
        });
        if let Some(first) = first {
            // Where the parent's open turn is shared already, the child's past could not be told apart from it in memory.
            self.core.load_before(new.id, first.id)?;
            self.core.with_agent(new.id, |child, context| child.begin(first, context));
        }
        Ok(new.id)
    }

    /// What the store has entered comes to be in memory.
    fn create_child(
        &mut self,
        agent_id: AgentId,
        endpoint: Rc<Endpoint>,
        inherited: Inherited,
        forked: Forked,
    ) -> Result<()> {
        let child = self.core.roster.with(agent_id, |parent| {
            let history = match inherited {
                Inherited::All => parent.talk.history.as_mut().map(History::fork),
                Inherited::BeforeTurn => parent.fork_history_before_turn(),
            };
            let mut child = AgentFactory::fork(parent, &forked.row, endpoint, history);
            parent.emit_logged(&forked.in_parent.body);
            parent.remember(vec![forked.in_parent]);
            child.emit_logged(&forked.in_child.body);
            child.remember(vec![forked.in_child]);
            child
        });
        self.core.roster.add(child.ok_or_else(agent_gone)?, Some(agent_id));
        Ok(())
    }

    fn fork_point(&self, agent_id: AgentId, inherited: &Inherited) -> Result<MessageId> {
        let newest = self.core.store.last_own_message(agent_id)?;
        let turn = self.core.roster.get(agent_id).and_then(|agent| agent.turn_message());
        Ok(match (inherited, turn) {
            (Inherited::BeforeTurn, Some(turn)) => MessageId(turn.0 - 1),
            _ => newest,
        })
    }

    /// The change waits until the tools of this reply are done, and the loop goes on.
    pub(super) fn park(&mut self, origin: Origin, agent_id: AgentId, change: Change) -> Result<()> {
        if self.parked.iter().any(|parked| parked.agent_id == agent_id) {
            return Err(Error::new(ErrorKind::Usage, format!("{} already in progress", change.name())));
        }
        self.core.note(agent_id, LineKind::Note, &format!("/{} waits until the tools are done", change.name()));
        let line = line_of(&change);
        self.parked.push(Parked { agent_id, origin, change, line });
        Ok(())
    }

    /// The tools of this agent are done: what waited for them happens.
    pub(super) fn unpark(&mut self, agent_id: AgentId) {
        if let Some(at) = self.parked.iter().position(|parked| parked.agent_id == agent_id) {
            let Parked { origin, change, line, .. } = self.parked.remove(at);
            if !self.apply_or_notify(origin, agent_id, change.clone()) {
                self.let_go(&change, agent_id);
                line.iter().for_each(|line| self.core.return_text(agent_id, line));
            }
        }
    }

    /// Takes back what waited for the tools; its text is the person's again.
    pub(super) fn drop_parked(&mut self, agent_id: AgentId) {
        self.cancel_worktree_job(agent_id);
        let Some(at) = self.parked.iter().position(|parked| parked.agent_id == agent_id) else { return };
        let parked = self.parked.remove(at);
        self.core.note(agent_id, LineKind::Note, &format!("the waiting /{} is cancelled", parked.change.name()));
        self.let_go(&parked.change, agent_id);
        if let Some(line) = parked.line {
            self.core.return_text(agent_id, &line);
        }
    }

    /// Another name; it is unique among the living.
    pub(super) fn name(&mut self, agent_id: AgentId, name: Option<String>) -> Result<()> {
        self.core.store.set_name(agent_id, name.as_deref())?;
        self.core.roster.with(agent_id, |agent| {
            agent.identity.name = name;
            agent.view.touch();
        });
        Ok(())
    }

    /// Back to a mark: the model forgets what came after it, for good.
    pub(super) fn rewind(&mut self, agent_id: AgentId, label: Option<&str>) -> Result<()> {
        self.core.load(agent_id)?;
        let agent = self.core.roster.get(agent_id).ok_or_else(agent_gone)?;
        let history = agent.talk.history.as_ref().ok_or_else(agent_gone)?;
        // Marks are not inherited: what is inherited lies at or before the fork point.
        let to = history.find_mark(label, agent.identity.fork_point).ok_or_else(|| {
            let words = match label {
                Some(label) => format!("there is no mark {label:?} to go back to"),
                None => "there is no mark to go back to: /mark sets one".into(),
            };
            Error::new(ErrorKind::Usage, words)
        })?;
        self.log_event(agent_id, Body::Rewind(to))
    }
}

/// What a person typed to ask for this child; none if there was nothing but the command.
fn line_of(change: &Change) -> Option<String> {
    if let Change::Environment(spec) = change {
        return Some(format!("/env {spec}"));
    }
    let Change::Fork { prompt, name, model } = change else { return None };
    let name = name.as_ref().map(|name| format!(" --name {name}"));
    let model = model.as_ref().map(|model| format!(" --model {model}"));
    let prompt = prompt.as_ref().map(|prompt| format!(" {prompt}"));
    let arguments: String = [name, model, prompt].into_iter().flatten().collect();
    (!arguments.is_empty()).then(|| format!("/fork{arguments}"))
}
