//! `/kill`: ends an agent permanently.

use super::complete::{agent_names, complete_word};
use super::{CommandContext, CommandSpec, WhenBusy, agent_called, usage_error};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

pub const KILL: CommandSpec = CommandSpec {
    name: "kill",
    aliases: &[],
    arguments: "[AGENT] [--cascade]",
    about: "end an agent permanently, by default this one",
    busy: WhenBusy::Runs,
    run,
    complete: |context, typed| {
        let cascade = (!typed.contains("--cascade ")).then(|| "--cascade ".to_owned());
        complete_word(typed, agent_names(context, typed).into_iter().chain(cascade))
    },
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let mut cascade = false;
    let mut agent_id = None;
    for word in arguments.split_whitespace() {
        match word {
            "--cascade" => cascade = true,
            option if option.starts_with("--") => {
                return Err(usage_error(format!("unknown option {option} of /kill: /kill [AGENT] [--cascade]")));
            }
            name if agent_id.is_none() => agent_id = Some(agent_called(context.roster, name)?),
            extra => return Err(usage_error(format!("/kill takes one agent (got also {extra:?})"))),
        }
    }
    Ok(InputResult::NewState(Change::Kill { agent_id: agent_id.unwrap_or(context.current), cascade }, None))
}
