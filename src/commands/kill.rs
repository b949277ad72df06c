//! `/kill`: ends an agent permanently.

use super::complete::{agent_names, complete_word};
use super::{CommandContext, CommandSpec, WhenBusy, agent_called, unknown_option, usage_error};
use crate::base::error::Result;
use crate::domain::called::words_called;
use crate::domain::flow::{Change, InputResult};

pub const KILL: CommandSpec = CommandSpec {
    name: "kill",
    aliases: &[],
    arguments: "[AGENT] [--cascade | --descendants]",
    about: "end an agent, all below it, or both",
    busy: WhenBusy::Runs,
    run,
    complete: |context, typed| {
        let has_option = typed.contains("--cascade ") || typed.contains("--descendants ");
        let options = ["--cascade ", "--descendants "].map(str::to_owned).into_iter().filter(|_| !has_option);
        complete_word(typed, agent_names(context, typed).into_iter().chain(options))
    },
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let (mut cascade, mut descendants) = (false, false);
    let mut agent_id = None;
    for word in words_called(arguments) {
        match word {
            "--cascade" => cascade = true,
            "--descendants" => descendants = true,
            // An id of an old store may begin with hyphens.
            option if option.starts_with("--") && agent_called(context.roster, option).is_err() => {
                return Err(unknown_option("kill", option, &["--cascade", "--descendants"]));
            }
            name if agent_id.is_none() => agent_id = Some(agent_called(context.roster, name)?),
            extra => return Err(usage_error(format!("/kill takes one agent (got also {extra:?})"))),
        }
    }
    let agent_id = agent_id.unwrap_or(context.current);
    let change = match (cascade, descendants) {
        (true, true) => {
            return Err(usage_error("--cascade ends the agent too, --descendants does not: use one of them"));
        }
        (false, true) => Change::KillDescendants(agent_id),
        (cascade, false) => Change::Kill { agent_id, cascade },
    };
    Ok(InputResult::NewState(change, None))
}
