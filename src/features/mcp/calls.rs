//! Calls of tools and other requests to servers, from when they are made until they are answered.

use serde_json::{Map, Value};

use super::Mcp;
use super::results::{Preparing, Shape, short_text};
use super::server::{Asked, Call, State, Work};
use crate::base::id::AgentId;
use crate::base::text::counted;
use crate::domain::mcp::McpTool;
use crate::features::mcp::protocol::content::{self, Part};
use crate::repl::core::Core;

impl Mcp {
    /// Carries out a call of a model. It is answered later.
    pub(super) fn call(&mut self, core: &mut Core, agent: AgentId, id: String, server: &str, work: Work) {
        let tag = self.next_number();
        // After a restart, a call may come before the first request.
        self.servers_of(core, agent);
        let found =
            self.servers.iter_mut().find(|(_, known)| known.users.contains(&agent) && known.key.name == *server);
        let Some((number, server)) = found.map(|(number, server)| (*number, server)) else {
            return core.answer_call(agent, &id, Err(format!("the MCP server {server} is no longer declared")));
        };
        let asked = match work {
            Work::Start { sandbox } => {
                (server.has_consent, server.promised) = (true, Some(sandbox));
                Asked::Start
            }
            Work::Call { .. } if !server.has_consent => {
                return core.answer_call(
                    agent,
                    &id,
                    Err("the server is not started: call its start tool first".into()),
                );
            }
            Work::Call { tool, arguments } => Asked::Tool(tool, arguments),
        };
        self.push_call(core, number, Call { agent, id, tag, asked, is_sent: false });
    }

    /// Sends a call once its server is ready, which is started if it does not run.
    pub(super) fn push_call(&mut self, core: &mut Core, number: u64, call: Call) {
        let Some(server) = self.servers.get_mut(&number) else { return };
        server.calls.push(call);
        // The session's events about it are taken in the next step.
        self.is_due = true;
        if matches!(server.state, State::Stopped) {
            self.start(core, number);
        }
        self.send_calls(core, number);
    }

    /// Sends the calls that wait until the server is ready.
    pub(super) fn send_calls(&mut self, core: &mut Core, number: u64) {
        let now = core.now();
        let Some(server) = self.servers.get_mut(&number) else { return };
        let State::Running(link) = &mut server.state else { return };
        if !link.session().is_ready() {
            return;
        }
        let mut started = Vec::new();
        for call in server.calls.iter_mut().filter(|call| !call.is_sent) {
            call.is_sent = true;
            let headers = match &call.asked {
                Asked::Tool(tool, arguments) => headers(&server.tools, tool, arguments),
                _ => Vec::new(),
            };
            match call.asked.request() {
                Some((method, params)) => link.session_mut().request(call.tag, method, params, headers, now),
                None => started.push((call.agent, call.id.clone())),
            }
        }
        server.calls.retain(|call| !matches!(call.asked, Asked::Start));
        let names: Vec<String> = server.tools.iter().map(|tool| tool.full_name.clone()).collect();
        let message = format!("started: {}: {}", counted(names.len(), "tool", "tools"), names.join(", "));
        started.into_iter().for_each(|(agent, id)| core.answer_call(agent, &id, Ok(message.clone())));
        self.write(core, number);
    }

    pub(super) fn on_done(&mut self, core: &mut Core, number: u64, tag: u64, result: Result<Value, String>) {
        let Some(server) = self.servers.get_mut(&number) else { return };
        let Some(at) = server.calls.iter().position(|call| call.tag == tag) else { return };
        let call = server.calls.remove(at);
        let directory = server.environment.output_directory.clone();
        if !call.asked.is_of_model() {
            return self.readings.on_answer(core, &call, result, directory);
        }
        let (parts, is_error) = match result {
            Ok(value) => content::result(&value),
            Err(why) => (vec![Part::Text(why)], true),
        };
        let cap = core.config().settings.output_cap;
        let watch = server.watch().map(|watch| (watch, format!("mcp server {}", server.key.name)));
        if let Some(text) = short_text(&parts, cap).filter(|_| watch.is_none()) {
            return core.answer_call(call.agent, &call.id, if is_error { Err(text) } else { Ok(text) });
        }
        // Images may be large, and a disk slow.
        let name = if let Asked::Tool(tool, _) = call.asked { tool } else { String::new() };
        match Preparing::start(parts, Shape { name, is_error, cap, directory, watch }, core) {
            Ok(preparing) => self.preparing.push((call.agent, call.id, preparing)),
            Err(why) => core.answer_call(call.agent, &call.id, Err(why)),
        }
    }

    /// Cancels the calls that agents do not wait for any more.
    pub(super) fn cancel_unawaited(&mut self, core: &mut Core, number: u64) {
        let Some(server) = self.servers.get_mut(&number) else { return };
        let readings = &self.readings;
        let is_awaited = |call: &Call| match call.asked.is_of_model() {
            true => core.agent(call.agent).is_some_and(|agent| agent.is_waiting_call(&call.id)),
            false => readings.awaits(call.tag),
        };
        let dropped: Vec<Call> = server.calls.extract_if(.., |call| !is_awaited(call)).collect();
        if let State::Running(link) = &mut server.state {
            dropped.iter().for_each(|call| link.cancel(core, call.tag, "the user interrupted"));
        }
    }
}

/// The arguments that a tool wants repeated as HTTP headers.
fn headers(tools: &[McpTool], name: &str, arguments: &Map<String, Value>) -> Vec<(String, String)> {
    let wanted = tools.iter().filter(|tool| tool.name == name).flat_map(|tool| &tool.headers);
    let header = |(argument, header): &(String, String)| match arguments.get(argument)? {
        Value::String(text) => Some((header.clone(), text.clone())),
        value @ (Value::Number(_) | Value::Bool(_)) => Some((header.clone(), value.to_string())),
        _ => None,
    };
    wanted.filter_map(header).collect()
}
