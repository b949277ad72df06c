//! `/stop`: ends the current work of an agent and of all its descendants, or of every agent.

use super::complete::{agent_names, complete_word};
use super::{CommandContext, CommandSpec, WhenBusy, agent_called, usage_error};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

pub const STOP: CommandSpec = CommandSpec {
    name: "stop",
    aliases: &[],
    arguments: "[AGENT | --all]",
    about: "stop an agent and all below it, or every agent",
    busy: WhenBusy::Runs,
    run,
    complete: |context, typed| {
        complete_word(typed, agent_names(context, typed).into_iter().chain(["--all ".to_owned()]))
    },
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let root = match arguments {
        "" => Some(context.current),
        "--all" => None,
        option if option.starts_with("--") => {
            return Err(usage_error(format!("unknown option {option} of /stop: /stop [AGENT | --all]")));
        }
        name => Some(agent_called(context.roster, name)?),
    };
    Ok(InputResult::NewState(Change::Stop(root), None))
}
