//! Ends agents. A kill is final: one transaction marks them in the store, then their work is stopped and they are removed
//! from memory.

use crate::agent::{Agent, Role, State};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::chunk::{Chunk, Status};
use crate::domain::drafts::DraftSlot;
use crate::domain::message::Body;
use crate::domain::scrollback::LineKind;
use crate::domain::stream::Usage;
use crate::repl::core::file_steps::keep_step;
use crate::repl::core::{Core, agent_gone, drafts, viewers};
use crate::repl::event::Event;
use crate::tools::Running;

/// Agents whose stored drafts are read before they are killed.
const MOST_LOADED: usize = 100;

impl Core {
    /// Kills an agent, with all its descendants if `cascade`; otherwise its nearest living ancestor adopts its children.
    pub(in crate::repl) fn kill(&mut self, id: AgentId, cascade: bool) -> Result<()> {
        let agent = self.roster.get(id).ok_or_else(agent_gone)?;
        let label = agent.identity.label();
        let Some(adopter) = self.roster.parent(id) else {
            return Err(Error::usage(format!("{label} is the root and cannot be killed")));
        };
        let victims = if cascade { self.roster.subtree(id) } else { vec![id] };
        load_drafts(self, &victims);
        kill_stored(self, &victims)?;
        let now = self.clock.steady_ms();
        if cascade {
            self.trees.on_subtree_removed(&self.roster, id, &victims, now);
        } else {
            self.trees.on_removed(&self.roster, id, now);
        }
        remove_killed(self, &victims, adopter);
        let others = match victims.len() - 1 {
            0 => String::new(),
            count => format!(" and {}", text::counted(count, "descendant", "descendants")),
        };
        self.note(adopter, LineKind::Mark, &format!("{label}{others} killed"));
        Ok(())
    }

