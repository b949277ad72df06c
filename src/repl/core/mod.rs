//! The state that every part of the loop shares: what touching an agent needs, the agents, and what is still to be done.
//!
//! `Core` keeps the store and the roster equal, one agent or subtree at a time. It knows no terminal, no client and no
//! policy; fields are changed only by its own operations.

pub(super) mod activity;
mod log;
mod mail;
mod queue;
mod remove;
pub(super) mod spawn;
mod steer;
mod turns;
mod viewers;

use std::collections::VecDeque;

use crate::agent::{Agent, Context, Outbox, Wake};
use crate::base::clock::Clock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::commands::{CommandContext, TerminalInfo};
use crate::domain::chunk::{Chunk, Status};
use crate::domain::config::{Config, Settings};
use crate::domain::scrollback::LineKind;
use crate::net::Network;
use crate::reactor::Reactor;
use crate::repl::event::Event;
use crate::store::Store;
use crate::team::{AgentFactory, Limiter, Limits, Roster, Viewers};
use crate::tools::Running;

/// What the components of the loop are lent.
pub(super) struct Core {
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) reactor: Reactor,
    pub(super) network: Network,
    pub(super) waker: Wake,
    pub(super) store: Store,
    pub(super) roster: Roster,
    pub(super) viewers: Viewers,
    pub(super) factory: AgentFactory,
    pub(super) limiter: Limiter,
    pub(super) limits: Limits,
    /// What agents asked for and was not carried out yet.
    pub(super) outbox: Outbox,
    /// What was done and not told to the components yet.
    pub(super) events: VecDeque<Event>,
    /// Threads of agents that are gone, joined as they end.
    pub(super) draining: Vec<Running>,
    /// Messages that could not be written and are only in memory.
    pub(super) unsaved: usize,
}

impl Core {
    pub(super) fn new(
        config: Config,
        store: Store,
        clock: Clock,
        reactor: Reactor,
        roster: Roster,
        factory: AgentFactory,
    ) -> Self {
        Self {
            waker: reactor.waker(),
            config,
            clock,
            reactor,
            network: Network::default(),
            store,
            roster,
            limiter: Limiter::default(),
            viewers: Viewers::default(),
            factory,
            limits: Limits::default(),
            outbox: Outbox::default(),
            events: VecDeque::new(),
            draining: Vec::new(),
            unsaved: 0,
        }
    }

    /// Hands one agent to `act`, then gives its connection's wishes to the reactor before anything else can happen:
    /// the kernel reuses descriptors at once.
    pub(super) fn with_agent<T>(&mut self, id: AgentId, act: impl FnOnce(&mut Agent, &mut Context) -> T) -> Option<T> {
        let usual = self.config.settings;
        let retry = self.roster.get(id)?.retry.unwrap_or(usual.retry);
        let settings = Settings { retry, ..usual };
        let mut context = Context {
            now: self.clock.now(),
            settings: &settings,
            network: &self.network,
            wake: &self.waker,
            outbox: &mut self.outbox,
        };
        let (outcome, wishes) = self.roster.with(id, |agent| {
            let outcome = act(agent, &mut context);
            (outcome, agent.take_socket_requests())
        })?;
        if let Err(error) = self.reactor.apply(id, wishes) {
            self.note(id, LineKind::Error, &error.context("a connection cannot be watched").message);
        }
        Some(outcome)
    }

    /// Writes what `work` writes to the store, or, after an error, nothing. `work` leaves memory as it is.
    pub(super) fn transaction<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.store.begin()?;
        let outcome = work(self);
        self.store.end(outcome.is_ok())?;
        outcome
    }

    /// What commands read. `terminals` are empty for one that is not typed at a terminal.
    pub(super) fn command_context(&self, current: AgentId, terminals: Vec<TerminalInfo>) -> CommandContext<'_> {
        CommandContext {
            roster: &self.roster,
            store: &self.store,
            config: &self.config,
            current,
            unix_ms: self.clock.unix_ms(),
            terminal_infos: terminals,
        }
    }

    /// The name of an agent, or its id; of one that is dead too.
    pub(super) fn name_of(&self, id: AgentId) -> String {
        match self.roster.get(id) {
            Some(agent) => agent.identity.name.clone().unwrap_or_else(|| id.to_string()),
            None => {
                let row = self.store.agent(id).ok().flatten();
                format!("{} (dead)", row.and_then(|row| row.name).unwrap_or_else(|| id.to_string()))
            }
        }
    }

    /// The name of an agent, or its number; of one that is not in memory, its id.
    pub(super) fn label_of(&self, id: AgentId) -> String {
        self.roster.get(id).map_or_else(|| id.to_string(), |agent| agent.identity.label())
    }

    /// What an agent is doing. One that was closed is idle.
    pub(super) fn status(&self, id: AgentId) -> Result<Status> {
        if let Some(agent) = self.roster.get(id) {
            return Ok(agent.status());
        }
        let row = self.store.agent(id)?.ok_or_else(agent_gone)?;
        Ok(if row.is_running { Status::Idle } else { Status::Dead })
    }

    /// Shows a text to everyone who looks at this agent; no model is told.
    pub(super) fn note(&mut self, id: AgentId, kind: LineKind, text: &str) {
        let text = text.to_owned();
        let chunk = match kind {
            LineKind::Error => Chunk::Error { kind: "internal".into(), message: text },
            LineKind::Mark => Chunk::Mark(text),
            _ => Chunk::Note(text),
        };
        self.roster.with(id, |agent| agent.emit_aside(&chunk));
    }
}

pub(in crate::repl) fn agent_gone() -> Error {
    Error::new(ErrorKind::Usage, "this agent is gone: /agents lists those that are there")
}
