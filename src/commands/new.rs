//! `/new`: a conversation that begins empty.

use clap::ArgMatches;

use super::arguments::flag;
use super::fork::{NewAgentArgs, new_agent_args};
use super::{CommandContext, CommandSpec, Rest};
use crate::base::error::Result;
use crate::domain::change::{Change, Fork, ForkPlace};
use crate::domain::flow::InputResult;

pub const NEW: CommandSpec = CommandSpec {
    arguments: "[--worktree] [--name N] [PROMPT]",
    define: |command| {
        new_agent_args(command)
            .arg(flag("worktree", "Create it in a new git worktree, on a branch with its name"))
            .arg(flag("stay", "Keep showing this agent, with --worktree").requires("worktree"))
    },
    rest: Some(Rest::Unquoted("prompt")),
    ..CommandSpec::new("new", "create an agent that inherits nothing", run)
};

fn run(_: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let NewAgentArgs { name, model, prompt } = NewAgentArgs::read(given)?;
    if given.get_flag("worktree") {
        let (place, stays) = (Some(ForkPlace::NewWorktree), given.get_flag("stay"));
        let fork = Fork { prompt, name, model, place, stays, inherits_nothing: true, ..Fork::default() };
        return Ok(InputResult::NewState(Change::Fork(fork), None));
    }
    Ok(InputResult::NewState(Change::New { prompt, name, model }, None))
}
