//! Conflict radar: whenever an agent has changed its worktree, says which others it would conflict with, long before anybody
//! lands.
//!
//! ```text
//!   a tool has written, or there is a new worktree ──► at most once a second, on a thread: git merges the worktree with the
//!   others and with the branch that it left, in memory ──► what changed is noted at both agents; inbox and wall show it
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::agent::Agent;
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::base::job::{Job, JobThread};
use crate::base::text;
use crate::domain::scrollback::LineKind;
use crate::features::Feature;
use crate::repl::component::{Command, Component};
use crate::repl::core::{Core, file_steps};
use crate::repl::event::Event;
use crate::repl::timeout::WakeReason;
use crate::tools::conflicts::{Conflict, Other, Survey};
use crate::tools::visible;
use crate::tools::worktree::branch_of;

pub const FEATURE: Feature = Feature { component: Some(|| Box::<Radar>::default()), ..Feature::new("radar") };

/// Between the starts of two surveys.
const PERIOD: Duration = Duration::from_secs(1);
/// After so many updates a survey begins anew.
const MOST_UPDATES: u32 = 300;
/// The files of a conflict that are named.
const MOST_FILES: usize = 3;
/// Of the path of a file.
const MOST_COLUMNS: usize = 80;

#[derive(Default)]
struct Radar {
    /// What is known, unless a survey runs.
    survey: Option<Survey>,
    running: Option<JobThread<Survey>>,
    /// The worktrees that have changed since the last survey began.
    changed: BTreeSet<PathBuf>,
    is_due: bool,
    /// How often it was updated.
    updates: u32,
    has_ended: bool,
    /// When the last survey began.
    began: Option<Moment>,
    /// The conflicts that were noted.
    noted: Vec<Conflict>,
}

impl Radar {
    /// When the next survey may begin.
    fn due_at(&self, core: &Core) -> Option<Moment> {
        let is_waiting = self.is_due && self.running.is_none() && !self.has_ended;
        is_waiting.then(|| self.began.map_or(core.now(), |began| began + PERIOD))
    }

    fn begin(&mut self, core: &mut Core) {
        self.is_due = false;
        let worktrees: BTreeSet<PathBuf> = core.roster().iter().filter_map(worktree_of).map(Path::to_owned).collect();
        let changed = std::mem::take(&mut self.changed);
        let Some(directory) = worktrees.first().and_then(|root| root.parent()) else {
            self.survey = None;
            return;
        };
        self.updates = (self.updates + 1) % MOST_UPDATES;
        // From time to time it begins anew, because what git has written for it is kept as long as it is.
        let survey = self.survey.take().filter(|_| self.updates > 0).unwrap_or_else(|| Survey::new(directory));
        let environment = file_steps::environment_of_git(core);
        let work = move |job: &Job| survey.update(&worktrees, &changed, &environment, job);
        self.began = Some(core.now());
        self.running = JobThread::spawn("radar".into(), work, core.waker()).ok();
    }

    /// Shows what a survey has found.
    fn show(&mut self, core: &mut Core, survey: &Survey) {
        let agents: Vec<(AgentId, PathBuf)> =
            core.roster().iter().filter_map(|agent| Some((agent.id(), worktree_of(agent)?.to_owned()))).collect();
        for (agent, root) in &agents {
            let conflicts = survey.conflicts().iter().filter_map(|found| describe(core, found, root)).collect();
            let size = survey.size(root).map(|size| (size.added, size.removed));
            core.edit(*agent, |agent| {
                agent.report.conflicts = conflicts;
                agent.report.size = size;
            });
        }
        let noted = std::mem::replace(&mut self.noted, survey.conflicts().to_vec());
        let is_same = |one: &Conflict, other: &Conflict| (&one.root, &one.other) == (&other.root, &other.other);
        for found in survey.conflicts().iter().filter(|found| !noted.iter().any(|before| is_same(before, found))) {
            for (agent, root) in &agents {
                let Some(text) = describe(core, found, root) else { continue };
                core.note(*agent, LineKind::Warning, &format!("conflicts with {text}"));
                if core.config().worktree.tells_conflicts {
                    let text = format!(
                        "The changes in this worktree conflict with what others have changed: {text}. Keep your changes \
                         there small, or ask before you go on."
                    );
                    file_steps::tell_model(core, *agent, Some(text));
                }
            }
        }
        for gone in noted.iter().filter(|before| !self.noted.iter().any(|found| is_same(found, before))) {
            for (agent, root) in &agents {
                if let Some(with) = other_side(core, gone, root) {
                    core.note(*agent, LineKind::Note, &format!("no longer conflicts with {with}"));
                }
            }
        }
    }
}

impl Component for Radar {
    fn on_event(&mut self, event: &Event, core: &mut Core) {
        match event {
            Event::FilesChanged { agent } => {
                self.changed.extend(core.agent(*agent).and_then(worktree_of).map(Path::to_owned));
                self.is_due = true;
            }
            Event::Removed { worktree: Some(_), .. } => self.is_due = true,
            // In a large repository the first look takes a second: before it is waited for.
            Event::Spawned { child, .. } => self.is_due |= core.agent(*child).and_then(worktree_of).is_some(),
            _ => {}
        }
    }

    fn step(&mut self, core: &mut Core, _: &mut Vec<Command>) {
        if let Some(thread) = self.running.take_if(|thread| thread.is_complete())
            && let Ok(survey) = thread.collect()
        {
            self.show(core, &survey);
            self.survey = Some(survey);
        }
        if self.due_at(core).is_some_and(|due| due <= core.now()) {
            self.begin(core);
        }
    }

    fn deadline(&self, core: &Core) -> Option<(Moment, WakeReason)> {
        self.due_at(core).map(|due| (due, WakeReason::Feature("radar")))
    }

    fn begin_end(&mut self, _: &mut Core) {
        (self.is_due, self.has_ended, self.running) = (false, true, None);
    }
}

/// The worktree on this machine in which an agent works.
fn worktree_of(agent: &Agent) -> Option<&Path> {
    let environment = &agent.inputs.environment;
    environment.worktree.as_deref().filter(|_| environment.remote.is_none())
}

/// With what the worktree at `root` conflicts here, if it takes part.
fn other_side(core: &Core, found: &Conflict, root: &Path) -> Option<String> {
    let name_at = |there: &Path| {
        let agent = core.roster().in_worktree(there).next();
        agent.map_or_else(|| branch_of(there), |agent| core.roster().label_of(agent.id()))
    };
    match &found.other {
        Other::Branch(branch) if found.root == root => Some(branch.clone()),
        Other::Worktree(other) if found.root == root => Some(name_at(other)),
        Other::Worktree(other) if other == root => Some(name_at(&found.root)),
        _ => None,
    }
}

/// With what the worktree at `root` conflicts here, and in which files.
fn describe(core: &Core, found: &Conflict, root: &Path) -> Option<String> {
    let with = other_side(core, found, root)?;
    let more = if found.files.len() > MOST_FILES { ", ..." } else { "" };
    let shown = |file: &String| text::shortened(&visible(file), MOST_COLUMNS).into_owned();
    let files: Vec<String> = found.files.iter().take(MOST_FILES).map(shown).collect();
    Some(format!("{with}: {}{more}", files.join(", ")))
}
