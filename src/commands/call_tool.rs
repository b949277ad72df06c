//! A call of a tool about agents by a program that has no turns here, such as a client of `polylogue mcp-server`.

use clap::ArgMatches;

use super::arguments::{positional, value_of};
use super::{CommandContext, CommandSpec, usage_error};
use crate::base::error::Result;
use crate::domain::flow::InputResult;
use crate::tools::mcp_server;

pub(super) const CALL_TOOL: CommandSpec = CommandSpec {
    arguments: "TOOL JSON",
    define: |command| {
        command.arg(positional("tool", "TOOL").required(true)).arg(positional("input", "JSON").required(true))
    },
    ..CommandSpec::new("call-tool", "call a tool about agents as an agent", run)
};

fn run(_: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let text = |id| value_of(given, id).unwrap_or_default().to_owned();
    let name = text("tool");
    match mcp_server::TOOLS.iter().any(|tool| tool.declaration.name == name) {
        true => Ok(InputResult::ToolCall(name, text("input"))),
        false => Err(usage_error(format!("{name} is not called by clients"))),
    }
}
