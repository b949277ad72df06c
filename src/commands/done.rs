//! `/done`: the command that says whether this agent is done.

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::{CommandContext, CommandSpec, Rest};
use crate::base::error::Result;
use crate::domain::change::{Change, Setting};
use crate::domain::flow::InputResult;
use crate::tools::done::name_of;

pub const DONE: CommandSpec = CommandSpec {
    arguments: "[COMMAND | --off]",
    define: |command| command.arg(positional("command", "COMMAND")),
    rest: Some(Rest::AsTyped("command")),
    complete: Some(|_, _| vec!["--off".into(), "--default".into()]),
    ..CommandSpec::new("done", "the command that checks finished work, such as make test", run)
};

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let agent = context.agent()?;
    let (command, note) = match value_of(given, "command") {
        None => {
            let command = agent.done_command(context.config);
            let whose =
                if agent.done.is_some() { "set for this agent and its forks" } else { "from the configuration" };
            return Ok(InputResult::Continue(Some(match command.is_empty() {
                true => "no command checks the work of this agent: /done make test sets one".to_owned(),
                false => format!("when this agent has changed files, {} checks them ({whose})", name_of(&command)),
            })));
        }
        Some("--off") => (Some(String::new()), "no command checks the work of this agent".to_owned()),
        Some("--default") => (None, "the work of this agent is checked as the configuration says".to_owned()),
        Some(command) => {
            let note = format!("{command} runs in the sandbox when this agent, or a fork of it, has changed files");
            (Some(command.to_owned()), note)
        }
    };
    Ok(InputResult::NewState(Change::Setting(Setting::Done(command)), Some(note)))
}
