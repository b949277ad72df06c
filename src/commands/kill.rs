//! `/kill`: ends an agent permanently.

use clap::ArgMatches;

use super::arguments::{agent_arg, flag};
use super::{CommandContext, CommandSpec, ShellSpec};
use crate::base::error::Result;
use crate::domain::change::{Change, FileJob};
use crate::domain::file_change::LandRequest;
use crate::domain::flow::InputResult;

pub const KILL: CommandSpec = CommandSpec {
    arguments: "[AGENT] [--cascade | --descendants]",
    shell: Some(ShellSpec { runs_at_agent: true, ..ShellSpec::new("End an agent; this cannot be undone") }),
    define: |command| {
        command
            .arg(agent_arg("Agent to end"))
            .arg(flag("cascade", "End its descendants as well"))
            .arg(flag("descendants", "End its descendants and not the agent itself").conflicts_with("cascade"))
            .arg(flag("land", "Land the work in its worktree first").conflicts_with_all(["cascade", "descendants"]))
            .arg(
                flag("discard", "Delete its worktree and branch; the work can be restored for 30 days")
                    .conflicts_with_all(["cascade", "descendants", "land"]),
            )
    },
    ..CommandSpec::new("kill", "end an agent, all below it, or both", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let agent_id = context.target(given)?;
    let change = match () {
        () if given.get_flag("descendants") => Change::KillDescendants(agent_id),
        () if given.get_flag("discard") => Change::Files(FileJob::Discard(agent_id)),
        () if given.get_flag("land") => {
            let commit = Some(context.roster.commit_subject(context.store, agent_id));
            let request = LandRequest { commit, kills_agent_after: true, ..LandRequest::default() };
            Change::Files(FileJob::Land { agent: agent_id, request })
        }
        () => Change::Kill { agent_id, cascade: given.get_flag("cascade") },
    };
    Ok(InputResult::NewState(change, None))
}