    /// Removes an idle agent from memory; it stays in the store. `uses` are reasons of the components why it cannot be
    /// removed, and whether they hold.
    pub(in crate::repl) fn close(&mut self, id: AgentId, uses: [(bool, &'static str); 2]) -> Result<()> {
        self.require_writable()?;
        let agent = self.roster.get(id).filter(|agent| agent.role != Role::Summary).ok_or_else(agent_gone)?;
        let own = [
            (self.roster.parent(id).is_none(), "it is the root"),
            (agent.state() != State::Idle, "it is busy"),
            (!agent.queue.is_empty(), "it has queued messages"),
            (agent.role == Role::Member || agent.has_background_work(), "a command is waiting for it"),
            (agent.background_commands() > 0, "it runs commands in the background"),
            (self.roster.children(id).next().is_some(), "it has children"),
            (agent.inputs.environment.worktree.is_some(), "it works in a worktree"),
        ];
        if let Some((_, why)) = own.iter().chain(&uses).find(|(holds, _)| *holds) {
            return Err(Error::usage(format!("cannot close {}: {why}", agent.identity.label())));
        }
        self.save_unsaved(id)?;
        if let Some(closed) = self.remove(id, None) {
            viewers::keep_last_chunks(self, closed, &[Chunk::Note("closed; loaded again at the next start".into())]);
        }
        Ok(())
    }

    /// Removes an agent from memory. Its running tools are stopped; [`Core::reap`] joins their threads.
    pub(in crate::repl) fn remove(&mut self, id: AgentId, adopter: Option<AgentId>) -> Option<Agent> {
        self.trees.on_removed(&self.roster, id, self.clock.steady_ms());
        self.take_out(id, adopter, false)
    }

    /// Like [`Core::remove`], where the agent does not count in its tree any more. One that comes back keeps its worktree.
    pub(super) fn take_out(&mut self, id: AgentId, adopter: Option<AgentId>, comes_back: bool) -> Option<Agent> {
        let now = self.clock.now();
        if comes_back {
            drafts::save_all(self, id);
        }
        let running = self.with_agent(id, |agent, _| agent.abandon(now)).unwrap_or_default();
        self.draining.extend(running);
        self.outbox.forget(id);
        self.unsaved.forget(id);
        self.send_queue.leave(id);
        let removed = self.roster.remove(id)?;
        let has_worktree = removed.role != Role::Summary && !comes_back;
        let worktree = removed.inputs.environment.worktree.clone().filter(|_| has_worktree);
        let drafts = if comes_back || adopter.is_none() { Vec::new() } else { drafts_of(&removed) };
        self.emit(Event::Removed { agent: id, adopter, worktree, drafts });
        Some(removed)
    }

    /// Joins the threads of removed agents that have ended.
    pub(in crate::repl) fn reap(&mut self) {
        let ended: Vec<Running> = self.draining.extract_if(.., |running| running.is_complete()).collect();
        for running in ended {
            if let Some(step) = running.take_changed() {
                keep_step(self, &step);
            }
            drop(running.collect());
        }
    }
}

/// Kills all descendants of an agent. Returns how many.
pub(in crate::repl) fn kill_descendants(core: &mut Core, id: AgentId) -> Result<usize> {
    core.roster.get(id).ok_or_else(agent_gone)?;
    let mut victims = core.roster.subtree(id);
    // The deepest are the first, and the agent itself is the last.
    victims.pop();
    load_drafts(core, &victims);
    kill_stored(core, &victims)?;
    let now = core.clock.steady_ms();
    let children: Vec<AgentId> = core.roster.children(id).collect();
    for child in children {
        let subtree = core.roster.subtree(child);
        core.trees.on_subtree_removed(&core.roster, child, &subtree, now);
    }
    remove_killed(core, &victims, id);
    let killed = text::counted(victims.len(), "descendant", "descendants");
    core.note(id, LineKind::Mark, &format!("{killed} killed"));
    Ok(victims.len())
}

/// Marks these agents as killed in the store, and counts the usage of their last requests.
fn kill_stored(core: &mut Core, victims: &[AgentId]) -> Result<()> {
    let now = core.clock.unix_ms();
    let used: Vec<(AgentId, Vec<Usage>)> = victims.iter().map(|id| (*id, unstored_usage(core, *id))).collect();
    // Their last words are lost where the store refuses them and not the kill.
    victims.iter().for_each(|id| drop(core.save_unsaved(*id)));
    core.transaction(|core| {
        for (id, used) in used.iter().filter(|(_, used)| !used.is_empty()) {
            core.store.append(*id, used.iter().cloned().map(Body::Usage).collect(), now)?;
        }
        core.store.kill(&core.roster.by_creation(victims), now).map(drop)
    })?;
    for (id, used) in &used {
        used.iter().for_each(|usage| core.trees.count_usage(&core.roster, *id, usage));
    }
    Ok(())
}

/// The usage of an agent's requests that is not stored yet.
fn unstored_usage(core: &Core, id: AgentId) -> Vec<Usage> {
    let running = core.roster.get(id).and_then(Agent::usage_so_far);
    core.outbox.usage_of(id).cloned().chain(running).collect()
}

/// Reads the drafts of agents that are about to be killed, including those of an earlier start. Most agents have none.
fn load_drafts(core: &mut Core, victims: &[AgentId]) {
    if victims.len() <= MOST_LOADED {
        victims.iter().for_each(|victim| drafts::load(core, *victim));
    }
}

fn drafts_of(removed: &Agent) -> Vec<(DraftSlot, String)> {
    let drafts = &removed.view.drafts;
    let texts = drafts.slots().into_iter().filter_map(|slot| Some((slot, drafts.get(slot)?.expanded())));
    texts.filter(|(_, text)| !text.trim().is_empty()).collect()
}

fn remove_killed(core: &mut Core, victims: &[AgentId], adopter: AgentId) {
    for victim in victims {
        if let Some(removed) = core.take_out(*victim, Some(adopter), false) {
            viewers::keep_last_chunks(core, removed, &[Chunk::Mark("killed".into()), Chunk::Status(Status::Dead)]);
        }
    }
}

/// Whether a tool thread is running whose wake could be lost.
pub(in crate::repl) fn has_tool_threads(core: &Core) -> bool {
    !core.roster.with_live_tools().is_empty() || !core.draining.is_empty()
}

/// Waits for these tool threads to end, and joins them in [`Core::reap`].
pub(in crate::repl) fn drain(core: &mut Core, running: impl IntoIterator<Item = Running>) {
    core.draining.extend(running);
}

/// Whether the tool thread of a removed agent is running.
pub(in crate::repl) fn is_draining(core: &Core) -> bool {
    !core.draining.is_empty()
}
