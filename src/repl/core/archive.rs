//! Archives agents and brings them back. An archived agent is stored with everything that it knows, and is not in memory: no
//! list shows it, and its children belong to the agent above it meanwhile.

use crate::agent::{Agent, Queued, Role, State};
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, MessageId};
use crate::commands::{agent_called, archived_called};
use crate::domain::chunk::Chunk;
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::repl::core::remove::require_no_kill;
use crate::repl::core::{Core, agent_gone, viewers};
use crate::repl::event::Event;
use crate::store::{AgentRow, NewAgent};

impl Core {
    /// Archives an agent that is at rest. A terminal that shows it goes to the agent above it.
    pub(in crate::repl) fn archive(&mut self, id: AgentId) -> Result<()> {
        self.require_writable()?;
        let adopter = require_at_rest(self, id, "archived")?;
        self.save_unsaved(id)?;
        self.store.archive(&[id], self.clock.unix_ms())?;
        self.archiving.remove(&id);
        self.trees.on_removed(&self.roster, id, self.clock.steady_ms());
        if let Some(archived) = self.take_out(id, Some(adopter), true) {
            // The output of a `--print` run has ended with its result.
            let last = if archived.identity.is_print_run { None } else { Some(Chunk::Mark("archived".into())) };
            viewers::keep_last_chunks(self, archived, last.as_slice());
        }
        Ok(())
    }
}

/// Archives an agent as soon as it is at rest, which may be at once. An agent that is killed meanwhile is forgotten.
pub(in crate::repl) fn archive_when_idle(core: &mut Core, id: AgentId) {
    let has_commands = core.roster.get(id).is_some_and(keeps_commands);
    if (has_commands || core.archive(id).is_err()) && core.roster.parent(id).is_some() {
        core.archiving.insert(id);
    }
}

/// Brings an archived agent back, below its nearest ancestor that is in memory. Unless it is for another `--print` run,
/// it is not one of a run any more. A chat that is read-only has it in memory only.
pub(in crate::repl) fn unarchive(core: &mut Core, id: AgentId, is_for_run: bool) -> Result<()> {
    let mut row = core.store.agent(id)?.filter(|row| row.is_running).ok_or_else(agent_gone)?;
    let waiting = (core.store.queued(id)?, core.store.count_unread(id)?, core.store.limits_of(id)?);
    match core.store.is_read_only() {
        true => row.is_print_run &= is_for_run,
        false => row = core.store.unarchive(id, is_for_run)?,
    }
    let (queued, unread, limits) = waiting;
    load(core, &row)?;
    core.roster.with(id, |agent| {
        agent.queue.extend(queued.into_iter().map(Queued::from));
        agent.unread = unread;
    });
    core.trees.on_restored(&core.roster, id, limits);
    Ok(())
}

/// Records that an agent was made for one `--print` run.
pub(in crate::repl) fn mark_print_run(core: &mut Core, id: AgentId) -> Result<()> {
    core.store.set_print_run(id)?;
    core.roster.with(id, |agent| agent.identity.is_print_run = true);
    Ok(())
}

/// The agent with this name, number or id, for a script that continues it. An archived one is brought back.
pub(in crate::repl) fn called_or_archived(core: &mut Core, text: &str, is_for_run: bool) -> Result<AgentId> {
    match agent_called(&core.roster, text) {
        Ok(id) => Ok(id),
        Err(error) => {
            let id = archived_called(&core.store, text).map_err(|_| error)?;
            unarchive(core, id, is_for_run).map(|()| id)
        }
    }
}

/// Brings an agent back if it is archived.
pub(in crate::repl) fn bring_back(core: &mut Core, id: AgentId, is_for_run: bool) -> Result<()> {
    if core.roster.get(id).is_some() { Ok(()) } else { unarchive(core, id, is_for_run) }
}

