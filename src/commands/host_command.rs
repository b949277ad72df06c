//! Commands of the host that the shown agent talks to, which get the line that was entered.

use super::CommandContext;
use crate::domain::agent_host::HostCommand;

/// The commands that the host of the shown agent offers, without those that the chat has.
pub(super) fn all<'a>(context: &CommandContext<'a>) -> impl Iterator<Item = &'a HostCommand> {
    let agent = context.roster.get(context.current);
    agent.into_iter().flat_map(|agent| agent.host_commands()).filter(|command| super::find(&command.name).is_none())
}

pub(super) fn find<'a>(context: &CommandContext<'a>, name: &str) -> Option<&'a HostCommand> {
    all(context).find(|command| command.name == name)
}
