//! Ends agents. A kill is final: a transaction marks them in the store, then their work is stopped and they are removed from
//! memory.

use std::collections::VecDeque;
use std::time::Duration;

use crate::agent::{Agent, Role, State};
use crate::base::clock::Moment;
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
use crate::store::BegunKill;
use crate::team::Roster;
use crate::tools::Running;

/// Agents whose stored drafts are read before they are killed.
const MOST_LOADED: usize = 100;

/// Each of these takes some milliseconds.
const KILLS_PER_TURN: usize = 500;
const STOPS_PER_TURN: usize = 10;
const LOOKS_PER_TURN: usize = 10_000;
/// How long after the store has refused a kill it is tried again.
const RETRY: Duration = Duration::from_secs(10);

/// Whom a kill reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::repl) enum Reach {
    /// Its nearest living ancestor adopts its children.
    Agent,
    AgentAndDescendants,
    Descendants,
}

impl Reach {
    /// That of [`Change::Kill`](crate::domain::change::Change::Kill).
    pub(in crate::repl) const fn of_kill(cascades: bool) -> Self {
        if cascades { Self::AgentAndDescendants } else { Self::Agent }
    }
}

/// A kill of more agents than one turn kills.
#[derive(Debug)]
pub(super) struct LongKill {
    kill: BegunKill,
    /// Still to be killed, children before their parents.
    left: VecDeque<AgentId>,
    /// So many of them, from the first, were stopped if they worked.
    stopped: usize,
    killed: usize,
    /// The store has refused it: not tried again before.
    retry_at: Option<Moment>,
}

impl LongKill {
    fn of(kill: BegunKill, victims: Vec<AgentId>) -> Self {
        Self { kill, left: victims.into(), stopped: 0, killed: 0, retry_at: None }
    }
}

impl Core {
    /// Kills an agent, its descendants, or both. The kill of very many is recorded at once and carried out over several
    /// turns, or by the next start; [`next_victims`] has those that have to be stopped before. Victims cannot be forked until
    /// then; agents that are made elsewhere meanwhile are not killed. Returns the agent that adopts what is left, and the note
    /// that is shown there.
    pub(in crate::repl) fn kill(&mut self, id: AgentId, reach: Reach) -> Result<(AgentId, String)> {
        let label = self.roster.get(id).ok_or_else(agent_gone)?.identity.label();
        let earlier = self.kills.iter().position(|long| long.kill.agent == id);
        if reach == Reach::Agent && earlier.is_some() {
            return Err(Error::usage(format!("{label} and its descendants are being killed")));
        }
        let keeps_agent = reach == Reach::Descendants && earlier.is_none_or(|at| self.kills[at].kill.keeps_agent);
        let mut kill = BegunKill { agent: id, keeps_agent, newest: i64::MAX };
        let root = || Error::usage(format!("{label} is the root and cannot be killed"));
        let adopter = adopter_of(&self.roster, kill).ok_or_else(root)?;
        let victims = if reach == Reach::Agent { vec![id] } else { victims_of(&self.roster, kill) };
        let descendants = victims.len() - usize::from(!keeps_agent);
        let counted = text::counted(descendants, "descendant", "descendants");
        let named = match (keeps_agent, descendants) {
            (true, _) => counted,
            (false, 0) => label,
            (false, _) => format!("{label} and {counted}"),
        };
        let note = if victims.len() <= KILLS_PER_TURN {
            kill_now(self, &victims, adopter)?;
            format!("{named} killed")
        } else {
            kill.newest = self.roster.newest_ordinal();
            self.store.begin_kill(kill)?;
            earlier.map(|at| self.kills.remove(at));
            self.kills.push_back(LongKill::of(kill, victims));
            format!("killing {named} …")
        };
        self.note(adopter, LineKind::Mark, &note);
        Ok((adopter, note))
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
        let parent = self.roster.shown_parent(id);
        let removed = self.roster.remove(id)?;
        let has_worktree = removed.role != Role::Summary && !comes_back;
        let worktree = removed.inputs.environment.worktree.clone().filter(|_| has_worktree);
        let drafts = if comes_back || adopter.is_none() { Vec::new() } else { drafts_of(&removed) };
        let directory = &removed.inputs.environment.working_directory;
        let works_elsewhere = |agent: &Agent| agent.inputs.environment.working_directory != *directory;
        let is_elsewhere = adopter != parent && adopter.and_then(|id| self.roster.get(id)).is_some_and(works_elsewhere);
        self.emit(Event::Removed { agent: id, adopter, is_elsewhere, worktree, drafts });
        Some(removed)
    }

    /// Joins the threads of removed agents that have ended.
    pub(in crate::repl) fn reap(&mut self) {
        let ended: Vec<Running> = self.draining.extract_if(.., |running| running.is_complete()).collect();
        for running in ended {
            if let Some(step) = running.take_changed() {
                keep_step(self, &step, None);
            }
            drop(running.collect());
        }
    }
}

/// What a kill reaches that begins now, children before their parents.
fn victims_of(roster: &Roster, kill: BegunKill) -> Vec<AgentId> {
    let mut victims = roster.subtree(kill.agent);
    if kill.keeps_agent {
        // It is the last.
        victims.pop();
    }
    victims
}