/// Archives an agent for a person, who is told how to bring it back.
pub(in crate::repl) fn archive_for_person(core: &mut Core, asked_at: AgentId, id: AgentId) -> Result<()> {
    let agent = core.roster.get(id).ok_or_else(agent_gone)?;
    let (label, name) = (agent.identity.label(), agent.identity.name.clone().unwrap_or_else(|| id.short()));
    if agent.role == Role::Member {
        return Err(Error::usage(format!("{label} works on a task of a team: wait for its end, or stop it first")));
    }
    let shown_at = if asked_at == id { core.roster.parent(id) } else { Some(asked_at) };
    core.archive(id)?;
    let note = format!("{label} archived; /unarchive {name} brings it back");
    shown_at.into_iter().for_each(|at| core.note(at, LineKind::Mark, &note));
    Ok(())
}

/// Archives the agents that were to be archived and are at rest now.
pub(in crate::repl) fn archive_idle(core: &mut Core) {
    for id in std::mem::take(&mut core.archiving) {
        match core.roster.get(id) {
            Some(agent) if is_at_work(agent) || keeps_commands(agent) => drop(core.archiving.insert(id)),
            // A person has to see the entries in its queue.
            Some(_) => drop(core.archive(id)),
            None => {}
        }
    }
}

/// Puts a stored agent into memory, below its nearest ancestor there. Returns that.
fn load(core: &mut Core, row: &AgentRow) -> Result<AgentId> {
    let (parent, is_top) = nearest_above(core, row.id)?;
    let agent = core.factory.restore(&core.config.catalog, row);
    core.roster.add_at(agent, Some(parent), is_top);
    Ok(parent)
}

/// The nearest ancestor of a stored agent that is in memory, and whether a begun conversation is between the two.
pub(in crate::repl) fn nearest_above(core: &Core, id: AgentId) -> Result<(AgentId, bool)> {
    let (above, is_below_begun) = core.store.living_ancestor(id)?;
    let above = above.filter(|above| core.roster.get(*above).is_some()).or_else(|| core.roster.nth(0));
    Ok((above.ok_or_else(agent_gone)?, is_below_begun))
}

/// Forks a child with the conversation of an agent that is not in memory, killed or archived, up to one of its messages. The
/// child is the sibling of the agent, with its settings.
pub(in crate::repl) fn fork_ended(core: &mut Core, origin: Origin, parent: AgentId, message: MessageId) -> Result<()> {
    core.require_writable()?;
    let id = AgentId::random();
    let new = NewAgent { id, name: None, parent, fork_point: message, endpoint: None, environment: None };
    let row = core.store.fork_ended(&new, core.clock.unix_ms())?;
    let parent = load(core, &row)?;
    core.emit(Event::Spawned { parent, child: id, origin, is_announced: false, stays: false });
    Ok(())
}

/// Fails for an agent that has work left, and for the root. Returns the agent above it. `done` names the action.
pub(super) fn require_at_rest(core: &Core, id: AgentId, done: &str) -> Result<AgentId> {
    let agent = core.roster.get(id).filter(|agent| agent.role != Role::Summary).ok_or_else(agent_gone)?;
    let label = agent.identity.label();
    let Some(adopter) = core.roster.parent(id) else {
        return Err(Error::usage(format!("{label} is the root and cannot be {done}")));
    };
    require_no_kill(core, id)?;
    if is_at_work(agent) {
        return Err(Error::usage(format!("{label} is busy: stop it first, or wait until it is idle")));
    }
    if !agent.queue.is_empty() {
        return Err(Error::usage(format!("{label} has queued messages: send or delete them first (/queue)")));
    }
    Ok(adopter)
}

/// Whether the agent works, or work is done for it.
fn is_at_work(agent: &Agent) -> bool {
    agent.state() != State::Idle || agent.has_background_work()
}

/// Whether the agent of a run has commands in the background, which end with it: another run may continue it.
fn keeps_commands(agent: &Agent) -> bool {
    agent.identity.is_print_run && agent.background_commands() > 0
}
