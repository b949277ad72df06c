//! `/tools`: the tools of this agent.

use super::{CommandContext, CommandSpec, TwoColumns, WhenBusy, nothing, refuse_arguments};
use crate::base::error::Result;
use crate::domain::flow::InputResult;
use crate::tools::{Judged, ToolSpec};

pub const TOOLS: CommandSpec = CommandSpec {
    name: "tools",
    aliases: &[],
    arguments: "",
    about: "list tools and which need approval",
    busy: WhenBusy::Runs,
    run,
    complete: nothing,
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    refuse_arguments("tools", arguments)?;
    let environment = context.roster.get(context.current).map(|agent| &agent.inputs.environment);
    let mut list = TwoColumns::new(25);
    environment.into_iter().flat_map(|here| &here.tools).for_each(|tool| add_row(&mut list, tool));
    let mut text = if environment.is_none_or(|here| here.tools.is_empty()) {
        "this agent has no tools: /env creates a child that has".into()
    } else {
        list.to_text(context.columns())
    };
    for running in context.roster.get(context.current).iter().flat_map(|agent| agent.list_background()) {
        text.push_str(&format!("\nin the background: {running}"));
    }
    Ok(InputResult::Continue(Some(text)))
}

fn add_row(list: &mut TwoColumns, tool: &ToolSpec) {
    let ToolSpec { declaration, judged, .. } = tool;
    let asks = match judged {
        Judged::Write | Judged::Command | Judged::Change | Judged::Mcp | Judged::Network => "asks first",
        Judged::Nothing | Judged::Read | Judged::Fork => "runs at once",
    };
    let about = declaration.description.split_inclusive(['.', ';', ':']).next().unwrap_or_default();
    list.row(format!("{:<11} {asks:<12} ", declaration.name), about.trim_end_matches(['.', ';', ':']));
}
