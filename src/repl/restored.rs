//! Asks the questions again that were open when an earlier process ended.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::domain::mcp::{McpCall, McpTool, PREFIX, START};
use crate::domain::user_tool::UserTool;
use crate::repl::core::Core;
use crate::repl::core::programs::is_for;
use crate::repl::objections::Objections;
use crate::repl::tool_requests::objection_to;
use crate::store::AskingTurn;
use crate::tools::user_tool;

/// Restores the turns that waited for an answer. Returns how many questions are asked again, and how many turns were
/// closed because their call can no longer be made. Nothing is run or sent.
pub(super) fn restore_questions(core: &mut Core, objections: &mut Objections) -> Result<(usize, usize)> {
    let (mut asked, mut closed) = (0, 0);
    if core.store().is_read_only() {
        return Ok((asked, closed));
    }
    for turn in core.store().asking_turns()? {
        let id = turn.as_ref().map_or_else(|id| *id, |turn| turn.agent);
        let is_asked = match turn {
            Ok(turn) => restore_question(core, objections, turn)?,
            Err(_) => false,
        };
        if is_asked {
            asked += 1;
        } else if core.agent(id).is_some() {
            closed += 1;
            close_turn(core, id)?;
        }
    }
    Ok((asked, closed))
}

fn restore_question(core: &mut Core, objections: &mut Objections, turn: AskingTurn) -> Result<bool> {
    let id = turn.agent;
    core.load(id)?;
    know_asked_tools(core, &turn);
    let restored = core.with_agent(id, |agent, context| agent.restore_turn(turn, context));
    let Some(call) = restored.flatten() else { return Ok(false) };
    // Without an objection the loop carries the call out once the person has allowed it.
    let objection = match &call.request {
        Some(request) => objection_to(core, objections, id, &call.id, request).ok().flatten(),
        None => None,
    };
    let objection = objection.map(|(subject, objection)| {
        objections.open(id, &call.id, subject);
        objection
    });
    core.with_agent(id, |agent, context| agent.ask_again(objection, context));
    Ok(true)
}

/// Tools of servers and programs are known only by name until their servers and programs have described them.
fn know_asked_tools(core: &mut Core, turn: &AskingTurn) {
    let agent = core.agent(turn.agent).filter(|agent| agent.inputs.environment.remote.is_none());
    let Some(agent) = agent else { return };
    let names: Vec<&str> = turn.calls.iter().map(|(call, _)| call.name.as_str()).collect();
    let servers = core.config().mcp.iter().filter(|server| is_for(agent, server.project.as_ref()));
    let servers: Vec<&str> = servers.map(|server| server.name.as_str()).collect();
    let of_servers: Vec<McpTool> = names.iter().filter_map(|name| tool_of_server(name, &servers)).collect();
    let entries = core.config().user_tools.iter().filter(|entry| is_for(agent, entry.project.as_ref()));
    let directory = &agent.inputs.environment.working_directory;
    let asked = entries.filter(|entry| names.contains(&entry.name.as_str()));
    let of_user: Vec<UserTool> = asked.filter_map(|entry| user_tool::known_by_name(entry, directory).ok()).collect();
    if of_servers.is_empty() && of_user.is_empty() {
        return;
    }
    core.edit(turn.agent, |agent| {
        let environment = Arc::make_mut(&mut agent.inputs.environment);
        (environment.mcp_tools, environment.user_tools) = (of_servers.into(), of_user.into());
    });
}

/// The tool of this name for models, if a declared server may have it.
fn tool_of_server(full_name: &str, servers: &[&str]) -> Option<McpTool> {
    let of = |server: &&str| {
        let name = full_name.strip_prefix(PREFIX)?.strip_prefix(server)?.strip_prefix("__")?;
        Some((server.to_string(), name.to_owned())).filter(|(_, name)| !name.is_empty() && name != START)
    };
    let (server, name) = servers.iter().filter_map(of).max_by_key(|(server, _)| server.len())?;
    Some(McpTool {
        server,
        name,
        full_name: full_name.to_owned(),
        description: String::new(),
        parameters: r#"{"type":"object"}"#.into(),
        headers: Vec::new(),
        kind: McpCall::Tool,
    })
}

fn close_turn(core: &mut Core, agent: AgentId) -> Result<()> {
    core.store().close_asking_turn(agent, core.clock().unix_ms())?;
    core.edit(agent, |agent| {
        // The closed turn is read from the store when it is needed.
        agent.inputs.history = None;
        agent.note_interrupted();
    });
    Ok(())
}
