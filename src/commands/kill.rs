//! `/kill`: an agent dies, for good.

use super::complete::{agent_names, behind};
use super::{CommandContext, CommandSpec, WhenBusy, agent_called, usage};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult};

/// `/kill`.
pub const KILL: CommandSpec = CommandSpec {
    name: "kill",
    aliases: &[],
    arguments: "[AGENT] [--cascade]",
    about: "end this or that agent for good",
    busy: WhenBusy::Runs,
    run,
    complete: |context, typed| {
        let cascade = (!typed.contains("--cascade ")).then(|| "--cascade ".to_owned());
        behind(typed, agent_names(context, typed).into_iter().chain(cascade))
    },
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let mut cascade = false;
    let mut agent_id = None;
    for word in arguments.split_whitespace() {
        match word {
            "--cascade" => cascade = true,
            option if option.starts_with("--") => {
                return Err(usage(&format!("/kill knows no {option}: there is --cascade")));
            }
            name if agent_id.is_none() => agent_id = Some(agent_called(context.roster, name)?),
            more => return Err(usage(&format!("/kill takes one agent, but {more:?} stands behind it"))),
        }
    }
    Ok(InputResult::NewState(Change::Kill { agent_id: agent_id.unwrap_or(context.current), cascade }, None))
}
