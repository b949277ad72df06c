//! Work off the loop: a function runs on a thread, and its result is passed to another function in the loop.

use std::path::{Path, PathBuf};

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::base::job::{Job, JobThread, Outcome};
use crate::repl::core::Core;
use crate::repl::jobs::Jobs;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    AddWorktree,
    Connect,
    Diff,
    Discard,
    Export,
    FindSkills,
    Land,
    ReadProject,
    RemoveWorktree,
    #[cfg(feature = "coordinator")]
    Review,
    Undo,
}

/// A task, and for whom it runs.
struct Task {
    kind: Kind,
    agent: AgentId,
    /// The worktree in which git runs.
    worktree: Option<PathBuf>,
    thread: Box<dyn Thread>,
}

trait Thread {
    fn is_complete(&self) -> bool;
    fn cancel(&self);
    fn has_been_cancelled(&self) -> bool;
    /// Hands the outcome to its function.
    fn finish(self: Box<Self>, jobs: &mut Jobs, core: &mut Core);
}

struct Pending<T, F> {
    thread: JobThread<T>,
    then: F,
}

impl<T: Send + 'static, F: FnOnce(&mut Jobs, &mut Core, Outcome<T>)> Thread for Pending<T, F> {
    fn is_complete(&self) -> bool {
        self.thread.is_complete()
    }

    fn cancel(&self) {
        self.thread.cancel();
    }

    fn has_been_cancelled(&self) -> bool {
        self.thread.has_been_cancelled()
    }

    fn finish(self: Box<Self>, jobs: &mut Jobs, core: &mut Core) {
        (self.then)(jobs, core, self.thread.collect());
    }
}

/// The running tasks.
#[derive(Default)]
pub(super) struct Tasks {
    running: Vec<Task>,
}

impl Tasks {
    /// Runs `work` on a thread, and then `then` in the loop, unless the task is cancelled.
    pub fn spawn<T: Send + 'static>(
        &mut self,
        core: &Core,
        (kind, agent, worktree): (Kind, AgentId, Option<PathBuf>),
        work: impl FnOnce(&Job) -> Outcome<T> + Send + 'static,
        then: impl FnOnce(&mut Jobs, &mut Core, Outcome<T>) + 'static,
    ) -> Result<()> {
        let thread = JobThread::spawn(format!("{kind:?}"), work, core.waker())?;
        self.running.push(Task { kind, agent, worktree, thread: Box::new(Pending { thread, then }) });
        Ok(())
    }

    /// Whether a task of this kind runs for an agent and was not cancelled.
    pub fn is_running(&self, kind: Kind, agent: AgentId) -> bool {
        self.running.iter().any(|task| (task.kind, task.agent) == (kind, agent) && !task.thread.has_been_cancelled())
    }

    /// Whether a task of one of these kinds is running.
    pub fn has_any(&self, kinds: &[Kind]) -> bool {
        self.running.iter().any(|task| kinds.contains(&task.kind))
    }

    /// Whether a task of this kind runs in a worktree.
    pub fn is_running_in(&self, kind: Kind, worktree: &Path) -> bool {
        self.running.iter().any(|task| task.kind == kind && task.worktree.as_deref() == Some(worktree))
    }

    /// Asks the tasks of this kind that run for an agent to stop.
    pub fn cancel(&self, kind: Kind, agent: AgentId) {
        let tasks = self.running.iter().filter(|task| (task.kind, task.agent) == (kind, agent));
        tasks.for_each(|task| task.thread.cancel());
    }
}

impl Jobs {
    /// Passes the outcomes of completed tasks to their functions.
    pub(super) fn finish_tasks(&mut self, core: &mut Core) {
        let done: Vec<Task> = self.tasks.running.extract_if(.., |task| task.thread.is_complete()).collect();
        for Task { kind, agent, worktree, thread } in done {
            // A landing may have come to its end before it was stopped.
            if kind == Kind::Land || !thread.has_been_cancelled() {
                thread.finish(self, core);
                if kind == Kind::Land {
                    self.release_held(core);
                }
            } else if let (Kind::AddWorktree, Some(root)) = (kind, worktree) {
                self.on_worktree_cancelled(core, root, agent);
            }
        }
    }
}
