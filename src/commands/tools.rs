//! `/tools`: the tools of this agent.

use std::collections::BTreeSet;

use clap::ArgMatches;

use super::{CommandContext, CommandSpec, TwoColumns};
use crate::base::error::Result;
use crate::base::text::sanitise;
use crate::domain::flow::InputResult;
use crate::domain::mcp::McpTool;
use crate::domain::tool::Reach;
use crate::domain::user_tool::{UserTool, UserToolEntry};
use crate::tools::{Judged, ToolSpec};

pub const TOOLS: CommandSpec = CommandSpec::new("tools", "list tools and which need approval", run);

/// Why an agent that works elsewhere does not get a server.
const NOT_HERE: &str = "MCP server that works on this machine: remote = true in [mcp.NAME] offers it here too";

fn run(context: &CommandContext, _: &ArgMatches) -> Result<InputResult> {
    let environment = context.roster.get(context.current).map(|agent| &agent.inputs.environment);
    let mut list = TwoColumns::new(25);
    environment.into_iter().flat_map(|here| &here.tools).for_each(|tool| add_row(&mut list, tool));
    let has_bash = environment.is_some_and(|here| here.tools.iter().any(|tool| tool.declaration.name == "bash"));
    let of_user = environment.map(|here| &*here.user_tools).unwrap_or_default();
    let is_elsewhere = environment.is_some_and(|here| here.remote.is_some());
    let has_programs = has_bash && !is_elsewhere;
    context.config.user_tools.iter().filter(|_| has_programs).for_each(|tool| add_user_tool(&mut list, tool, of_user));
    let of_servers = environment.map(|here| &*here.mcp_tools).unwrap_or_default();
    for server in context.config.mcp.iter().filter(|_| has_bash) {
        match is_elsewhere && !server.is_remote {
            true => list.row(format!("{:<11} {:<12} ", server.name, "not here"), NOT_HERE),
            false => add_server(&mut list, &server.name, of_servers),
        }
    }
    // Servers of an editor, which it has declared for its session.
    let is_other = |tool: &&McpTool| context.config.mcp.iter().all(|server| server.name != tool.server);
    let others: BTreeSet<&str> = of_servers.iter().filter(is_other).map(|tool| tool.server.as_str()).collect();
    others.into_iter().for_each(|server| add_server(&mut list, server, of_servers));
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

/// A program that is a tool, with its own description if its schema is known.
fn add_user_tool(list: &mut TwoColumns, entry: &UserToolEntry, tools: &[UserTool]) {
    let about = match tools.iter().find(|tool| tool.entry.name == entry.name) {
        None => "not read yet: its schema is read with the next message; polylogue doctor tries it".to_owned(),
        Some(tool) => sanitise(tool.description.lines().next().unwrap_or_default()).into_owned(),
    };
    list.row(format!("{:<11} {:<12} ", entry.name, "asks first"), &about);
}

/// A server with the names of those of its tools that this agent has.
fn add_server(list: &mut TwoColumns, server: &str, tools: &[McpTool]) {
    let names: Vec<&str> = tools.iter().filter(|tool| tool.server == server).map(|tool| tool.name.as_str()).collect();
    let about = match names.as_slice() {
        [] => "no tools yet: starts with the next message; polylogue mcp test NAME tries it".to_owned(),
        names => format!("MCP server: {}", names.join(", ")),
    };
    list.row(format!("{server:<11} {:<12} ", "asks first"), &about);
}

fn add_row(list: &mut TwoColumns, tool: &ToolSpec) {
    let ToolSpec { declaration, judged, reach, .. } = tool;
    let asks = match judged {
        Judged::RemoteFile if *reach == Reach::Reads => "runs at once",
        Judged::Write | Judged::Command | Judged::RemoteFile | Judged::RemoteCommand => "asks first",
        Judged::Change | Judged::UserTool | Judged::Mcp | Judged::Network => "asks first",
        Judged::Nothing | Judged::Read | Judged::Fork => "runs at once",
    };
    let about = declaration.description.split_inclusive(['.', ';', ':']).next().unwrap_or_default();
    list.row(format!("{:<11} {asks:<12} ", declaration.name), about.trim_end_matches(['.', ';', ':']));
}
