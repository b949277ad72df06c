//! Changes of files by agents: `/undo` restores files, `/diff` shows and `/land` merges changes.

use super::{
    CommandContext, CommandSpec, WhenBusy, agent_called, any_called, nothing, unknown_option, unquoted, usage_error,
};
use crate::base::error::Result;
use crate::base::id::MessageId;
use crate::domain::called::{split_called, words_called};
use crate::domain::file_change::{LandRequest, UndoRequest, UndoTo};
use crate::domain::flow::{Change, InputResult, Shown};

pub const UNDO: CommandSpec = CommandSpec {
    name: "undo",
    aliases: &[],
    arguments: "[AGENT] [--to MESSAGE]",
    about: "bring back files that tools changed; --skip, --redo",
    busy: WhenBusy::Runs,
    run,
    complete,
};

pub const DIFF: CommandSpec = CommandSpec {
    name: "diff",
    aliases: &[],
    arguments: "[AGENT]",
    about: "show an agent's changes of files, in its worktree or with tools",
    busy: WhenBusy::Runs,
    run: |context, arguments| {
        let agent = if arguments.is_empty() { context.current } else { agent_called(context.roster, arguments)? };
        Ok(InputResult::NewState(Change::Show(Shown::Diff(agent)), None))
    },
    complete: nothing,
};

pub const LAND: CommandSpec = CommandSpec {
    name: "land",
    aliases: &[],
    arguments: "[AGENT] [--rebase]",
    about: "merge a worktree into the branch it left; --commit MESSAGE",
    busy: WhenBusy::Runs,
    run: land,
    complete: |_, _| LAND_OPTIONS.map(str::to_owned).to_vec(),
};

const LAND_OPTIONS: [&str; 3] = ["--rebase", "--verify", "--commit"];

fn land(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let (mut agent, mut request, mut rest) = (None, LandRequest::default(), arguments);
    while !rest.is_empty() {
        let (word, after) = split_called(rest);
        rest = after;
        match word {
            "--rebase" => request.is_rebase = true,
            "--verify" => request.verifies = true,
            "--commit" => {
                let message = unquoted(std::mem::take(&mut rest).trim());
                if message.is_empty() {
                    return Err(usage_error("--commit needs a message, which is the rest of the line"));
                }
                request.commit = Some(message.to_owned());
            }
            option if option.starts_with("--") => return Err(unknown_option("land", option, &LAND_OPTIONS)),
            name if agent.is_none() => agent = Some(any_called(context.roster, context.store, name)?),
            other => return Err(usage_error(format!("/land takes one agent (got {other:?} too)"))),
        }
    }
    let agent = agent.unwrap_or(context.current);
    Ok(InputResult::NewState(Change::Land { agent, request }, None))
}

const OPTIONS: [&str; 3] = ["--to", "--skip", "--redo"];

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let mut request = UndoRequest::new(None, false, false);
    let (mut agent, mut words) = (None, words_called(arguments));
    while let Some(word) = words.next() {
        match word {
            "--skip" => request.skips = true,
            "--redo" => request.to = UndoTo::Redo,
            "--to" => {
                let number = words.next().and_then(|number| number.trim_start_matches('#').parse().ok());
                let number = number.ok_or_else(|| {
                    usage_error("--to needs the number of a message: /timeline shows them, for example /undo --to 12")
                })?;
                request.to = UndoTo::Before(MessageId(number));
            }
            option if option.starts_with("--") => return Err(unknown_option("undo", option, &OPTIONS)),
            name if agent.is_none() => agent = Some(any_called(context.roster, context.store, name)?),
            other => return Err(usage_error(format!("/undo takes one agent (got {other:?} too)"))),
        }
    }
    let agent = agent.unwrap_or(context.current);
    Ok(InputResult::NewState(Change::Undo { agent, request }, None))
}

fn complete(_: &CommandContext, _: &str) -> Vec<String> {
    OPTIONS.map(str::to_owned).to_vec()
}
