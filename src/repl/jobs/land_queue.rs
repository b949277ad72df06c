//! `/land --all` and `/land` of several agents: one worktree after another, in an order that conflicts least. Each is rebased
//! onto what has landed before, the command that says whether work is done runs on the result, and only then the branch moves
//! on.
//!
//! ```text
//!   order, on a thread ──► land the first ──► note ──► land the next ──► ... ──► what landed, and what was left and why
//! ```
//! The queue is not stored: after a crash each branch is as before a landing or as after it.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use super::landing::{configured, has_no_worktree, report};
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::base::text::counted;
use crate::domain::file_change::{LandMany, LandRequest, Landed, NotLanded};
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::repl::core::Core;
use crate::repl::core::file_steps;
use crate::repl::event::JobResult;
use crate::repl::jobs::Jobs;
use crate::repl::jobs::tasks::Kind;
use crate::sandbox::git_directory;
use crate::tools::conflicts::{Other, Survey};
use crate::tools::{Job, landing};

/// Worktrees that are landed one after another.
pub(super) struct LandQueue {
    origin: Origin,
    shown_at: AgentId,
    how: LandMany,
    waiting: VecDeque<AgentId>,
    /// The agent for which git or the check runs.
    current: AgentId,
    /// How many there were at the begin.
    count: usize,
    /// What has landed, on which branch and where that was before, with the name of the agent.
    landed: Vec<(Landed, String)>,
    /// Whose work has landed without a command that says whether it is done, where others have one.
    unchecked: Vec<String>,
    /// Who was left, and why.
    left: Vec<(String, NotLanded)>,
    is_stopped: bool,
}

impl Jobs {
    /// Lands the worktrees of several agents.
    pub(super) fn land_many(
        &mut self,
        core: &mut Core,
        origin: Origin,
        shown_at: AgentId,
        how: LandMany,
    ) -> Result<()> {
        if self.land_queue.is_some() {
            return Err(Error::usage("worktrees are being landed already: Esc stops that after the current one"));
        }
        let agents = worktrees_of(core, (origin, shown_at), &how.agents)?;
        let Some(directory) = agents.first().and_then(|(_, root)| root.parent()).map(Path::to_owned) else {
            return Err(Error::usage("no agent works in a git worktree: /fork --worktree creates one that does"));
        };
        let roots: BTreeSet<PathBuf> = agents.iter().map(|(_, root)| root.clone()).collect();
        let environment = file_steps::environment_of_git(core);
        let work = move |job: &Job| {
            let survey = Survey::new(&directory).update(&roots, &BTreeSet::new(), &environment, job)?;
            Ok(ordered(&survey, roots))
        };
        let text = format!("landing {}, one after another (Esc stops)", counted(agents.len(), "worktree", "worktrees"));
        let count = agents.len();
        self.tasks.spawn(core, (Kind::Land, shown_at, None), work, move |jobs, core, outcome| {
            let order = outcome.unwrap_or_default();
            let place = |root: &PathBuf| order.iter().position(|there| there == root).unwrap_or(usize::MAX);
            let mut agents = agents;
            agents.sort_by_key(|(_, root)| place(root));
            if let Some(queue) = &mut jobs.land_queue {
                queue.waiting = agents.into_iter().map(|(agent, _)| agent).collect();
            }
            jobs.land_next(core);
        })?;
        self.land_queue = Some(LandQueue {
            origin,
            shown_at,
            how,
            waiting: VecDeque::new(),
            current: shown_at,
            count,
            landed: Vec::new(),
            unchecked: Vec::new(),
            left: Vec::new(),
            is_stopped: false,
        });
        core.note(shown_at, LineKind::Note, &text);
        core.edit(shown_at, |agent| agent.jobs += 1);
        Ok(())
    }

    /// The agent at which the queue is shown has ended.
    pub(super) fn move_landing(&mut self, core: &mut Core, from: AgentId, to: AgentId) {
        if let Some(queue) = self.land_queue.as_mut().filter(|queue| queue.shown_at == from && to != from) {
            queue.shown_at = to;
            core.edit(to, |agent| agent.jobs += 1);
        }
    }

    /// No further worktree is landed.
    pub(in crate::repl) fn close_queue(&mut self) {
        self.land_queue.iter_mut().for_each(|queue| queue.is_stopped = true);
    }

    /// Stops the queue after the worktree that is being landed, and the second time that too. Returns whether there is one.
    pub(super) fn stop_landing(&mut self, core: &mut Core, agent: AgentId) -> bool {
        let Some(queue) = self.land_queue.as_mut().filter(|queue| queue.shown_at == agent) else { return false };
        match std::mem::replace(&mut queue.is_stopped, true) {
            true => self.tasks.cancel(Kind::Land, queue.current),
            false => {
                let text = "landing stops after the worktree that is being landed (Esc again stops that too)";
                core.note(agent, LineKind::Note, text);
            }
        }
        true
    }

    fn land_next(&mut self, core: &mut Core) {
        while let Some(queue) = self.land_queue.as_mut().filter(|queue| !queue.is_stopped) {
            let Some(agent) = queue.waiting.pop_front() else { break };
            queue.current = agent;
            let label = core.roster().label_of(agent);
            // It may have been killed or archived.
            let own = match core.store().agent(agent) {
                Ok(row) => row.and_then(|row| row.done),
                Err(error) => {
                    queue.left.push((label, error.message.into()));
                    continue;
                }
            };
            let is_in = |project: &PathBuf| file_steps::is_in(core, agent, project);
            let request = LandRequest {
                method: queue.how.method,
                only_committed: queue.how.only_committed,
                commit: (!queue.how.only_committed).then(|| core.roster().commit_subject(core.store(), agent)),
                check: core.config().done_command(own.as_deref(), is_in),
                before: queue.landed.iter().map(|(landed, name)| (landed.clone(), name.clone())).collect(),
                ..LandRequest::default()
            };
            let request = configured(core, agent, request);
            let began = self.begin_landing(core, agent, label.clone(), request);
            match (began, &mut self.land_queue) {
                (Ok(()), _) => return,
                (Err(error), Some(queue)) => queue.left.push((label, error.message.into())),
                (Err(_), None) => return,
            }
        }
        self.end_queue(core);
    }

