//! `/sessions`: the terminals that look on.

use super::agents::age;
use super::{CommandContext, CommandSpec, TerminalInfo, WhenBusy, nothing, refuse_arguments};
use crate::base::error::Result;
use crate::domain::flow::InputResult;

/// `/sessions`.
pub const SESSIONS: CommandSpec = CommandSpec {
    name: "sessions",
    aliases: &[],
    arguments: "",
    about: "the terminals, and what each looks at",
    busy: WhenBusy::Runs,
    run,
    complete: nothing,
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    refuse_arguments("sessions", arguments)?;
    let lines: Vec<String> = context.terminal_infos.iter().map(|sitting| line(context, sitting)).collect();
    let words = if lines.is_empty() { "there is no terminal".into() } else { lines.join("\n") };
    Ok(InputResult::Continue(Some(words)))
}

fn line(context: &CommandContext, sitting: &TerminalInfo) -> String {
    let TerminalInfo { number, since, size: (columns, rows), focus, is_read_only, is_origin } = sitting;
    format!(
        "{} terminal {number}  {columns}x{rows}  for {}  at {}{}",
        if *is_origin { ">" } else { " " },
        age(context.unix_ms - since),
        context.roster.get(*focus).map(|agent| agent.identity.label()).unwrap_or_default(),
        if *is_read_only { "  read-only" } else { "" },
    )
}
