//! Tools of MCP servers: how a call of one is judged and shown. The event loop carries it out.

use serde_json::{Value, json};

use super::arguments::parse_object;
use super::{Environment, Judged, Prepared, Question, Run, ToolSpec, network, one_line, visible};
use crate::domain::flow::ToolRequest;
use crate::domain::mcp::{McpCall, McpTool};
use crate::domain::rule::{Rule, Subject};
use crate::domain::tool::{Reach, ToolDeclaration};

/// The common part of all tools of servers. Models get the declaration of each tool instead.
pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration { name: "mcp", description: "", parameters: r#"{"type": "object"}"# },
    aliases: &[],
    // A server's description of its own tools (`readOnlyHint`) grants nothing.
    reach: Reach::Writes,
    judged: Judged::Mcp,
    check: |_, _| Ok(Question::new("mcp".into(), Vec::new())),
    run: Run::InEventLoop(request),
};

pub use crate::domain::mcp::START;
const CONSEQUENCE: &str =
    "yes starts it for all agents in this directory until polylogue exits; each call of its tools still asks";

/// A call of a server's tool. The server checks the arguments against its schema.
pub fn prepare(tool: &McpTool, arguments: &str, env: &Environment) -> Result<Prepared, String> {
    let arguments = parse_object(arguments)
        .map_err(|problem| format!("{problem}; the arguments of {} are {}", tool.full_name, tool.parameters))?;
    let shown = Value::from(arguments.clone());
    let sandbox = match &tool.kind {
        McpCall::Start { hosts, .. } => Some(network::summary(hosts, &env.sandbox)),
        McpCall::Tool => None,
    };
    let name = if sandbox.is_some() { START } else { &tool.name };
    let (title, detail) = match &tool.kind {
        McpCall::Start { about, .. } => {
            let lines = about.iter().chain(&sandbox).map(String::as_str).chain([CONSEQUENCE]);
            (format!("start the MCP server {}", tool.server), lines.map(str::to_owned).collect())
        }
        McpCall::Tool => {
            let summary = if arguments.is_empty() { String::new() } else { shown.to_string() };
            let called = visible(&format!("{}.{}", tool.server, tool.name));
            (format!("mcp: {called} {}", one_line(&summary, 100)).trim_end().to_owned(), detail(&shown))
        }
    };
    let call = json!({"server": tool.server, "tool": name, "sandbox": sandbox, "arguments": arguments});
    Ok(Prepared { arguments: call, question: Question::new(title, detail), promise: env.promise() })
}

/// Every argument in full, texts as they are.
pub(super) fn detail(arguments: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, value) in arguments.as_object().into_iter().flatten() {
        match value {
            Value::String(text) if text.contains('\n') => {
                lines.push(format!("{}:", visible(name)));
                lines.extend(text.lines().map(|line| format!("    {}", visible(line))));
            }
            value => lines.push(format!("{}: {}", visible(name), visible(&value.to_string()))),
        }
    }
    lines
}

/// The rule that allows calls like this one; `None` if none can name the tool.
pub fn rule(call: &Value) -> Option<Rule> {
    let (server, tool) = (call["server"].as_str()?, call["tool"].as_str()?);
    if starts_server(call) {
        return Rule::new(Subject::Start, server).ok();
    }
    // A star of the name would become one of the rule.
    let is_plain = tool.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    is_plain.then(|| Rule::new(Subject::Mcp, &format!("{server}.{tool}")).ok())?
}

/// Whether a call starts a server. Tools of servers may have the same name.
pub fn starts_server(call: &Value) -> bool {
    call["sandbox"].is_string()
}

fn request(call: &Value) -> ToolRequest {
    let text = |name: &str| call[name].as_str().unwrap_or_default().to_owned();
    ToolRequest::Mcp {
        server: text("server"),
        tool: text("tool"),
        sandbox: call["sandbox"].as_str().map(str::to_owned),
        arguments: call["arguments"].as_object().cloned().unwrap_or_default(),
    }
}