    fn begin_landing(&mut self, core: &mut Core, agent: AgentId, label: String, request: LandRequest) -> Result<()> {
        let root = self.own_worktree(core, agent)?;
        let environment = file_steps::environment_of_git(core);
        let (task, there) = ((Kind::Land, agent, Some(root.clone())), root.clone());
        let is_checked = !request.check.is_empty();
        let work = move |job: &Job| Ok(landing::land(&there, &request, &environment, job));
        self.tasks.spawn(core, task, work, move |jobs, core, outcome| {
            let Some(queue) = &mut jobs.land_queue else { return };
            let shown_at = queue.shown_at;
            match outcome.map_err(NotLanded::from).flatten() {
                Ok(landed) => {
                    core.note(shown_at, LineKind::Note, &format!("{label}: {}", landed.text));
                    queue.unchecked.extend((!is_checked).then(|| label.clone()));
                    queue.landed.push((landed, label));
                    jobs.on_landed(core, agent, root, shown_at);
                }
                Err(left) => {
                    if !left.is_up_to_date {
                        core.note(shown_at, LineKind::Warning, &format!("{label} is left: {}", left.why));
                    }
                    queue.left.push((label, left));
                }
            }
            jobs.land_next(core);
        })
    }

    fn end_queue(&mut self, core: &mut Core) {
        let Some(mut queue) = self.land_queue.take() else { return };
        core.edit(queue.shown_at, |agent| agent.jobs = agent.jobs.saturating_sub(1));
        let names = queue.landed.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ");
        let mut text = format!("landed {} of {}", queue.landed.len(), counted(queue.count, "worktree", "worktrees"));
        if !names.is_empty() {
            text.push_str(&format!(": {names}"));
        }
        if !queue.unchecked.is_empty() {
            text.push_str(&format!("\nlanded without a check (/done sets one): {}", queue.unchecked.join(", ")));
        }
        queue.left.sort_by_key(|(_, left)| left.is_up_to_date);
        for (name, left) in &queue.left {
            let why = left.why.lines().next().unwrap_or_default().trim_end_matches(':');
            text.push_str(&format!("\n{name} is left: {why}"));
        }
        let waiting: Vec<String> = queue.waiting.iter().map(|agent| core.roster().label_of(*agent)).collect();
        if !waiting.is_empty() {
            text.push_str(&format!("\nstopped before {}", waiting.join(", ")));
        }
        let stopped = waiting.into_iter().map(|name| (name, NotLanded::from("stopped before it")));
        let left = queue.left.into_iter().chain(stopped).map(|(name, left)| left.as_json(&name));
        let data = queue.landed.iter().map(|(landed, name)| landed.as_json(name)).chain(left).collect();
        report(core, queue.origin, queue.shown_at, "", Ok(JobResult { text, data }));
    }
}

/// The worktrees of these agents, or of all of the repository of that agent, each once with the first agent that works there.
/// Fails if one has none.
fn worktrees_of(core: &Core, (origin, at): (Origin, AgentId), agents: &[AgentId]) -> Result<Vec<(AgentId, PathBuf)>> {
    let mut found: Vec<(AgentId, PathBuf)> = Vec::new();
    let is_all = agents.is_empty();
    for agent in if is_all { core.roster().ids() } else { agents.to_vec() } {
        let root = match file_steps::worktree_of(core, agent) {
            Some(root) => root,
            None if is_all => continue,
            None => return Err(has_no_worktree(core, agent)),
        };
        if found.iter().all(|(_, there)| *there != root) {
            found.push((agent, root));
        }
    }
    if is_all {
        retain_repository(core, (origin, at), &mut found)?;
    }
    Ok(found)
}

/// Leaves the worktrees of the repository in which this agent works. A client gets all if they are of one repository.
fn retain_repository(core: &Core, (origin, at): (Origin, AgentId), found: &mut Vec<(AgentId, PathBuf)>) -> Result<()> {
    let repositories: BTreeSet<PathBuf> = found.iter().filter_map(|(_, root)| git_directory(root)).collect();
    let directory = file_steps::directory_of(core, at).unwrap_or_default();
    match directory.ancestors().find_map(git_directory) {
        // A client may run anywhere.
        _ if repositories.len() < 2 && matches!(origin, Origin::Client(_)) => {}
        Some(here) => found.retain(|(_, root)| git_directory(root).as_ref() == Some(&here)),
        None => found.clear(),
    }
    if found.is_empty() && !repositories.is_empty() {
        return Err(Error::usage(
            "no agent works in a git worktree of the repository here: go to an agent of the other repository, or name the \
             agents to land (/land 1 2)",
        ));
    }
    Ok(())
}

/// The worktrees in an order in which few conflict with those before: the fewest conflicts first, then the smallest change.
fn ordered(survey: &Survey, roots: BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let conflicts = |root: &PathBuf| {
        let takes_part = |other: &Other| matches!(other, Other::Worktree(other) if other == root);
        survey.conflicts().iter().filter(|found| found.root == *root || takes_part(&found.other)).count()
    };
    let size = |root: &PathBuf| survey.size(root).map_or(0, |size| size.added + size.removed);
    let mut ordered: Vec<PathBuf> = roots.into_iter().collect();
    ordered.sort_by_key(|root| (conflicts(root), size(root)));
    ordered
}
