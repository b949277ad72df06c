//! `/kill`: an agent dies, for good.

use super::complete::{agent_names, behind};
use super::{CommandSpec, House, WhenBusy, agent_called, usage};
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
    complete: |house, typed| {
        let cascade = (!typed.contains("--cascade ")).then(|| "--cascade ".to_owned());
        behind(typed, agent_names(house, typed).into_iter().chain(cascade))
    },
};

fn run(house: &House, arguments: &str) -> Result<InputResult> {
    let mut cascade = false;
    let mut who = None;
    for word in arguments.split_whitespace() {
        match word {
            "--cascade" => cascade = true,
            option if option.starts_with("--") => {
                return Err(usage(&format!("/kill knows no {option}: there is --cascade")));
            }
            name if who.is_none() => who = Some(agent_called(house.roster, name)?),
            more => return Err(usage(&format!("/kill takes one agent, but {more:?} stands behind it"))),
        }
    }
    Ok(InputResult::NewState(Change::Kill { who: who.unwrap_or(house.current), cascade }, None))
}