/// Gets what is left of the agents: their children, their drafts, what is said of the kill. `None` for the root, and if the
/// agent is gone.
fn adopter_of(roster: &Roster, kill: BegunKill) -> Option<AgentId> {
    let kept = Some(kill.agent).filter(|id| kill.keeps_agent && roster.get(*id).is_some());
    kept.or_else(|| roster.parent(kill.agent))
}

/// Fails for a victim of a kill that takes several turns.
pub(super) fn require_no_kill(core: &Core, id: AgentId) -> Result<()> {
    match core.kills.iter().any(|long| long.left.contains(&id)) {
        true => Err(Error::usage(format!("{} is being killed", core.roster.label_of(id)))),
        false => Ok(()),
    }
}

/// Of the victims of kills that take several turns, the next ones that `works` holds for, which have to be stopped: each once,
/// and a bounded number of them.
pub(in crate::repl) fn next_victims(core: &mut Core, works: impl Fn(&Core, AgentId) -> bool) -> Vec<AgentId> {
    let mut kills = std::mem::take(&mut core.kills);
    let (mut found, mut looked_at) = (Vec::new(), 0);
    for long in &mut kills {
        for id in long.left.iter().skip(long.stopped) {
            if found.len() == STOPS_PER_TURN || looked_at == LOOKS_PER_TURN {
                break;
            }
            (looked_at, long.stopped) = (looked_at + 1, long.stopped + 1);
            found.extend(Some(*id).filter(|id| works(core, *id)));
        }
    }
    core.kills = kills;
    found
}

/// Whether victims of such kills can be stopped or killed now.
pub(in crate::repl) fn is_killing(core: &Core) -> bool {
    can_kill(core) || core.kills.iter().any(|long| long.stopped < long.left.len())
}

fn can_kill(core: &Core) -> bool {
    core.kills.front().is_some_and(|long| long.retry_at.is_none_or(|at| at <= core.now()))
}

/// When a kill that the store has refused is tried again.
pub(in crate::repl) fn kill_deadline(core: &Core) -> Option<Moment> {
    core.kills.front().and_then(|long| long.retry_at)
}

fn kill_now(core: &mut Core, victims: &[AgentId], adopter: AgentId) -> Result<()> {
    load_drafts(core, victims);
    kill_stored(core, victims)?;
    for victim in victims {
        if let Some(removed) = core.remove(*victim, Some(adopter)) {
            viewers::keep_last_chunks(core, removed, &[Chunk::Mark("killed".into()), Chunk::Status(Status::Dead)]);
        }
    }
    Ok(())
}

/// Takes up the kills that an earlier process has not completed.
pub(super) fn restore_kills(core: &mut Core) -> Result<()> {
    if core.store.is_read_only() {
        return Ok(());
    }
    let begun = core.store.begun_kills()?;
    let roster = &core.roster;
    let victims = |kill: BegunKill| {
        let is_old = |id: &AgentId| roster.get(*id).is_some_and(|agent| agent.identity.ordinal <= kill.newest);
        victims_of(roster, kill).into_iter().filter(is_old).collect()
    };
    core.kills.extend(begun.into_iter().map(|kill| LongKill::of(kill, victims(kill))));
    Ok(())
}

/// Kills a bounded number of the victims of the oldest kill of many agents, after they were stopped.
pub(in crate::repl) fn kill_stopped(core: &mut Core) {
    if !can_kill(core) {
        return;
    }
    let Some(mut long) = core.kills.pop_front() else { return };
    let Some(adopter) = adopter_of(&core.roster, long.kill).or_else(|| core.roster.nth(0)) else { return };
    let count = KILLS_PER_TURN.min(long.stopped);
    let is_last = count == long.left.len();
    let next = long.left.iter().take(count).copied();
    let victims: Vec<AgentId> = next.filter(|id| core.roster.get(*id).is_some()).collect();
    let killed = kill_now(core, &victims, adopter);
    if let Err(error) = killed.and_then(|()| if is_last { core.store.end_kill(long.kill.agent) } else { Ok(()) }) {
        core.note(adopter, LineKind::Error, &format!("cannot kill the rest, which is tried again: {error}"));
        long.retry_at = Some(core.now() + RETRY);
        return core.kills.push_front(long);
    }
    long.left.drain(..count);
    long.stopped -= count;
    long.retry_at = None;
    long.killed += victims.len();
    if !is_last {
        core.kills.push_front(long);
    } else if long.killed > 0 {
        let killed = text::counted(long.killed, "agent", "agents");
        core.note(adopter, LineKind::Mark, &format!("{killed} killed"));
    }
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

/// Whether a tool thread is running whose wake could be lost.
pub(in crate::repl) fn has_tool_threads(core: &Core) -> bool {
    !core.roster.with_live_tools().is_empty() || !core.draining.is_empty()
}

/// Waits for these tool threads to end, and joins them in [`Core::reap`].
pub(crate) fn drain(core: &mut Core, running: impl IntoIterator<Item = Running>) {
    core.draining.extend(running);
}

/// Whether a tool thread or the host of a removed agent may still be at work.
pub(in crate::repl) fn is_draining(core: &Core) -> bool {
    !core.draining.is_empty() || core.host_turns.iter().any(|agent| core.agent(*agent).is_none())
}
