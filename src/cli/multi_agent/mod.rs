//! `polylogue multi-agent`: several agents on one task, for scripts and for the shell. The answer goes to standard output
//! and notes to standard error; no terminal is needed, and calls that need approval are refused.
//!
//! | module | holds |
//! |---|---|
//! | `files` | workflows that are named by a path |
//! | `plan` | the task, its members and settings, checked before anything runs |
//! | `run` | begins the run: in this process, or in the one that holds the data directory |
//! | `session` | the run itself |
//! | `report` | the output and the exit code |
//! | `show` | `list`, `show` and `status` |
//!
//! With `--json` each event is a line on standard output as it happens ([`crate::team::coordinator::event`]); the last one,
//! `task_completed` or `task_failed`, is the result.

mod files;
mod plan;
mod report;
mod run;
mod session;
mod show;

use super::arguments::{Arguments, MultiAgentCommand, TeamRun, WorkflowRun};
use super::config::{self, ProcessEnvironment};
use crate::base::error::Result;
use crate::team::coordinator::definitions::Definitions;
use crate::team::coordinator::plan::Plan;

/// Returns the exit code.
pub fn run(command: &MultiAgentCommand, arguments: &Arguments, env: &ProcessEnvironment) -> Result<u8> {
    let arguments = &with_options(command, arguments);
    let loaded = config::load(arguments, env);
    let definitions = Definitions::of(&loaded.config().team_files);
    let team = loaded.config().team;
    match command {
        MultiAgentCommand::Run(run) => {
            let plan = Plan::of_members(run, &definitions, &team)?;
            run::run(&plan, arguments, env, run.options.json)
        }
        MultiAgentCommand::RunWorkflow(run) => {
            let plan = Plan::of_workflow(run, &definitions, &team)?;
            run::run(&plan, arguments, env, run.options.json)
        }
        MultiAgentCommand::List => Ok(show::list(&definitions)),
        MultiAgentCommand::Show { name } => show::show(name, &definitions),
        MultiAgentCommand::Status { json } => show::status(loaded, *json),
    }
}

/// These options are accepted before and after the subcommand.
fn with_options(command: &MultiAgentCommand, arguments: &Arguments) -> Arguments {
    let mut all = arguments.clone();
    if let MultiAgentCommand::Run(TeamRun { options, .. })
    | MultiAgentCommand::RunWorkflow(WorkflowRun { options, .. }) = command
    {
        all.ephemeral |= options.ephemeral;
        all.working_limit = options.working_limit.clone().or(all.working_limit);
    }
    all
}
