//! `/archive` and `/unarchive`: agents that are kept but not listed.

use super::complete::agent_names;
use super::{CommandContext, CommandSpec, WhenBusy, agent_called, archived_called, usage_error};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

pub const ARCHIVE: CommandSpec = CommandSpec {
    name: "archive",
    aliases: &[],
    arguments: "[AGENT]",
    about: "hide an agent from lists and keep it",
    busy: WhenBusy::Runs,
    run: archive,
    complete: agent_names,
};

pub const UNARCHIVE: CommandSpec = CommandSpec {
    name: "unarchive",
    aliases: &[],
    arguments: "AGENT",
    about: "bring an archived agent back",
    busy: WhenBusy::Runs,
    run: unarchive,
    complete: archived_names,
};

fn archive(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let agent_id = match arguments {
        "" => context.current,
        name => agent_called(context.roster, name)?,
    };
    Ok(InputResult::NewState(Change::Archive(agent_id), None))
}

fn unarchive(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    if arguments.is_empty() {
        return Err(usage_error("no agent given: /agents --archived lists the archived ones"));
    }
    let agent_id = archived_called(context.store, arguments)?;
    Ok(InputResult::NewState(Change::Unarchive(agent_id), None))
}

fn archived_names(context: &CommandContext, _: &str) -> Vec<String> {
    let archived = context.store.archived_agents().unwrap_or_default().agents;
    archived.into_iter().rev().map(|row| row.name.unwrap_or_else(|| row.id.short())).collect()
}
