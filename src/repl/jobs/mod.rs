//! Work that ends later: forks that wait for tools, slices and compactions that wait for summaries, and tasks on threads.
//!
//! ```text
//!   /fork --include-current, /env while tools run ──► parked ──the tools are done──► child
//!   /env worktree ──► git makes it, on a thread ──► /env worktree@PATH ──► child
//!   /env ssh:HOST:DIR ──► a thread connects and finds the directory ──► child
//!   /compact, a request that would not fit ──► a summary agent for each part ──all written──► an entry in the log
//!   /slice with summaries ──► one summary agent each ──all written──► child
//!   the first exchange of a conversation ──► an agent of `title_model` ──► a title
//!   /land, /diff of a worktree ──► git, on a thread ──► a note
//!   /land --all ──► one landing after another, each on a thread ──► a note
//!   /export ──► a thread reads the log and writes the file ──► a note
//!   /undo ──► a thread brings files back ──► a note
//!   a turn begins ──► a thread looks for skills ──► those of the next request
//!   a request from another machine ──► a thread reads what the project there brings ──► the request
//!   the last agent of a worktree is gone ──► git removes it, or it is kept because something new is in it
//! ```
//! Until then nothing has changed. Esc, the end of the agent and the end of the program cancel all of it and leave nothing.

mod compaction;
mod export;
mod land_queue;
mod landing;
mod parked;
mod projects;
mod remote;
#[cfg(feature = "coordinator")]
mod review;
mod skills;
mod slice;
mod tasks;
mod titles;
pub(super) mod undo;
mod worktree;

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::agent::{Effect, Role, State};
use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::change::FileJob;
use crate::domain::flow::Origin;
use crate::repl::component::{Command, Component};
use crate::repl::core::programs::request_again;
use crate::repl::core::{Core, agent_gone, remove};
use crate::repl::event::Event;
use crate::repl::timeout::{TOOL_POLL, WakeReason};
use compaction::CompactionJob;
use land_queue::LandQueue;
pub(super) use parked::Parked;
pub(super) use slice::StagedSlice;
use slice::{SliceJob, count_usage_of_removed};
use tasks::{Kind, Tasks};
use titles::Titles;
use worktree::UnusedWorktree;

/// The tasks that the end of the program waits for.
const AWAITED: [Kind; 6] =
    [Kind::AddWorktree, Kind::RemoveWorktree, Kind::Land, Kind::Discard, Kind::Diff, Kind::Export];

#[derive(Default)]
pub(super) struct Jobs {
    parked: Vec<Parked>,
    slices: Vec<SliceJob>,
    compactions: Vec<CompactionJob>,
    /// Agents whose `/compact` has ended, and whose queue goes on.
    compacted: Vec<AgentId>,
    tasks: Tasks,
    unused_worktrees: Vec<UnusedWorktree>,
    land_queue: Option<LandQueue>,
    /// The projects at places of agents that are being read, by [`crate::tools::remote::Remote::project_key`].
    reading_projects: BTreeSet<String>,
    /// Agents whose request waits, for a project or for a landing.
    held: BTreeSet<AgentId>,
    /// The directory in which skills were looked for last, and when.
    last_skill_search: Option<(PathBuf, Moment)>,
    titles: Titles,
    /// Changes that tasks have asked for.
    commands: Vec<Command>,
}

impl Jobs {
    /// Begins work with files.
    pub(super) fn begin(&mut self, core: &mut Core, origin: Origin, shown_at: AgentId, job: FileJob) -> Result<()> {
        match job {
            FileJob::Undo { agent, request } => self.undo(core, origin, shown_at, agent, request),
            FileJob::Land { agent, request } => self.land(core, origin, shown_at, agent, request),
            FileJob::LandMany(how) => self.land_many(core, origin, shown_at, how),
            FileJob::RevertHunks { agent, hunks } => self.revert_hunks(core, (origin, shown_at), agent, hunks),
            FileJob::Discard(agent) => self.discard(core, origin, shown_at, agent),
            FileJob::Export { path, format, replaces } => self.export(core, origin, shown_at, path, (format, replaces)),
        }
    }

    /// Whether a change of this agent waits for something.
    pub(super) fn is_pending(&self, agent: AgentId) -> bool {
        self.parked.iter().any(|parked| parked.agent == agent)
            || self.is_making_worktree(agent)
            || self.is_reaching(agent)
            || self.is_compacting(agent)
            || self.slices.iter().any(|slice| slice.agent == agent)
    }

