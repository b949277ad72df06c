//! `/sessions`: the attached terminals.

use clap::ArgMatches;
use serde_json::{Value, json};

use super::agents::age;
use super::{CommandContext, CommandSpec, ShellSpec, TerminalInfo};
use crate::base::error::Result;
use crate::domain::flow::InputResult;

pub const SESSIONS: CommandSpec = CommandSpec {
    shell: Some(ShellSpec::list(
        "List the terminals attached to the server",
        &["number", "label", "columns", "rows", "read_only"],
    )),
    ..CommandSpec::new("sessions", "list attached terminals and what they show", run)
};

fn terminals_as_json(context: &CommandContext) -> Value {
    let row = |terminal: &TerminalInfo| {
        json!({
            "number": terminal.number,
            "agent": terminal.focus.to_string(),
            "label": context.roster.label_of(terminal.focus),
            "columns": terminal.size.0,
            "rows": terminal.size.1,
            "read_only": terminal.is_read_only,
            "attached": terminal.is_attached,
            "since": terminal.since,
        })
    };
    context.terminal_infos.iter().map(row).collect()
}

fn run(context: &CommandContext, _: &ArgMatches) -> Result<InputResult> {
    if context.clients.is_some() {
        return Ok(InputResult::Data(terminals_as_json(context)));
    }
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
