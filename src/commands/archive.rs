//! `/archive` and `/unarchive`: agents that are kept but not listed.

use clap::ArgMatches;

use super::arguments::{AGENT, agent_arg, flag, value_of};
use super::{CommandContext, CommandSpec, ShellSpec, WithoutServer, archived_called, usage_error};
use crate::base::error::Result;
use crate::domain::change::{ArchiveAct, Change};
use crate::domain::flow::InputResult;

pub const ARCHIVE: CommandSpec = CommandSpec {
    arguments: "[AGENT]",
    shell: Some(ShellSpec {
        runs_at_agent: true,
        without_server: WithoutServer::Runs,
        ..ShellSpec::new("Hide an agent from lists and keep it")
    }),
    define: |command| {
        let when_idle = flag("when-idle", "Archive the agent and its descendants, each once it is idle");
        command.arg(agent_arg("Agent to archive")).arg(when_idle)
    },
    ..CommandSpec::new("archive", "hide an agent from lists and keep it", archive)
};

pub const UNARCHIVE: CommandSpec = CommandSpec {
    arguments: "AGENT",
    shell: Some(ShellSpec { without_server: WithoutServer::Runs, ..ShellSpec::new("Bring an archived agent back") }),
    define: |command| command.arg(agent_arg("Archived agent")),
    complete: Some(archived_names),
    ..CommandSpec::new("unarchive", "bring an archived agent back", unarchive)
};

fn archive(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let agent = context.target(given)?;
    let act = if given.get_flag("when-idle") { ArchiveAct::ArchiveWhenIdle(agent) } else { ArchiveAct::Archive(agent) };
    Ok(InputResult::NewState(Change::Archive(act), None))
}

fn unarchive(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let name = value_of(given, AGENT);
    let name = name.ok_or_else(|| usage_error("no agent given: /agents --archived lists the archived ones"))?;
    let agent_id = archived_called(context.store, name)?;
    Ok(InputResult::NewState(Change::Archive(ArchiveAct::Unarchive(agent_id)), None))
}

fn archived_names(context: &CommandContext, _: &str) -> Vec<String> {
    let archived = context.store.archived_agents().unwrap_or_default().agents;
    archived.into_iter().rev().map(|row| row.name.unwrap_or_else(|| row.id.short())).collect()
}
