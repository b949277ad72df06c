//! `/review`: git compares the working tree on a thread, then a task for several agents begins.

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::change::{Change, TeamStart};
use crate::domain::flow::Origin;
use crate::domain::scrollback::LineKind;
use crate::repl::component::Command;
use crate::repl::core::{Core, agent_gone};
use crate::repl::jobs::Jobs;
use crate::repl::jobs::tasks::Kind;
use crate::tools::{Job, review};

impl Jobs {
    /// Starts a review of the changes in the directory of an agent.
    pub(in crate::repl) fn review(
        &mut self,
        core: &Core,
        origin: Origin,
        agent: AgentId,
        base: Option<String>,
    ) -> Result<()> {
        let environment = core.agent(agent).ok_or_else(agent_gone)?.inputs.environment.clone();
        let directory = environment.working_directory.clone();
        let work = move |job: &Job| review::task(&directory, base.as_deref(), &environment, job);
        self.tasks.spawn(core, (Kind::Review, agent, None), work, move |jobs, core, outcome| match outcome.as_deref() {
            Err(why) => core.note(agent, LineKind::Error, &format!("cannot review: {why}")),
            Ok("") => core.note(agent, LineKind::Note, "nothing to review: the working tree has no changes"),
            Ok(task) => {
                let change = Change::Team(TeamStart::Task(format!("--template code-review {task}")));
                jobs.commands.push(Command { origin, agent, change });
            }
        })
    }
}