    /// Makes the requests that need not wait any longer.
    pub(super) fn release_held(&mut self, core: &mut Core) {
        let Self { reading_projects, held, tasks, .. } = self;
        let is_free = |agent: &AgentId| {
            let environment = core.agent(*agent).map(|agent| &agent.inputs.environment);
            let remote = environment.and_then(|environment| environment.remote.as_ref());
            let root = environment.and_then(|environment| environment.worktree.as_deref());
            remote.is_none_or(|remote| !reading_projects.contains(&remote.project_key()))
                && root.is_none_or(|root| !tasks.is_running_in(Kind::Land, root))
        };
        let free: Vec<AgentId> = held.extract_if(.., is_free).collect();
        for agent in free {
            request_again(core, agent);
        }
    }

    /// Esc: stops the work for an agent and its own.
    pub(super) fn interrupt_turn(&mut self, core: &mut Core, agent: AgentId) -> Result<()> {
        let was_idle = core.agent(agent).ok_or_else(agent_gone)?.state() == State::Idle;
        if was_idle && self.stop_landing(core, agent) {
            return Ok(());
        }
        self.cancel(core, agent, was_idle);
        core.interrupt(agent, was_idle)
    }

    /// Cancels what is parked for an agent, and its slice if it is idle.
    pub(super) fn cancel(&mut self, core: &mut Core, agent: AgentId, is_idle: bool) {
        self.cancel_parked(core, agent);
        self.cancel_compaction(core, agent);
        if is_idle {
            self.cancel_slice(core, agent);
        }
    }
}

impl Component for Jobs {
    fn on_event(&mut self, event: &Event, core: &mut Core) {
        match event {
            Event::TurnStarted { agent, .. } => {
                self.on_turn_started(core, *agent);
                self.titles.on_turn_started(core, *agent);
                self.find_skills(core, *agent);
            }
            Event::TurnEnded { agent, .. } => self.titles.on_turn_ended(core, *agent),
            Event::Interrupted { agent, .. } => {
                self.held.remove(agent);
                self.cancel_compaction(core, *agent);
            }
            Event::Spawned { child, .. } => self.find_skills_of_new(core, *child),
            _ => {}
        }
        if let Event::Removed { agent, adopter, worktree, .. } = event {
            self.cancel_worktree(core, *agent);
            self.cancel_reaching(core, *agent);
            self.held.remove(agent);
            self.titles.on_removed(core, *agent);
            let adopter = adopter.unwrap_or(*agent);
            self.move_landing(core, *agent, adopter);
            let dropped: Vec<Parked> = self.parked.extract_if(.., |parked| parked.agent == *agent).collect();
            for parked in dropped {
                self.release_for(core, &parked.not_stored(core).change, adopter);
            }
            let slice = self.drop_slice(core, *agent).map(|slice| slice.costs);
            let compaction = self.drop_compaction(core, *agent).map(|compaction| compaction.costs);
            count_usage_of_removed(core, *agent, slice.into_iter().chain(compaction).flatten().collect());
            if let Some(root) = worktree {
                self.release_worktree(root.clone(), adopter);
            }
        }
    }

    /// Hands the output of a summary agent to its slice instead of storing it.
    fn on_effect(&mut self, core: &mut Core, writer: AgentId, effect: Effect) -> Option<Effect> {
        if core.agent(writer).is_none_or(|agent| agent.role != Role::Summary) {
            return Some(effect);
        }
        match effect {
            Effect::Persist(bodies) | Effect::Settle(bodies) | Effect::Finish(bodies) => {
                self.on_compaction_text(writer, &bodies);
                self.titles.on_text(writer, &bodies);
                self.on_summary_text(writer, bodies);
            }
            Effect::Settled(outcome) => {
                self.on_compaction_ended(core, writer, &outcome);
                self.titles.on_ended(core, writer, &outcome);
                self.on_summary_ended(core, writer, outcome);
            }
            Effect::Checkpoint(_) | Effect::ReturnText(_) => {}
            other => return Some(other),
        }
        None
    }

    fn holds_request(&mut self, core: &mut Core, agent: AgentId) -> bool {
        self.compacts_first(core, agent) || self.holds_for_project(core, agent) || self.holds_for_landing(core, agent)
    }

    /// Whether git runs or has to run, or a conversation is being written.
    fn has_to_end(&self) -> bool {
        !self.unused_worktrees.is_empty() || self.tasks.has_any(&AWAITED)
    }

    fn step(&mut self, core: &mut Core, commands: &mut Vec<Command>) {
        self.finish_tasks(core);
        self.take_compaction_hooks(core);
        self.remove_unused_worktrees(core);
        self.titles.step(core);
        commands.append(&mut self.commands);
    }

    fn has_work(&self, core: &Core) -> bool {
        self.titles.can_start(core)
            || !self.unused_worktrees.is_empty()
                && !remove::is_draining(core)
                && !self.tasks.has_any(&[Kind::Land, Kind::Discard, Kind::Diff])
    }

    fn deadline(&self, core: &Core) -> Option<(Moment, WakeReason)> {
        self.tasks.has_any(&AWAITED).then(|| (core.now() + TOOL_POLL, WakeReason::Tools))
    }
}
