//! `/sessions`: the attached terminals.

use clap::ArgMatches;

use super::agents::age;
use super::{CommandContext, CommandSpec, TerminalInfo};
use crate::base::error::Result;
use crate::domain::flow::InputResult;

pub const SESSIONS: CommandSpec = CommandSpec::new("sessions", "list attached terminals and what they show", run);

fn run(context: &CommandContext, _: &ArgMatches) -> Result<InputResult> {
    let lines: Vec<String> = context.terminal_infos.iter().map(|terminal| line(context, terminal)).collect();
    let text = if lines.is_empty() { "no terminal is attached".into() } else { lines.join("\n") };
    Ok(InputResult::Continue(Some(text)))
}

fn line(context: &CommandContext, terminal: &TerminalInfo) -> String {
    let TerminalInfo { number, since, size: (columns, rows), focus, is_read_only, is_origin, .. } = terminal;
    format!(
        "{} terminal {number}  {columns}x{rows}  for {}  at {}{}",
        if *is_origin { ">" } else { " " },
        age(context.unix_ms - since),
        context.roster.get(*focus).map(|agent| agent.identity.label()).unwrap_or_default(),
        if *is_read_only { "  read-only" } else { "" },
    )
}
