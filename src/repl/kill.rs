//! Kill: final. One transaction marks exactly the named ones; then what they do is ended, and nothing late reaches them.

use std::path::PathBuf;

use crate::agent::Agent;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::chunk::{Chunk, Status};
use crate::domain::scrollback::LineKind;
use crate::repl::core::agent_gone;
use crate::repl::event::Event;
use crate::repl::{Parked, Repl};
use crate::tools::Running;

impl Repl {
    /// An agent dies; with all its descendants, if told so. Otherwise its nearest living ancestor adopts its children.
    pub(super) fn kill(&mut self, agent_id: AgentId, cascade: bool) -> Result<()> {
        let agent = self.core.roster.get(agent_id).ok_or_else(agent_gone)?;
        let label = agent.identity.label();
        let Some(adopter) = self.core.roster.parent(agent_id) else {
            return Err(Error::new(ErrorKind::Usage, format!("{label} is the root and cannot be killed")));
        };
        let victims = if cascade { self.core.roster.subtree(agent_id) } else { vec![agent_id] };
        self.core.store.kill(&victims, self.core.clock.unix_ms())?;
        let of_victim = |victim: &AgentId| self.core.roster.get(*victim)?.talk.environment.worktree.clone();
        let worktrees: Vec<PathBuf> = victims.iter().filter_map(of_victim).collect();
        for victim in &victims {
            if let Some(dead) = self.remove_agent(*victim) {
                self.core.keep_last_chunks(dead, &[Chunk::Mark("killed".into()), Chunk::Status(Status::Dead)]);
            }
        }
        for root in worktrees {
            self.release_worktree(root, adopter);
        }
        for at in self.terminals.looking_at(&victims) {
            self.bring_to_screen(at, adopter);
        }
        let others = if victims.len() > 1 { format!(" and {} descendants", victims.len() - 1) } else { String::new() };
        self.core.note(adopter, LineKind::Mark, &format!("{label}{others} killed"));
        Ok(())
    }

    /// What the `kill` tool may not: the root, itself's ancestors.
    pub(super) fn kill_by_model(&mut self, agent_id: AgentId, victim: AgentId, cascade: bool) -> Result<()> {
        if self.core.roster.is_ancestor(victim, agent_id) {
            return Err(Error::new(ErrorKind::Usage, "an agent cannot kill its own ancestors"));
        }
        self.kill(victim, cascade)
    }

    /// Takes a dead agent out of everything; what it still runs was told to stop and is joined as it ends.
    pub(super) fn remove_agent(&mut self, id: AgentId) -> Option<Agent> {
        let now = self.core.clock.now();
        let running = self.core.with_agent(id, |agent, _| agent.abandon(now)).unwrap_or_default();
        self.core.draining.extend(running);
        self.core.outbox.forget(id);
        self.cancel_worktree_job(id);
        let (dropped, parked): (Vec<Parked>, _) =
            std::mem::take(&mut self.parked).into_iter().partition(|parked| parked.agent_id == id);
        self.parked = parked;
        dropped.iter().for_each(|parked| self.let_go(&parked.change, id));
        self.drop_slice(id);
        self.team.on_buried(id, now);
        self.idle_connections.retain(|one| *one != id);
        self.core.events.push_back(Event::Removed { agent: id, adopter: None, worktree: None });
        self.core.roster.remove(id)
    }

    /// Joins the threads of the dead that have ended.
    pub(super) fn join_draining(&mut self) {
        let (ended, running): (Vec<Running>, _) =
            std::mem::take(&mut self.core.draining).into_iter().partition(Running::is_complete);
        self.core.draining = running;
        for one in ended {
            one.collect();
        }
    }
}
