//! `polylogue multi-agent`: several agents on one task, for scripts and for the shell. The answer goes to standard output,
//! everything else to standard error; nobody is asked anything, and no terminal is needed.
//!
//! | module | holds |
//! |---|---|
//! | `files` | templates and workflows, built in and from files |
//! | `plan` | what the command line asks for, checked whole before anything runs |
//! | `run` | the run itself, in a house of its own |
//! | `report` | what is written where, and the exit code |
//! | `show` | `list`, `show` and `status` |
//!
//! With `--json` each event is a line on standard output as it happens ([`crate::team::coordinator::event`]); the last one,
//! `task_completed` or `task_failed`, is the result.

mod files;
mod plan;
mod report;
mod run;
mod show;

use super::arguments::{Arguments, MultiAgentCommand, TeamRun, WorkflowRun};
use super::config::{self, ProcessEnvironment};
use crate::base::error::Result;
use crate::team::coordinator::settings::Settings;
use files::Shelf;
use plan::Plan;

/// Carries the subcommand out. Returns the code with which the program ends.
///
/// # Errors
/// It cannot begin.
pub fn run(command: &MultiAgentCommand, arguments: &Arguments, around: &ProcessEnvironment) -> Result<u8> {
    let loaded = config::load(&all_of(command, arguments), around);
    let shelf = Shelf::of(&loaded);
    let usual = Settings::of(&loaded.config().team);
    match command {
        MultiAgentCommand::Run(run) => run::run(Plan::of_members(run, &shelf, usual)?, loaded, run.options.json),
        MultiAgentCommand::RunWorkflow(run) => {
            run::run(Plan::of_workflow(run, &shelf, usual)?, loaded, run.options.json)
        }
        MultiAgentCommand::List => Ok(show::list(&shelf)),
        MultiAgentCommand::Show { name } => show::show(name, &shelf),
        MultiAgentCommand::Status { json } => show::status(loaded, *json),
    }
}

/// An option may stand before the word and behind it.
fn all_of(command: &MultiAgentCommand, arguments: &Arguments) -> Arguments {
    let mut all = arguments.clone();
    if let MultiAgentCommand::Run(TeamRun { options, .. })
    | MultiAgentCommand::RunWorkflow(WorkflowRun { options, .. }) = command
    {
        all.ephemeral |= options.ephemeral;
        all.working_limit = options.working_limit.clone().or(all.working_limit);
    }
    all
}
