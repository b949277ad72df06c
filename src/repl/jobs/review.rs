//! `/review`: git compares the working tree on a thread, then a task for several agents begins.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::flow::{Change, Origin};
use crate::domain::scrollback::LineKind;
use crate::repl::component::Command;
use crate::repl::core::{Core, agent_gone};
use crate::repl::jobs::Jobs;
use crate::tools::{Running, review};

/// A comparison that is under way.
pub(super) struct ReviewJob {
    running: Running,
    origin: Origin,
    agent: AgentId,
}

impl Jobs {
    /// Starts a review of the changes in the directory of an agent.
    ///
    /// # Errors
    /// The agent is gone, or no thread is left.
    pub(in crate::repl) fn review(
        &mut self,
        core: &Core,
        origin: Origin,
        agent: AgentId,
        base: Option<String>,
    ) -> Result<()> {
        let environment = core.roster.get(agent).ok_or_else(agent_gone)?.inputs.environment.clone();
        let directory = environment.working_directory.clone();
        let running = review::task(directory, base, environment, Arc::clone(&core.waker))?;
        self.reviews.push(ReviewJob { running, origin, agent });
        Ok(())
    }

    /// Starts the tasks for which git has ended.
    pub(super) fn poll_reviews(&mut self, core: &mut Core, commands: &mut Vec<Command>) {
        let done: Vec<ReviewJob> = self.reviews.extract_if(.., |job| job.running.is_complete()).collect();
        for ReviewJob { running, origin, agent } in done {
            let result = running.collect();
            match (result.is_error, result.content.as_str()) {
                (true, why) => core.note(agent, LineKind::Error, &format!("cannot review: {why}")),
                (false, "") => core.note(agent, LineKind::Note, "nothing to review: the working tree has no changes"),
                (false, task) => {
                    let change = Change::Team(format!("--template code-review {task}"));
                    commands.push(Command { origin, agent, change });
                }
            }
        }
    }
}
